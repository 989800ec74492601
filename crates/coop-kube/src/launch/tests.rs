//! The launcher against an API server that is simulated. There is no operator: pods are what the tests make.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use coop_fleet::adapter::AgentConfig;
use coop_fleet::definition::Start;
use coop_fleet::engine::StopMode;
use coop_fleet::launcher::{Dismissal, Found, LastSidecar, Launcher, RunOwner};
use coop_sim::cluster::Cluster as Simulated;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Fate, client, client_with, reached};

const AGENTS: &str = "/apis/coop.dev/v1alpha1/namespaces/team/agents";
const AGENT: &str = "/apis/coop.dev/v1alpha1/namespaces/team/agents/fixer";
const PODS: &str = "/api/v1/namespaces/team/pods";
const POD: &str = "/api/v1/namespaces/team/pods/agent-fixer";
const SECRETS: &str = "/api/v1/namespaces/team/secrets";

struct Lab {
    cluster: Simulated,
    home: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { cluster: Simulated::default(), home: tempfile::tempdir().expect("a folder") }
    }

    async fn launcher(&self, fleet: &str) -> ClusterLauncher {
        let launcher = self.launcher_by(client(&self.cluster), fleet);
        launcher.told().await;
        launcher
    }

    fn launcher_by(&self, client: kube::Client, fleet: &str) -> ClusterLauncher {
        let template =
            Template { image: Some("agent:1".to_owned()), claim: Some("1Gi".to_owned()), ..Template::default() };
        let (namespace, way, reach) = (None, Way::default(), Reach::Direct);
        let options = ClusterOptions { namespace, way, reach, template, fleet: fleet.to_owned() };
        ClusterLauncher::with(reached(client), "team", options)
    }

    /// Returns the folder that the agent has with a fleet.
    fn folder(&self, fleet: &str) -> PathBuf {
        let folder = self.home.path().join(fleet);
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("agent-config.json"), "{}").expect("written");
        folder
    }

    fn apply(&self) -> Value {
        let spec = json!({ "driver": "claude", "image": "agent:1" });
        self.cluster.create(AGENTS, json!({ "metadata": { "name": "fixer" }, "spec": spec })).expect("applied")
    }

    fn make_secret(&self) {
        let secret = json!({ "metadata": { "name": "agent-fixer" }, "stringData": { "token": "hush" } });
        self.cluster.create(SECRETS, secret).expect("made");
    }

    /// Makes the pod of the agent that is there, and returns its uid.
    fn run(&self) -> String {
        let owner = self.cluster.get(AGENT).expect("an agent")["metadata"]["uid"].clone();
        let owners = json!([{ "apiVersion": "coop.dev/v1alpha1", "kind": "Agent", "name": "fixer", "uid": owner }]);
        let labels = json!({ "app.kubernetes.io/managed-by": "coop" });
        let metadata = json!({ "name": "agent-fixer", "labels": labels, "ownerReferences": owners });
        let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        let pod = self.cluster.create(PODS, json!({ "metadata": metadata, "status": status })).expect("made");
        pod["metadata"]["uid"].as_str().expect("a uid").to_owned()
    }

    fn fail(&self) {
        let terminated = json!({ "exitCode": 3 });
        let containers = json!([{ "name": "agent", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": terminated } }]);
        let status = json!({ "phase": "Failed", "containerStatuses": containers, "conditions": null });
        self.cluster.patch(POD, &json!({ "status": status })).expect("changed");
    }

    async fn made(&self) -> Value {
        self.cluster.until(AGENT, |_| true).await
    }
}

fn fixer() -> AgentId {
    AgentId("fixer".to_owned())
}

fn config() -> AgentConfig {
    AgentConfig {
        agent: fixer(),
        driver: "claude".to_owned(),
        command: vec!["claude".to_owned()],
        folder: "/".into(),
        env: BTreeMap::new(),
        runtime: None,
        isolate: true,
        trust: false,
        permission_mode: None,
        ask_first: false,
        settings: None,
        stop: StopMode::Allow,
        ask_user: false,
        start: Start::default(),
        resume: None,
        record: None,
        sandbox: None,
        asks_before: 0,
        run_owner: RunOwner::Fleet,
    }
}

/// What the store has of an agent that others applied.
fn applied(pod: Option<&str>) -> LastSidecar {
    LastSidecar { name: pod.map(str::to_owned), run_owner: RunOwner::Others }
}

/// Waits until a launcher has heard of something.
async fn heard(launcher: &ClusterLauncher, is_so: impl Fn(&[Applied]) -> bool) {
    launcher.cluster.until(|_| Some(())).await;
    let mut changes = launcher.changes();
    while !is_so(&launcher.applied()) {
        changes.changed().await.expect("it goes on");
    }
}

/// Two fleets over one namespace: each has its own agents, and takes none of the other's.
#[tokio::test]
async fn what_another_fleet_has_made_is_left_alone() {
    let lab = Lab::new();
    lab.make_secret();
    let (ours, theirs) = (lab.launcher("f1").await, lab.launcher("f2").await);
    let (our_folder, their_folder) = (lab.folder("f1"), lab.folder("f2"));
    let config = config();
    let started = ours.start(&config, &our_folder);
    let running = async {
        assert_eq!(lab.made().await["metadata"]["labels"]["coop.dev/fleet"], "f1");
        lab.run()
    };
    let (started, uid) = tokio::join!(started, running);
    assert_eq!(started.expect("it runs").name, uid);
    theirs.cluster.until(|objects| objects.owner("fixer", &uid).map(drop)).await;
    let refused = theirs.start(&config, &their_folder).await.map(|_| ());
    assert!(refused.is_err_and(|why| why.to_string().contains("another fleet has an Agent fixer")));
    assert!(matches!(theirs.find(&fixer(), &their_folder, &LastSidecar::default()).await, Found::Nobody));
    assert!(theirs.dismiss(&fixer(), &uid).await.is_err());
    theirs.bury(&fixer()).await.expect("nothing of it is theirs");
    assert_eq!(theirs.running(&their_folder).await, Vec::new());
    assert_eq!(ours.running(&our_folder).await.len(), 1);
    assert!(matches!(ours.find(&fixer(), &our_folder, &LastSidecar::default()).await, Found::Running(_)));
    assert_eq!(lab.cluster.get(AGENT).expect("it is there")["metadata"]["deletionTimestamp"], Value::Null);
}

/// The bug this keeps away: an agent that was deleted while no daemon ran comes back as the fleet's own.
#[tokio::test]
async fn an_agent_that_others_have_deleted_is_not_made_anew() {
    let lab = Lab::new();
    let (launcher, folder) = (lab.launcher("f1").await, lab.folder("f1"));
    assert!(
        matches!(launcher.find(&fixer(), &folder, &applied(Some("pod-1"))).await, Found::Ended { name, code: None } if name == "pod-1")
    );
    let config = AgentConfig { resume: Some("conversation-1".to_owned()), run_owner: RunOwner::Others, ..config() };
    let refused = launcher.start(&config, &folder).await.map(|_| ());
    assert!(refused.is_err_and(|why| why.to_string().contains("whoever applied the Agent fixer has deleted it")));
    assert_eq!(lab.cluster.list(AGENTS).expect("a list"), Vec::<Value>::new());
}

/// Only who has followed an agent that others applied goes on with it: the name alone does not make it theirs.
#[tokio::test]
async fn an_agent_that_others_have_applied_is_gone_on_with_when_a_person_says_so() {
    let lab = Lab::new();
    lab.make_secret();
    lab.apply();
    let (launcher, folder) = (lab.launcher("f1").await, lab.folder("f1"));
    let first = lab.run();
    let refused = launcher.start(&config(), &folder).await.map(|_| ());
    assert!(refused.is_err_and(|why| why.to_string().contains("somebody else has applied")));
    let only_the_name_is_the_same = LastSidecar::default();
    assert!(matches!(launcher.find(&fixer(), &folder, &only_the_name_is_the_same).await, Found::Nobody));
    assert!(
        matches!(launcher.find(&fixer(), &folder, &applied(None)).await, Found::Running(sidecar) if sidecar.name == first)
    );
    lab.cluster.patch(AGENT, &json!({ "spec": { "suspend": true } })).expect("suspended");
    lab.cluster.delete(POD).expect("ended");
    heard(&launcher, |all| all.iter().all(|one| one.is_stopped && one.pod.is_none())).await;
    let found = launcher.find(&fixer(), &folder, &applied(Some(&first))).await;
    assert!(matches!(found, Found::Ended { name, .. } if name == first));
    assert_eq!(lab.cluster.get(AGENT).expect("there")["spec"]["suspend"], true, "to look for it does not resume it");
    let config = AgentConfig { run_owner: RunOwner::Others, ..config() };
    let resumed = launcher.start(&config, &folder);
    let operator = async {
        lab.cluster.until(AGENT, |agent| agent["spec"]["suspend"] == false).await;
        lab.run()
    };
    let (resumed, second) = tokio::join!(resumed, operator);
    assert_eq!(resumed.expect("its next pod").name, second);
}

/// The bug this keeps away: `coop kill` while an agent of others' was being resumed, and its operator ran it all the same.
#[tokio::test]
async fn a_resumption_that_nobody_wants_any_more_is_taken_back() {
    let lab = Lab::new();
    lab.apply();
    lab.cluster.patch(AGENT, &json!({ "spec": { "suspend": true } })).expect("suspended");
    let (launcher, folder) = (lab.launcher("f1").await, lab.folder("f1"));
    let config = AgentConfig { run_owner: RunOwner::Others, ..config() };
    let (resumed, ()) = tokio::join!(launcher.start(&config, &folder), async {
        lab.cluster.until(AGENT, |agent| agent["spec"]["suspend"] == false).await;
        launcher.give_up(&fixer());
    });
    assert_eq!(resumed.expect_err("given up").to_string(), "it was ended before it ran");
    assert_eq!(lab.cluster.get(AGENT).expect("there")["spec"]["suspend"], true);
}

/// Whose doing a suspension is: ours is what was asked of us, anybody else's ends the agent as far as the fleet goes.
#[tokio::test]
async fn a_suspension_is_ours_or_that_of_others() {
    let lab = Lab::new();
    lab.make_secret();
    lab.apply();
    let launcher = lab.launcher("f1").await;
    let pod = lab.run();
    heard(&launcher, |all| all[0].pod.is_some()).await;
    let under_way = Ok(Dismissal::UnderWay { within: GONE });
    assert_eq!(launcher.dismiss(&fixer(), "another pod").await, under_way);
    assert_eq!(lab.cluster.get(AGENT).expect("there")["spec"]["suspend"], Value::Null, "another is meant");
    assert_eq!(launcher.dismiss(&fixer(), &pod).await, under_way);
    assert_eq!(lab.cluster.get(AGENT).expect("there")["spec"]["suspend"], true);
    assert!(!launcher.applied()[0].is_stopped, "that was we");
    lab.cluster.patch(AGENT, &json!({ "spec": { "suspend": false } })).expect("resumed");
    let is_resumed = |objects: &cluster::Objects| objects.agents.get("fixer").is_some_and(|one| !one.spec.suspend);
    launcher.cluster.until(|objects| is_resumed(objects).then_some(())).await;
    assert!(!launcher.applied()[0].is_stopped);
    lab.cluster.patch(AGENT, &json!({ "spec": { "suspend": true } })).expect("suspended");
    heard(&launcher, |all| all[0].is_stopped).await;
    lab.cluster.patch(AGENT, &json!({ "spec": { "suspend": false } })).expect("resumed");
    heard(&launcher, |all| !all[0].is_stopped).await;
}

/// A finished agent leaves no resource, however its pod ended; one whose pod runs is not touched.
#[tokio::test]
async fn what_is_left_of_an_agent_that_has_ended_is_removed() {
    let lab = Lab::new();
    lab.make_secret();
    let (launcher, folder) = (lab.launcher("f1").await, lab.folder("f1"));
    let config = config();
    let (started, uid) = tokio::join!(launcher.start(&config, &folder), async {
        lab.made().await;
        lab.run()
    });
    let mut ended = started.expect("it runs").ended;
    launcher.bury(&fixer()).await.expect("it runs");
    assert!(lab.cluster.get(AGENT).is_ok(), "one that runs is left alone");
    lab.fail();
    assert_eq!(*ended.wait_for(Option::is_some).await.expect("it is watched"), Some(Some(3)));
    let last = LastSidecar { name: Some(uid.clone()), run_owner: RunOwner::Fleet };
    let found = launcher.find(&fixer(), &folder, &last).await;
    assert!(matches!(found, Found::Ended { name, code: Some(3) } if name == uid));
    launcher.bury(&fixer()).await.expect("removed");
    assert!(lab.cluster.get(AGENT).is_err());
}

/// The bug this keeps away: the pod runs, its token cannot be had, and it runs on with nobody who sees it.
#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_reached_does_not_run_on() {
    let lab = Lab::new();
    let (launcher, folder) = (lab.launcher("f1").await, lab.folder("f1"));
    let config = config();
    let (started, _) = tokio::join!(launcher.start(&config, &folder), async {
        lab.made().await;
        lab.run()
    });
    assert!(started.is_err_and(|why| why.to_string().contains("its token cannot be had")));
    assert!(lab.cluster.get(AGENT).is_err(), "its operator ends the pod with it");
}

/// The bug this keeps away: for five minutes nothing was said, and what was wrong stood in the pod.
#[tokio::test(start_paused = true)]
async fn who_cannot_run_is_told_soon_and_nothing_stays() {
    let lab = Lab::new();
    let (launcher, folder) = (lab.launcher("f1").await, lab.folder("f1"));
    let config = config();
    let began = tokio::time::Instant::now();
    let (started, ()) = tokio::join!(launcher.start(&config, &folder), async {
        lab.made().await;
        lab.run();
        let waiting = json!({ "reason": "ImagePullBackOff", "message": "no such image" });
        let containers = json!([{ "name": "agent", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": waiting } }]);
        let status = json!({ "phase": "Pending", "containerStatuses": containers, "conditions": null });
        lab.cluster.patch(POD, &json!({ "status": status })).expect("changed");
    });
    let why = started.expect_err("no image").to_string();
    assert_eq!(why, "its pod cannot run: ImagePullBackOff: no such image");
    assert!(began.elapsed() < TAKEN_UP && lab.cluster.get(AGENT).is_err(), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn where_no_operator_is_that_is_told() {
    let lab = Lab::new();
    let why = lab.launcher("f1").await.start(&config(), &lab.folder("f1")).await.expect_err("nobody makes a pod");
    assert!(why.to_string().starts_with("no operator sees to the Agents of the namespace team: "), "{why}");
    assert!(lab.cluster.get(AGENT).is_err());
}

/// The bug this keeps away: `coop kill` and `coop down --kill` waited with whoever started it, for minutes.
#[tokio::test(start_paused = true)]
async fn a_start_that_nobody_wants_any_more_is_given_up() {
    let lab = Lab::new();
    let (launcher, folder) = (lab.launcher("f1").await, lab.folder("f1"));
    let (config, began) = (config(), tokio::time::Instant::now());
    let (started, ()) = tokio::join!(launcher.start(&config, &folder), async {
        lab.made().await;
        launcher.give_up(&fixer());
    });
    assert_eq!(started.expect_err("given up").to_string(), "it was ended before it ran");
    assert!(began.elapsed() < SOON && lab.cluster.get(AGENT).is_err());
    launcher.give_up(&fixer());
    assert!(launcher.starting.lock().expect("nobody panics").is_empty(), "the next one is not meant");
}

/// The bug this keeps away: without the definition `coop up` was ready, and each spawn said after half a minute that nobody answers.
#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_definition_is_told_at_once() {
    let lab = Lab::new();
    let client = client_with(&lab.cluster, |request| match request.uri().path() {
        AGENTS => Fate::Refuse(404),
        _ => Fate::Answer,
    });
    let launcher = lab.launcher_by(client, "one");
    let why = "the API server at https://cluster has no Agents: apply deploy/kubernetes to it first";
    assert_eq!(launcher.check().await, Usable::Never(why.to_owned()));
    assert_eq!(launcher.trouble().as_deref(), Some(why));
    let began = tokio::time::Instant::now();
    let started = launcher.start(&config(), &lab.folder("one")).await;
    assert_eq!(started.err().map(|error| error.to_string()).as_deref(), Some(why));
    assert!(began.elapsed() < SOON);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_silent_is_told_and_waited_for() {
    let lab = Lab::new();
    let launcher = lab.launcher_by(client_with(&lab.cluster, |_| Fate::Silence), "one");
    let why = "the API server at https://cluster does not answer".to_owned();
    assert_eq!((launcher.check().await, launcher.trouble()), (Usable::Later(why.clone()), Some(why)));
    let launcher = lab.launcher_by(client(&lab.cluster), "one");
    assert_eq!((launcher.check().await, launcher.trouble()), (Usable::Yes, None));
}

/// Nobody is asked for that, so that it is told at once also while the API server is away.
#[tokio::test]
async fn a_name_that_no_cluster_takes_is_refused_without_a_call() {
    let lab = Lab::new();
    let launcher = lab.launcher("f1").await;
    let before = lab.cluster.calls();
    let refused = |name: &str| launcher.refuses(&AgentId(name.to_owned()));
    assert_eq!(refused("fixer"), None);
    let why = "that cannot be a name in a cluster: use lower-case letters, digits and -, 48 at most";
    assert_eq!(refused("Bad_Name").as_deref(), Some(why));
    assert!(refused(&"x".repeat(49)).is_some() && refused("-x").is_some() && refused("x.y").is_some());
    assert_eq!(lab.cluster.calls(), before);
}

/// A fleet without an image shows what is there. Within the cluster it has an image of its own, and agents have that.
#[tokio::test]
async fn a_fleet_without_an_image_makes_agents_of_its_own_or_none() {
    let lab = Lab::new();
    let fleet = |reach| {
        let (template, fleet) = (Template::default(), "f1".to_owned());
        let options = ClusterOptions { namespace: None, way: Way::default(), reach, template, fleet };
        ClusterLauncher::with(reached(client(&lab.cluster)), "team", options)
    };
    let (outside, within) = (fleet(Reach::Forward), fleet(Reach::Direct));
    assert_eq!(outside.refuses(&fixer()).as_deref(), Some(template::NO_IMAGE));
    assert_eq!(within.refuses(&fixer()), None);
    let folder = lab.folder("f1");
    let none = within.make(&config(), &folder).await.expect_err("this is no pod").to_string();
    assert!(none.contains(template::NO_IMAGE), "{none}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let containers = json!([{ "name": "fleet", "image": "registry.example/coop:2" }]);
    let pod = json!({ "metadata": { "name": host.trim() }, "spec": { "containers": containers } });
    lab.cluster.create(PODS, pod).expect("made");
    let made = within.make(&config(), &folder).await.expect("it is made");
    assert_eq!(made.spec.image, "registry.example/coop:2");
    assert!(outside.make(&config(), &folder).await.is_err());
}
