//! A cluster of one process: an API server for what a fleet asks of one, and an operator and a kubelet whose pods are
//! sidecars on this machine.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::process::{self, Background};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The cluster, which ends with all its pods when this is dropped.
pub(crate) struct FakeCluster {
    pub(crate) kubeconfig: PathBuf,
    cluster: Arc<Cluster>,
    _background: Background,
}

struct Cluster {
    home: PathBuf,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<(String, String), Value>,
    events: Vec<(u64, String, Value)>,
    /// Process and port of pods, by name.
    pods: HashMap<String, (u32, u16)>,
}

impl FakeCluster {
    /// Starts one that keeps its files here.
    pub(crate) fn start(home: &Path) -> Self {
        let home = home.join("cluster");
        fs::create_dir(&home).expect("made");
        let kubeconfig = home.join("kubeconfig");
        let cluster = Arc::new(Cluster { home, state: Mutex::default(), changed: watch::Sender::new(0) });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.set_nonblocking(true).expect("set");
        let port = listener.local_addr().expect("an address").port();
        let served = cluster.clone();
        let background = Background::start(async move {
            serve(TcpListener::from_std(listener).expect("a listener"), served).await;
        });
        let named = |name: &str, what: Value| json!([{ "name": "fake", name: what }]);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": named("cluster", json!({ "server": format!("http://127.0.0.1:{port}") })),
            "users": named("user", json!({})),
            "contexts": named("context", json!({ "cluster": "fake", "user": "fake", "namespace": "team" })),
        });
        fs::write(&kubeconfig, config.to_string()).expect("written");
        Self { kubeconfig, cluster, _background: background }
    }

    /// Returns an object as it is now.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.cluster.lock().objects.get(&(kind.to_owned(), name.to_owned())).cloned()
    }

    /// Tells whether there is no object of a kind.
    pub(crate) fn is_empty(&self, kind: &str) -> bool {
        !self.cluster.lock().objects.keys().any(|(of, _)| of == kind)
    }

    /// Returns where an agent works in its pods.
    pub(crate) fn workspace(&self, agent: &str) -> PathBuf {
        self.cluster.volume(agent).join("workspace")
    }

    /// Returns the process of an agent's pod that runs.
    pub(crate) fn process(&self, agent: &str) -> Option<u32> {
        self.cluster.lock().pods.get(&format!("agent-{agent}")).map(|(pid, _)| *pid)
    }

    /// Kills the sidecar of an agent.
    pub(crate) fn kill_sidecar(&self, agent: &str) {
        process::end(self.process(agent).expect("it runs"), Signal::KILL);
    }

    /// Returns where its API server listens.
    pub(crate) fn address(&self) -> String {
        let config: Value = serde_json::from_str(&fs::read_to_string(&self.kubeconfig).expect("read")).expect("JSON");
        config["clusters"][0]["cluster"]["server"]
            .as_str()
            .expect("an address")
            .trim_start_matches("http://")
            .to_owned()
    }
}

impl Cluster {
    /// Returns the folder that all pods of an agent see, as its claim has it.
    fn volume(&self, agent: &str) -> PathBuf {
        self.home.join(agent)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics")
    }

    /// Writes an object, and tells all who watch.
    fn put(&self, kind: &str, mut object: Value) -> Value {
        let mut state = self.lock();
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let key = (kind.to_owned(), name);
        let how = if state.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        state.objects.insert(key, object.clone());
        state.events.push((version, kind.to_owned(), json!({ "type": how, "object": object })));
        drop(state);
        self.changed.send_replace(version);
        object
    }

    fn remove(&self, kind: &str, name: &str) {
        let mut state = self.lock();
        state.version += 1;
        let version = state.version;
        if let Some(mut object) = state.objects.remove(&(kind.to_owned(), name.to_owned())) {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            state.events.push((version, kind.to_owned(), json!({ "type": "DELETED", "object": object })));
        }
        drop(state);
        self.changed.send_replace(version);
    }

    fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.lock().objects.get(&(kind.to_owned(), name.to_owned())).cloned()
    }

    async fn until<T>(&self, mut is_so: impl FnMut(&State) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(found) = is_so(&self.lock()) {
                return found;
            }
            changed.changed().await.expect("it is ours");
        }
    }
}

async fn serve(listener: TcpListener, cluster: Arc<Cluster>) {
    while let Ok((stream, _)) = listener.accept().await {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let cluster = cluster.clone();
                async move { Ok::<_, Infallible>(answer(cluster, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            let _ = connection.with_upgrades().await;
        });
    }
}

fn whole(status: StatusCode, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(status).header("content-type", "application/json").body(body).expect("a response")
}

fn refused(status: StatusCode, reason: &str) -> Response<Body> {
    let code = status.as_u16();
    let body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": reason,
        "reason": reason, "code": code });
    whole(status, &body)
}

async fn answer(cluster: Arc<Cluster>, mut request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    let Some(at) = words.iter().position(|word| *word == "namespaces") else {
        return refused(StatusCode::NOT_FOUND, "NotFound");
    };
    let (kind, name, part) = (words[at + 2], words.get(at + 3).copied(), words.get(at + 4).copied());
    let query = request.uri().query().unwrap_or_default().to_owned();
    if part == Some("portforward") {
        return forward(&cluster, name.expect("a pod"), &mut request);
    }
    let method = request.method().clone();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match (method, name) {
        (Method::GET, None) if query.contains("watch=true") => watched(cluster, kind.to_owned(), &query),
        (Method::GET, None) => {
            let state = cluster.lock();
            let items: Vec<&Value> =
                state.objects.iter().filter(|((of, _), _)| of == kind).map(|(_, object)| object).collect();
            let metadata = json!({ "resourceVersion": state.version.to_string() });
            whole(StatusCode::OK, &json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items }))
        }
        (Method::GET, Some(name)) => match cluster.get(kind, name) {
            Some(object) => whole(StatusCode::OK, &object),
            None => refused(StatusCode::NOT_FOUND, "NotFound"),
        },
        (Method::POST, None) => create(&cluster, kind, body),
        (Method::PATCH, Some(name)) => {
            let Some(mut object) = cluster.get(kind, name) else { return refused(StatusCode::NOT_FOUND, "NotFound") };
            // All that is patched here is one flag.
            object["spec"]["suspend"] = body["spec"]["suspend"].clone();
            whole(StatusCode::OK, &cluster.put(kind, object))
        }
        (Method::DELETE, Some(name)) => {
            let Some(mut object) = cluster.get(kind, name) else { return refused(StatusCode::NOT_FOUND, "NotFound") };
            let wanted = &body["preconditions"]["uid"];
            if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
                return refused(StatusCode::CONFLICT, "Conflict");
            }
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            whole(StatusCode::OK, &cluster.put(kind, object))
        }
        (method, _) => panic!("{method} {path} is not known here"),
    }
}

fn create(cluster: &Arc<Cluster>, kind: &str, mut object: Value) -> Response<Body> {
    let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
    if cluster.get(kind, &name).is_some() {
        return refused(StatusCode::CONFLICT, "AlreadyExists");
    }
    object["metadata"]["uid"] = json!(format!("uid-{}", cluster.lock().version));
    object["metadata"]["namespace"] = json!("team");
    let object = cluster.put(kind, object);
    if kind == "agents" {
        tokio::spawn(operate(cluster.clone(), object.clone()));
    }
    whole(StatusCode::CREATED, &object)
}

