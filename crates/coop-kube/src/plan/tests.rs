use serde_json::json;

use super::*;
use crate::resource::{AgentSpec, Budget, Claim, Condition, EvidenceStatus, Keep, Manager, PullSecret, UsageStatus};

const NOW: u64 = 1_800_000_000;

fn images() -> Images {
    Images { coop: "coop:1".to_owned(), pull_policy: None }
}

fn agent() -> Agent {
    let spec = AgentSpec { driver: "claude".into(), image: "agent:1".into(), ..AgentSpec::default() };
    let mut agent = Agent::new("fixer", spec);
    agent.metadata.namespace = Some("team".into());
    agent.metadata.uid = Some("agent-uid".into());
    agent.metadata.finalizers = Some(vec![FINALIZER.into()]);
    agent
}

/// A pod as the plan would have made it.
fn pod(agent: &Agent, phase: &str) -> Pod {
    let mut made = manifest::pod(agent, &images());
    made["metadata"]["uid"] = json!("pod-1");
    made["spec"]["nodeName"] = json!("node-2");
    made["status"] = json!({ "phase": phase });
    serde_json::from_value(made).expect("a pod")
}

fn heard(state: &str) -> Heard {
    Heard {
        pod: "pod-1".into(),
        state: state.into(),
        since: "2026-01-01T00:00:00Z".into(),
        evidence: EvidenceStatus { source: "hook".into(), detail: "Stop".into() },
        ask: None,
        session: Some("session-1".into()),
        usage: None,
        first_turn: None,
        unreachable: None,
    }
}

fn seen<'a>(pod: Option<&'a Pod>, node: NodeFate, heard: Option<&'a Heard>) -> Seen<'a> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let (secret, policy, claim) = (Part::Its, Part::Its, Part::Its);
    Seen { pod, node, heard, brief: None, secret, policy, claim, existing_claim: ExistingClaim::Unnamed, now }
}

fn planned(agent: &Agent, seen: &Seen<'_>) -> Plan {
    plan(agent, &images(), seen)
}

/// What is done, in a word each.
fn words(plan: &Plan) -> Vec<&'static str> {
    let word = |step: &Step| match step {
        Step::Hold => "hold",
        Step::Release => "release",
        Step::MakeSecret => "secret",
        Step::MakePolicy(_) => "policy",
        Step::UpdatePolicy(_) => "update",
        Step::MakeClaim(_) => "claim",
        Step::MakePod(_) => "pod",
        Step::EndPod { .. } => "end",
        Step::ForgetPod { .. } => "forget",
        Step::Prompt(_) => "prompt",
    };
    plan.steps.iter().map(word).collect()
}

fn told(agent: &mut Agent, change: impl FnOnce(&mut AgentStatus)) {
    change(agent.status.get_or_insert_default());
}

#[test]
fn a_new_agent_is_held_first_and_then_made_whole() {
    let mut agent = agent();
    agent.metadata.finalizers = None;
    let missing = Part::Missing;
    let nothing = Seen { secret: missing, policy: missing, claim: missing, ..seen(None, NodeFate::Unassigned, None) };
    assert_eq!(words(&planned(&agent, &nothing)), ["hold"]);
    agent.metadata.finalizers = Some(vec![FINALIZER.into()]);
    assert_eq!(words(&planned(&agent, &nothing)), ["secret", "policy", "pod"]);
    agent.spec.workspace.claim =
        Some(Claim { size: "1Gi".into(), storage_class: None, access_modes: Vec::new(), when_deleted: Keep::Retain });
    assert_eq!(words(&planned(&agent, &nothing)), ["secret", "policy", "claim", "pod"]);
    let plan = planned(&agent, &seen(None, NodeFate::Unassigned, None));
    assert_eq!((words(&plan), plan.status.state.as_str()), (vec!["pod"], "pending"));
}

