//! What Gemini CLI needs before it starts: hooks where it reads them, a known session, and where its log will be.
//!
//! There is no option for settings. With `--isolate` it has a home of coop's own, with settings in it. Otherwise hooks can
//! come only by the file of system defaults, which it reads from where a variable says; but it believes that file only if
//! nobody but root can have written it. So elsewhere there are no hooks, and the title, the log and the screen have to do.

use serde_json::{Map, Value, json};

use crate::driver::{Existing, FileToWrite, Launch, Link, Setup, SetupError, Watch};
use crate::options::{self, merge, value_of};
use crate::{McpServer, McpWay};

/// Hooks that report and go on. Those before and after the model are told whole prompts, and are left alone.
const REPORTING: [&str; 4] = ["BeforeAgent", "BeforeTool", "AfterTool", "Notification"];
/// Hooks that wait: for start scripts, and for leave to end the turn.
const HOLDING: [&str; 2] = ["SessionStart", "AfterAgent"];
/// Milliseconds that a hook may take, with start scripts of up to a minute each. One that only reports gives up by itself
/// long before; but while the agent draws a long message it reads nothing, and would take that for the hook's delay.
const REPORT_LIMIT: u64 = 10 * 60 * 1000;
/// Milliseconds that a person may take to decide: a day.
const HOLD_LIMIT: u64 = 24 * 60 * 60 * 1000;
/// The variable with the folder that `.gemini` is in.
pub(super) const HOME: &str = "GEMINI_CLI_HOME";
/// The variable with its key.
pub(super) const API_KEY: &str = "GEMINI_API_KEY";
/// The variables with the files of an administrator.
pub(super) const SYSTEM_DEFAULTS: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
pub(super) const SYSTEM_SETTINGS: &str = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";
const SYSTEM_FOLDER: &str = "/etc/gemini-cli";
/// A file of its own rules by which it asks about each tool. Rules of files come before those of its approval mode. Of commands that
/// it takes for harmless, or cannot read, it asks only by a rule with a pattern.
const ASK_FIRST: &str = "[[rule]]\ntoolName = \"*\"\ndecision = \"ask_user\"\npriority = 998\n\n\
    [[rule]]\ntoolName = \"run_shell_command\"\nargsPattern = \".*\"\ndecision = \"ask_user\"\npriority = 999\n";
/// How much of a conversation's name is in the name of its log.
const SHORT_ID: usize = 8;
/// Options that are followed by a value; a word after any other is the first prompt.
const WITH_VALUE: [&str; 23] = [
    "-m",
    "--model",
    "-p",
    "--prompt",
    "-w",
    "--worktree",
    "--approval-mode",
    "--policy",
    "--admin-policy",
    "--allowed-mcp-server-names",
    "--allowed-tools",
    "-e",
    "--extensions",
    "-r",
    "--resume",
    "--session-file",
    "--session-id",
    "--delete-session",
    "--include-directories",
    "-o",
    "--output-format",
    "--fake-responses",
    "--record-responses",
];

/// Returns the files that tell where its log will be, and what an administrator has set.
pub(super) fn reads(launch: &Launch) -> Vec<String> {
    vec![projects_file(launch), system_defaults(launch)]
}

pub(super) fn setup(launch: &Launch) -> Result<Setup, SetupError> {
    if launch.command.iter().any(|arg| arg == "--acp" || arg == "--experimental-acp") {
        return Err(SetupError("with --acp gemini has no terminal interface; use --runtime pipe".to_owned()));
    }
    let mut files = Vec::new();
    let mut env = Vec::new();
    match (&launch.isolated, hooks_by_defaults(launch)) {
        (Some(home), _) => {
            env.push((HOME.to_owned(), home.clone()));
            files.push(file(format!("{home}/.gemini/settings.json"), &own_settings(launch), Existing::Replaced));
            if launch.trusts_folder {
                let trusted = json!({ launch.cwd.clone(): "TRUST_FOLDER" });
                files.push(file(format!("{home}/.gemini/trustedFolders.json"), &trusted, Existing::Merged));
            }
        }
        (None, _) if launch.settings.is_some() => {
            return Err(SetupError("gemini takes settings of coop's only with --isolate".to_owned()));
        }
        (None, Some(defaults)) => {
            let path = format!("{}/gemini-defaults.json", launch.folder);
            env.push((SYSTEM_DEFAULTS.to_owned(), path.clone()));
            files.push(file(path, &defaults, Existing::Replaced));
        }
        (None, None) => {}
    }
    let mut ours = Vec::new();
    match &launch.resume {
        Some(id) => ours.push(format!("--resume={id}")),
        None if names_session(&launch.command) => {}
        None => ours.push(format!("--session-id={}", launch.session_id)),
    }
    if launch.ask_first {
        let path = format!("{}/gemini-ask-first.toml", launch.folder);
        ours.push(format!("--policy={path}"));
        files.push(FileToWrite { path, content: ASK_FIRST.to_owned(), existing: Existing::Replaced });
    }
    let watch = session_id(launch).map(|id| Watch::Log { path: log_path(&chats(launch), &id) });
    let (before, after) = launch.split();
    Ok(Setup {
        command: [before, &ours, after].concat(),
        env,
        files,
        watch: watch.into_iter().collect(),
        link: Link::None,
        ..Setup::default()
    })
}

