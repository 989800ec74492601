//! What a cluster takes for a name.

/// What longer names leave no room for: all that belongs to an agent is called after it, and a name has 63 letters.
pub(crate) const LONGEST_AGENT: usize = 48;
const LONGEST_LABEL: usize = 63;
const LONGEST_NAME: usize = 253;

/// Tells whether an agent in a cluster can be called so.
pub(crate) fn is_agent_name(name: &str) -> bool {
    is_label(name) && name.len() <= LONGEST_AGENT
}

/// Tells whether a namespace can be called so.
pub fn is_namespace(name: &str) -> bool {
    is_label(name) && name.len() <= LONGEST_LABEL
}

/// Tells whether most other things, a Secret for one, can be called so.
pub fn is_object_name(name: &str) -> bool {
    name.split('.').all(is_label) && name.len() <= LONGEST_NAME
}

/// Tells whether it is an amount of something, as Kubernetes takes it.
pub fn is_quantity(text: &str) -> bool {
    const UNITS: [&str; 16] = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let is_power = || unit.strip_prefix(['e', 'E']).is_some_and(|power| power.parse::<i8>().is_ok());
    number.parse::<f64>().is_ok_and(|number| number > 0.0) && (UNITS.contains(&unit) || is_power())
}

/// Tells whether a pod can have this label.
pub(crate) fn is_pod_label(name: &str, value: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_word = |word: &str| {
        let bytes = word.as_bytes();
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        bytes.len() <= LONGEST_LABEL && bytes.iter().all(is_plain) && is_end(bytes.first()) && is_end(bytes.last())
    };
    let is_name = match name.split_once('/') {
        Some((domain, word)) => is_object_name(domain) && is_word(word),
        None => is_word(name),
    };
    is_name && (value.is_empty() || is_word(value))
}

fn is_label(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.bytes().all(is_plain) && !name.starts_with('-') && !name.ends_with('-') && !name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        for name in ["a", "team-b", "0"] {
            assert!(is_agent_name(name) && is_namespace(name) && is_object_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "Bad", "a_b", "\u{e4}", "a..b", ".a"] {
            assert!(!is_agent_name(name) && !is_namespace(name) && !is_object_name(name), "{name}");
        }
        for size in ["5Gi", "0.5G", "1e10", "5E9", "5E", "+5Gi", "500m"] {
            assert!(is_quantity(size), "{size}");
        }
        for none in ["", "5gb", "Gi", "-5Gi", "0", "5 Gi", "5e", "1.2.3Gi", "NaN", "inf"] {
            assert!(!is_quantity(none), "{none}");
        }
        for (name, value) in [("app", "x"), ("app.kubernetes.io/name", "A_b.c-1"), ("a", "")] {
            assert!(is_pod_label(name, value), "{name}={value}");
        }
        for (name, value) in
            [("", "x"), ("a/b/c", "x"), ("/a", "x"), ("a", "-x"), ("a", "x y"), ("Up/a", "x"), ("a-", "x")]
        {
            assert!(!is_pod_label(name, value), "{name}={value}");
        }
        assert!(is_object_name("registry.example") && !is_namespace("registry.example"));
        assert!(is_agent_name(&"a".repeat(48)) && !is_agent_name(&"a".repeat(49)));
        assert!(is_namespace(&"a".repeat(63)) && !is_namespace(&"a".repeat(64)));
        assert!(is_object_name(&"a".repeat(253)) && !is_object_name(&"a".repeat(254)));
    }
}