#[test]
fn the_state_is_the_sidecars_own() {
    let agent = agent();
    let pod = pod(&agent, "Running");
    for state in ["starting", "working", "idle", "prompt", "error", "exited", "unknown"] {
        let heard = heard(state);
        let plan = planned(&agent, &seen(Some(&pod), NodeFate::Fine, Some(&heard)));
        assert_eq!(words(&plan), Vec::<&str>::new(), "{state}");
        assert_eq!(plan.status.state, state);
        assert_eq!(plan.status.evidence, Some(heard.evidence.clone()));
        assert_eq!((plan.status.session.as_deref(), plan.status.node.as_deref()), (Some("session-1"), Some("node-2")));
        let is_ready = plan.status.conditions.iter().any(|one| one.kind == "Ready" && one.status == "True");
        assert_eq!(is_ready, state != "exited");
        assert_eq!(plan.status.needs.is_some(), matches!(state, "error" | "exited"), "{state}");
    }
}

#[test]
fn nothing_is_said_of_a_sidecar_that_is_not_heard() {
    let agent = agent();
    let pod = pod(&agent, "Running");
    let plan = planned(&agent, &seen(Some(&pod), NodeFate::Fine, None));
    assert_eq!(plan.status.state, "starting");
    let lost = Heard { unreachable: Some("timed out".into()), ..heard("idle") };
    let plan = planned(&agent, &seen(Some(&pod), NodeFate::Fine, Some(&lost)));
    assert_eq!((words(&plan), plan.status.state.as_str()), (vec![], "unknown"), "idle was long ago");
    assert_eq!(plan.status.needs.as_deref(), Some("its sidecar cannot be reached: timed out"));
}

#[test]
fn an_operator_that_has_just_begun_unsays_nothing() {
    let mut agent = agent();
    let pod = pod(&agent, "Running");
    let working = heard("working");
    let told = planned(&agent, &seen(Some(&pod), NodeFate::Fine, Some(&working))).status;
    agent.status = Some(told.clone());
    assert_eq!(planned(&agent, &seen(Some(&pod), NodeFate::Fine, None)).status, told);
    let mut other = pod.clone();
    other.metadata.uid = Some("pod-2".into());
    assert_eq!(planned(&agent, &seen(Some(&other), NodeFate::Fine, None)).status.state, "starting");
}

/// The heart of it: which words about a node are enough to start the agent elsewhere.
#[test]
fn an_agent_moves_only_when_its_node_is_down_for_sure() {
    let agent = agent();
    let running = pod(&agent, "Running");
    let mut ending = running.clone();
    ending.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time"));
    let idle = heard("idle");
    for (pod, node, steps, state) in [
        (&running, NodeFate::Fine, vec![], "idle"),
        (&running, NodeFate::Silent, vec![], "unknown"),
        (&ending, NodeFate::Silent, vec![], "unknown"),
        (&ending, NodeFate::Fine, vec![], "stopping"),
        (&running, NodeFate::Down, vec!["forget"], "pending"),
        (&ending, NodeFate::Down, vec!["forget"], "pending"),
        (&running, NodeFate::Gone, vec!["forget"], "pending"),
    ] {
        let plan = planned(&agent, &seen(Some(pod), node, Some(&idle)));
        assert_eq!((words(&plan), plan.status.state.as_str()), (steps, state), "{node:?}");
        assert_eq!(plan.status.needs.is_some(), node == NodeFate::Silent, "{node:?}");
    }
    let plan = planned(&agent, &seen(None, NodeFate::Unassigned, None));
    assert_eq!(words(&plan), ["pod"], "once the books have no pod");
}

#[test]
fn a_pod_is_counted_once() {
    let mut agent = agent();
    let pod = pod(&agent, "Pending");
    let first = planned(&agent, &seen(Some(&pod), NodeFate::Fine, None)).status;
    assert_eq!((first.starts, first.pod_uid.as_deref()), (1, Some("pod-1")));
    agent.status = Some(first);
    assert_eq!(planned(&agent, &seen(Some(&pod), NodeFate::Fine, None)).status.starts, 1);
}

