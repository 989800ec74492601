//! What OpenCode needs before it starts: a port and a password for its server, and which conversation it begins with.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::driver::{Launch, Link, Runtime, Setup, SetupError};
use crate::options::merge;
use crate::{McpServer, McpWay};

/// The variables with the password and the user of its server.
pub(super) const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
pub(super) const USERNAME: &str = "OPENCODE_SERVER_USERNAME";
/// The variable with configuration that comes on top of all files.
pub(super) const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
/// The variable with rules that come after all others.
const PERMISSION: &str = "OPENCODE_PERMISSION";
/// The user if nothing is said.
const USER: &str = "opencode";
/// Options that are followed by a value, of the terminal interface, the server and `attach`.
const WITH_VALUE: [&str; 17] = [
    "--log-level",
    "--port",
    "--hostname",
    "--mdns-domain",
    "--cors",
    "-m",
    "--model",
    "-s",
    "--session",
    "--prompt",
    "--agent",
    "--replay-limit",
    "--dir",
    "-p",
    "--password",
    "-u",
    "--username",
];
/// Options of the terminal interface that a server does not take; those with a value are among [`WITH_VALUE`].
const OF_THE_INTERFACE: [&str; 11] = [
    "-m",
    "--model",
    "-s",
    "--session",
    "--agent",
    "-c",
    "--continue",
    "--auto",
    "--mini",
    "--no-replay",
    "--replay-limit",
];

/// The variables that name its folders, and those in a configuration of its own.
const HOMES: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", "config"),
    ("XDG_DATA_HOME", "data"),
    ("XDG_STATE_HOME", "state"),
    ("XDG_CACHE_HOME", "cache"),
];

/// What the command line runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// The terminal interface with a server of its own, in another folder if that is named.
    Interface { folder: Option<String> },
    /// The server alone.
    Serve,
    /// The terminal interface of a server that somebody else runs.
    Attach { url: String },
    /// Something that is not driven.
    Other(String),
}

/// Which conversation it begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// A new one, with the first message.
    New,
    /// The one of this name.
    Named(String),
    /// The one that was used last.
    Last,
}

/// What a command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) program: Program,
    pub(super) begin: Begin,
    /// Whether it has a first message already.
    pub(super) has_prompt: bool,
    pub(super) agent: Option<String>,
    /// Provider and model.
    pub(super) model: Option<(String, String)>,
    /// The folder that the server is told to work in.
    pub(super) folder: Option<String>,
    options: Vec<(String, Option<String>)>,
}

impl Words {
    /// Reads the words after the program's own.
    pub(super) fn of(launch: &Launch) -> Self {
        let mut options: Vec<(String, Option<String>)> = Vec::new();
        let mut plain = Vec::new();
        let mut rest = launch.split().1.iter();
        while let Some(word) = rest.next() {
            match word.split_once('=') {
                Some((name, value)) if name.starts_with('-') => options.push((name.into(), Some(value.into()))),
                _ if WITH_VALUE.contains(&word.as_str()) => options.push((word.clone(), rest.next().cloned())),
                _ if word.starts_with('-') => options.push((word.clone(), None)),
                _ => plain.push(word.clone()),
            }
        }
        let value = |names: &[&str]| {
            let found = options.iter().find(|(name, _)| names.contains(&name.as_str()));
            found.and_then(|(_, value)| value.clone())
        };
        let has = |names: &[&str]| options.iter().any(|(name, _)| names.contains(&name.as_str()));
        let begin = match value(&["-s", "--session"]) {
            Some(id) => Begin::Named(id),
            None if has(&["-c", "--continue"]) => Begin::Last,
            None => launch.resume.clone().map_or(Begin::New, Begin::Named),
        };
        let model = value(&["-m", "--model"]);
        let model = model.and_then(|model| model.split_once('/').map(|(of, name)| (of.to_owned(), name.to_owned())));
        Self {
            program: program(&plain),
            begin,
            has_prompt: has(&["--prompt"]),
            agent: value(&["--agent"]),
            model,
            folder: value(&["--dir"]),
            options,
        }
    }

