//! What Claude Code needs before it starts: settings with our hooks, a known session, and where its files will be.

use coop_api::PermissionMode;
use serde_json::{Map, Value, json};

use super::{ASKING, KNOWN, stream};
use crate::driver::{Existing, FileToWrite, Launch, Link, Runtime, Say, Setup, SetupError, Watch};
use crate::options::{merge, value_of};
use crate::{McpServer, McpWay};

/// Hooks that report and go on.
const REPORTING: [&str; 12] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "StopFailure",
    "Notification",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
];
/// Hooks that wait for a decision.
const HOLDING: [&str; 2] = ["PermissionRequest", "Stop"];
/// Over pipes the control protocol says the rest. What it does not say: which message began a turn, how long a tool ran,
/// what it was called with in the end, and what a sub-agent said last.
const WITH_PIPES: [&str; 9] = [
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStop",
    "Stop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
];
/// Seconds that a reporting hook may take.
const REPORT_LIMIT: u32 = 10;
/// Seconds that start scripts may take, each up to a minute.
const START_LIMIT: u32 = 10 * 60;
/// Seconds that a person may take to decide: a day.
const HOLD_LIMIT: u32 = 24 * 60 * 60;
/// The variable with the folder of its configuration.
pub(super) const CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";
/// The variable with its key.
pub(super) const API_KEY: &str = "ANTHROPIC_API_KEY";
/// How many of the last characters of a key the agent keeps to know it again.
const KEY_TAIL: usize = 20;
/// Options that are followed by a value. A word after any other is the first prompt.
pub(super) const WITH_VALUE: &[&str] = &[
    "--agent",
    "--agents",
    "--append-system-prompt",
    "--append-system-prompt-file",
    "--debug-file",
    "--effort",
    "--fallback-model",
    "--input-format",
    "--json-schema",
    "--max-budget-usd",
    "--max-thinking-tokens",
    "--max-turns",
    "--model",
    "--name",
    "-n",
    "--output-format",
    "--permission-mode",
    "--permission-prompt-tool",
    "--plugin-dir",
    "--plugin-url",
    "--remote-control-session-name-prefix",
    "--session-id",
    "--setting-sources",
    "--settings",
    "--system-prompt",
    "--system-prompt-file",
];
/// Those that may be followed by one.
pub(super) const WITH_VALUE_OR_NOT: &[&str] =
    &["--debug", "-d", "--from-pr", "--prompt-suggestions", "--remote-control", "--resume", "-r", "--worktree", "-w"];
/// Those that are followed by any number of them.
pub(super) const WITH_VALUES: &[&str] = &[
    "--add-dir",
    "--allowedTools",
    "--allowed-tools",
    "--betas",
    "--disallowedTools",
    "--disallowed-tools",
    "--file",
    "--mcp-config",
    "--tools",
];
/// What the agent's dialog says of why it asks.
const ASK_REASON: &str = "coop: ask_first";
/// Where an organisation keeps settings that nobody else can change.
const MANAGED_SETTINGS: &str = "/etc/claude-code/managed-settings.json";

/// Returns the file of settings that the command line names, and those that the agent reads anyway.
pub(super) fn reads(launch: &Launch) -> Vec<String> {
    let given = value_of(own_words(launch), &["--settings"]).filter(|value| !is_json(value));
    given.into_iter().chain(settings_files(launch)).collect()
}

fn settings_files(launch: &Launch) -> [String; 4] {
    [
        format!("{}/settings.json", config_dir(launch)),
        format!("{}/.claude/settings.json", launch.cwd),
        format!("{}/.claude/settings.local.json", launch.cwd),
        MANAGED_SETTINGS.to_owned(),
    ]
}

/// Returns the agent's own words of the command line, without the prompt behind `--`.
fn own_words(launch: &Launch) -> &[String] {
    let (_, words) = launch.split();
    &words[..words.iter().position(|word| word == "--").unwrap_or(words.len())]
}

fn is_json(value: &str) -> bool {
    value.trim_start().starts_with('{')
}

/// Returns the settings that the command line names: a file, or the settings themselves.
fn given_settings(launch: &Launch) -> Result<Option<Value>, SetupError> {
    let Some(given) = value_of(own_words(launch), &["--settings"]) else { return Ok(None) };
    let content = if is_json(&given) { Some(&given) } else { launch.contents.get(&given) };
    let settings = content.map(|content| serde_json::from_str(content)).transpose();
    settings.map_err(|error| SetupError(format!("the settings {given} are not JSON: {error}")))
}