#[test]
fn an_agent_that_ended_by_itself_is_left_to_a_person_or_resumed_three_times() {
    let mut agent = agent();
    let pod = pod(&agent, "Running");
    let over = heard("exited");
    assert!(planned(&agent, &seen(Some(&pod), NodeFate::Fine, Some(&over))).steps.is_empty());
    told(&mut agent, |status| status.state = "exited".into());
    let plan = planned(&agent, &seen(None, NodeFate::Unassigned, None));
    assert_eq!((words(&plan), plan.status.state.as_str()), (vec![], "exited"), "nor when its pod is gone");
    agent.spec.on_dead = Dead::Resume;
    for deaths in 0..=MOST_DEATHS {
        told(&mut agent, |status| status.deaths = deaths);
        let may = deaths < MOST_DEATHS;
        let ended = planned(&agent, &seen(Some(&pod), NodeFate::Fine, Some(&over)));
        assert_eq!(words(&ended), if may { vec!["end"] } else { vec![] });
        let gone = planned(&agent, &seen(None, NodeFate::Unassigned, None));
        assert_eq!(words(&gone), if may { vec!["pod"] } else { vec![] });
        assert_eq!(gone.status.deaths, if may { deaths + 1 } else { deaths });
    }
}

#[test]
fn a_pod_that_fails_at_its_start_is_followed_by_another_later_and_later() {
    let mut agent = agent();
    let at =
        |secs: u64| humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(secs)).to_string();
    let failed = |lived: u64, ago: u64| {
        let mut pod = pod(&agent, "Failed");
        let end = json!({ "exitCode": 1, "startedAt": at(NOW - ago - lived), "finishedAt": at(NOW - ago), "message": "x\ncoop: no" });
        let status = json!({ "phase": "Failed", "containerStatuses": [{ "name": "agent", "image": "i", "imageID": "i",
            "ready": false, "restartCount": 0, "state": { "terminated": end } }] });
        pod.status = Some(serde_json::from_value(status).expect("a status"));
        pod
    };
    let (soon, due, lived) = (failed(1, 3), failed(1, 8), failed(700, 0));
    told(&mut agent, |status| (status.starts, status.pod_uid) = (3, Some("pod-1".into())));
    let plan = planned(&agent, &seen(Some(&soon), NodeFate::Fine, None));
    assert_eq!((words(&plan), plan.again), (vec![], Some(Duration::from_secs(5))));
    assert_eq!(
        plan.status.evidence.map(|evidence| evidence.detail).as_deref(),
        Some("its sidecar ended with 1; another follows: coop: no")
    );
    assert_eq!(plan.status.needs, None, "it may pass");
    let unheard =
        plan.status.conditions.iter().map(|one| Condition { last_transition_time: at(NOW - 60), ..one.clone() });
    let mut failing = agent.clone();
    told(&mut failing, |status| (status.starts, status.conditions) = (3, unheard.collect()));
    let plan = planned(&failing, &seen(Some(&soon), NodeFate::Fine, None));
    let why = "it does not come to run: its sidecar ended with 1; another follows: coop: no";
    assert_eq!(plan.status.needs.as_deref(), Some(why));
    assert_eq!(words(&planned(&agent, &seen(Some(&due), NodeFate::Fine, None))), ["end"]);
    let plan = planned(&agent, &seen(Some(&lived), NodeFate::Fine, None));
    assert_eq!(words(&plan), ["end"]);
}

#[test]
fn who_waits_for_what_does_not_come_needs_a_person_after_a_minute() {
    let agent = agent();
    let at =
        |secs: u64| humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(secs)).to_string();
    let waiting = |secs: u64, reason: &str| {
        let mut pod = serde_json::to_value(pod(&agent, "Pending")).expect("JSON");
        pod["metadata"]["creationTimestamp"] = json!(at(NOW - secs));
        pod["status"]["initContainerStatuses"] = json!([{ "name": "coop", "image": "i", "imageID": "i", "ready": false,
            "restartCount": 0, "state": { "waiting": { "reason": reason, "message": "no such image" } } }]);
        serde_json::from_value::<Pod>(pod).expect("a pod")
    };
    let told = |pod: &Pod| {
        let plan = planned(&agent, &seen(Some(pod), NodeFate::Fine, None));
        (plan.status.needs, plan.again)
    };
    assert_eq!(told(&waiting(20, "ErrImagePull")), (None, Some(Duration::from_secs(40))));
    assert_eq!(told(&waiting(60, "ErrImagePull")), (Some("ErrImagePull: no such image".to_owned()), None));
    assert_eq!(told(&waiting(60, "PodInitializing")), (None, Some(Duration::from_secs(240))));
    let why = "its pod has not begun; `kubectl describe pod agent-fixer` says why";
    assert_eq!(told(&waiting(300, "PodInitializing")), (Some(why.to_owned()), None));
}