/// Tells whether the agent will read settings of ours.
pub(super) fn takes_settings(launch: &Launch) -> bool {
    launch.isolated.is_some() || hooks_by_defaults(launch).is_some()
}

/// Tells whether the agent will run our hooks, as far as is known.
pub(super) fn expects_hooks(launch: &Launch) -> bool {
    let has_hooks = takes_settings(launch);
    let switched_off = launch.settings.as_ref().is_some_and(|settings| settings["hooksConfig"]["enabled"] == false);
    has_hooks && !switched_off
}

/// Returns the name of the conversation, if it is known before it begins.
pub(super) fn session_id(launch: &Launch) -> Option<String> {
    let resumed = || value_of(&launch.command, &["--resume", "-r"]).filter(|id| is_uuid(id));
    let new = || (!names_session(&launch.command)).then(|| launch.session_id.clone());
    launch.resume.clone().or_else(|| value_of(&launch.command, &["--session-id"])).or_else(resumed).or_else(new)
}

/// Tells whether it goes on with an earlier conversation.
pub(super) fn resumes(launch: &Launch) -> bool {
    launch.resume.is_some() || continues(&launch.command)
}

/// Tells whether the command line has a first prompt.
pub(super) fn has_prompt(launch: &Launch) -> bool {
    let args = launch.split().1;
    let names = ["-i", "--prompt-interactive"];
    args.iter().any(|arg| names.contains(&arg.as_str())) || options::has_word(args, &WITH_VALUE)
}

/// Returns where a conversation's log is, in the folder of all. When it began is in the name too, and not known. One
/// that is resumed goes on in the oldest, although the agent begins another.
pub(super) fn log_path(chats: &str, id: &str) -> String {
    format!("{chats}/session-*-{}.jsonl", id.chars().take(SHORT_ID).collect::<String>())
}

fn names_session(command: &[String]) -> bool {
    value_of(command, &["--session-id"]).is_some() || continues(command)
}

fn continues(command: &[String]) -> bool {
    let names = ["--resume", "-r", "--session-file"];
    command.iter().any(|arg| names.contains(&arg.split('=').next().unwrap_or(arg)))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Returns the folder of its configuration.
fn config_dir(launch: &Launch) -> String {
    let told = || launch.variables.get(HOME).filter(|dir| !dir.is_empty()).map(str::to_owned);
    let home = launch.isolated.clone().or_else(told).unwrap_or_else(|| launch.home.clone());
    format!("{home}/.gemini")
}

fn projects_file(launch: &Launch) -> String {
    format!("{}/projects.json", config_dir(launch))
}

/// Returns the folder of the logs of conversations in this project.
fn chats(launch: &Launch) -> String {
    format!("{}/tmp/{}/chats", config_dir(launch), project(launch))
}

/// Returns the short name that it has for the project, or will give it: that of the folder, with a number if another has
/// it already.
fn project(launch: &Launch) -> String {
    let file = launch.contents.get(&projects_file(launch)).and_then(|text| serde_json::from_str(text).ok());
    let projects = file.as_ref().and_then(|file: &Value| file["projects"].as_object());
    if let Some(name) = projects.and_then(|projects| projects.get(&launch.cwd)?.as_str()) {
        return name.to_owned();
    }
    let base = launch.cwd.rsplit('/').next().unwrap_or_default().to_lowercase();
    let dashed: String = base.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<_> = dashed.split('-').filter(|word| !word.is_empty()).collect();
    let slug = if words.is_empty() { "project".to_owned() } else { words.join("-") };
    let is_taken = |name: &String| projects.is_some_and(|projects| projects.values().any(|taken| taken == name));
    let numbered = (1..).map(|number| format!("{slug}-{number}"));
    std::iter::once(slug.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(slug)
}

/// Returns where an administrator's defaults are.
fn system_defaults(launch: &Launch) -> String {
    let beside = || {
        let settings = launch.variables.get(SYSTEM_SETTINGS).filter(|path| !path.is_empty())?;
        Some(format!("{}/system-defaults.json", settings.rsplit_once('/').map_or(".", |(folder, _)| folder)))
    };
    let told = launch.variables.get(SYSTEM_DEFAULTS).filter(|path| !path.is_empty()).map(str::to_owned);
    told.or_else(beside).unwrap_or_else(|| format!("{SYSTEM_FOLDER}/system-defaults.json"))
}

/// Returns the administrator's defaults with our hooks, if they would be believed and nothing of them is lost.
fn hooks_by_defaults(launch: &Launch) -> Option<Value> {
    if !launch.is_roots {
        return None;
    }
    let theirs = launch.contents.get(&system_defaults(launch));
    let mut defaults = theirs.map_or_else(|| Some(json!({})), |text| serde_json::from_str(text).ok())?;
    merge(&mut defaults, &ours(launch));
    Some(defaults)
}

/// Returns settings of our own, by which no dialog comes up: with what the caller wants, and our hooks beside theirs.
fn own_settings(launch: &Launch) -> Value {
    let mut settings = json!({
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "hooksConfig": { "notifications": false },
        "ide": { "hasSeenNudge": true },
    });
    if launch.variables.get(API_KEY).is_some() {
        merge(&mut settings, &json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } }));
    }
    if let Some(more) = &launch.settings {
        merge(&mut settings, more);
    }
    merge(&mut settings, &ours(launch));
    settings
}

