use std::collections::BTreeMap;

use coop_api::{PermissionMode, is_own_agent_setting};

use super::read::{Key, Node};
use super::{AgentDefinition, DefinitionError, OWN_AGENT, Prime, Sandbox, Start, actions};
use crate::adapter::SHIM;
use crate::engine::{IdleAction, Limits};

const KEYS: [&str; 20] = [
    "driver",
    "command",
    "prompt",
    "folder",
    "env",
    "runtime",
    "isolate",
    "sandbox",
    "trust",
    "permission_mode",
    "ask_first",
    "settings",
    "record",
    "kind",
    "start",
    "limits",
    "on_idle",
    "on_dead",
    "on_prompt",
    "on_error",
];
/// Variables by which a sidecar finds what its agent's sandbox hides.
const HOMES: [&str; 3] = ["HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"];
/// How large a recording may become if nobody says, in MiB: some hours of an agent that is watched by nobody.
const RECORDED: u64 = 32;
/// A recording has room for a few screens, and what is more than this nobody can replay.
const RECORDABLE: std::ops::RangeInclusive<u64> = 1..=1024;
/// Longer names make the paths of sockets too long.
const LONGEST_NAME: usize = 32;

pub(super) fn read(name: &Key<'_>, node: &Node<'_>) -> Result<AgentDefinition, DefinitionError> {
    check_name(name)?;
    let table = node.table(&KEYS)?;
    let driver = table.text("driver")?;
    let command = match (table.get("command"), &driver) {
        (Some(node), _) if node.is_text() => {
            return Err(node.error(
                "a command is a list of words, such as [\"claude\", \"--model\", \"opus\"]: no shell reads it",
            ));
        }
        (Some(node), _) => {
            let words = node.texts()?;
            if driver.as_deref() != Some(OWN_AGENT) && words.first().is_none_or(String::is_empty) {
                return Err(node.error("a command has at least the name of a program"));
            }
            words
        }
        // It is a part of coop, and the words are its options.
        (None, Some(driver)) if driver == OWN_AGENT => Vec::new(),
        (None, Some(driver)) if !matches!(driver.as_str(), "auto" | "unknown" | "acp" | SHIM) => vec![driver.clone()],
        (None, _) => return Err(name.error(format!("{:?} needs a \"command\" or a \"driver\"", name.text()))),
    };
    let driver = driver.unwrap_or_else(|| "auto".to_owned());
    // A job is over when it is idle; whoever else is idle waits for somebody.
    let default = match table.get("kind") {
        None => IdleAction::Done,
        Some(node) => match node.text()? {
            "job" => IdleAction::Done,
            "crew" => IdleAction::Escalate,
            other => return Err(node.error(format!("{other:?} is no kind of agent; use job or crew"))),
        },
    };
    let prompt = table.text("prompt")?;
    let given = actions::Given {
        idle: table.get("on_idle"),
        dead: table.get("on_dead"),
        prompt: table.get("on_prompt"),
        error: table.get("on_error"),
    };
    let actions = actions::read(&given, default, node)?;
    if driver == "unknown" {
        check_unknown(&given, prompt.as_ref(), name)?;
    }
    let isolate = table.get("isolate").map(|node| node.flag()).transpose()?.unwrap_or_default();
    let trust = table.get("trust").map(|node| Ok((node.flag()?, node))).transpose()?;
    if let Some((true, node)) = &trust
        && !isolate
    {
        return Err(node.error("this needs isolate = true: coop does not write to the user's own configuration"));
    }
    let is_own_agent = driver == OWN_AGENT;
    let sandbox = table.get("sandbox").map(|node| sandbox(&node)).transpose()?.flatten();
    let env = table.get("env").map(|node| Ok((env(&node, is_own_agent)?, node))).transpose()?;
    if let Some((variables, node)) = &env
        && sandbox.is_some()
    {
        if let Some(name) = variables.keys().find(|name| name.starts_with("LD_")) {
            let why =
                format!("{name} would make the agent's sidecar load a library outside of the sandbox; leave it out");
            return Err(node.error(why));
        }
        if let Some(name) = HOMES.iter().find(|name| variables.contains_key(**name)) {
            let why = format!("{name} also tells coop which logins and files the sandbox hides; leave it out");
            return Err(node.error(why));
        }
    }
    Ok(AgentDefinition {
        name: name.text().to_owned(),
        driver,
        command,
        prompt,
        folder: table.text("folder")?,
        env: env.map(|(env, _)| env).unwrap_or_default(),
        runtime: table.get("runtime").map(|node| runtime(&node)).transpose()?,
        isolate,
        sandbox,
        trust: trust.is_some_and(|(trust, _)| trust),
        permission_mode: table.get("permission_mode").map(|node| permission_mode(&node)).transpose()?,
        ask_first: table.get("ask_first").map(|node| node.flag()).transpose()?.unwrap_or_default(),
        settings: table.get("settings").map(|node| settings(&node)).transpose()?,
        record: record(table.get("record"))?,
        start: table.get("start").map(|node| start(&node)).transpose()?.unwrap_or_default(),
        limits: table.get("limits").map(|node| limits(&node)).transpose()?.unwrap_or_default(),
        actions,
    })
}

fn permission_mode(node: &Node<'_>) -> Result<PermissionMode, DefinitionError> {
    let name = node.text()?;
    PermissionMode::by_name(name).ok_or_else(|| {
        let known = PermissionMode::ALL.map(PermissionMode::as_str).join(", ");
        node.error(format!("{name:?} is no permission mode; use one of {known}"))
    })
}