#[test]
fn the_prompt_is_given_once() {
    let mut agent = agent();
    agent.spec.prompt = Some("Fix it".into());
    let pod = pod(&agent, "Running");
    let given = |agent: &Agent, heard: &Heard| {
        let plan = planned(agent, &seen(Some(&pod), NodeFate::Fine, Some(heard)));
        (words(&plan), plan.status.prompt, plan.status.needs.is_some())
    };
    assert_eq!(given(&agent, &heard("starting")), (vec![], None, false));
    assert_eq!(given(&agent, &heard("idle")), (vec!["prompt"], None, false));
    told(&mut agent, |status| status.prompt = Some(PromptStatus::Delivered));
    assert_eq!(given(&agent, &heard("idle")), (vec![], Some(PromptStatus::Delivered), false));
    // Whoever was giving it is gone.
    told(&mut agent, |status| status.prompt = Some(PromptStatus::Sending));
    let began = Heard { first_turn: Some("Fix it".into()), ..heard("working") };
    assert_eq!(given(&agent, &began), (vec![], Some(PromptStatus::Delivered), false));
    assert_eq!(given(&agent, &heard("idle")), (vec![], Some(PromptStatus::Unsure), true));
    // It came after all, only late.
    told(&mut agent, |status| status.prompt = Some(PromptStatus::Unsure));
    assert_eq!(given(&agent, &heard("idle")), (vec![], Some(PromptStatus::Unsure), true));
    assert_eq!(given(&agent, &began), (vec![], Some(PromptStatus::Delivered), false));
    let other = Heard { first_turn: Some("Go on".into()), ..heard("working") };
    assert_eq!(
        given(&agent, &other),
        (vec![], Some(PromptStatus::Unsure), true),
        "somebody has told it something else"
    );
}

#[test]
fn a_brief_is_told_in_place_of_a_prompt() {
    let mut agent = agent();
    agent.spec.brief = json!({ "agentId": "a1" }).as_object().cloned();
    let read = Ok("You are a coder.".to_owned());
    let running = pod(&agent, "Running");
    let idle = heard("idle");
    let briefed = Seen { brief: Some(&read), ..seen(Some(&running), NodeFate::Fine, Some(&idle)) };
    let plan = planned(&agent, &briefed);
    assert_eq!(plan.steps, [Step::Prompt("You are a coder.".to_owned())]);
    told(&mut agent, |status| status.prompt = Some(PromptStatus::Delivered));
    assert_eq!(words(&planned(&agent, &briefed)), Vec::<&str>::new());
}