/// Returns what is always among its settings: our hooks, and servers of tools.
fn ours(launch: &Launch) -> Value {
    let mut ours = json!({ "hooks": hooks(launch) });
    if !launch.mcp.is_empty() {
        let entry = |server: &McpServer| match &server.way {
            McpWay::Program { command, args, env } => json!({ "command": command, "args": args, "env": env }),
            McpWay::Url { url, headers, is_sse: true } => json!({ "url": url, "headers": headers }),
            McpWay::Url { url, headers, is_sse: false } => json!({ "httpUrl": url, "headers": headers }),
        };
        let servers = launch.mcp.iter().map(|server| (server.name.clone(), entry(server)));
        ours["mcpServers"] = Value::Object(servers.collect());
    }
    ours
}

fn hooks(launch: &Launch) -> Value {
    let hook = |event: &&str| {
        let (hold, limit) = match *event {
            "SessionStart" => ("--hold ", REPORT_LIMIT),
            _ if HOLDING.contains(event) => ("--hold ", HOLD_LIMIT),
            _ => ("", REPORT_LIMIT),
        };
        let command = format!("{} {hold}{event}", launch.hook_command);
        let hook = json!({ "name": "coop", "type": "command", "command": command, "timeout": limit });
        ((*event).to_owned(), json!([{ "hooks": [hook] }]))
    };
    Value::Object(REPORTING.iter().chain(&HOLDING).map(hook).collect::<Map<_, _>>())
}

