//! How Codex is started: beside its server, as its server, or as it stands.

use serde_json::{Value, json};

use super::protocol;
use crate::driver::{Companion, Existing, FileToWrite, Launch, Link, Ready, Runtime, Say, Setup, SetupError, Watch};
use crate::{McpServer, McpWay};

/// The variable with the folder of its configuration.
pub(super) const HOME: &str = "CODEX_HOME";
/// The approval policy by which it asks about every command but those that it knows only to look. Its server takes it, and no
/// command line does.
pub(super) const ASK_FIRST: &str = "untrusted";
/// The error where Codex's server does not start: only the server can make Codex ask.
const NO_SERVER: &str = "coop: --ask-first: Codex's server did not start, and without it Codex cannot be made to ask";
/// The first version whose server is known to take two clients over a Unix socket.
const WITH_SERVER: [u32; 2] = [0, 166];
/// Options that are followed by a value; a word after any other is a sub-command or the first prompt.
const WITH_VALUE: [&str; 22] = [
    "-c",
    "--config",
    "--enable",
    "--disable",
    "--remote",
    "--remote-auth-token-env",
    "-i",
    "--image",
    "-m",
    "--model",
    "--local-provider",
    "-p",
    "--profile",
    "-s",
    "--sandbox",
    "-C",
    "--cd",
    "--add-dir",
    "-a",
    "--ask-for-approval",
    "-o",
    "--output-last-message",
];
/// Options that its server takes as well, and has to be given.
const OF_SERVER: [&str; 6] = ["-c", "--config", "--enable", "--disable", "-p", "--profile"];
/// Options that belong to the first message.
const OF_MESSAGE: [&str; 2] = ["-i", "--image"];
/// Sub-commands with the interface of a conversation.
const CONVERSATIONS: [&str; 2] = ["resume", "fork"];
/// Sub-commands that do something else.
const OTHERS: [&str; 23] = [
    "agents",
    "review",
    "login",
    "logout",
    "mcp",
    "plugin",
    "app-server",
    "remote-control",
    "completion",
    "update",
    "doctor",
    "sandbox",
    "debug",
    "apply",
    "a",
    "queue",
    "archive",
    "delete",
    "unarchive",
    "cloud",
    "exec-server",
    "features",
    "help",
];

/// How Codex is heard of and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By its server.
    Server,
    /// By the lines that `exec --json` prints.
    Lines,
    /// By its screen.
    Screen,
}

/// How a conversation begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Begin {
    /// By this request.
    By { method: &'static str, params: Value },
    /// By this request for the latest one in the folder.
    Latest { method: &'static str, params: Value },
    /// By a choice that only a person can make.
    Picked,
}

/// What a command line means.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) way: Way,
    pub(super) begin: Begin,
    /// The first message.
    pub(super) prompt: Option<String>,
    /// Words that its interface is started with.
    for_interface: Vec<String>,
    /// Words that the server is started with too.
    for_server: Vec<String>,
    /// Options that have no meaning for a server without an interface.
    unfit: Option<String>,
    /// Whether the command line names a conversation, although it is told which goes on.
    is_named_twice: bool,
}