/// What makes no sense is told in one sentence, in a condition. Nothing is begun for it, and nothing that runs is ended.
#[test]
fn what_makes_no_sense_is_not_begun() {
    let brief = || json!({ "agentId": "a1" }).as_object().cloned();
    type Change = fn(&mut Agent);
    let wrong: [(&str, Change); 7] = [
        ("brief.role is missing", |_| {}),
        ("it has a prompt and a brief, and only one of them can be what it is told first", |agent| {
            agent.spec.prompt = Some("Begin.".into());
        }),
        ("with a brief it is run as a shim would: leave out the runtime", |agent| {
            agent.spec.runtime = Some("pty".into());
        }),
        ("its fleet tells it everything: leave out the brief", |agent| agent.spec.managed_by = Manager::Fleet),
        ("brief: it has 250 KiB, and 240 are the most", |agent| {
            let brief = agent.spec.brief.as_mut().expect("one");
            brief.insert("role".into(), json!("x".repeat(250 << 10)));
        }),
        ("actions: \"nudge\" is never reached: \"done\" before it has no end", |agent| {
            let actions = json!({ "onIdle": [{ "action": "Done" }, { "action": "Nudge" }] });
            agent.spec.actions = serde_json::from_value(actions).expect("actions");
        }),
        ("its fleet has its own actions for it: leave out the actions", |agent| {
            agent.spec.managed_by = Manager::Fleet;
            agent.spec.actions = serde_json::from_value(json!({ "onIdle": [{ "action": "Done" }] })).expect("actions");
        }),
    ];
    for (why, change) in wrong {
        let mut agent = agent();
        agent.spec.brief = brief();
        let before = pod(&agent, "Running");
        change(&mut agent);
        let read = Err("brief.role is missing".to_owned());
        let nothing = Seen { brief: Some(&read), ..seen(None, NodeFate::Unassigned, None) };
        let plan = planned(&agent, &nothing);
        let condition = plan.status.conditions.iter().find(|one| one.kind == "Valid").expect("it is told");
        assert_eq!((condition.status.as_str(), condition.message.as_str()), ("False", why));
        assert_eq!((plan.status.state.as_str(), plan.status.needs.as_deref()), ("pending", Some(why)));
        assert_eq!(words(&plan), Vec::<&str>::new(), "{why}");
        let idle = heard("idle");
        let plan = planned(&agent, &Seen { brief: Some(&read), ..seen(Some(&before), NodeFate::Fine, Some(&idle)) });
        assert_eq!((words(&plan), plan.status.state.as_str()), (vec![], "idle"), "{why}");
        assert_eq!(plan.status.needs.as_deref(), Some(why));
        // Nothing would follow a pod whose agent has ended, so what it showed last stays to be seen.
        agent.spec.on_dead = Dead::Resume;
        let exited = heard("exited");
        let plan = planned(&agent, &Seen { brief: Some(&read), ..seen(Some(&before), NodeFate::Fine, Some(&exited)) });
        assert_eq!((words(&plan), plan.status.state.as_str()), (vec![], "exited"), "{why}");
    }
}

#[test]
fn a_secret_that_no_image_can_be_fetched_with_is_told_of() {
    let mut agent = agent();
    let named = |names: [&str; 2]| names.map(|name| PullSecret { name: name.into() }).to_vec();
    agent.spec.image_pull_secrets = named(["registry", "other.example"]);
    assert_eq!(words(&planned(&agent, &seen(None, NodeFate::Unassigned, None))), ["pod"]);
    agent.spec.image_pull_secrets = named(["registry", "Bad_Name"]);
    let plan = planned(&agent, &seen(None, NodeFate::Unassigned, None));
    let why = "imagePullSecrets: \"Bad_Name\" cannot be the name of a Secret: lower-case letters, digits, - and .";
    assert_eq!((words(&plan), plan.status.needs.as_deref()), (vec![], Some(why)));
}

#[test]
fn what_no_sidecar_would_take_is_not_begun() {
    let wrong = |change: fn(&mut crate::resource::AgentSpec)| {
        let mut agent = agent();
        change(&mut agent.spec);
        let plan = planned(&agent, &seen(None, NodeFate::Unassigned, None));
        assert_eq!(words(&plan), Vec::<&str>::new());
        plan.status.needs.expect("a person is needed")
    };
    assert!(
        wrong(|spec| spec.driver = "claud".into()).starts_with("driver: there is no \"claud\", only auto, claude, ")
    );
    let never = wrong(|spec| (spec.driver, spec.prompt) = ("unknown".into(), Some("Go".into())));
    assert!(never.starts_with("prompt: "), "{never}");
    let policy = wrong(|spec| spec.image_pull_policy = Some("Sometimes".into()));
    assert_eq!(policy, "imagePullPolicy: there is no \"Sometimes\", only Always, IfNotPresent, Never");
    let size = wrong(|spec| spec.workspace.claim = serde_json::from_value(json!({ "size": "5gb" })).expect("a claim"));
    assert!(size.starts_with("workspace.claim.size: \"5gb\" is not"), "{size}");
}

