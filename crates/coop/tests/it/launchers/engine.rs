//! An engine of containers of one process: what a fleet asks of Docker's API, on a Unix socket, with sidecars for containers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::watch;

use super::process::{self, Background};
use crate::tool::{LIMIT, pause};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The engine, which ends with all its containers when this is dropped.
pub(crate) struct FakeEngine {
    pub(crate) socket: PathBuf,
    containers: Arc<Containers>,
    _background: Background,
}

struct Containers {
    home: PathBuf,
    all: Mutex<BTreeMap<String, Container>>,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Default)]
struct Container {
    name: String,
    body: Value,
    port: u16,
    pid: Option<u32>,
    is_ready: bool,
    /// Its code and what it wrote.
    ended: Option<(i64, String)>,
}

impl FakeEngine {
    pub(crate) fn start(home: &Path) -> Self {
        let home = home.join("engine");
        fs::create_dir(&home).expect("made");
        let socket = home.join("docker.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        listener.set_nonblocking(true).expect("set");
        let containers = Arc::new(Containers { home, all: Mutex::default(), changed: watch::Sender::new(0) });
        let served = containers.clone();
        let background = Background::start(async move {
            serve(UnixListener::from_std(listener).expect("a listener"), served).await;
        });
        Self { socket, containers, _background: background }
    }

    /// Returns what the one container is made of.
    pub(crate) fn body(&self) -> Value {
        self.containers.lock().values().next().expect("one").body.clone()
    }

    /// Returns how many containers there are.
    pub(crate) fn count(&self) -> usize {
        self.containers.lock().len()
    }

    /// Has what runs in the container of an agent end in order, and waits until the engine knows.
    pub(crate) fn end(&self, agent: &str) {
        process::end(self.process(agent).expect("it runs"), Signal::TERM);
        let begin = Instant::now();
        while self.process(agent).is_some() {
            assert!(begin.elapsed() < LIMIT, "it does not end");
            pause();
        }
    }

    /// Returns the process of an agent's container that runs.
    pub(crate) fn process(&self, agent: &str) -> Option<u32> {
        let all = self.containers.lock();
        let is_its =
            |container: &&Container| container.body["Labels"]["coop.dev/agent"] == agent && container.ended.is_none();
        all.values().find(is_its).and_then(|container| container.pid)
    }

    /// Kills what runs in the container of an agent.
    pub(crate) fn kill_sidecar(&self, agent: &str) {
        process::end(self.process(agent).expect("it runs"), Signal::KILL);
    }
}

async fn serve(listener: UnixListener, containers: Arc<Containers>) {
    while let Ok((stream, _)) = listener.accept().await {
        let containers = containers.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let containers = containers.clone();
                async move { Ok::<_, Infallible>(answer(containers, request).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

impl Containers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Container>> {
        self.all.lock().expect("nobody panics")
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Container)) {
        if let Some(container) = self.lock().get_mut(id) {
            change(container);
        }
        self.changed.send_modify(|version| *version += 1);
    }

    /// Finds a container by its id or its name.
    fn find(&self, named: &str) -> Option<(String, Container)> {
        let all = self.lock();
        let found = all.iter().find(|(id, container)| *id == named || container.name == named);
        found.map(|(id, container)| (id.clone(), container.clone()))
    }

    async fn until<T>(&self, id: &str, mut is_so: impl FnMut(&Container) -> Option<T>) -> Option<T> {
        let mut changed = self.changed.subscribe();
        loop {
            match self.lock().get(id).map(&mut is_so) {
                Some(Some(found)) => return Some(found),
                Some(None) => {}
                None => return None,
            }
            changed.changed().await.expect("it is ours");
        }
    }
}

fn said(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).boxed_unsync();
    Response::builder().status(status).header("content-type", "application/json").body(body).expect("a response")
}

fn refused(status: StatusCode) -> Response<Body> {
    said(status, json!({ "message": status.to_string() }).to_string())
}

async fn answer(containers: Arc<Containers>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let method = request.method().clone();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    // The first word may be the API's version.
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    let words = &words[words.iter().position(|word| *word == "containers").expect("about containers")..];
    match (method, &words[1..]) {
        (Method::GET, ["json"]) => {
            let all = containers.lock();
            let running = all.iter().filter(|(_, container)| container.pid.is_some() && container.ended.is_none());
            let summary = |(id, container): (&String, &Container)| {
                let ports = json!([{ "PrivatePort": 9200, "PublicPort": container.port, "Type": "tcp" }]);
                json!({ "Id": id, "Names": [container.name], "Labels": container.body["Labels"], "Ports": ports })
            };
            said(StatusCode::OK, json!(running.map(summary).collect::<Vec<_>>()).to_string())
        }
        (Method::POST, ["create"]) => {
            let name = query.split('&').find_map(|pair| pair.strip_prefix("name=")).expect("a name").to_owned();
            if containers.find(&name).is_some() {
                return refused(StatusCode::CONFLICT);
            }
            let id = format!("{:064x}", *containers.changed.borrow() + 1);
            let body = serde_json::from_slice(&body).expect("JSON");
            containers.lock().insert(id.clone(), Container { name, body, ..Container::default() });
            containers.changed.send_modify(|version| *version += 1);
            said(StatusCode::CREATED, json!({ "Id": id, "Warnings": [] }).to_string())
        }
        (method, [named, rest @ ..]) => {
            let Some((id, container)) = containers.find(named) else { return refused(StatusCode::NOT_FOUND) };
            one(&containers, &id, container, &method, rest).await
        }
        (method, words) => panic!("{method} {words:?} is not known here"),
    }
}

async fn one(
    containers: &Arc<Containers>,
    id: &str,
    container: Container,
    method: &Method,
    rest: &[&str],
) -> Response<Body> {
    match (method, rest) {
        (&Method::GET, ["json"]) => {
            let is_running = container.pid.is_some() && container.ended.is_none();
            let code = container.ended.map_or(0, |(code, _)| code);
            let ports = json!({ "9200/tcp": [{ "HostIp": "127.0.0.1", "HostPort": container.port.to_string() }] });
            let body = json!({
                "Id": id, "Name": container.name, "State": { "Running": is_running, "ExitCode": code },
                "Config": { "Env": container.body["Env"], "Cmd": container.body["Cmd"],
                    "WorkingDir": container.body["WorkingDir"] },
                "NetworkSettings": { "Ports": ports },
            });
            said(StatusCode::OK, body.to_string())
        }
        (&Method::POST, ["start"]) => {
            tokio::spawn(run(containers.clone(), id.to_owned(), container.body));
            said(StatusCode::NO_CONTENT, "")
        }
        (&Method::GET, ["logs"]) => {
            let is_told = |container: &Container| match &container.ended {
                Some((_, words)) => Some((2_u8, words.clone())),
                None => container.is_ready.then(|| (1, "ready\n".to_owned())),
            };
            let (stream, text) = containers.until(id, is_told).await.unwrap_or((2, String::new()));
            let length = u32::try_from(text.len()).expect("it is short").to_be_bytes();
            said(StatusCode::OK, [&[stream, 0, 0, 0], length.as_slice(), text.as_bytes()].concat())
        }
        (&Method::POST, ["wait"]) => {
            let code = containers.until(id, |container| container.ended.as_ref().map(|(code, _)| *code)).await;
            said(StatusCode::OK, json!({ "StatusCode": code.unwrap_or(0) }).to_string())
        }
        (&Method::POST, ["kill"]) => {
            if let Some(pid) = container.pid {
                process::end(pid, Signal::KILL);
            }
            said(StatusCode::NO_CONTENT, "")
        }
        (&Method::DELETE, []) => {
            if let Some(pid) = container.pid.filter(|_| container.ended.is_none()) {
                process::end(pid, Signal::KILL);
            }
            containers.lock().remove(id);
            containers.changed.send_modify(|version| *version += 1);
            said(StatusCode::NO_CONTENT, "")
        }
        (method, rest) => panic!("{method} {rest:?} is not known here"),
    }
}

/// Runs what is in a container to its end. Its paths are the machine's, so they are what they are.
async fn run(containers: Arc<Containers>, id: String, body: Value) {
    let words = |name: &str| {
        let words = body[name].as_array().cloned().unwrap_or_default();
        words.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    // Where it listens in its container is not where it can listen here.
    let command = words("Cmd");
    assert_eq!(command[..4], ["--host", "0.0.0.0", "--port", "9200"].map(str::to_owned));
    let folder = body["WorkingDir"].as_str().expect("a folder").to_owned();
    let env: BTreeMap<String, String> = words("Env")
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut process = match process::start(&containers.home, Path::new(&folder), &command[4..], &env).await {
        Ok(process) => process,
        Err((code, words)) => {
            let ended = Some((code.map_or(137, i64::from), words));
            return containers.change(&id, |container| container.ended = ended);
        }
    };
    containers.change(&id, |container| {
        container.port = process.port;
        container.pid = process.child.id();
        container.is_ready = true;
    });
    let status = process.child.wait().await.expect("it ends");
    let ended = Some((status.code().map_or(137, i64::from), String::new()));
    containers.change(&id, |container| container.ended = ended);
}