/// Reads the command line. One that goes on with a conversation has been told its first message there, and is not told it
/// again.
pub(super) fn plan(launch: &Launch) -> Plan {
    let mut params = json!({ "cwd": launch.cwd });
    if !launch.mcp.is_empty() {
        // By its protocol and not as options, which others can read on its command line.
        params["config"] = mcp(&launch.mcp);
    }
    let (mut options, mut for_server) = (Vec::new(), Vec::new());
    let mut words: Vec<&str> = Vec::new();
    let (mut last, mut lines, mut remote, mut unfit) = (false, false, false, None);
    let given = if launch.ask_first { without_policy(launch.split().1) } else { launch.split().1.to_vec() };
    let mut rest = given.iter().map(String::as_str);
    while let Some(arg) = rest.next() {
        if arg == "--" {
            words.extend(rest.by_ref());
            break;
        }
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) if arg.starts_with("--") => (name, Some(value)),
            _ if WITH_VALUE.contains(&arg) => (arg, rest.next()),
            _ => (arg, None),
        };
        if name.starts_with('-') && !OF_MESSAGE.contains(&name) {
            options.push(arg.to_owned());
            options.extend(value.filter(|_| name == arg).map(str::to_owned));
        }
        if OF_SERVER.contains(&name) {
            for_server.push(name.to_owned());
            for_server.extend(value.map(str::to_owned));
        }
        match (name, value) {
            ("-m" | "--model", Some(model)) => params["model"] = json!(model),
            ("-s" | "--sandbox", Some(mode)) => params["sandbox"] = json!(mode),
            ("-a" | "--ask-for-approval", Some(policy)) => params["approvalPolicy"] = json!(policy),
            ("-C" | "--cd", Some(folder)) => params["cwd"] = json!(absolute(&launch.cwd, folder)),
            ("--dangerously-bypass-approvals-and-sandbox" | "--yolo", None) => {
                params["approvalPolicy"] = json!("never");
                params["sandbox"] = json!("danger-full-access");
            }
            ("--last", _) => last = true,
            ("--json" | "--experimental-json", _) => lines = true,
            ("--remote", _) => remote = true,
            // Of the interface, or the server's own.
            ("--no-daemon" | "--no-alt-screen" | "--strict-config" | "--all", _) => {}
            _ if OF_SERVER.contains(&name) => {}
            _ if name.starts_with('-') => unfit = unfit.or(Some(name.to_owned())),
            _ => words.push(arg),
        }
    }
    let sub = words.first().copied().unwrap_or_default();
    let is_real = version(launch).is_some_and(|version| version >= WITH_SERVER);
    if launch.ask_first {
        params["approvalPolicy"] = json!(ASK_FIRST);
        params["approvalsReviewer"] = json!("user");
    }
    let way = match sub {
        "exec" | "e" if lines => Way::Lines,
        "exec" | "e" => Way::Screen,
        _ if OTHERS.contains(&sub) || remote || !is_real => Way::Screen,
        _ => Way::Server,
    };
    // `exec` has a `resume` of its own.
    let words = if matches!(sub, "exec" | "e") { &words[1..] } else { &words[..] };
    let sub = words.first().copied().unwrap_or_default();
    let is_named_twice = launch.resume.is_some() && CONVERSATIONS.contains(&sub);
    let for_interface = match &launch.resume {
        Some(id) => [options, vec!["resume".to_owned(), id.clone()]].concat(),
        None => given.clone(),
    };
    let (begin, prompt) = if let Some(id) = &launch.resume {
        params["threadId"] = json!(id);
        (Begin::By { method: "thread/resume", params }, None)
    } else if CONVERSATIONS.contains(&sub) {
        let named = (!last).then(|| words.get(1)).flatten();
        let method = if sub == "fork" { "thread/fork" } else { "thread/resume" };
        let prompt = words.get(if named.is_some() { 2 } else { 1 });
        match named {
            Some(id) => {
                params["threadId"] = json!(id);
                (Begin::By { method, params }, prompt)
            }
            None if last => (Begin::Latest { method, params }, prompt),
            None => (Begin::Picked, None),
        }
    } else {
        (Begin::By { method: "thread/start", params }, words.first())
    };
    let prompt = prompt.map(|&text| text.to_owned());
    Plan { way, begin, prompt, for_interface, for_server, unfit, is_named_twice }
}

/// Returns the words of a command line without its approval policy.
fn without_policy(words: &[String]) -> Vec<String> {
    let mut asking = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--" => {
                asking.push(word.clone());
                asking.extend(rest.by_ref().cloned());
            }
            "-a" | "--ask-for-approval" => drop(rest.next()),
            "-c" | "--config" => {
                let setting = rest.next();
                if !setting.is_some_and(|setting| setting.starts_with("approval")) {
                    asking.push(word.clone());
                    asking.extend(setting.cloned());
                }
            }
            "--approve-for-me" => {}
            _ if ["--ask-for-approval=", "-a", "--config=approval"].iter().any(|start| word.starts_with(start)) => {}
            "--dangerously-bypass-approvals-and-sandbox" | "--yolo" => {
                asking.push("--sandbox=danger-full-access".to_owned());
            }
            _ => asking.push(word.clone()),
        }
    }
    asking
}

fn mcp(servers: &[McpServer]) -> Value {
    let entry = |server: &McpServer| match &server.way {
        McpWay::Program { command, args, env } => json!({ "command": command, "args": args, "env": env }),
        McpWay::Url { url, headers, .. } => json!({ "url": url, "http_headers": headers }),
    };
    let entries = servers.iter().map(|server| (format!("mcp_servers.{}", server.name), entry(server)));
    Value::Object(entries.collect())
}

fn absolute(cwd: &str, folder: &str) -> String {
    if folder.starts_with('/') { folder.to_owned() } else { format!("{cwd}/{folder}") }
}

