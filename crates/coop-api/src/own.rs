//! coop's own agent, which has settings in variables that begin like coop's.

use std::ffi::OsStr;

/// The variables for settings of coop's own agent begin so; the second is the specification's.
pub const OWN_AGENT_PREFIXES: [&str; 2] = ["COOP_", "COBBLER_AGENT_"];

/// The settings that variables may have, and the key.
const NAMES: [&str; 13] = [
    "API_KEY",
    "API_KEY_FILE",
    "BASE_URL",
    "MAX_COST",
    "MAX_TIME",
    "MAX_TOKENS",
    "MAX_TOTAL_TOKENS",
    "MAX_TURNS",
    "MODEL",
    "PROVIDER",
    "REQUEST_TIMEOUT",
    "STALL_TIMEOUT",
    "TEMPERATURE",
];

/// Returns whether a variable is a setting of coop's own agent, or its key. All other variables of coop's are no business
/// of an agent.
pub fn is_own_agent_setting(variable: &str) -> bool {
    let of = |prefix: &&str| variable.strip_prefix(*prefix).is_some_and(|rest| NAMES.contains(&rest));
    OWN_AGENT_PREFIXES.iter().any(of)
}

/// Returns whether a variable is coop's own: a setting, the daemon's token, the store's password, or the key of coop's own
/// agent. No other program gets any of them.
pub fn is_coop_variable(variable: &OsStr) -> bool {
    let name = variable.to_str().unwrap_or_default();
    name == "COOP" || variable.as_encoded_bytes().starts_with(b"COOP_") || is_own_agent_setting(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coop_variables_are_known_by_their_prefix() {
        for name in ["COOP", "COOP_AUTH_TOKEN", "COOP_API_KEY", "COOP_STORE_PASSWORD", "COBBLER_AGENT_API_KEY"] {
            assert!(is_coop_variable(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "COOPER", "COBBLER_AGENT_HOME", "ANTHROPIC_API_KEY"] {
            assert!(!is_coop_variable(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn settings_are_known_by_their_names() {
        for name in ["COOP_API_KEY", "COBBLER_AGENT_MODEL", "COOP_MAX_TIME"] {
            assert!(is_own_agent_setting(name), "{name}");
        }
        for name in ["COOP_AUTH_TOKEN", "COOP_PORT", "COOP_", "PATH", "MODEL"] {
            assert!(!is_own_agent_setting(name), "{name}");
        }
    }
}