/// Returns where the agent keeps its configuration.
fn config_dir(launch: &Launch) -> String {
    let own = launch.isolated.clone();
    let told = || launch.variables.get(CONFIG_DIR).filter(|dir| !dir.is_empty()).map(str::to_owned);
    own.or_else(told).unwrap_or_else(|| format!("{}/.claude", launch.home))
}

pub(super) fn setup(launch: &Launch) -> Result<Setup, SetupError> {
    let config_dir = config_dir(launch);
    let settings_path = format!("{}/claude-settings.json", launch.folder);
    let mut ours = vec![format!("--settings={settings_path}")];
    let mode = KNOWN.mode_of(&launch.command, launch.settings.as_ref());
    if launch.ask_first && mode == Some(PermissionMode::Bypass) {
        let why =
            "--ask-first: in the mode bypass Claude Code does not ask about its own settings files; use another mode";
        return Err(SetupError(why.to_owned()));
    }
    let names_one = given_id(launch).is_some() || continues(launch);
    match &launch.resume {
        Some(_) if names_one => return Err(SetupError("--resume: the command names a conversation itself".into())),
        Some(id) => ours.push(format!("--resume={id}")),
        None if names_one => {}
        None => ours.push(format!("--session-id={}", launch.session_id)),
    }
    if launch.runtime == Runtime::Pipe {
        let flags = ["-p", "--verbose", "--input-format=stream-json", "--output-format=stream-json"];
        ours.extend(flags.map(str::to_owned));
        ours.push("--permission-prompt-tool=stdio".to_owned());
    }
    let mut env = Vec::new();
    if launch.runtime == Runtime::Pipe {
        env.push(("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS".to_owned(), "1".to_owned()));
    }
    let mut files =
        vec![FileToWrite { path: settings_path, content: settings(launch)?.to_string(), existing: Existing::Replaced }];
    if !launch.mcp.is_empty() {
        // In a file of ours and not on the command line, which others can read.
        let path = format!("{}/claude-mcp.json", launch.folder);
        ours.push(format!("--mcp-config={path}"));
        files.push(FileToWrite { path, content: mcp(&launch.mcp).to_string(), existing: Existing::Replaced });
    }
    if launch.isolated.is_some() {
        env.push((CONFIG_DIR.to_owned(), config_dir.clone()));
        let content = state_file(launch).to_string();
        let path = format!("{config_dir}/.claude.json");
        files.push(FileToWrite { path, content, existing: Existing::Merged });
    }
    // Over pipes the protocol says it all, and sooner.
    let mut watch = match launch.runtime {
        Runtime::Pty | Runtime::Server | Runtime::Inproc => {
            vec![Watch::Status { folder: format!("{config_dir}/sessions") }]
        }
        Runtime::Pipe => Vec::new(),
    };
    if let Some(id) = session_id(launch) {
        watch.push(Watch::Log { path: format!("{}/{id}.jsonl", logs(launch)) });
    }
    let (link, opening) = match launch.runtime {
        Runtime::Pty | Runtime::Server | Runtime::Inproc => (Link::None, Vec::new()),
        Runtime::Pipe => (Link::Pipe, stream::opening().into_iter().map(Say::Message).collect()),
    };
    let told = launch.variables.get(CONFIG_DIR).is_some_and(|dir| !dir.is_empty());
    let at_home = (launch.isolated.is_some() || told).then(|| (CONFIG_DIR.to_owned(), config_dir));
    let command = insert(launch, ours);
    Ok(Setup { command, env, files, watch, companion: None, link, opening, at_home: at_home.into_iter().collect() })
}

fn mcp(servers: &[McpServer]) -> Value {
    let entry = |server: &McpServer| match &server.way {
        McpWay::Program { command, args, env } => {
            json!({ "type": "stdio", "command": command, "args": args, "env": env })
        }
        McpWay::Url { url, headers, is_sse } => {
            json!({ "type": if *is_sse { "sse" } else { "http" }, "url": url, "headers": headers })
        }
    };
    let servers = servers.iter().map(|server| (server.name.clone(), entry(server)));
    json!({ "mcpServers": servers.collect::<serde_json::Map<_, _>>() })
}