fn watched(cluster: Arc<Cluster>, kind: String, query: &str) -> Response<Body> {
    let after = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
    let after: u64 = after.and_then(|version| version.parse().ok()).unwrap_or(0);
    let stream = futures_util::stream::unfold(after, move |after| {
        let (cluster, kind) = (cluster.clone(), kind.clone());
        async move {
            let is_next = |state: &State| {
                let next = state.events.iter().find(|(version, of, _)| *version > after && *of == kind)?;
                Some((next.0, next.2.clone()))
            };
            let (version, event) = cluster.until(is_next).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(format!("{event}\n")))), version))
        }
    });
    let body = StreamBody::new(stream).boxed_unsync();
    Response::builder().header("content-type", "application/json").body(body).expect("a response")
}

/// One connection to a pod's port, as the protocol `v4.channel.k8s.io` has it: two channels, each of which begins with the
/// port's number.
fn forward(cluster: &Arc<Cluster>, pod: &str, request: &mut Request<Incoming>) -> Response<Body> {
    let Some((_, port)) = cluster.lock().pods.get(pod).copied() else {
        return refused(StatusCode::NOT_FOUND, "NotFound");
    };
    let key = request.headers().get(SEC_WEBSOCKET_KEY).expect("an upgrade").as_bytes().to_vec();
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        for channel in [0_u8, 1] {
            let [low, high] = 8080_u16.to_le_bytes();
            if socket.send(Message::Binary(vec![channel, low, high].into())).await.is_err() {
                return;
            }
        }
        let Ok(mut pod) = TcpStream::connect(("127.0.0.1", port)).await else { return };
        let mut bytes = vec![0; 16 * 1024];
        loop {
            tokio::select! {
                read = pod.read(&mut bytes) => match read {
                    Ok(length) if length > 0 => {
                        let data = [&[0_u8], &bytes[..length]].concat();
                        if socket.send(Message::Binary(data.into())).await.is_err() {
                            return;
                        }
                    }
                    // What was sent before has to arrive.
                    _ => {
                        let _ = socket.close(None).await;
                        while let Some(Ok(_)) = socket.next().await {}
                        return;
                    }
                },
                message = socket.next() => match message {
                    Some(Ok(Message::Binary(data))) if data.first() == Some(&0) => {
                        if pod.write_all(&data[1..]).await.is_err() {
                            return;
                        }
                    }
                    Some(Ok(_)) => {}
                    _ => return,
                },
            }
        }
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let response = response.header(CONNECTION, "Upgrade").header(UPGRADE, "websocket");
    let response = response.header(SEC_WEBSOCKET_ACCEPT, derive_accept_key(&key));
    let response = response.header(SEC_WEBSOCKET_PROTOCOL, "v4.channel.k8s.io");
    response.body(Full::new(Bytes::new()).boxed_unsync()).expect("a response")
}

/// Sees to one Agent until it is deleted: one pod for a fleet's, one after another for others.
async fn operate(cluster: Arc<Cluster>, agent: Value) {
    let name = agent["metadata"]["name"].as_str().expect("a name").to_owned();
    let token = format!("token-of-{name}");
    if cluster.get("secrets", &format!("agent-{name}")).is_none() {
        let data = json!({ "token": STANDARD.encode(&token) });
        let metadata = json!({ "name": format!("agent-{name}"), "uid": format!("secret-{name}") });
        cluster.put("secrets", json!({ "metadata": metadata, "data": data }));
    }
    let is_fleets = agent["spec"]["managedBy"] == "Fleet";
    let key = ("agents".to_owned(), name.clone());
    loop {
        run_pod(&cluster, &agent, &name, &token).await;
        let pod = format!("agent-{name}");
        let goes_on = cluster.until(|state| {
            let agent = state.objects.get(&key).expect("only we remove it");
            let is_deleted = !agent["metadata"]["deletionTimestamp"].is_null();
            let may_follow = !is_fleets && agent["spec"]["suspend"] != true;
            (is_deleted || may_follow).then_some(!is_deleted)
        });
        let goes_on = goes_on.await;
        cluster.remove("pods", &pod);
        if !goes_on {
            return cluster.remove("agents", &name);
        }
    }
}

