//! An agent that no file defines: its definition is written from the command line.

use std::path::Path;

use anyhow::{Context, bail};
use coop_api::PermissionMode;
use coop_fleet::definition::{Sandbox, quoted};
use coop_fleet::launcher::Running;

use super::cli::AdHoc;

/// A definition of one agent.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) name: String,
}

/// Refuses what is said of an agent that a file defines, and that the file has to say.
pub(super) fn check_is_defined(adhoc: &AdHoc, file: &Path) -> anyhow::Result<()> {
    let given = [
        ("--kind", adhoc.kind.is_some()),
        ("--env", !adhoc.env.is_empty()),
        ("--isolate", adhoc.isolate),
        ("--sandbox", adhoc.sandbox),
        ("--sandbox-write", !adhoc.sandbox_write.is_empty()),
        ("--sandbox-hide", !adhoc.sandbox_hide.is_empty()),
        ("--sandbox-no-network", adhoc.sandbox_no_network),
        ("--trust", adhoc.trust),
        ("--permission-mode", adhoc.permission_mode.is_some()),
        ("--ask-first", adhoc.ask_first),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => bail!("{flag} is for agents that no file defines; write it into {}", file.display()),
        None => Ok(()),
    }
}

/// Writes the definition of one agent. It is an agent to talk to, unless something else is said.
pub(super) fn write(name: Option<&str>, adhoc: &AdHoc) -> anyhow::Result<Written> {
    let driver = adhoc.agent.as_deref().unwrap_or("unknown");
    let program = adhoc.command.first().and_then(|path| Path::new(path).file_name()).and_then(|name| name.to_str());
    let unnamed = if driver == "unknown" { program.unwrap_or("agent") } else { driver };
    let name = name.unwrap_or(unnamed).to_owned();
    if driver == "unknown" && adhoc.command.is_empty() {
        bail!("say which agent with --agent, or what to run after --");
    }
    let mut text = format!("[agents.{}]\ndriver = {}\n", quoted(&name), quoted(driver));
    text += &format!("kind = {}\n", quoted(adhoc.kind.as_deref().unwrap_or("crew")));
    if !adhoc.command.is_empty() {
        let words: Vec<_> = adhoc.command.iter().map(|word| quoted(word)).collect();
        text += &format!("command = [{}]\n", words.join(", "));
    }
    if let Some(prompt) = &adhoc.prompt {
        text += &format!("prompt = {}\n", quoted(prompt));
    }
    if adhoc.isolate {
        text += "isolate = true\n";
    }
    if adhoc.sandbox {
        text += &sandbox_line(&Sandbox {
            write: adhoc.sandbox_write.clone(),
            hide: adhoc.sandbox_hide.clone(),
            no_network: adhoc.sandbox_no_network,
        });
    }
    if adhoc.trust {
        text += "trust = true\n";
    }
    if let Some(mode) = adhoc.permission_mode {
        text += &mode_line(mode);
    }
    if adhoc.ask_first {
        text += ASK_FIRST_LINE;
    }
    if !adhoc.env.is_empty() {
        let pair = |pair: &String| {
            let (name, value) = pair.split_once('=').with_context(|| format!("{pair:?} is not NAME=VALUE"))?;
            Ok(format!("{} = {}", quoted(name), quoted(value)))
        };
        let pairs: Vec<_> = adhoc.env.iter().map(pair).collect::<anyhow::Result<_>>()?;
        text += &format!("env = {{ {} }}\n", pairs.join(", "));
    }
    Ok(Written { text, name })
}

/// Writes the definition of an agent of which only its sidecar is known; a person is called for everything.
pub(super) fn definition(found: &Running) -> String {
    let words: Vec<_> = found.command.iter().map(|word| quoted(word)).collect();
    let (name, driver, words) = (quoted(&found.agent.0), quoted(&found.driver), words.join(", "));
    let isolate = if found.isolate { "isolate = true\n" } else { "" };
    let sandbox = found.sandbox.as_ref().map(sandbox_line).unwrap_or_default();
    let mode = found.permission_mode.map(mode_line).unwrap_or_default();
    let ask_first = if found.ask_first { ASK_FIRST_LINE } else { "" };
    format!(
        "[agents.{name}]\ndriver = {driver}\nkind = \"crew\"\ncommand = [{words}]\n{isolate}{sandbox}{mode}{ask_first}"
    )
}

const ASK_FIRST_LINE: &str = "ask_first = true\n";