/// The attack: an Agent names the volume of the fleet's store, or of another agent, as its own.
#[test]
fn a_claim_that_is_not_meant_for_agents_is_refused() {
    let mut agent = agent();
    agent.spec.workspace.existing_claim = Some("coop-fleet".into());
    let running = pod(&agent, "Running");
    let idle = heard("idle");
    for (existing_claim, why) in [
        (
            ExistingClaim::Unlabelled,
            "workspace.existingClaim: the claim \"coop-fleet\" lacks the label coop.dev/agents: \"true\", without which no agent \
             may have it; if agents may: kubectl label pvc coop-fleet coop.dev/agents=true",
        ),
        (
            ExistingClaim::Missing,
            "workspace.existingClaim: there is no claim \"coop-fleet\" in this namespace; make it, with the label \
             coop.dev/agents: \"true\"",
        ),
    ] {
        let plan = planned(&agent, &Seen { existing_claim, ..seen(None, NodeFate::Unassigned, None) });
        assert_eq!((words(&plan), plan.status.needs.as_deref()), (vec![], Some(why)));
        assert!(plan.status.conditions.iter().any(|one| one.kind == "Valid" && one.status == "False"));
        let plan = planned(&agent, &Seen { existing_claim, ..seen(Some(&running), NodeFate::Fine, Some(&idle)) });
        assert_eq!((words(&plan), plan.status.state.as_str()), (vec![], "idle"), "what runs is not ended for it");
    }
    let allowed = Seen { existing_claim: ExistingClaim::Allowed, ..seen(None, NodeFate::Unassigned, None) };
    assert_eq!(words(&planned(&agent, &allowed)), ["pod"]);
}

/// The attack: an Agent allows itself the metadata service of its node.
#[test]
fn an_agent_whose_egress_leads_to_credentials_is_not_begun() {
    let mut agent = agent();
    agent.spec.egress = serde_json::from_value(json!({ "allow": [{ "cidr": "169.254.169.254/32" }] })).expect("egress");
    let plan = planned(&agent, &Seen { policy: Part::Missing, ..seen(None, NodeFate::Unassigned, None) });
    assert_eq!(words(&plan), Vec::<&str>::new());
    assert!(
        plan.status.needs.is_some_and(|needs| needs.starts_with("egress.allow[0]: cidr: 169.254.169.254/32 is within"))
    );
    // Nor does one that runs get a policy that Kubernetes would refuse.
    let running = pod(&agent, "Running");
    let working = heard("working");
    let outdated = Seen { policy: Part::Outdated, ..seen(Some(&running), NodeFate::Fine, Some(&working)) };
    assert_eq!(words(&planned(&agent, &outdated)), Vec::<&str>::new());
}

#[test]
fn the_policy_of_a_running_agent_becomes_what_its_resource_says() {
    let mut agent = agent();
    agent.spec.egress.internet = false;
    let running = pod(&agent, "Running");
    let working = heard("working");
    let seen = |policy| Seen { policy, ..seen(Some(&running), NodeFate::Fine, Some(&working)) };
    assert_eq!(words(&planned(&agent, &seen(Part::Its))), Vec::<&str>::new());
    assert_eq!(planned(&agent, &seen(Part::Outdated)).steps, [Step::UpdatePolicy(network::policy(&agent))]);
    assert_eq!(words(&planned(&agent, &seen(Part::Missing))), ["policy"], "the policy was deleted");
    agent.spec.driver = "claud".into();
    assert_eq!(
        words(&planned(&agent, &seen(Part::Outdated))),
        ["update"],
        "what is wrong elsewhere holds up no policy"
    );
}