/// Returns the version, if the program says that it is Codex: `codex-cli 0.166.0`.
fn version(launch: &Launch) -> Option<[u32; 2]> {
    let mut parts = launch.version.as_deref()?.strip_prefix("codex-cli ")?.split('.');
    let mut number = || parts.next()?.parse().ok();
    Some([number()?, number()?])
}

pub(super) fn setup(launch: &Launch) -> Result<Setup, SetupError> {
    let plan = plan(launch);
    if plan.is_named_twice {
        return Err(SetupError("--resume: the command names a conversation itself".into()));
    }
    let (env, files) = isolation(launch);
    let given = launch.command.clone();
    let setup = match (plan.way, launch.runtime) {
        (Way::Server, Runtime::Pipe) => over_pipes(launch, &plan)?,
        (Way::Server, Runtime::Pty | Runtime::Server | Runtime::Inproc) => beside_server(launch, &plan)?,
        // It would wait for the end of its input.
        (Way::Lines, _) => {
            let closed = ["sh", "-c", "exec \"$@\" </dev/null", "sh"].map(str::to_owned);
            Setup { command: [closed.to_vec(), given].concat(), link: Link::Pipe, ..Setup::default() }
        }
        (Way::Screen, Runtime::Pipe) => {
            let why = "this is not a Codex with an app-server that coop knows; run it without --runtime pipe";
            return Err(SetupError(why.into()));
        }
        (Way::Screen, Runtime::Pty | Runtime::Server | Runtime::Inproc) => Setup { command: given, ..Setup::default() },
    };
    let companion = setup.companion.map(|companion| Companion { env: env.clone(), ..companion });
    Ok(Setup { env, files, companion, ..setup })
}

/// Its interface in the terminal, with the server beside it. The socket is in a folder that is ours alone: there is no
/// port that another program could take, and the kernel lets nobody else connect.
fn beside_server(launch: &Launch, plan: &Plan) -> Result<Setup, SetupError> {
    // One that is started again must not meet the socket of the one before, which may be going.
    let name: String = launch.session_id.chars().take(8).collect();
    let path = format!("{}/codex-{name}.sock", launch.folder);
    let status = format!("{}/codex-{name}", launch.folder);
    let address = format!("unix://{path}");
    let (before, _) = launch.split();
    let after: Vec<_> = plan.for_interface.iter().filter(|arg| *arg != "--no-daemon").cloned().collect();
    let flag = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let own = [overrides(launch), tool_options(&launch.mcp)?].concat();
    let server = flag(&["app-server", "--listen", &address]);
    let ready = Ready {
        socket: path.clone(),
        missing: format!("{status}/server.json"),
        instead: match launch.ask_first {
            true => flag(&["sh", "-c", "echo \"$0\" >&2; exit 1", NO_SERVER]),
            // A daemon of its own would outlive us.
            false => [before, &flag(&["--no-daemon"]), &own, &after].concat(),
        },
    };
    Ok(Setup {
        command: [before, &flag(&["--remote", &address]), &own, &after].concat(),
        companion: Some(Companion {
            command: [before, &own, &plan.for_server, &server].concat(),
            env: Vec::new(),
            ready: Some(ready),
        }),
        link: Link::Socket { path },
        watch: vec![Watch::Status { folder: status }],
        ..Setup::default()
    })
}

/// Returns servers of tools as options. The interface begins the conversation, so they cannot come by the protocol; and what
/// is on a command line can be read by others, so there must be no secret in it.
fn tool_options(servers: &[McpServer]) -> Result<Vec<String>, SetupError> {
    let has_secret = |server: &&McpServer| match &server.way {
        McpWay::Program { env, .. } => !env.is_empty(),
        McpWay::Url { headers, .. } => !headers.is_empty(),
    };
    if let Some(server) = servers.iter().find(has_secret) {
        let why = "its variables or headers would be on Codex's command line for others to read; use --runtime pipe";
        return Err(SetupError(format!("the MCP server {}: {why}", server.name)));
    }
    let mut options = Vec::new();
    for server in servers {
        let fields = match &server.way {
            McpWay::Program { command, args, .. } => json!({ "command": command, "args": args }),
            McpWay::Url { url, .. } => json!({ "url": url }),
        };
        flatten(&fields, &format!("mcp_servers.{}", server.name), &mut options);
    }
    Ok(options)
}