/// Reads `true`, `false`, or a table with what there is beyond the folder.
fn sandbox(node: &Node<'_>) -> Result<Option<Sandbox>, DefinitionError> {
    if let Ok(is_wanted) = node.flag() {
        return Ok(is_wanted.then(Sandbox::default));
    }
    let wrong = |_| {
        node.error("this has to be true, false or a table such as { write = [\"~/.cargo/registry\"], network = false }")
    };
    node.entries().map_err(wrong)?;
    let table = node.table(&["write", "hide", "network"])?;
    let paths = |key: &str| {
        let Some(node) = table.get(key) else { return Ok(Vec::new()) };
        let paths = node.texts()?;
        match paths.iter().find(|path| !path.starts_with('/') && !path.starts_with("~/")) {
            Some(path) => Err(node.error(format!("{path:?} has to begin with / or ~/; variables are not expanded"))),
            None if paths.iter().any(|path| path.contains(':')) => {
                Err(node.error("a path here cannot have a colon in it"))
            }
            None => Ok(paths),
        }
    };
    let (write, hide) = (paths("write")?, paths("hide")?);
    let has_network = table.get("network").map(|node| node.flag()).transpose()?.unwrap_or(true);
    Ok(Some(Sandbox { write, hide, no_network: !has_network }))
}

fn settings(node: &Node<'_>) -> Result<serde_json::Value, DefinitionError> {
    node.entries()?;
    node.json()
}

fn check_name(name: &Key<'_>) -> Result<(), DefinitionError> {
    let text = name.text();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if text.is_empty() || !is_plain || text.len() > LONGEST_NAME {
        return Err(name.error(format!("{text:?} cannot be a name: letters, digits, - and _, {LONGEST_NAME} at most")));
    }
    Ok(())
}

/// Nobody can tell whether a program without a driver is idle, asks or fails, or tell it anything.
fn check_unknown(given: &actions::Given<'_>, prompt: Option<&String>, name: &Key<'_>) -> Result<(), DefinitionError> {
    let impossible = [("on_idle", &given.idle), ("on_prompt", &given.prompt), ("on_error", &given.error)];
    for (what, node) in impossible {
        if let Some(node) = node {
            return Err(node.error(format!("{what:?} never comes to pass: without a driver nobody can tell")));
        }
    }
    match prompt {
        Some(_) => Err(name.error(format!("{:?} has a \"prompt\", and no driver that could deliver it", name.text()))),
        None => Ok(()),
    }
}

fn env(node: &Node<'_>, is_own_agent: bool) -> Result<BTreeMap<String, String>, DefinitionError> {
    let mut env = BTreeMap::new();
    for (key, value) in node.entries()? {
        let name = key.text();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(key.error(format!("{name:?} cannot be the name of a variable")));
        }
        let is_for_agent = name.starts_with("COOP_SIM_") || is_own_agent && is_own_agent_setting(name);
        if name == "COOP" || name.starts_with("COOP_") && !is_for_agent {
            return Err(key.error(format!("{name:?} is for coop itself, and is not passed on to an agent")));
        }
        let text = value.text()?;
        if text.contains('\0') {
            return Err(value.error("a variable cannot hold a NUL"));
        }
        env.insert(name.to_owned(), text.to_owned());
    }
    Ok(env)
}

fn runtime(node: &Node<'_>) -> Result<String, DefinitionError> {
    match node.text()? {
        known @ ("pty" | "pipe" | "server" | "inproc") => Ok(known.to_owned()),
        other => Err(node.error(format!("{other:?} is no runtime; use pty, pipe, server or inproc"))),
    }
}

/// Reads `true`, `false`, or how many MiB a recording may take.
fn record(node: Option<Node<'_>>) -> Result<Option<u64>, DefinitionError> {
    let Some(node) = node else { return Ok(Some(RECORDED << 20)) };
    match (node.flag(), node.whole()) {
        (Ok(flag), _) => Ok(flag.then_some(RECORDED << 20)),
        (_, Ok(size)) if RECORDABLE.contains(&size) => Ok(Some(size << 20)),
        _ => Err(node.error("this has to be true, false, or a number of MiB from 1 to 1024")),
    }
}

fn limits(node: &Node<'_>) -> Result<Limits, DefinitionError> {
    let table = node.table(&["turns", "time", "cost_usd"])?;
    Ok(Limits {
        turns: table.get("turns").map(|node| node.whole()).transpose()?,
        time: table.get("time").map(|node| node.time()).transpose()?,
        cost_usd: table.get("cost_usd").map(|node| node.number()).transpose()?,
    })
}

fn start(node: &Node<'_>) -> Result<Start, DefinitionError> {
    let table = node.table(&["text", "shell", "startup", "resume", "clear", "compact"])?;
    let of = |name: &str| {
        let prime = |node: Node<'_>| {
            let table = node.table(&["text", "shell"])?;
            let shell = table.get("shell").map(|node| node.texts()).transpose()?.unwrap_or_default();
            Ok(Prime { text: table.text("text")?, shell })
        };
        table.get(name).map(prime).transpose()
    };
    let shell = table.get("shell").map(|node| node.texts()).transpose()?.unwrap_or_default();
    Ok(Start {
        always: Prime { text: table.text("text")?, shell },
        startup: of("startup")?,
        resume: of("resume")?,
        clear: of("clear")?,
        compact: of("compact")?,
    })
}
