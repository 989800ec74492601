//! What serde says of a value that cannot be read, and of keys that nobody reads, in words for people.

use serde_json::Value;

/// As much of a text as is shown of it.
const SHOWN: usize = 40;
/// So many letters may be wrong in a key that is still taken for a misspelt one.
const SLIPS: usize = 2;

/// Returns what a value must be, and what it is instead.
pub(super) fn must_be(said: &str, found: &Value) -> String {
    match expected(said) {
        Some(expected) => format!("must be {expected}, not {}", shown(found)),
        None => format!("cannot be {} here", shown(found)),
    }
}

/// Translates what serde expected. Its words are those of its types, which nobody sees who writes JSON.
fn expected(said: &str) -> Option<String> {
    if said.ends_with("untagged enum Predicate") {
        return Some("a rule, with field, op and value or with type and rules".to_owned());
    }
    let (_, expected) = said.split_once(", expected ")?;
    let from = |least: u8, most: u64| format!("a whole number from {least} to {most}");
    let words = match expected {
        "a string" | "string" | "string or map" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "f64" => "a number".to_owned(),
        "u32" => from(0, u32::MAX.into()),
        "u64" => from(0, u64::MAX),
        "a nonzero u32" => from(1, u32::MAX.into()),
        "a nonzero u64" => from(1, u64::MAX),
        _ if expected.starts_with("struct ") || expected.contains("tagged enum ") => "an object".to_owned(),
        // The words of an enum: `a`, `a` or `b`, one of `a`, `b`, `c`.
        _ if expected.contains('`') => expected.replace('`', ""),
        _ => return None,
    };
    Some(words)
}

fn shown(found: &Value) -> String {
    match found {
        Value::Null | Value::Bool(_) | Value::Number(_) => found.to_string(),
        Value::String(text) if text.chars().count() > SHOWN => {
            format!("the text {:?}…", text.chars().take(SHOWN).collect::<String>())
        }
        Value::String(text) => format!("the text {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Returns the place of something that was written and that nobody reads, and what is wrong with it. What was read has all the
/// keys that are known, since it is written with all of them.
pub(super) fn unread(written: &Value, read: &Value) -> Option<(Vec<Value>, String)> {
    let below = |key: Value, (mut at, why): (Vec<Value>, String)| {
        at.insert(0, key);
        (at, why)
    };
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => written.iter().find_map(|(key, value)| match read.get(key) {
            Some(read) => unread(value, read).map(|found| below(key.as_str().into(), found)),
            None => {
                let hint = match like(key, read.keys()) {
                    Some(known) => format!("did you mean {known}?"),
                    None => "leave it out".to_owned(),
                };
                Some((vec![key.as_str().into()], format!("coop knows no such key here; {hint}")))
            }
        }),
        (Value::Array(written), Value::Array(read)) => {
            let both = written.iter().zip(read).enumerate();
            both.filter_map(|(at, (written, read))| unread(written, read).map(|found| below(at.into(), found))).next()
        }
        // Serde takes a list for an object, by the order of its keys.
        (Value::Array(_), Value::Object(_)) => Some((Vec::new(), "must be an object, not a list".to_owned())),
        _ => None,
    }
}

/// Returns the key that another one looks like: the same in another spelling, or with a slip.
pub(super) fn like<'a>(key: &str, keys: impl IntoIterator<Item = &'a String>) -> Option<&'a String> {
    let letters =
        |key: &str| -> String { key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect() };
    let wanted = letters(key);
    let near = keys.into_iter().map(|known| (strsim::levenshtein(&wanted, &letters(known)), known));
    // Short keys are all alike.
    let near = near.filter(|(slips, _)| *slips <= SLIPS.min(wanted.chars().count() / 3));
    near.min_by_key(|(slips, _)| *slips).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_known_again() {
        let keys = ["allowedTools", "constraints", "role"].map(str::to_owned);
        for (key, meant) in [
            ("allowed_tools", Some("allowedTools")),
            ("alowedTool", Some("allowedTools")),
            ("Constraint", Some("constraints")),
            ("rule", Some("role")),
            ("x", None),
            ("handle", None),
        ] {
            assert_eq!(like(key, &keys).map(String::as_str), meant, "{key}");
        }
    }
}