fn file(path: String, content: &Value, existing: Existing) -> FileToWrite {
    FileToWrite { path, content: content.to_string(), existing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(command: &[&str]) -> Launch {
        Launch {
            command: command.iter().map(|&arg| arg.to_owned()).collect(),
            cwd: "/home/dev/My.Project_".into(),
            home: "/home/dev".into(),
            session_id: "01234567-89ab".into(),
            hook_command: "coop hook".into(),
            folder: "/run/f".into(),
            ..Launch::default()
        }
    }

    fn watched(launch: &Launch) -> Vec<Watch> {
        setup(launch).expect("a set-up").watch
    }

    #[test]
    fn servers_of_tools_are_in_settings_of_ours_or_nowhere() {
        let way = McpWay::Program { command: "srv".into(), args: vec!["x".into()], env: Default::default() };
        let mcp = vec![McpServer { name: "a".into(), way }];
        let isolated = Launch { isolated: Some("/own".into()), mcp: mcp.clone(), ..launch(&["gemini"]) };
        let made = setup(&isolated).expect("a set-up");
        let settings: Value = serde_json::from_str(&made.files[0].content).expect("JSON");
        assert_eq!(settings["mcpServers"], json!({ "a": { "command": "srv", "args": ["x"], "env": {} } }));
        assert!(takes_settings(&isolated) && !takes_settings(&Launch { mcp, ..launch(&["gemini"]) }));
    }

    #[test]
    fn the_log_is_known_but_for_the_time_in_its_name() {
        let log = |path: &str| vec![Watch::Log { path: path.to_owned() }];
        let mut launch = launch(&["gemini", "-m", "x"]);
        assert_eq!(watched(&launch), log("/home/dev/.gemini/tmp/my-project/chats/session-*-01234567.jsonl"));
        let known = json!({ "projects": { "/other/my-project": "my-project" } });
        launch.contents.insert("/home/dev/.gemini/projects.json".into(), known.to_string());
        assert_eq!(watched(&launch), log("/home/dev/.gemini/tmp/my-project-1/chats/session-*-01234567.jsonl"));
        let known = json!({ "projects": { "/home/dev/My.Project_": "mine" } });
        launch.contents.insert("/home/dev/.gemini/projects.json".into(), known.to_string());
        assert_eq!(watched(&launch), log("/home/dev/.gemini/tmp/mine/chats/session-*-01234567.jsonl"));
    }

    #[test]
    fn a_conversation_that_is_named_keeps_its_name() {
        let id = "11111111-2222-4333-8444-555555555555";
        let command = |args: &[&str]| setup(&launch(args)).expect("a set-up").command.join(" ");
        assert_eq!(command(&["gemini", "-m", "x"]), "gemini --session-id=01234567-89ab -m x");
        assert_eq!(command(&["gemini", "--resume", id]), format!("gemini --resume {id}"));
        assert_eq!(command(&["gemini", "--session-id", id]), format!("gemini --session-id {id}"));
        assert_eq!(session_id(&launch(&["gemini", "-r", id])).as_deref(), Some(id));
        assert_eq!(session_id(&launch(&["gemini", "--resume", "latest"])), None);
        assert!(watched(&launch(&["gemini", "--resume=latest"])).is_empty());
        let resumed = Launch { resume: Some(id.to_owned()), ..launch(&["gemini"]) };
        assert_eq!(setup(&resumed).expect("a set-up").command.join(" "), format!("gemini --resume={id}"));
        assert!(resumes(&resumed) && setup(&launch(&["gemini", "--acp"])).is_err());
    }

    #[test]
    fn hooks_come_only_where_they_are_believed() {
        let mut launch = launch(&["gemini"]);
        let setup_of = |launch: &Launch| setup(launch).expect("a set-up");
        assert!(!expects_hooks(&launch) && setup_of(&launch).files.is_empty() && setup_of(&launch).env.is_empty());
        launch.is_roots = true;
        let theirs = json!({ "ui": { "theme": "x" }, "hooks": { "AfterAgent": [{ "hooks": ["theirs"] }] } });
        launch.contents.insert("/etc/gemini-cli/system-defaults.json".into(), theirs.to_string());
        let FileToWrite { path, content, .. } = setup_of(&launch).files.remove(0);
        assert_eq!(setup_of(&launch).env, [(SYSTEM_DEFAULTS.to_owned(), path)]);
        let settings: Value = serde_json::from_str(&content).expect("JSON");
        assert_eq!(settings["ui"]["theme"], "x");
        assert_eq!(settings["hooks"]["AfterAgent"][0]["hooks"][0], "theirs");
        assert_eq!(settings["hooks"]["AfterAgent"][1]["hooks"][0]["command"], "coop hook --hold AfterAgent");
        assert!(!settings["hooks"].as_object().expect("hooks").keys().any(|event| event.ends_with("Model")));
        // What cannot be read cannot be kept either.
        launch.contents.insert("/etc/gemini-cli/system-defaults.json".into(), "// {".into());
        assert!(!expects_hooks(&launch) && setup_of(&launch).files.is_empty());
    }

    #[test]
    fn a_home_of_our_own_that_trusts_the_folder_needs_no_dialogs() {
        let mut launch = launch(&["gemini"]);
        launch.settings = Some(json!({ "hooksConfig": { "enabled": false } }));
        assert!(setup(&launch).is_err());
        launch.isolated = Some("/state".into());
        // Whether the folder is trusted is the person's to say.
        assert_eq!(setup(&launch).expect("a set-up").files.len(), 1);
        launch.trusts_folder = true;
        let made = setup(&launch).expect("a set-up");
        assert_eq!(made.env, [(HOME.to_owned(), "/state".to_owned())]);
        assert_eq!(made.files[1].content, r#"{"/home/dev/My.Project_":"TRUST_FOLDER"}"#);
        assert!(!expects_hooks(&launch));
        launch.settings = None;
        assert!(expects_hooks(&launch));
        assert_eq!(
            watched(&launch),
            [Watch::Log { path: "/state/.gemini/tmp/my-project/chats/session-*-01234567.jsonl".into() }]
        );
    }

    #[test]
    fn a_first_prompt_is_told_from_options() {
        let has = |args: &[&str]| has_prompt(&launch(args));
        assert!(has(&["gemini", "fix it"]) && has(&["gemini", "-m", "x", "fix"]) && has(&["gemini", "-i", "x"]));
        assert!(!has(&["gemini"]) && !has(&["gemini", "-m", "x"]) && !has(&["gemini", "--skip-trust"]));
    }
}