/// The bug this keeps away: a pod that waits for an image that cannot be had waits on when the image's name, or the Secret to fetch
/// it with, is mended.
#[test]
fn a_pod_that_has_not_begun_is_followed_by_one_that_is_as_the_agent_is_now() {
    let mut agent = agent();
    let mut waiting = pod(&agent, "Pending");
    let mut cloning = waiting.clone();
    let clone = json!([{ "name": "clone", "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
        "state": { "running": {} } }]);
    cloning.status.as_mut().expect("a status").init_container_statuses =
        serde_json::from_value(clone).expect("containers");
    let stuck = json!([{ "type": "PodScheduled", "status": "False", "message": "no node has room" }]);
    waiting.status.as_mut().expect("a status").conditions = serde_json::from_value(stuck).expect("conditions");
    assert_eq!(words(&planned(&agent, &seen(Some(&waiting), NodeFate::Fine, None))), Vec::<&str>::new());
    agent.spec.image_pull_secrets = vec![PullSecret { name: "registry".into() }];
    let plan = planned(&agent, &seen(Some(&waiting), NodeFate::Fine, None));
    assert_eq!((words(&plan), plan.status.state.as_str()), (vec!["end"], "pending"));
    let plan = planned(&agent, &seen(Some(&cloning), NodeFate::Fine, None));
    assert_eq!(words(&plan), Vec::<&str>::new(), "it is at its repository");
    let mut nonsense = agent.clone();
    nonsense.spec.image_pull_secrets = vec![PullSecret { name: String::new() }];
    let plan = planned(&nonsense, &seen(Some(&waiting), NodeFate::Fine, None));
    assert_eq!(words(&plan), Vec::<&str>::new(), "there would be no other");
    let running = Pod { status: pod(&agent, "Running").status, ..waiting.clone() };
    assert_eq!(words(&planned(&agent, &seen(Some(&running), NodeFate::Fine, None))), Vec::<&str>::new());
    agent.spec.managed_by = Manager::Fleet;
    let plan = planned(&agent, &seen(Some(&waiting), NodeFate::Fine, None));
    assert_eq!(words(&plan), Vec::<&str>::new(), "a fleet's agent has one pod");
}

#[test]
fn a_newer_image_waits_until_the_agent_is_idle() {
    let mut agent = agent();
    let pod = pod(&agent, "Running");
    agent.spec.image = "agent:2".into();
    for (state, steps) in [("working", vec![]), ("prompt", vec![]), ("exited", vec![]), ("idle", vec!["end"])] {
        let heard = heard(state);
        assert_eq!(words(&planned(&agent, &seen(Some(&pod), NodeFate::Fine, Some(&heard)))), steps, "{state}");
    }
}

#[test]
fn a_budget_and_a_wish_suspend_it() {
    let mut agent = agent();
    let pod = pod(&agent, "Running");
    let usage = UsageStatus { input_tokens: 1, output_tokens: 1, cost_usd: Some(2.0) };
    let working = Heard { usage: Some(usage), ..heard("working") };
    agent.spec.budget = Some(Budget { cost_usd: 2.5 });
    assert!(planned(&agent, &seen(Some(&pod), NodeFate::Fine, Some(&working))).steps.is_empty());
    agent.spec.budget = Some(Budget { cost_usd: 2.0 });
    let plan = planned(&agent, &seen(Some(&pod), NodeFate::Fine, Some(&working)));
    assert_eq!(words(&plan), ["end"]);
    agent.status = Some(plan.status);
    let plan = planned(&agent, &seen(None, NodeFate::Unassigned, None));
    assert_eq!((words(&plan), plan.status.state.as_str(), plan.status.needs.is_some()), (vec![], "suspended", true));
    agent.spec.budget = Some(Budget { cost_usd: 9.0 });
    assert_eq!(
        words(&planned(&agent, &seen(None, NodeFate::Unassigned, None))),
        ["pod"],
        "with more of it, it goes on"
    );
    agent.spec.suspend = true;
    let plan = planned(&agent, &seen(None, NodeFate::Unassigned, None));
    assert_eq!((words(&plan), plan.status.state.as_str(), plan.status.needs), (vec![], "suspended", None));
}