/// Tells whether the agent will run our hooks, as far as its command line and settings say.
pub(super) fn expects_hooks(launch: &Launch) -> bool {
    let read = |path: &String| serde_json::from_str::<Value>(launch.contents.get(path)?).ok();
    let files = settings_files(launch);
    let settings = files.iter().map(read).chain([given_settings(launch).ok().flatten(), launch.settings.clone()]);
    let switches_off =
        |settings: Value| settings["disableAllHooks"] == true || settings["allowManagedHooksOnly"] == true;
    let switched_off = settings.flatten().any(switches_off);
    !switched_off && !own_words(launch).iter().any(|arg| arg == "--bare" || arg == "--safe-mode")
}

/// Returns the name of the conversation, if it is known before it begins.
pub(super) fn session_id(launch: &Launch) -> Option<String> {
    let new = || (!continues(launch)).then(|| launch.session_id.clone());
    launch.resume.clone().or_else(|| given_id(launch)).or_else(new)
}

fn given_id(launch: &Launch) -> Option<String> {
    let words = own_words(launch);
    value_of(words, &["--session-id"]).or_else(|| value_of(words, &["--resume", "-r"]))
}

/// Tells whether the agent goes on with a conversation that it chooses itself.
fn continues(launch: &Launch) -> bool {
    own_words(launch).iter().any(|arg| matches!(arg.as_str(), "--continue" | "-c" | "--resume" | "-r"))
}

/// Returns the folder of the project's logs.
pub(super) fn logs(launch: &Launch) -> String {
    logs_in(&config_dir(launch), &launch.cwd)
}

/// Returns the folder of the logs of whoever works in a folder.
pub(crate) fn logs_in(config_dir: &str, folder: &str) -> String {
    let name: String = folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{config_dir}/projects/{name}")
}

/// Adds our options. The settings it was given are in ours.
fn insert(launch: &Launch, ours: Vec<String>) -> Vec<String> {
    let (before, after) = launch.split();
    let mut kept = Vec::new();
    let mut rest = after.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--settings" => drop(rest.next()),
            _ if arg.starts_with("--settings=") => {}
            _ => kept.push(arg.clone()),
        }
    }
    [before.to_vec(), ours, kept].concat()
}

/// Tells whether the command line has a first prompt that begins a turn. A command of the agent's own need not.
pub(super) fn has_prompt(launch: &Launch) -> bool {
    let mut rest = launch.split().1.iter().map(String::as_str).peekable();
    let is_value = |word: &&str| !word.starts_with('-');
    let prompt = loop {
        match rest.next() {
            None => break None,
            Some("--") => break rest.next(),
            Some(arg) if WITH_VALUE.contains(&arg) => drop(rest.next()),
            Some(arg) if WITH_VALUE_OR_NOT.contains(&arg) => drop(rest.next_if(is_value)),
            Some(arg) if WITH_VALUES.contains(&arg) => while rest.next_if(is_value).is_some() {},
            Some(arg) if arg.starts_with('-') => {}
            prompt => break prompt,
        }
    };
    prompt.is_some_and(|prompt| !prompt.starts_with('/'))
}

/// Returns all settings in one: what the command line names, what the caller wants, and our hooks beside theirs.
fn settings(launch: &Launch) -> Result<Value, SetupError> {
    let mut merged = json!({});
    for more in [given_settings(launch)?, launch.settings.clone()].into_iter().flatten() {
        merge(&mut merged, &more);
    }
    if launch.ask_first {
        // Settings that an agent writes to its folder rank below these.
        merge(&mut merged, &json!({ "disableAllHooks": false, "hooks": ask_first() }));
    }
    merge(&mut merged, &json!({ "hooks": hooks(launch) }));
    Ok(merged)
}

/// Returns a hook that has the agent ask about each tool. It needs no answer of coop's. The agent goes on by its permission mode if
/// the hook cannot run.
fn ask_first() -> Value {
    let output =
        json!({ "hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": ASK_REASON });
    let output = json!({ "hookSpecificOutput": output }).to_string();
    let hook = json!({ "type": "command", "command": format!("printf %s '{output}'"), "timeout": REPORT_LIMIT });
    json!({ "PreToolUse": [{ "matcher": format!("^(?!({})$)", ASKING.join("|")), "hooks": [hook] }] })
}

fn hooks(launch: &Launch) -> Value {
    let wanted = |event: &&str| launch.runtime == Runtime::Pty || WITH_PIPES.contains(event);
    let limit = |event: &str| match event {
        "SessionStart" => START_LIMIT,
        _ if HOLDING.contains(&event) => HOLD_LIMIT,
        _ => REPORT_LIMIT,
    };
    let hooks: Map<_, _> = REPORTING
        .iter()
        .chain(&HOLDING)
        .copied()
        .filter(wanted)
        .map(|event| {
            let hold = if limit(event) > REPORT_LIMIT { "--hold " } else { "" };
            let command = format!("{} {hold}{event}", launch.hook_command);
            let hook = json!({ "type": "command", "command": command, "timeout": limit(event) });
            (event.to_owned(), json!([{ "hooks": [hook] }]))
        })
        .collect();
    Value::Object(hooks)
}

