//! What the options about a cluster take.

use coop_kube::{SecretVariable, is_namespace, is_object_name, is_quantity};

pub(super) fn parse_secret(text: &str) -> Result<SecretVariable, String> {
    let parts = text.split_once('=').and_then(|(env, place)| Some((env, place.split_once('/')?)));
    let Some((env, (secret, key))) =
        parts.filter(|(env, (secret, key))| ![env, secret, key].iter().any(|part| part.is_empty()))
    else {
        return Err("not NAME=SECRET/KEY".to_owned());
    };
    let is_name = |env: &str| env.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if !is_name(env) || env.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!("{env:?} cannot be the name of a variable: letters, digits, _, - and ."));
    }
    parse_object_name(secret)?;
    Ok(SecretVariable { env: env.to_owned(), secret: secret.to_owned(), key: key.to_owned() })
}

pub(crate) fn parse_namespace(text: &str) -> Result<String, String> {
    match is_namespace(text) {
        true => Ok(text.to_owned()),
        false => Err("not a namespace: lower-case letters, digits and -, 63 at most".to_owned()),
    }
}

pub(crate) fn parse_object_name(text: &str) -> Result<String, String> {
    match is_object_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} cannot be a name in a cluster: lower-case letters, digits, - and .")),
    }
}

/// A size as Kubernetes takes it for a volume.
pub(super) fn parse_claim(text: &str) -> Result<String, String> {
    match is_quantity(text) {
        true => Ok(text.to_owned()),
        false => Err("not the size of a volume; use one such as 5Gi".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_no_cluster_would_take_are_refused() {
        let secret = parse_secret("KEY=models/claude").expect("one");
        assert_eq!((secret.env.as_str(), secret.secret.as_str(), secret.key.as_str()), ("KEY", "models", "claude"));
        assert!(parse_secret("KEY=models").is_err() && parse_secret("=a/b").is_err());
        for claim in ["5Gi", "1.5Ti", "1000", "20G"] {
            assert_eq!(parse_claim(claim).as_deref(), Ok(claim));
        }
        for claim in ["big", "", "Gi", "0Gi", "5GB", "-1Gi", "1.2.3Gi", "5 Gi"] {
            assert!(parse_claim(claim).is_err(), "{claim}");
        }
        assert!(
            parse_namespace("Bad_NS").is_err() && parse_namespace("a.b").is_err() && parse_namespace("team").is_ok()
        );
        assert!(parse_object_name("Fast").is_err() && parse_object_name("fast.example").is_ok());
        assert!(parse_secret("KEY=Models/claude").is_err());
    }
}