#[test]
fn an_agent_goes_only_after_its_process() {
    let mut agent = agent();
    agent.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time"));
    let running = pod(&agent, "Running");
    let mut ending = running.clone();
    ending.metadata.deletion_timestamp.clone_from(&agent.metadata.deletion_timestamp);
    for (pod, node, steps) in [
        (Some(&running), NodeFate::Fine, vec!["end"]),
        (Some(&ending), NodeFate::Fine, vec![]),
        (Some(&ending), NodeFate::Silent, vec![]),
        (Some(&ending), NodeFate::Gone, vec!["forget"]),
        (None, NodeFate::Unassigned, vec!["release"]),
    ] {
        assert_eq!(words(&planned(&agent, &seen(pod, node, None))), steps, "{node:?}");
    }
}

/// What follows the end of a fleet's agent is the fleet's to say: it is neither told anything nor started again.
#[test]
fn a_fleets_agent_has_one_pod_and_is_told_nothing() {
    let mut agent = agent();
    agent.spec.managed_by = Manager::Fleet;
    agent.spec.prompt = Some("Begin.".into());
    agent.spec.on_dead = Dead::Resume;
    let first = planned(&agent, &seen(None, NodeFate::Unassigned, None));
    assert_eq!(words(&first), ["pod"]);
    let running = pod(&agent, "Running");
    for state in ["idle", "exited"] {
        let told = heard(state);
        let plan = planned(&agent, &seen(Some(&running), NodeFate::Fine, Some(&told)));
        assert_eq!((words(&plan), plan.status.state.as_str()), (Vec::new(), state));
        agent.status = Some(plan.status);
    }
    let failed = pod(&agent, "Failed");
    for left in [Some(&failed), None] {
        let plan = planned(&agent, &seen(left, NodeFate::Fine, None));
        assert_eq!((words(&plan), plan.status.state.as_str()), (Vec::new(), "exited"), "{left:?}");
    }
}

/// An agent of the same name was deleted before: nothing of it is this one's.
#[test]
fn what_is_left_of_an_earlier_agent_goes_first() {
    let mut agent = agent();
    let earlier = pod(&agent, "Running");
    agent.metadata.uid = Some("another".into());
    let plan = planned(&agent, &seen(Some(&earlier), NodeFate::Fine, None));
    assert_eq!((words(&plan), plan.status.state.as_str(), plan.status.starts), (vec!["end"], "pending", 0));
    assert_eq!((plan.status.node, plan.status.pod_uid), (None, None));
    let lost = planned(&agent, &seen(Some(&earlier), NodeFate::Gone, None));
    assert_eq!(words(&lost), ["forget"]);
    let nothing = seen(None, NodeFate::Unassigned, None);
    let left = |seen: Seen<'_>, agent: &Agent| words(&planned(agent, &seen));
    assert_eq!(left(Seen { secret: Part::Left, ..nothing }, &agent), [] as [&str; 0]);
    assert_eq!(left(Seen { policy: Part::Left, ..nothing }, &agent), [] as [&str; 0]);
    assert_eq!(left(Seen { claim: Part::Left, ..nothing }, &agent), ["pod"], "it wants no claim");
    agent.spec.workspace.claim =
        Some(Claim { size: "1Gi".into(), storage_class: None, access_modes: Vec::new(), when_deleted: Keep::Delete });
    assert_eq!(left(Seen { claim: Part::Left, ..nothing }, &agent), [] as [&str; 0]);
    assert_eq!(left(nothing, &agent), ["pod"]);
}

/// The bug this keeps away: whoever makes a Secret before the agent knows its token, and one that was orphaned is never collected.
#[test]
fn what_is_nobodys_is_not_taken_and_a_person_is_told() {
    let agent = agent();
    let nothing = seen(None, NodeFate::Unassigned, None);
    for (seen, kind) in [
        (Seen { secret: Part::Taken, policy: Part::Missing, ..nothing }, "Secret"),
        (Seen { secret: Part::Missing, policy: Part::Taken, ..nothing }, "NetworkPolicy"),
    ] {
        let plan = planned(&agent, &seen);
        assert_eq!((words(&plan), plan.status.state.as_str()), (vec![], "pending"));
        let needs = format!("delete the {kind} agent-fixer if nobody needs it: it is nobody's");
        assert_eq!(plan.status.needs, Some(needs));
    }
}
