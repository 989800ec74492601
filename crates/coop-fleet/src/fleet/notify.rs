//! Calls for people.

use std::time::Duration;

use bytes::Bytes;
use coop_api::{AgentId, AskId, visible_line};
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use crate::bounded;

/// How long a call may take. People are not helped by one that comes later.
const LIMIT: Duration = Duration::from_secs(20);

/// What a person is called for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Which agent.
    pub agent: AgentId,
    /// What people call it.
    pub name: String,
    /// What for.
    pub reason: String,
    /// What it asks, if that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskId>,
}

/// How people are called. Without any way they find what waits for them when they look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    webhook: Option<Webhook>,
    command: Option<String>,
    desktop: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Webhook {
    host: String,
    port: u16,
    path: String,
}

/// Why nobody could be called that way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotifyError {
    /// It is no address.
    #[error("{0:?} is no address of a webhook, such as http://127.0.0.1:8000/path")]
    NoUrl(String),
    /// coop has no TLS here.
    #[error("{0:?}: webhooks are called without TLS; for https give a command, such as `curl -d @- URL`")]
    Https(String),
}

impl Notify {
    /// Also posts each notice, as JSON.
    pub fn webhook(mut self, url: &str) -> Result<Self, NotifyError> {
        let unknown = || NotifyError::NoUrl(url.to_owned());
        let parsed: hyper::Uri = url.parse().map_err(|_| unknown())?;
        match parsed.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(NotifyError::Https(url.to_owned())),
            _ => return Err(unknown()),
        }
        let host = parsed.host().ok_or_else(unknown)?.to_owned();
        let path = parsed.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        self.webhook = Some(Webhook { host, port: parsed.port_u16().unwrap_or(80), path });
        Ok(self)
    }

    /// Also runs a command for each notice: JSON on its standard input, and `COOP_AGENT_ID` and `COOP_REASON`.
    #[must_use]
    pub fn command(mut self, command: &str) -> Self {
        self.command = Some(command.to_owned());
        self
    }

    /// Also shows each notice on the desktop, by `notify-send`.
    #[must_use]
    pub fn desktop(mut self) -> Self {
        self.desktop = true;
        self
    }

    /// Calls in every way there is. One that fails keeps no other from being tried.
    pub(super) async fn send(&self, notice: &Notice) -> Result<(), String> {
        let mut failures = Vec::new();
        // Agents choose these words.
        let notice =
            &Notice { reason: visible_line(&notice.reason), name: visible_line(&notice.name), ..notice.clone() };
        if let Some(webhook) = &self.webhook {
            failures.extend(limited("the webhook", webhook.post(notice)).await);
        }
        if let Some(command) = &self.command {
            let mut shell = bounded::command("/bin/sh");
            shell.arg("-c").arg(command).env("COOP_AGENT_ID", &notice.agent.0).env("COOP_REASON", &notice.reason);
            failures.extend(limited("the command", run(shell, json(notice).to_vec())).await);
        }
        if self.desktop {
            let mut show = bounded::command("notify-send");
            show.arg("--app-name=coop").arg("--").arg(format!("{} needs you", notice.name)).arg(markup(&notice.reason));
            failures.extend(limited("the desktop", run(show, Vec::new())).await);
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }
}

/// Returns text as it stands in the body of a desktop notification, which is markup.
fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

async fn limited(what: &str, call: impl Future<Output = Result<(), String>>) -> Option<String> {
    let done = timeout(LIMIT, call).await.unwrap_or_else(|_| Err("it took too long".to_owned()));
    done.err().map(|why| format!("nobody could be called by {what}: {why}"))
}

fn json(notice: &Notice) -> Bytes {
    // These are words and nothing else.
    serde_json::to_vec(notice).unwrap_or_default().into()
}

impl Webhook {
    async fn post(&self, notice: &Notice) -> Result<(), String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| error.to_string())?;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        let request = Request::post(&self.path)
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(json(notice)))
            .map_err(|error| error.to_string())?;
        let status = sender.send_request(request).await.map_err(|error| error.to_string())?.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered with {status}")) }
    }
}

async fn run(command: Command, input: Vec<u8>) -> Result<(), String> {
    match bounded::run(command, Some(input), LIMIT).await.map_err(|error| error.to_string())?.status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(status.to_string()),
        None => Err("it took too long".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn notice() -> Notice {
        let agent = AgentId("fixer-1".to_owned());
        Notice { agent, name: "fixer".to_owned(), reason: "it is idle".to_owned(), ask: None }
    }

    #[tokio::test]
    async fn a_command_gets_the_notice_and_its_failure_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("told");
        let script = format!("(cat; echo; echo \"$COOP_AGENT_ID: $COOP_REASON\") > {}", file.display());
        Notify::default().command(&script).send(&notice()).await.expect("called");
        let told = fs::read_to_string(file).expect("written");
        let json = r#"{"agent":"fixer-1","name":"fixer","reason":"it is idle"}"#;
        assert_eq!(told, format!("{json}\nfixer-1: it is idle\n"));
        let hidden = Notice { reason: "it asks: \u{202e}ls\u{1b}\nrm".to_owned(), ..notice() };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("told");
        let script = format!("echo \"$COOP_REASON\" > {}", file.display());
        Notify::default().command(&script).send(&hidden).await.expect("called");
        assert_eq!(fs::read_to_string(file).expect("written"), "it asks: <U+202E>ls<U+001B>␤rm\n");
        assert_eq!(markup("<a href=\"x\">&</a>"), "&lt;a href=\"x\"&gt;&amp;&lt;/a&gt;");
        let failed = Notify::default().command("exit 4").send(&notice()).await.expect_err("it fails");
        assert_eq!(failed, "nobody could be called by the command: exit status: 4");
    }

    #[tokio::test]
    async fn a_webhook_is_posted_to_and_has_to_say_yes() {
        for (answer, expected) in [("204 No Content", Ok(())), ("500 Oh", Err("it answered with 500"))] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}/hook?x=1", listener.local_addr().expect("bound"));
            let served = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.expect("a call");
                let mut heard = Vec::new();
                while !String::from_utf8_lossy(&heard).contains("it is idle") {
                    let mut piece = [0; 1024];
                    let read = stream.read(&mut piece).await.expect("read");
                    assert!(read > 0, "it says more");
                    heard.extend_from_slice(&piece[..read]);
                }
                let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.expect("answered");
                String::from_utf8(heard).expect("text")
            });
            let sent = Notify::default().webhook(&url).expect("an address").send(&notice()).await;
            assert!(served.await.expect("served").starts_with("POST /hook?x=1 HTTP/1.1\r\n"));
            match expected {
                Ok(()) => assert_eq!(sent, Ok(())),
                Err(part) => assert!(sent.as_ref().is_err_and(|why| why.contains(part)), "{sent:?}"),
            }
        }
    }

    #[test]
    fn what_an_agent_wrote_is_no_markup_on_the_desktop() {
        assert_eq!(markup("<a href='x'>a & b</a>"), "&lt;a href='x'&gt;a &amp; b&lt;/a&gt;");
    }

    #[test]
    fn an_address_that_cannot_be_called_is_refused() {
        let refused = |url: &str| Notify::default().webhook(url).expect_err("refused");
        assert_eq!(refused("https://x.org/y"), NotifyError::Https("https://x.org/y".to_owned()));
        assert_eq!(refused("x.org"), NotifyError::NoUrl("x.org".to_owned()));
    }
}
