//! `${NAME}` in settings: what a variable holds, so that no secret has to stand in a file that others read.

use serde_json::Value;

/// Returns settings with every `${NAME}` in a text replaced. `$${` stands for `${`. A variable that is not set is an error.
pub(crate) fn substitute(value: &Value, look: &dyn Fn(&str) -> Option<String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(in_text(text, look)?),
        Value::Array(values) => values.iter().map(|value| substitute(value, look)).collect::<Result<_, _>>()?,
        Value::Object(entries) => {
            let entry = |(name, value): (&String, &Value)| Ok::<_, String>((name.clone(), substitute(value, look)?));
            Value::Object(entries.iter().map(entry).collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

fn in_text(text: &str, look: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut done = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        if let Some(escaped) = before.strip_suffix('$') {
            done.push_str(escaped);
            done.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        let (name, after) = rest[at + 2..].split_once('}').ok_or_else(|| format!("{text:?}: a \"${{\" has no end"))?;
        let value = look(name).ok_or_else(|| format!("the variable {name:?} of the settings is not set"))?;
        done.push_str(before);
        done.push_str(&value);
        rest = after;
    }
    Ok(done + rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look(name: &str) -> Option<String> {
        match name {
            "A" => Some("one".to_owned()),
            "TRICKY" => Some("${A} \"x\"".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_wherever_a_text_is_and_once() {
        let given = json!({ "a": ["x${A}y${A}", 1, null], "b": { "${A}": "${TRICKY}" }, "c": "$A $ $${A} }" });
        let expected = json!({ "a": ["xoneyone", 1, null], "b": { "${A}": "${A} \"x\"" }, "c": "$A $ ${A} }" });
        assert_eq!(substitute(&given, &look), Ok(expected));
    }

    #[test]
    fn what_is_not_set_is_told() {
        assert_eq!(substitute(&json!("${NO}"), &look), Err("the variable \"NO\" of the settings is not set".into()));
        assert!(substitute(&json!(["${A"]), &look).is_err());
    }
}
