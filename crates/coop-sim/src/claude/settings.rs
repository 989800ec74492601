//! Settings: the hooks and the permission rules, from files and from `--settings`.
//!
//! A file in the flat shape (an event's entry without its inner `hooks` list) is wrong as a whole: the screen stops
//! at a dialog, and `-p` goes on without anything the file says. Both as the real one does.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::hook::HookEvent;
use super::permission::{PermissionMode, Rule};

/// The real one's default for a hook without a `timeout`.
const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Settings {
    groups: HashMap<String, Vec<Group>>,
    pub(crate) allow: Vec<Rule>,
    pub(crate) deny: Vec<Rule>,
    pub(crate) ask: Vec<Rule>,
    pub(crate) mode: Option<PermissionMode>,
    pub(crate) skip_bypass_warning: bool,
    /// Whether no hook runs.
    no_hooks: bool,
    /// What was wrong, file by file.
    pub(crate) errors: Vec<SettingsError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsError {
    pub(crate) source: String,
    pub(crate) problem: String,
}

/// A hook to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookCommand {
    pub(crate) command: String,
    pub(crate) timeout: Duration,
}

#[derive(Debug, Deserialize)]
struct Group {
    #[serde(default)]
    matcher: String,
    hooks: Vec<Hook>,
}

#[derive(Debug, Deserialize)]
struct Hook {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    command: String,
    timeout: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    hooks: HashMap<String, Vec<Group>>,
    permissions: Permissions,
    #[serde(rename = "skipDangerousModePermissionPrompt")]
    skip_bypass_warning: bool,
    #[serde(rename = "disableAllHooks")]
    no_hooks: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Permissions {
    allow: Vec<String>,
    deny: Vec<String>,
    ask: Vec<String>,
    #[serde(rename = "defaultMode")]
    default_mode: Option<PermissionMode>,
}

impl Settings {
    /// Reads the user's, the project's and the command line's settings, in this order.
    pub(crate) fn load(config: &Path, cwd: &Path, flag: Option<&str>) -> Self {
        let mut settings = Self::default();
        let project = cwd.join(".claude");
        let files = [config.join("settings.json"), project.join("settings.json"), project.join("settings.local.json")];
        for file in files {
            if let Ok(text) = std::fs::read_to_string(&file) {
                settings.add(&file.display().to_string(), &text);
            }
        }
        match flag {
            Some(inline) if inline.trim_start().starts_with('{') => settings.add("--settings", inline),
            Some(path) => {
                let path: PathBuf = cwd.join(path);
                match std::fs::read_to_string(&path) {
                    Ok(text) => settings.add(&path.display().to_string(), &text),
                    Err(error) => settings.errors.push(SettingsError {
                        source: path.display().to_string(),
                        problem: format!("Settings file not found: {error}"),
                    }),
                }
            }
            None => {}
        }
        settings
    }

    fn add(&mut self, source: &str, text: &str) {
        let file = match parse(text) {
            Ok(file) => file,
            Err(problem) => return self.errors.push(SettingsError { source: source.to_owned(), problem }),
        };
        for (event, groups) in file.hooks {
            self.groups.entry(event).or_default().extend(groups);
        }
        self.allow.extend(file.permissions.allow.iter().map(|rule| Rule::parse(rule)));
        self.ask.extend(file.permissions.ask.iter().map(|rule| Rule::parse(rule)));
        self.deny.extend(file.permissions.deny.iter().map(|rule| Rule::parse(rule)));
        self.mode = file.permissions.default_mode.or(self.mode);
        self.skip_bypass_warning |= file.skip_bypass_warning;
        self.no_hooks |= file.no_hooks;
    }

    /// The hooks of an event whose matcher fits the subject; the same command runs once.
    pub(crate) fn hooks(&self, event: HookEvent, subject: &str) -> Vec<HookCommand> {
        let groups = self.groups.get(event.name()).filter(|_| !self.no_hooks).into_iter().flatten();
        let mut found: Vec<HookCommand> = Vec::new();
        for hook in groups.filter(|group| matches(&group.matcher, subject)).flat_map(|group| &group.hooks) {
            // Hooks over HTTP are the real one's business: nothing here speaks it.
            if hook.kind == "command" && !found.iter().any(|other| other.command == hook.command) {
                let timeout = hook.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                found.push(HookCommand { command: hook.command.clone(), timeout: timeout.unwrap_or(HOOK_TIMEOUT) });
            }
        }
        found
    }
}

fn parse(text: &str) -> Result<File, String> {
    let value: Map<String, Value> = serde_json::from_str(text).map_err(|error| format!("Invalid JSON: {error}"))?;
    if let Some(Value::Object(hooks)) = value.get("hooks") {
        for (event, groups) in hooks {
            let groups = groups.as_array().ok_or_else(|| format!("hooks.{event}: Expected array"))?;
            if let Some(index) = groups.iter().position(|group| !group.get("hooks").is_some_and(Value::is_array)) {
                return Err(format!("hooks.{event}.{index}.hooks: Expected array, but received undefined"));
            }
        }
    }
    serde_json::from_value(Value::Object(value)).map_err(|error| error.to_string())
}

/// Alternatives between `|`, each whole, with `*` or `.*` at its end for "whatever follows". Of all other patterns only the one
/// for "none of these" is known: `^(?!(A|B)$)`.
fn matches(matcher: &str, subject: &str) -> bool {
    if let Some(others) = matcher.strip_prefix("^(?!(").and_then(|rest| rest.strip_suffix(")$)")) {
        return !others.split('|').any(|other| other == subject);
    }
    matcher.is_empty()
        || matcher.split('|').map(str::trim).any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => subject.starts_with(prefix.trim_end_matches('.')),
            None => pattern == subject,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        let mut settings = Settings::default();
        settings.add("test", text);
        settings
    }

    #[test]
    fn hooks_are_chosen_by_event_and_matcher() {
        let settings = settings(
            r#"{"hooks":{"PreToolUse":[
                {"matcher":"Bash|Write","hooks":[{"type":"command","command":"a","timeout":2}]},
                {"matcher":"^(?!(Bash|Edit)$)","hooks":[{"type":"command","command":"c"}]},
                {"matcher":"*","hooks":[{"type":"command","command":"b"},{"type":"http","url":"x"}]}]}}"#,
        );
        let names = |subject: &str| -> Vec<String> {
            settings.hooks(HookEvent::PreToolUse, subject).into_iter().map(|hook| hook.command).collect()
        };
        assert_eq!(names("Bash"), ["a", "b"]);
        assert_eq!(names("Read"), ["c", "b"]);
        assert_eq!(settings.hooks(HookEvent::Stop, ""), []);
    }

    #[test]
    fn the_flat_shape_drops_the_whole_file() {
        let settings = settings(
            r#"{"permissions":{"allow":["Bash"]},"hooks":{"Stop":[{"type":"command","command":"a"}],
                "PostToolUse":[{"hooks":[{"type":"command","command":"b"}]}]}}"#,
        );
        assert_eq!(settings.errors.len(), 1);
        assert_eq!(settings.hooks(HookEvent::PostToolUse, "Bash"), []);
        assert!(settings.allow.is_empty());
    }
}
