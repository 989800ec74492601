//! The cluster that `tools/k8s/cluster.sh` has started this in, with the operator as `deploy/kubernetes` has it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ROOT;

/// What kubectl says of an API server that has too much to do, or is not there for a moment.
const AWAY: [&str; 6] =
    ["connection refused", "handshake timeout", "etcdserver", "unexpected EOF", "i/o timeout", "was refused"];

/// A pod with its containers is there in seconds; ten at once on a slow machine take longer.
pub(super) const LIMIT: Duration = Duration::from_secs(180);
pub(super) const NAMESPACE: &str = "coop";

/// Returns the same as `kubectl` takes it.
pub(super) fn limit() -> String {
    format!("--timeout={}s", LIMIT.as_secs())
}

pub(super) struct Lab {
    script: PathBuf,
    root: PathBuf,
    kubectl: PathBuf,
}

impl Lab {
    /// Returns the cluster, with what agents need in it, if there is one.
    pub(super) fn new() -> Option<Self> {
        let script = std::env::var_os("COOP_K8S")?.into();
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).unwrap_or_else(|| panic!("{name} is set"));
        let lab = Self { script, root: set("COOP_K8S_ROOT"), kubectl: set("COOP_K8S_KUBECTL") };
        lab.kubectl(&["apply", "-k", &format!("{ROOT}/deploy/kubernetes")]);
        // Right after it was applied it may have no conditions at all, and then kubectl does not wait.
        let established = ["wait", "--for=condition=Established", "crd/agents.coop.dev", &limit()];
        lab.until_so("Agents are known", || lab.try_kubectl(&established).0 == 0);
        lab.kubectl(&["rollout", "status", "-n", NAMESPACE, "deployment/coop-operator", &limit()]);
        Some(lab)
    }

    pub(super) fn cluster(&self, words: &[&str]) {
        let (code, out, err) = run(Command::new(&self.script).args(words));
        assert_eq!(code, 0, "{words:?}: {out}{err}");
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(words);
        command
    }

    /// Runs kubectl, also if the API server has too much to do for it at first.
    pub(super) fn kubectl(&self, words: &[&str]) -> String {
        let end = Instant::now() + LIMIT;
        let mut was_away = false;
        loop {
            let (code, out, err) = self.try_kubectl(words);
            // What was done and not answered need not be done again.
            if code == 0 || was_away && err.contains("AlreadyExists") {
                return out;
            }
            was_away = AWAY.iter().any(|sign| err.contains(sign));
            assert!(was_away && Instant::now() < end, "kubectl {words:?}: {code} {out}{err}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub(super) fn try_kubectl(&self, words: &[&str]) -> (i32, String, String) {
        run(&mut self.command(words))
    }

    pub(super) fn json(&self, words: &[&str]) -> Value {
        let all: Vec<&str> = words.iter().copied().chain(["-n", NAMESPACE, "-o", "json"]).collect();
        serde_json::from_str(&self.kubectl(&all)).expect("JSON")
    }

    pub(super) fn apply(&self, manifests: &Value) {
        let (code, out, err) = self.try_apply(manifests);
        assert_eq!(code, 0, "{out}{err}");
    }

    pub(super) fn try_apply(&self, manifests: &Value) -> (i32, String, String) {
        let path = self.root.join("apply.json");
        fs::write(&path, manifests.to_string()).expect("written");
        self.try_kubectl(&["apply", "-n", NAMESPACE, "-f", &path.display().to_string()])
    }

    /// Makes a volume for each agent that both nodes reach, as a shared file system is.
    pub(super) fn volumes(&self, agents: &[String]) {
        let volume = |agent: &String| {
            let folder = self.volume(agent);
            fs::create_dir_all(&folder).expect("made");
            // A volume of this kind is not made the pod's own.
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("set");
            json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("volume-{agent}") },
                "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce", "ReadWriteMany"], "storageClassName": "shared",
                          "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": folder },
                          "claimRef": { "namespace": NAMESPACE, "name": format!("agent-{agent}") } } })
        };
        let items: Vec<Value> = agents.iter().map(volume).collect();
        self.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }));
    }

    /// A volume of no class, for a claim that names none.
    pub(super) fn claimed(&self, claim: &str) {
        let folder = self.volume(claim);
        fs::create_dir_all(&folder).expect("made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("set");
        self.apply(&json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("volume-{claim}") },
            "spec": { "capacity": { "storage": "5Gi" }, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
                      "hostPath": { "path": folder }, "claimRef": { "namespace": NAMESPACE, "name": claim } } }));
    }

    pub(super) fn volume(&self, agent: &str) -> PathBuf {
        self.root.join("volumes").join(agent)
    }

    /// Returns who of the operators sees to the agents.
    pub(super) fn leader(&self) -> String {
        self.json(&["get", "lease", "coop-operator"])["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    /// Kills this operator as it stands.
    pub(super) fn kill_operator(&self, leader: &str) {
        let is_it = |process: &Path| {
            let is_operator = words(process, "cmdline").get(1).is_some_and(|word| word == "operator");
            // Its pod's name, with which its own begins.
            let mut variables = words(process, "environ").into_iter();
            is_operator
                && variables.any(|one| one.strip_prefix("HOSTNAME=").is_some_and(|name| leader.starts_with(name)))
        };
        self.until_so("it runs", || !processes(is_it).is_empty());
        let found = processes(is_it);
        assert_eq!(found.len(), 1, "{leader} runs once: {found:?}");
        kill(found[0]);
    }

    pub(super) fn status(&self, agent: &str) -> Value {
        self.json(&["get", "agent", agent])["status"].clone()
    }

    /// Waits, by a watch of the API server's, until a field of an agent has a value.
    pub(super) fn until(&self, agent: &str, field: &str, value: &str) {
        let wanted = format!("--for=jsonpath={{.status.{field}}}={value}");
        let (code, out, err) =
            self.try_kubectl(&["wait", "-n", NAMESPACE, &format!("agent/{agent}"), &wanted, &limit()]);
        if code != 0 {
            let operators = ["-l", "app.kubernetes.io/name=coop-operator", "--prefix", "--tail=20"];
            let log = self.try_kubectl(&[["logs", "-n", NAMESPACE].as_slice(), &operators].concat()).1;
            let pods = self.kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "wide"]);
            panic!("{agent} {field}={value}: {out}{err}\n{}\n{pods}\n{log}", self.status(agent));
        }
    }

    /// Returns what an account may do in a namespace, by what the API server says of it.
    pub(super) fn may(&self, account: &str, namespace: &str) -> BTreeSet<String> {
        let who = format!("--as=system:serviceaccount:{NAMESPACE}:{account}");
        let list = self.kubectl(&["auth", "can-i", "--list", "--no-headers", &who, "-n", namespace]);
        // What everybody may: ask the API server what it has, and what they may.
        let own = list.lines().filter(|line| !line.starts_with(' ') && !line.starts_with("selfsubject"));
        own.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// Sees that the processes of coop's own image with this command are walled in: nobody in particular, without capabilities, and
    /// without a way to write their image.
    pub(super) fn walls_of(&self, command: &str) {
        let is_it = |process: &Path| {
            let words = words(process, "cmdline");
            words.first().is_some_and(|word| word == "/usr/local/bin/coop")
                && words.get(1).is_some_and(|word| word == command)
        };
        let found = processes(is_it);
        let mut seen = 0;
        for process in found {
            let read = |what: &str| fs::read_to_string(format!("/proc/{process}/{what}")).ok();
            // One of an earlier pod may end meanwhile.
            let Some((status, mounts)) = read("status").zip(read("mountinfo")).filter(|(_, mounts)| !mounts.is_empty())
            else {
                continue;
            };
            seen += 1;
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
                line.split_whitespace().next().unwrap_or_default().to_owned()
            };
            assert_eq!((field("Uid:"), field("Gid:")), ("65532".to_owned(), "65532".to_owned()), "coop {command}");
            assert_eq!((field("CapEff:"), field("CapBnd:")), ("0".repeat(16), "0".repeat(16)), "coop {command}");
            assert_eq!(field("NoNewPrivs:"), "1");
            let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).expect("a root");
            assert!(root.split(' ').nth(5).is_some_and(|how| how.split(',').any(|one| one == "ro")), "{root}");
        }
        assert!(seen > 0, "coop {command} runs");
    }

    /// Asks somebody's API, and returns the status of the answer and the answer: 0 and why, if nobody answers.
    pub(super) fn ask(&self, method: &str, url: &str, headers: &[String], body: Option<&Value>) -> (u16, Value) {
        let mut command = Command::new("curl");
        command.args(["-sS", "-m", "330", "-X", method, "-w", "\n%{http_code}", url]);
        command.args(headers.iter().flat_map(|header| ["-H", header]));
        if let Some(body) = body {
            command.args(["-d", &body.to_string()]);
        }
        let (code, out, err) = run(&mut command);
        if code != 0 {
            return (0, json!(err));
        }
        let (reply, status) = out.rsplit_once('\n').expect("a status");
        (status.parse().expect("a number"), serde_json::from_str(reply).unwrap_or_else(|_| json!(reply)))
    }

    /// Asks an agent's sidecar, with its token.
    pub(super) fn sidecar(&self, agent: &str, path: &str, body: Option<&Value>) -> Value {
        let text = self.sidecar_text(agent, path, body);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{agent} {path}: {text}"))
    }

    pub(super) fn sidecar_text(&self, agent: &str, path: &str, body: Option<&Value>) -> String {
        let pod = self.json(&["get", "pod", &format!("agent-{agent}")]);
        let token = self.token(agent);
        let url = format!("http://{}:8080/api/v1/{path}", pod["status"]["podIP"].as_str().expect("an address"));
        let mut command = Command::new("curl");
        command.args(["-sS", "-m", "60", "-H", &format!("Authorization: Bearer {token}"), &url]);
        if let Some(body) = body {
            command.args(["-d", &body.to_string()]);
        }
        let (code, out, err) = run(&mut command);
        assert_eq!(code, 0, "{url}: {err}");
        out
    }

    pub(super) fn token(&self, agent: &str) -> String {
        let secret = self.json(&["get", "secret", &format!("agent-{agent}")]);
        decoded(secret["data"]["token"].as_str().expect("a token"))
    }

    /// Asks an API with a token from the network that a process is in, and returns the status of the answer.
    pub(super) fn ask_from(&self, process: u32, url: &str, token: &str) -> u16 {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &process.to_string(), "curl", "-sS", "-m", "20", "-o", "/dev/null"]);
        command.args(["-w", "%{http_code}", "-H", &format!("Authorization: Bearer {token}"), url]);
        let (code, out, err) = run(&mut command);
        assert_eq!(code, 0, "{url}: {err}");
        out.parse().unwrap_or_else(|_| panic!("{url}: {out}"))
    }

    /// Returns the processes of this machine that are an agent's sidecar, whichever node they are on.
    pub(super) fn sidecars(&self, agent: &str) -> Vec<u32> {
        let home = format!("HOME=/data/.coop/{agent}/home");
        let is_one = |process: &Path| words(process, "cmdline").iter().any(|word| word == "--health-port");
        processes(|process| is_one(process) && words(process, "environ").contains(&home))
    }

    /// Waits until something is so that no watch tells.
    pub(super) fn until_so(&self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end, "{what}: not in time");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Returns the processes that are so, whichever node they are on.
fn processes(is_one: impl Fn(&Path) -> bool) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("it is there").flatten();
    let number = |process: fs::DirEntry| process.file_name().to_str()?.parse().ok().filter(|_| is_one(&process.path()));
    all.filter_map(number).collect()
}

/// Returns the words of a command line or an environment; none of a process that is gone.
fn words(process: &Path, which: &str) -> Vec<String> {
    let bytes = fs::read(process.join(which)).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

pub(super) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
}

/// Runs a program that has a time limit of its own.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn decoded(text: &str) -> String {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    String::from_utf8(bytes).expect("text")
}
