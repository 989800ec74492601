//! coop's own agent, which has settings in variables that begin like coop's.

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

#[cfg(test)]
mod tests {
    use super::*;

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