fn mode_line(mode: PermissionMode) -> String {
    format!("permission_mode = {}\n", quoted(mode.as_str()))
}

fn sandbox_line(sandbox: &Sandbox) -> String {
    let list = |paths: &[String]| paths.iter().map(|path| quoted(path)).collect::<Vec<_>>().join(", ");
    let (write, hide, network) = (list(&sandbox.write), list(&sandbox.hide), !sandbox.no_network);
    format!("sandbox = {{ write = [{write}], hide = [{hide}], network = {network} }}\n")
}

/// Writes the definition of an agent that others have applied in a cluster, with these lines of what is done about it. When it
/// ends its next pod is waited for, which its operator makes.
#[cfg(feature = "kubernetes")]
pub(super) fn applied(found: &Running, actions: &str) -> String {
    format!("{}on_dead = \"wait\"\n{actions}", definition(found))
}

#[cfg(test)]
mod tests {
    use coop_api::AgentId;
    use coop_fleet::definition::Definition;
    use coop_fleet::launcher::RunOwner;

    use super::*;

    fn running(driver: &str) -> Running {
        Running {
            agent: AgentId("sim-1".to_owned()),
            pid: None,
            driver: driver.to_owned(),
            command: vec!["claude".to_owned()],
            folder: "/".into(),
            isolate: false,
            sandbox: None,
            permission_mode: None,
            ask_first: false,
            run_owner: RunOwner::Fleet,
        }
    }

    #[cfg(feature = "kubernetes")]
    #[test]
    fn what_others_have_applied_has_a_definition() {
        for driver in ["claude", "unknown", "api"] {
            let text = applied(&running(driver), "");
            Definition::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"));
        }
    }

    #[test]
    fn an_adopted_agent_keeps_its_sandbox() {
        let sandbox = Sandbox { write: vec!["/a b".to_owned()], hide: vec!["/c".to_owned()], no_network: true };
        let mode = Some(PermissionMode::Plan);
        let found = Running {
            isolate: true,
            sandbox: Some(sandbox.clone()),
            permission_mode: mode,
            ask_first: true,
            ..running("claude")
        };
        let defined = Definition::parse(&definition(&found)).expect("a definition").agents.remove("sim-1").expect("it");
        assert!(defined.isolate && defined.sandbox == Some(sandbox) && defined.ask_first);
        assert_eq!(defined.permission_mode, mode);
    }

    fn adhoc() -> AdHoc {
        AdHoc {
            agent: Some("claude".to_owned()),
            prompt: Some("Say \"hi\"\n\u{7f}\\ done".to_owned()),
            kind: None,
            folder: None,
            isolate: true,
            sandbox: true,
            sandbox_write: vec!["/var/cache/x".to_owned()],
            sandbox_hide: Vec::new(),
            sandbox_no_network: true,
            trust: true,
            permission_mode: Some(PermissionMode::Plan),
            ask_first: true,
            env: vec!["A.B=c=d".to_owned()],
            command: vec!["/opt/claude".to_owned(), "--model=x y".to_owned()],
        }
    }

    #[test]
    fn what_is_written_means_what_was_said() {
        let written = write(None, &adhoc()).expect("written");
        assert_eq!(written.name, "claude");
        let defined = Definition::parse(&written.text).expect("a definition").agents.remove("claude").expect("it");
        assert_eq!(defined.command, ["/opt/claude", "--model=x y"]);
        assert_eq!(defined.prompt.as_deref(), Some("Say \"hi\"\n\u{7f}\\ done"));
        assert_eq!(defined.env.get("A.B").map(String::as_str), Some("c=d"));
        assert!(defined.isolate && defined.trust && defined.ask_first);
        assert_eq!(defined.permission_mode, Some(PermissionMode::Plan));
        let sandbox = defined.sandbox.clone().expect("a sandbox");
        assert!(sandbox.no_network && sandbox.write == ["/var/cache/x"] && sandbox.hide.is_empty());
    }

    #[test]
    fn a_program_without_a_driver_has_its_own_name() {
        let adhoc = AdHoc { agent: None, prompt: None, env: Vec::new(), ..adhoc() };
        assert_eq!(write(None, &adhoc).expect("written").name, "claude");
        assert_eq!(write(Some("x"), &adhoc).expect("written").name, "x");
        let nothing = AdHoc { command: Vec::new(), ..adhoc };
        assert!(write(None, &nothing).is_err());
    }
}
