//! What the options about a cluster take.

use coop_kube::{Destination, SecretVariable, check_destination, is_namespace, is_object_name, is_quantity};

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

/// `10.1.0.0/16`, `10.1.0.0/16:443`, `fd12::/16:443`, `models` or `models:8080`: only a block of addresses has a slash, and its
/// port comes after that.
pub(super) fn parse_destination(text: &str) -> Result<Destination, String> {
    let prefix = text.find('/').unwrap_or(0);
    let (to, ports) = match text[prefix..].split_once(':') {
        Some((rest, port)) => {
            let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
            (&text[..prefix + rest.len()], vec![port])
        }
        None => (text, Vec::new()),
    };
    let destination = match to.contains('/') {
        true => Destination { cidr: Some(to.to_owned()), ports, ..Destination::default() },
        false => Destination { namespace: Some(to.to_owned()), ports, ..Destination::default() },
    };
    check_destination(&destination).map(|()| destination)
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
    fn a_destination_is_a_block_or_a_namespace_with_or_without_a_port() {
        let parsed = |text: &str| {
            let to = parse_destination(text).expect("a destination");
            (to.cidr.or(to.namespace).expect("one of them"), to.ports)
        };
        assert_eq!(parsed("10.1.0.0/16"), ("10.1.0.0/16".to_owned(), vec![]));
        assert_eq!(parsed("10.1.0.0/16:443"), ("10.1.0.0/16".to_owned(), vec![443]));
        assert_eq!(parsed("fd12::/16:443"), ("fd12::/16".to_owned(), vec![443]));
        assert_eq!(parsed("models"), ("models".to_owned(), vec![]));
        assert_eq!(parsed("models:8080"), ("models".to_owned(), vec![8080]));
        for wrong in
            ["", "10.1.2.3", "Models", "models:", "models:70000", "10.0.0.0/8:x", "169.254.169.254/32", "fd12::1"]
        {
            assert!(parse_destination(wrong).is_err(), "{wrong}");
        }
    }

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