    /// Tells whether one of these options is given.
    pub(super) fn asks_for(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// Tells whether no other options are given.
    pub(super) fn takes_only(&self, names: &[&str]) -> bool {
        self.options.iter().all(|(name, _)| names.contains(&name.as_str()))
    }

    fn value(&self, names: &[&str]) -> Option<&str> {
        let found = self.options.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.and_then(|(_, value)| value.as_deref())
    }
}

/// Tells the program by the first word that is no option. A word that is no command is a folder to begin in.
fn program(plain: &[String]) -> Program {
    const OTHERS: [&str; 17] = [
        "completion",
        "acp",
        "mcp",
        "run",
        "debug",
        "providers",
        "auth",
        "agent",
        "upgrade",
        "uninstall",
        "web",
        "models",
        "stats",
        "export",
        "import",
        "github",
        "pr",
    ];
    match plain.first().map(String::as_str) {
        Some("serve") => Program::Serve,
        Some("attach") => Program::Attach { url: plain.get(1).cloned().unwrap_or_default() },
        Some(word @ ("session" | "plugin" | "plug" | "db")) => Program::Other(word.to_owned()),
        Some(word) if OTHERS.contains(&word) => Program::Other(word.to_owned()),
        folder => Program::Interface { folder: folder.map(str::to_owned) },
    }
}

pub(super) fn setup(launch: &Launch) -> Result<Setup, SetupError> {
    let words = Words::of(launch);
    let told = |name| launch.variables.get(name).filter(|value| !value.is_empty());
    let user = words.value(&["-u", "--username"]).or_else(|| told(USERNAME)).unwrap_or(USER);
    if launch.resume.is_some() && words.asks_for(&["-s", "--session", "-c", "--continue"]) {
        return Err(SetupError("--resume: the command names a conversation itself".into()));
    }
    if launch.ask_first {
        check_asks(launch, &words)?;
    }
    let mut env = configuration(launch)?;
    let (url, password) = match &words.program {
        Program::Other(word) => return Err(SetupError(not_driven(word))),
        Program::Attach { url } if launch.runtime == Runtime::Pty => {
            if !url.starts_with("http://") {
                return Err(SetupError(format!("coop reaches opencode's server by http:// only, and this is {url:?}")));
            }
            (url.clone(), words.value(&["-p", "--password"]).or_else(|| told(PASSWORD)).unwrap_or_default().to_owned())
        }
        Program::Attach { .. } => {
            let why = "`opencode attach` is a terminal interface: run it with --runtime pty";
            return Err(SetupError(why.into()));
        }
        Program::Interface { folder: Some(folder) } if launch.runtime == Runtime::Server => {
            return Err(SetupError(format!("opencode's server works where it is started: run coop in {folder}")));
        }
        Program::Interface { .. } if launch.runtime == Runtime::Server && words.has_prompt => {
            return Err(SetupError("opencode's server takes no --prompt; send the message through coop".into()));
        }
        Program::Interface { .. } | Program::Serve => {
            // Whoever has chosen a password wants to use it.
            let password = told(PASSWORD).unwrap_or(&launch.secret).to_owned();
            env.push((PASSWORD.to_owned(), password.clone()));
            let port = words.value(&["--port"]).filter(|port| *port != "0");
            (format!("http://127.0.0.1:{}", port.map_or_else(|| launch.port.to_string(), str::to_owned)), password)
        }
    };
    if words.asks_for(&["--fork"]) {
        let why = "coop cannot tell which conversation --fork makes; fork it in opencode and name it with --session";
        return Err(SetupError(why.into()));
    }
    let events = words.folder.as_ref().map_or_else(|| "/event".into(), |folder| format!("/event{}", query(folder)));
    let authorization = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let link = Link::Http { url, events, authorization };
    let is_home = |(name, _): &&(String, String)| HOMES.iter().any(|(home, _)| home == name);
    let at_home = env.iter().filter(is_home).cloned().collect();
    Ok(Setup { command: command(launch, &words), env, link, at_home, ..Setup::default() })
}

fn not_driven(word: &str) -> String {
    let instead = match word {
        "acp" => "use --agent acp for it",
        _ => "use --agent unknown for it",
    };
    format!("coop drives opencode's terminal interface and its server, not `opencode {word}`; {instead}")
}

/// Returns a query that names a folder.
pub(super) fn query(folder: &str) -> String {
    let escaped: String = folder
        .bytes()
        .map(|byte| match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("?directory={escaped}")
}

/// Returns the command with our port, as a server if it is to be one.
fn command(launch: &Launch, words: &Words) -> Vec<String> {
    let (before, after) = launch.split();
    let mut ours = Vec::new();
    let mut theirs = after.to_vec();
    let is_interface = matches!(words.program, Program::Interface { .. });
    if is_interface && launch.runtime == Runtime::Server {
        ours.push("serve".to_owned());
        theirs = without_interface(after);
    }
    if is_interface || words.program == Program::Serve {
        if words.value(&["--port"]).is_none_or(|port| port == "0") {
            theirs = without(&theirs, "--port");
            // It takes a port for given only if the option is a word by itself.
            ours.extend(["--port".to_owned(), launch.port.to_string()]);
        }
        if words.value(&["--hostname"]).is_none() {
            ours.extend(["--hostname", "127.0.0.1"].map(str::to_owned));
        }
    }
    // A server is told with each message.
    if let (Some(id), Runtime::Pty, true) = (&launch.resume, launch.runtime, words.program != Program::Serve) {
        theirs.extend(["--session".to_owned(), id.clone()]);
    }
    // A sub-command comes before its options.
    if words.program == Program::Serve {
        return [before, &theirs[..], &ours[..]].concat();
    }
    [before, &ours[..], &theirs[..]].concat()
}

/// Returns the words that a server takes too. The rest is told to it with each message.
fn without_interface(words: &[String]) -> Vec<String> {
    OF_THE_INTERFACE.iter().fold(words.to_vec(), |words, name| without(&words, name))
}

/// Returns the words without an option and its value.
fn without(words: &[String], name: &str) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.split_once('=') {
            Some((of, _)) if of == name => {}
            _ if word == name => {
                if WITH_VALUE.contains(&name) {
                    rest.next();
                }
            }
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// Returns the variables for what it is configured with. With a configuration of its own it sees nothing of the user's.
fn configuration(launch: &Launch) -> Result<Vec<(String, String)>, SetupError> {
    let mut env = Vec::new();
    let given = launch.variables.get(CONFIG).filter(|text| !text.is_empty() && launch.isolated.is_none());
    let mut config: Value = match given {
        Some(text) => {
            serde_json::from_str(text).map_err(|error| SetupError(format!("{CONFIG} is not JSON: {error}")))?
        }
        None => json!({}),
    };
    if let Some(own) = &launch.isolated {
        env.extend(HOMES.map(|(name, folder)| (name.to_owned(), format!("{own}/{folder}"))));
        merge(&mut config, &json!({ "autoupdate": false, "share": "disabled" }));
    }
    if let Some(settings) = &launch.settings {
        merge(&mut config, settings);
    }
    if launch.ask_first {
        let rules = asking_first(&config["permission"]);
        // A repository may give rules to the agent that it starts with, and a variable may add to all of them.
        merge(&mut config, &json!({ "agent": { "build": { "permission": rules } } }));
        env.push((PERMISSION.to_owned(), rules.to_string()));
        config["permission"] = rules;
    }
    if !launch.mcp.is_empty() {
        merge(&mut config, &json!({ "mcp": mcp(&launch.mcp) }));
    }
    if config.as_object().is_some_and(|config| !config.is_empty()) {
        env.push((CONFIG.to_owned(), config.to_string()));
    }
    Ok(env)
}

/// Refuses an agent that would answer its own asks, or whose server has other settings.
fn check_asks(launch: &Launch, words: &Words) -> Result<(), SetupError> {
    const ALLOWS_ALL: [&str; 3] = ["--auto", "--yolo", "--dangerously-skip-permissions"];
    if let Some(word) = launch.split().1.iter().find(|word| ALLOWS_ALL.contains(&word.as_str())) {
        return Err(SetupError(format!(
            "--ask-first: with {word} opencode allows what it asks by itself; leave it out"
        )));
    }
    if matches!(words.program, Program::Attach { .. }) {
        return Err(SetupError(
            "--ask-first: coop cannot make the server that `opencode attach` connects to ask; leave one of them out"
                .into(),
        ));
    }
    Ok(())
}

/// Returns rules by which it asks about each tool but those that it is denied.
fn asking_first(rules: &Value) -> Value {
    let denied = rules.as_object().into_iter().flatten().filter(|(_, rule)| *rule == "deny");
    let asked = [("*".to_owned(), json!("ask"))].into_iter();
    Value::Object(asked.chain(denied.map(|(tool, rule)| (tool.clone(), rule.clone()))).collect())
}

fn mcp(servers: &[McpServer]) -> Value {
    let entry = |server: &McpServer| match &server.way {
        McpWay::Program { command, args, env } => {
            let command: Vec<_> = [command].into_iter().chain(args).collect();
            json!({ "type": "local", "command": command, "environment": env, "enabled": true })
        }
        McpWay::Url { url, headers, .. } => {
            json!({ "type": "remote", "url": url, "headers": headers, "enabled": true })
        }
    };
    Value::Object(servers.iter().map(|server| (server.name.clone(), entry(server))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Variables;
    use crate::program;

    fn launch(runtime: Runtime, line: &str) -> Launch {
        let command: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let program_at = program::find(&command, &["opencode"], "").unwrap_or(0);
        Launch { runtime, command, program_at, secret: "s3".into(), port: 5000, ..Launch::default() }
    }

    fn command(runtime: Runtime, line: &str) -> Result<String, String> {
        setup(&launch(runtime, line)).map(|setup| setup.command.join(" ")).map_err(|error| error.0)
    }

    #[test]
    fn the_server_gets_a_port_wherever_it_is() {
        let pty = |line| command(Runtime::Pty, line);
        let server = |line| command(Runtime::Server, line);
        let ok = |line: &str| Ok(line.to_owned());
        assert_eq!(pty("opencode"), ok("opencode --port 5000 --hostname 127.0.0.1"));
        assert_eq!(pty("opencode --port 0 -c src"), ok("opencode --port 5000 --hostname 127.0.0.1 -c src"));
        assert_eq!(pty("opencode --port 7 --hostname ::1"), ok("opencode --port 7 --hostname ::1"));
        assert_eq!(pty("env A=1 opencode serve"), ok("env A=1 opencode serve --port 5000 --hostname 127.0.0.1"));
        assert_eq!(pty("opencode attach http://h:1 -s x"), ok("opencode attach http://h:1 -s x"));
        assert_eq!(
            server("opencode -m a/b --agent plan -s ses_1 --pure"),
            ok("opencode serve --port 5000 --hostname 127.0.0.1 --pure")
        );
        for line in ["opencode src", "opencode --prompt x", "opencode attach http://h:1", "opencode run x"] {
            assert!(server(line).is_err(), "{line}");
        }
        for line in ["opencode acp", "opencode auth login", "opencode attach https://h", "opencode -c --fork"] {
            assert!(pty(line).is_err(), "{line}");
        }
    }

    #[test]
    fn asking_first_it_asks_about_all_but_what_is_denied_and_never_answers_itself() {
        let rules = asking_first(&json!({ "bash": "allow", "webfetch": "deny" }));
        assert_eq!(rules, json!({ "*": "ask", "webfetch": "deny" }));
        assert_eq!(rules.to_string().find("\"*\""), Some(1), "the last rule that fits counts");
        let asks = |line| setup(&Launch { ask_first: true, ..launch(Runtime::Pty, line) });
        let made = asks("opencode").expect("a set-up");
        assert!(made.env.iter().any(|(name, value)| name == PERMISSION && *value == r#"{"*":"ask"}"#), "{made:?}");
        for line in ["opencode --auto", "opencode attach http://h:1"] {
            assert!(asks(line).is_err(), "{line}");
        }
    }

    #[test]
    fn it_goes_on_with_a_conversation() {
        let resumed = |runtime, line| {
            let launch = Launch { resume: Some("ses_1".into()), ..launch(runtime, line) };
            let begin = Words::of(&launch).begin;
            setup(&launch).map(|setup| (setup.command.join(" "), begin)).map_err(|error| error.0)
        };
        let named = |line: &str| Ok((line.to_owned(), Begin::Named("ses_1".into())));
        let pty = "opencode --port 5000 --hostname 127.0.0.1 -m a/b --session ses_1";
        assert_eq!(resumed(Runtime::Pty, "opencode -m a/b"), named(pty));
        let attached = "opencode attach http://h:1 --session ses_1";
        assert_eq!(resumed(Runtime::Pty, "opencode attach http://h:1"), named(attached));
        let server = "opencode serve --port 5000 --hostname 127.0.0.1";
        assert_eq!(resumed(Runtime::Server, "opencode"), named(server));
        for line in ["opencode -s ses_2", "opencode --session=ses_2", "opencode -c", "opencode --continue"] {
            assert!(resumed(Runtime::Pty, line).is_err(), "{line}");
        }
    }

    #[test]
    fn servers_of_tools_are_configuration() {
        let mut launch = launch(Runtime::Server, "opencode");
        let env = [("KEY".to_owned(), "s3cret".to_owned())].into();
        let program = McpWay::Program { command: "srv".into(), args: vec!["-x".into()], env };
        let url = McpWay::Url { url: "http://h".into(), headers: Default::default(), is_sse: false };
        launch.mcp = vec![McpServer { name: "a".into(), way: program }, McpServer { name: "b".into(), way: url }];
        let made = setup(&launch).expect("a set-up");
        let config = made.env.iter().find(|(name, _)| name == CONFIG).map(|(_, value)| value.as_str());
        let config: Value = serde_json::from_str(config.expect("it is set")).expect("JSON");
        let expected = json!({
            "a": { "type": "local", "command": ["srv", "-x"], "environment": { "KEY": "s3cret" }, "enabled": true },
            "b": { "type": "remote", "url": "http://h", "headers": {}, "enabled": true },
        });
        assert_eq!(config["mcp"], expected);
        assert!(!made.command.concat().contains("s3cret"));
    }

    #[test]
    fn the_link_has_the_password_of_whoever_runs_the_server() {
        let link = |launch: &Launch| match setup(launch).expect("a set-up").link {
            Link::Http { url, events, authorization } => format!("{url} {events} {authorization}"),
            other => format!("{other:?}"),
        };
        let encoded = |user_and_password: &str| BASE64_STANDARD.encode(user_and_password);
        let mut own = launch(Runtime::Pty, "opencode");
        assert_eq!(link(&own), format!("http://127.0.0.1:5000 /event Basic {}", encoded("opencode:s3")));
        own.variables = Variables([(PASSWORD.to_owned(), "chosen".to_owned())].into());
        assert_eq!(link(&own), format!("http://127.0.0.1:5000 /event Basic {}", encoded("opencode:chosen")));
        let other = launch(Runtime::Pty, "opencode attach http://127.0.0.1:9 -p pw -u me --dir /a&b");
        let expected = format!("http://127.0.0.1:9 /event?directory=/a%26b Basic {}", encoded("me:pw"));
        assert_eq!(link(&other), expected);
    }

    #[test]
    fn a_configuration_of_its_own_is_not_the_users() {
        let mut launch = launch(Runtime::Pty, "opencode");
        launch.variables = Variables([(CONFIG.to_owned(), r#"{"model":"x","share":"auto"}"#.to_owned())].into());
        launch.settings = Some(json!({ "permission": { "bash": "ask" } }));
        let env = |launch: &Launch| setup(launch).expect("a set-up").env;
        let config =
            |launch: &Launch| env(launch).iter().find(|(name, _)| name == CONFIG).map(|(_, value)| value.clone());
        let told = r#"{"model":"x","permission":{"bash":"ask"},"share":"auto"}"#;
        assert_eq!(config(&launch).as_deref(), Some(told));
        launch.isolated = Some("/own".into());
        let told = r#"{"autoupdate":false,"permission":{"bash":"ask"},"share":"disabled"}"#;
        assert_eq!(config(&launch).as_deref(), Some(told));
        assert!(env(&launch).contains(&("XDG_DATA_HOME".to_owned(), "/own/data".to_owned())));
    }
}
