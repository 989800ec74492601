//! What command lines say, and settings made of several.

use serde_json::Value;

/// Returns the value of an option.
pub(crate) fn value_of(command: &[String], names: &[&str]) -> Option<String> {
    command.iter().enumerate().find_map(|(at, arg)| match arg.split_once('=') {
        Some((name, value)) if names.contains(&name) => Some(value.to_owned()),
        _ if names.contains(&arg.as_str()) => command.get(at + 1).filter(|next| !next.starts_with('-')).cloned(),
        _ => None,
    })
}

/// Tells whether arguments hold a word that is no option and no option's value.
pub(crate) fn has_word(args: &[String], with_value: &[&str]) -> bool {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--" => return rest.next().is_some(),
            _ if with_value.contains(&arg.as_str()) => drop(rest.next()),
            _ if arg.starts_with('-') => {}
            _ => return true,
        }
    }
    false
}

/// Merges objects key by key and joins lists, without what is there already; anything else is replaced.
pub fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => {
            let new: Vec<_> = from.iter().filter(|value| !into.contains(value)).cloned().collect();
            into.extend(new);
        }
        (into, from) => *into = from.clone(),
    }
}
