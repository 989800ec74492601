//! What the options about where agents run take. What is wrong is told before anything is begun.

use std::path::PathBuf;

/// An amount of memory, as it was written and in bytes.
#[derive(Clone, Debug)]
pub(super) struct Size {
    pub(super) text: String,
    pub(super) bytes: u64,
}

pub(super) fn parse_size(text: &str) -> Result<Size, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let power = match unit {
        "" => 0,
        "Ki" => 1,
        "Mi" => 2,
        "Gi" => 3,
        _ => return Err("not a size; use one such as 512Mi or 2Gi".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1024_u64.pow(power)));
    let bytes = bytes.filter(|bytes| *bytes > 0).ok_or("not a size; use one such as 512Mi or 2Gi")?;
    Ok(Size { text: text.to_owned(), bytes })
}

pub(super) fn parse_cpus(text: &str) -> Result<f64, String> {
    let cpus = text.parse::<f64>().ok().filter(|cpus| (0.001..=1024.0).contains(cpus));
    cpus.ok_or_else(|| "not a number of processors; use one such as 1.5".to_owned())
}

pub(crate) fn parse_image(text: &str) -> Result<String, String> {
    match text.is_empty() || text.contains(char::is_whitespace) {
        true => Err("not an image; use one such as registry.example/agent:1".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// What an engine takes beside folders of this machine are volumes of its own, which have a name.
pub(super) fn parse_mount(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_mount = match parts.as_slice() {
        [here, there] | [here, there, _] => {
            let is_here = here.starts_with('/') || (!here.is_empty() && !here.contains('/'));
            is_here && there.starts_with('/') && parts.iter().all(|part| !part.is_empty())
        }
        _ => false,
    };
    match is_mount {
        true => Ok(text.to_owned()),
        false => Err("not HERE:THERE or HERE:THERE:ro with whole paths; use one such as /srv/keys:/keys:ro".to_owned()),
    }
}

pub(super) fn parse_engine(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix://").unwrap_or(text);
    match path.contains("://") || path.is_empty() {
        true => Err(
            "not an engine of this machine, whose folders containers see: give the path of its Unix socket, such as \
                     /var/run/docker.sock"
                .to_owned(),
        ),
        false => Ok(PathBuf::from(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_processors_are_what_they_say() {
        let bytes = |text| parse_size(text).map(|size| size.bytes).ok();
        assert_eq!(bytes("2Gi"), Some(2 << 30));
        assert_eq!(bytes("512Mi"), Some(512 << 20));
        for wrong in ["", "Gi", "2G", "0Mi", "99999999999999999999", "99999999999Gi"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        assert_eq!(parse_cpus("1.5"), Ok(1.5));
        assert!(parse_cpus("0").is_err() && parse_cpus("NaN").is_err() && parse_cpus("-1").is_err());
    }

    #[test]
    fn what_no_engine_would_take_is_refused() {
        for mount in ["/srv/keys:/keys", "/srv/keys:/keys:ro", "cache:/cache"] {
            assert_eq!(parse_mount(mount).as_deref(), Ok(mount));
        }
        for mount in ["foo", "", ":/x", "/x:", "/x:y", "./x:/x", "a/b:/x", "/a:/b:", "/a:/b:ro:z"] {
            assert!(parse_mount(mount).is_err(), "{mount}");
        }
        assert!(parse_image("").is_err() && parse_image("a b").is_err() && parse_image("agent@sha256:1").is_ok());
        assert_eq!(parse_engine("unix:///run/x.sock"), Ok("/run/x.sock".into()));
        assert_eq!(parse_engine("x.sock"), Ok("x.sock".into()));
        assert!(parse_engine("tcp://build:2375").is_err() && parse_engine("").is_err());
    }
}
