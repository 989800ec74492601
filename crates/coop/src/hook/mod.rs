//! `coop hook`: what an agent's hooks run. It passes what the hook was told to the sidecar and prints what comes back.
//!
//! Whatever goes wrong, it says nothing and succeeds: without its sidecar the agent goes on as if there were no hook.

mod cut;

use std::env;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use self::cut::Cut;
use crate::fleet::Pass;

/// What a sidecar that is alive answers within.
const REPORT_LIMIT: Duration = Duration::from_secs(5);
/// What is passed on as it is. A tool's output may be longer than the sidecar takes, and is then cut.
const WHOLE: usize = 16 * 1024 * 1024;
/// The hook that is never cut: whoever allows something must see all of it.
const NEVER_CUT: &str = "PermissionRequest";
/// The name of the variable with the hooks' token.
pub(crate) const TOKEN: &str = "COOP_HOOK_TOKEN";

/// Passes on what a hook is told. An answer that somebody has to think about is waited for.
pub(crate) fn run(event: &str, hold: bool, guest: Option<&Path>) {
    if let Ok(answer) = report(event, hold, guest)
        && answer != b"{}"
    {
        let _ = io::stdout().write_all(&answer);
    }
}

fn report(event: &str, hold: bool, guest: Option<&Path>) -> io::Result<Vec<u8>> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let (socket, token) = match guest {
        Some(file) => {
            let pass = Pass::read(file)?;
            (pass.socket, pass.token)
        }
        None => {
            let socket = env::var_os("COOP_SOCKET").ok_or_else(none)?;
            (socket.into(), env::var(TOKEN).map_err(|_| none())?)
        }
    };
    let payload = payload(event, io::stdin().lock())?;
    let mut stream = UnixStream::connect(socket)?;
    stream.set_write_timeout(Some(REPORT_LIMIT))?;
    if !hold {
        stream.set_read_timeout(Some(REPORT_LIMIT))?;
    }
    let head = format!(
        "POST /api/v1/hooks/{event} HTTP/1.1\r\nhost: localhost\r\nx-coop-hook-token: {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        payload.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&payload)?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    body(&response).map(<[u8]>::to_vec).ok_or_else(none)
}

/// Reads what the hook was told, all of it: the agent may wait until we have.
fn payload(event: &str, mut input: impl Read) -> io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    input.by_ref().take(WHOLE as u64 + 1).read_to_end(&mut payload)?;
    if payload.len() <= WHOLE {
        return Ok(payload);
    }
    if event == NEVER_CUT {
        io::copy(&mut input, &mut io::sink())?;
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut cut = Cut::default();
    cut.feed(&payload);
    payload.resize(64 * 1024, 0);
    loop {
        match input.read(&mut payload)? {
            0 => return Ok(cut.into_bytes()),
            read => cut.feed(&payload[..read]),
        }
    }
}

/// Returns the body of a response that says yes. The sidecar sends small answers whole, with their length.
fn body(response: &[u8]) -> Option<&[u8]> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n")?;
    let is_ok = response.starts_with(b"HTTP/1.1 200");
    let head = std::str::from_utf8(&response[..end]).ok()?;
    let told = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    response[end + 4..].get(..told).filter(|_| is_ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_yes_is_printed() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), Some(&b"{}"[..]));
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"), None);
        assert_eq!(body(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}"), None);
        assert_eq!(body(b""), None);
    }
}