/// Its server alone.
fn over_pipes(launch: &Launch, plan: &Plan) -> Result<Setup, SetupError> {
    if let Some(option) = &plan.unfit {
        return Err(SetupError(format!("coop cannot pass {option} on to Codex with --runtime pipe")));
    }
    if plan.begin == Begin::Picked {
        return Err(SetupError("name the conversation to go on with, or say --last".into()));
    }
    let (before, _) = launch.split();
    Ok(Setup {
        command: [before, &overrides(launch), &plan.for_server, &["app-server".to_owned()]].concat(),
        link: Link::Pipe,
        opening: vec![Say::Message(protocol::hello())],
        ..Setup::default()
    })
}

/// Returns the caller's settings as options, each by its path.
fn overrides(launch: &Launch) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(settings) = &launch.settings {
        flatten(settings, "", &mut options);
    }
    options
}

fn flatten(value: &Value, path: &str, options: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(value, &path, options);
            }
        }
        // Text, numbers and lists of them are written the same in TOML.
        _ => options.extend(["-c".to_owned(), format!("{path}={value}")]),
    }
}

/// Returns what gives it a configuration of its own, by which no dialog comes up but the one about trust.
fn isolation(launch: &Launch) -> (Vec<(String, String)>, Vec<FileToWrite>) {
    let Some(folder) = &launch.isolated else { return (Vec::new(), Vec::new()) };
    let mut content = String::from(
        "check_for_update_on_startup = false\n\
         analytics.enabled = false\n\
         notice.model_migrations = { \"gpt-5.5\" = \"gpt-6-sol\" }\n\
         tui = { screen_reader_detection_done = true, show_tooltips = false }\n",
    );
    if launch.trusts_folder {
        content += &format!("projects = {{ {} = {{ trust_level = \"trusted\" }} }}\n", json!(launch.cwd));
    }
    let file = FileToWrite { path: format!("{folder}/config.toml"), content, existing: Existing::Replaced };
    (vec![(HOME.to_owned(), folder.clone())], vec![file])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(line: &str, runtime: Runtime) -> Launch {
        Launch {
            runtime,
            command: line.split_whitespace().map(str::to_owned).collect(),
            cwd: "/home/dev/p".into(),
            folder: "/run/f".into(),
            session_id: "S".into(),
            version: Some("codex-cli 0.166.0".into()),
            ..Launch::default()
        }
    }

    #[test]
    fn asking_first_no_word_of_the_command_line_sets_another_policy() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (line, kept) in [
            ("-a never -m x", "-m x"),
            ("--ask-for-approval=never -s read-only", "-s read-only"),
            ("-c approval_policy=\"never\" -c model=y", "-c model=y"),
            ("--yolo --add-dir d", "--sandbox=danger-full-access --add-dir d"),
            ("--approve-for-me go -- -a never", "go -- -a never"),
        ] {
            assert_eq!(without_policy(&words(line)).join(" "), kept, "{line}");
        }
    }

    #[test]
    fn the_interface_runs_beside_its_server_and_never_starts_a_daemon() {
        let setup = setup(&launch("codex --no-daemon -c a=1 -m x fix", Runtime::Pty)).expect("a set-up");
        assert_eq!(setup.command.join(" "), "codex --remote unix:///run/f/codex-S.sock -c a=1 -m x fix");
        let companion = setup.companion.expect("a server");
        assert_eq!(companion.command.join(" "), "codex -c a=1 app-server --listen unix:///run/f/codex-S.sock");
        let instead = companion.ready.expect("a socket").instead;
        assert_eq!(instead.join(" "), "codex --no-daemon -c a=1 -m x fix");
    }

    #[test]
    fn a_folder_is_trusted_only_if_that_was_said() {
        let config = |trusts_folder| {
            let launch = Launch { isolated: Some("/own".into()), trusts_folder, ..launch("codex", Runtime::Pty) };
            isolation(&launch).1.remove(0).content
        };
        assert!(!config(false).contains("trust"));
        assert!(config(true).ends_with("projects = { \"/home/dev/p\" = { trust_level = \"trusted\" } }\n"));
    }

    #[test]
    fn what_is_no_codex_or_no_conversation_is_run_as_it_stands() {
        let mut other = launch("codex", Runtime::Pty);
        for version in [None, Some("codex was given [--version]"), Some("codex-cli 0.99.0")] {
            other.version = version.map(str::to_owned);
            let setup = setup(&other).expect("a set-up");
            assert_eq!((setup.command, setup.companion, setup.link), (vec!["codex".to_owned()], None, Link::None));
        }
        for line in ["codex login", "codex --remote ws://h:1", "codex mcp list", "codex exec hi"] {
            let setup = setup(&launch(line, Runtime::Pty)).expect("a set-up");
            assert_eq!((setup.command.join(" ").as_str(), setup.companion), (line, None));
        }
    }

    #[test]
    fn a_command_line_says_how_the_conversation_begins() {
        let begins = |line: &str| {
            let plan = plan(&launch(line, Runtime::Pipe));
            match plan.begin {
                Begin::By { method, params } => format!("{method} {params} {:?}", plan.prompt),
                Begin::Latest { method, params } => format!("latest {method} {params} {:?}", plan.prompt),
                Begin::Picked => "picked".to_owned(),
            }
        };
        insta::assert_snapshot!(begins("codex -m x -s read-only -a never -C sub go"), @r#"thread/start {"approvalPolicy":"never","cwd":"/home/dev/p/sub","model":"x","sandbox":"read-only"} Some("go")"#);
        insta::assert_snapshot!(begins("codex resume --last on"), @r#"latest thread/resume {"cwd":"/home/dev/p"} Some("on")"#);
        insta::assert_snapshot!(begins("codex fork T"), @r#"thread/fork {"cwd":"/home/dev/p","threadId":"T"} None"#);
        insta::assert_snapshot!(begins("codex fork --last"), @r#"latest thread/fork {"cwd":"/home/dev/p"} None"#);
        for line in ["codex --search", "codex resume", "codex login"] {
            assert!(setup(&launch(line, Runtime::Pipe)).is_err(), "{line}");
        }
    }

    /// The bug this keeps away: `resume` behind a first prompt is no sub-command, so the task was begun anew.
    #[test]
    fn a_conversation_goes_on_and_its_first_prompt_is_not_told_again() {
        let resumed = |line, runtime| Launch { resume: Some("T".into()), ..launch(line, runtime) };
        let line = "codex --no-daemon -c a=1 -m x -i shot.png --search -- fix it";
        let made = setup(&resumed(line, Runtime::Pty)).expect("a set-up");
        let own = "-c a=1 -m x --search resume T";
        assert_eq!(made.command.join(" "), format!("codex --remote unix:///run/f/codex-S.sock {own}"));
        let instead = made.companion.and_then(|companion| companion.ready).expect("a socket").instead;
        assert_eq!(instead.join(" "), format!("codex --no-daemon {own}"));
        for line in ["codex -m x", "codex -m x fix", "codex fix --model=x"] {
            let plan = plan(&resumed(line, Runtime::Pipe));
            let params = json!({ "cwd": "/home/dev/p", "model": "x", "threadId": "T" });
            assert_eq!((plan.begin, plan.prompt), (Begin::By { method: "thread/resume", params }, None), "{line}");
        }
        for line in ["codex resume U", "codex resume --last", "codex fork U"] {
            assert!(setup(&resumed(line, Runtime::Pty)).is_err(), "{line}");
        }
    }

    #[test]
    fn servers_of_tools_are_named_when_the_conversation_begins() {
        let mut launch = launch("codex", Runtime::Pipe);
        let env = [("KEY".to_owned(), "s3cret".to_owned())].into();
        let way = McpWay::Program { command: "srv".into(), args: vec![], env };
        launch.mcp = vec![McpServer { name: "a".into(), way }];
        let expected = json!({ "mcp_servers.a": { "command": "srv", "args": [], "env": { "KEY": "s3cret" } } });
        match plan(&launch).begin {
            Begin::By { method: "thread/start", params } => assert_eq!(params["config"], expected),
            other => panic!("{other:?}"),
        }
        assert!(!setup(&launch).expect("it can be").command.concat().contains("s3cret"));
        // Beside its interface they are on the command line, if they have nothing to hide.
        launch.runtime = Runtime::Pty;
        assert!(setup(&launch).is_err());
        let way = McpWay::Program { command: "srv".into(), args: vec!["x".into()], env: Default::default() };
        launch.mcp = vec![McpServer { name: "a".into(), way }];
        let server = setup(&launch).expect("it can be").companion.expect("a server").command.join(" ");
        assert!(
            server.starts_with(r#"codex -c mcp_servers.a.args=["x"] -c mcp_servers.a.command="srv" app-server"#),
            "{server}"
        );
    }

    #[test]
    fn settings_become_options() {
        let mut launch = launch("codex", Runtime::Pipe);
        launch.settings = Some(json!({ "model": "x", "tools": { "web": true, "hosts": ["a"] } }));
        let command = setup(&launch).expect("a set-up").command.join(" ");
        assert_eq!(command, r#"codex -c model="x" -c tools.hosts=["a"] -c tools.web=true app-server"#);
    }
}