/// Runs a pod to its end, or ends it in order when its agent is deleted or suspended.
async fn run_pod(cluster: &Arc<Cluster>, agent: &Value, name: &str, token: &str) {
    let spec = &agent["spec"];
    let pod_name = format!("agent-{name}");
    let uid = format!("pod-{}", cluster.lock().version);
    let metadata = json!({
        "name": pod_name, "uid": uid, "labels": { "app.kubernetes.io/managed-by": "coop", "coop.dev/agent": name },
        "ownerReferences": [{ "apiVersion": "coop.dev/v1alpha1", "kind": "Agent", "name": name,
            "uid": agent["metadata"]["uid"] }],
    });
    let pod = |status: Value| json!({ "metadata": metadata, "status": status });
    cluster.put("pods", pod(json!({ "phase": "Pending" })));
    let text = |name: &str| spec[name].as_str().map(str::to_owned);
    let driver = text("driver").expect("one");
    let mut args: Vec<String> = ["--agent", &driver, "--linger", "forever"].map(str::to_owned).to_vec();
    if !["acp", "api", "unknown"].contains(&driver.as_str()) {
        args.push("--isolate".to_owned());
    }
    if let Some(secret) = text("configSecret") {
        let key = ("secrets".to_owned(), secret);
        let settings = cluster.until(|state| Some(state.objects.get(&key)?["stringData"]["agent-config.json"].clone()));
        let path = cluster.home.join(format!("{uid}.json"));
        fs::write(&path, settings.await.as_str().expect("settings")).expect("written");
        args.extend(["--agent-config".to_owned(), path.to_str().expect("UTF-8").to_owned()]);
    }
    if let Some(conversation) = text("resume") {
        args.extend(["--resume".to_owned(), conversation]);
    }
    if let Some(runtime) = text("runtime") {
        args.extend(["--runtime".to_owned(), runtime]);
    }
    args.push("--".to_owned());
    args.extend(spec["command"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    let mut env: BTreeMap<String, String> = serde_json::from_value(spec["env"].clone()).unwrap_or_default();
    env.insert("COOP_AUTH_TOKEN".to_owned(), token.to_owned());
    let volume = cluster.volume(name);
    let (home, workspace) = (volume.join("home"), volume.join("workspace"));
    for folder in [&home, &workspace] {
        fs::create_dir_all(folder).expect("made");
    }
    env.insert("HOME".to_owned(), home.to_str().expect("UTF-8").to_owned());
    let ended = |code: Option<i32>, message: &str| {
        let terminated = json!({ "exitCode": code.unwrap_or(137), "message": message });
        let containers = json!([{ "name": "agent", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": terminated } }]);
        pod(json!({ "phase": if code == Some(0) { "Succeeded" } else { "Failed" }, "containerStatuses": containers }))
    };
    let mut process = match process::start(&home, &workspace, &args, &env).await {
        Ok(process) => process,
        Err((code, words)) => return drop(cluster.put("pods", ended(code, &words))),
    };
    let pid = process.child.id().expect("it runs");
    cluster.lock().pods.insert(pod_name.clone(), (pid, process.port));
    let ready = json!([{ "type": "Ready", "status": "True" }]);
    cluster.put("pods", pod(json!({ "phase": "Running", "podIP": "127.0.0.1", "conditions": ready })));
    let key = ("agents".to_owned(), name.to_owned());
    let is_to_end = cluster.until(|state| {
        let agent = state.objects.get(&key)?;
        (!agent["metadata"]["deletionTimestamp"].is_null() || agent["spec"]["suspend"] == true).then_some(())
    });
    let status = tokio::select! {
        status = process.child.wait() => status,
        () = is_to_end => {
            process::end(pid, Signal::TERM);
            process.child.wait().await
        }
    };
    cluster.lock().pods.remove(&pod_name);
    cluster.put("pods", ended(status.ok().and_then(|status| status.code()), ""));
}