/// Returns settings by which an agent that somebody else runs reports what happens, with this command. Nothing waits for it.
pub fn guest_settings(command: &str) -> Value {
    let hook = |event: &str| {
        let hook = json!({ "type": "command", "command": format!("{command} {event}"), "timeout": REPORT_LIMIT });
        (event.to_owned(), json!([{ "hooks": [hook] }]))
    };
    let hooks: Map<_, _> = REPORTING.iter().chain(&HOLDING).copied().map(hook).collect();
    json!({ "hooks": hooks })
}

/// Returns the state file of a configuration of our own, by which no dialog comes up but the one about trust, which is the
/// person's to answer.
fn state_file(launch: &Launch) -> Value {
    let tail = |key: &str| key.chars().skip(key.chars().count().saturating_sub(KEY_TAIL)).collect::<String>();
    let approved: Vec<_> = launch.variables.get(API_KEY).map(tail).into_iter().collect();
    let mut project = json!({ "hasCompletedProjectOnboarding": true, "allowedTools": [] });
    if launch.trusts_folder {
        project["hasTrustDialogAccepted"] = json!(true);
    }
    json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "numStartups": 5,
        "customApiKeyResponses": { "approved": approved, "rejected": [] },
        "projects": { launch.cwd.clone(): project },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Variables;
    use crate::program;

    fn launch(command: &[&str]) -> Launch {
        let command: Vec<_> = command.iter().map(|&arg| arg.to_owned()).collect();
        Launch {
            cwd: "/home/dev/my.project".into(),
            session_id: "S".into(),
            hook_command: "coop hook".into(),
            folder: "/run/f".into(),
            variables: Variables([(CONFIG_DIR.to_owned(), "/c".to_owned())].into()),
            program_at: program::find(&command, &["claude"], "").unwrap_or(0),
            command,
            ..Launch::default()
        }
    }

    #[test]
    fn servers_of_tools_are_in_a_file_and_not_on_the_command_line() {
        let env = [("KEY".to_owned(), "s3cret".to_owned())].into();
        let program = McpWay::Program { command: "srv".into(), args: vec!["-x".into()], env };
        let headers = [("Authorization".to_owned(), "Bearer s3cret".to_owned())].into();
        let url = McpWay::Url { url: "http://h/mcp".into(), headers, is_sse: false };
        let mcp = vec![McpServer { name: "a".into(), way: program }, McpServer { name: "b".into(), way: url }];
        let made = setup(&Launch { mcp: mcp.clone(), ..launch(&["claude", "hi"]) }).expect("it can be");
        assert!(made.command.contains(&"--mcp-config=/run/f/claude-mcp.json".to_owned()), "{:?}", made.command);
        assert!(!made.command.concat().contains("s3cret") && !format!("{mcp:?}").contains("s3cret"));
        let file = made.files.iter().find(|file| file.path.ends_with("claude-mcp.json")).expect("it is written");
        let expected = json!({ "mcpServers": {
            "a": { "type": "stdio", "command": "srv", "args": ["-x"], "env": { "KEY": "s3cret" } },
            "b": { "type": "http", "url": "http://h/mcp", "headers": { "Authorization": "Bearer s3cret" } },
        } });
        assert_eq!(serde_json::from_str::<Value>(&file.content).expect("JSON"), expected);
    }

    #[test]
    fn our_options_stand_where_nothing_swallows_them() {
        let command = |given: &[&str]| setup(&launch(given)).expect("a set-up").command.join(" ");
        assert_eq!(command(&["claude"]), "claude --settings=/run/f/claude-settings.json --session-id=S");
        assert_eq!(
            command(&["env", "A=1", "/bin/claude", "--settings", "x", "--resume", "R", "hi"]),
            "env A=1 /bin/claude --settings=/run/f/claude-settings.json --resume R hi"
        );
        assert_eq!(
            command(&["npx", "--yes", "claude", "hi"]),
            "npx --yes claude --settings=/run/f/claude-settings.json --session-id=S hi"
        );
        assert_eq!(
            command(&["coop", "sim", "claude", "-c"]),
            "coop sim claude --settings=/run/f/claude-settings.json -c"
        );
    }

    #[test]
    fn an_earlier_conversation_is_named_once() {
        let resume = |command: &[&str]| setup(&Launch { resume: Some("R".into()), ..launch(command) });
        let resumed = resume(&["claude"]).expect("a set-up");
        assert_eq!(resumed.command.join(" "), "claude --settings=/run/f/claude-settings.json --resume=R");
        assert_eq!(resumed.watch[1], Watch::Log { path: "/c/projects/-home-dev-my-project/R.jsonl".into() });
        assert!(resume(&["claude", "--continue"]).is_err());
    }

    #[test]
    fn the_log_is_known_before_it_is_there() {
        let watch = setup(&launch(&["claude"])).expect("a set-up").watch;
        assert_eq!(watch[1], Watch::Log { path: "/c/projects/-home-dev-my-project/S.jsonl".into() });
        assert_eq!(setup(&launch(&["claude", "--continue"])).expect("a set-up").watch.len(), 1);
    }

    #[test]
    fn hooks_of_others_stay() {
        let mut launch = launch(&["claude"]);
        launch.settings = Some(json!({ "model": "x", "hooks": { "Stop": [{ "hooks": ["theirs"] }] } }));
        let settings = settings(&launch).expect("settings");
        assert_eq!(settings["model"], "x");
        assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0], "theirs");
        assert_eq!(settings["hooks"]["Stop"][1]["hooks"][0]["command"], "coop hook --hold Stop");
        assert_eq!(settings["hooks"]["Stop"][1]["hooks"][0]["timeout"], 86400);
    }

    #[test]
    fn a_first_prompt_is_told_from_options() {
        let has = |args: &[&str]| has_prompt(&launch(args));
        assert!(
            has(&["claude", "fix it"]) && has(&["claude", "--model", "opus", "fix"]) && has(&["claude", "--", "x"])
        );
        assert!(!has(&["claude"]) && !has(&["claude", "--model", "opus"]) && !has(&["claude", "--verbose"]));
        for (line, expected) in [
            ("claude --effort high", false),
            ("claude --effort high fix", true),
            ("claude --agent reviewer -n mine --max-turns 3 --betas a b", false),
            ("claude --tools Bash Edit --verbose fix", true),
            ("claude --allowedTools Bash Edit", false),
            ("claude --resume fix", false),
            ("claude --resume --model opus fix", true),
            ("claude /help", false),
        ] {
            assert_eq!(has(&line.split(' ').collect::<Vec<_>>()), expected, "{line}");
        }
    }

    /// What a program that runs the agent is told is not for the agent.
    #[test]
    fn only_its_own_words_count() {
        let id = |line: &str| session_id(&launch(&line.split(' ').collect::<Vec<_>>()));
        assert_eq!(id("node -r ./hook.js /opt/claude.js").as_deref(), Some("S"));
        assert_eq!(id("claude -r R").as_deref(), Some("R"));
        assert_eq!(id("claude -- --resume R").as_deref(), Some("S"));
    }

    #[test]
    fn a_folder_is_trusted_only_if_that_was_said() {
        let state = |trusts_folder| {
            let made = setup(&Launch { isolated: Some("/own".into()), trusts_folder, ..launch(&["claude"]) });
            let files = made.expect("a set-up").files;
            let file = files.into_iter().find(|file| file.path.ends_with(".claude.json")).expect("a state file");
            serde_json::from_str::<Value>(&file.content).expect("JSON")["projects"]["/home/dev/my.project"].clone()
        };
        assert_eq!(state(false).get("hasTrustDialogAccepted"), None);
        assert_eq!(state(true)["hasTrustDialogAccepted"], true);
    }

    #[test]
    fn hooks_may_be_switched_off_in_any_settings() {
        let with = |path: &str, content: &str| {
            let mut launch = launch(&["claude"]);
            assert!(reads(&launch).contains(&path.to_owned()), "{path}");
            launch.contents.insert(path.to_owned(), content.to_owned());
            expects_hooks(&launch)
        };
        assert!(expects_hooks(&launch(&["claude"])));
        assert!(with("/c/settings.json", r#"{"model":"opus"}"#) && with("/c/settings.json", "not json"));
        assert!(!with("/c/settings.json", r#"{"disableAllHooks":true}"#));
        assert!(!with("/home/dev/my.project/.claude/settings.local.json", r#"{"disableAllHooks":true}"#));
        assert!(!with(MANAGED_SETTINGS, r#"{"allowManagedHooksOnly":true}"#));
    }
}
