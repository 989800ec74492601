//! A fleet in the cluster, as `deploy/kubernetes/fleet` has it: a Deployment with an account, a Service and a volume.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ROOT;
use super::lab::{Lab, NAMESPACE, limit};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// What the Service's name is in the whole cluster.
const HOST: &str = "coop-fleet.coop.svc";
/// An agent that the fleet makes itself.
const MADE: &str = "made";

/// The daemon shows these agents, which others have applied, answers what one of them asks, and makes and ends one of its own.
pub(super) fn answers(lab: &Lab, asking: &str, all: &[String]) {
    let manifests = format!("{ROOT}/deploy/kubernetes/fleet");
    let secret = format!("--from-literal=token={TOKEN}");
    lab.kubectl(&["create", "secret", "generic", "-n", NAMESPACE, "coop-fleet", &secret]);
    lab.claimed("coop-fleet");
    lab.claimed(&format!("agent-{MADE}"));
    lab.kubectl(&["apply", "-k", &manifests]);
    lab.kubectl(&["rollout", "status", "-n", NAMESPACE, "deployment/coop-fleet", &limit()]);
    lab.walls_of("up");
    rights(lab);

    let fleet = Fleet::behind_the_service(lab);
    assert_eq!(fleet.ask("GET", "agents", None, "").0, 401, "nothing is told without the token");
    lab.until_so("the fleet shows all agents", || {
        let shown = fleet.get("agents");
        let ids: BTreeSet<&str> =
            shown["agents"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
        all.iter().all(|agent| ids.contains(agent.as_str()))
    });
    let ask = RefCell::new(Value::Null);
    let find = |asks: &Value| asks["asks"].as_array()?.iter().find(|ask| ask["agent"] == asking).cloned();
    lab.until_so("the fleet knows what is asked", || {
        let found = find(&fleet.get("asks"));
        found.inspect(|found| ask.borrow_mut().clone_from(&found["ask"]["id"])).is_some()
    });
    let answered =
        fleet.post(&format!("agents/{asking}/agent/respond"), &json!({ "ask": *ask.borrow(), "accept": true }));
    assert_eq!(answered["delivered"], true, "{answered}");
    lab.until(asking, "state", "idle");
    lab.until_so("the fleet knows that it is answered", || {
        let asks = fleet.get("asks");
        asks.is_object() && find(&asks).is_none()
    });

    let definition = format!(
        "[agents.{MADE}]\ndriver = \"claude\"\nkind = \"crew\"\ncommand = [\"/usr/local/bin/coop\", \"sim\", \"claude\"]\n\
         prompt = \"Look around. [[text:I have looked.]]\"\nenv = {{ COOP_SIM_SCENARIO = \"plain\" }}\n"
    );
    fleet.post("agents", &json!({ "definition": definition, "name": MADE, "folder": "/data/workspace" }));
    lab.until_so("its own agent has had a turn", || {
        fleet.get(&format!("agents/{MADE}"))["last_message"]
            .as_str()
            .is_some_and(|said| said.contains("I have looked."))
    });
    assert_eq!(lab.json(&["get", "agent", MADE])["spec"]["managedBy"], "Fleet");
    fleet.post(&format!("agents/{MADE}/dismiss"), &json!({}));
    lab.kubectl(&["wait", "-n", NAMESPACE, "--for=delete", &format!("agent/{MADE}"), &limit()]);

    lab.kubectl(&["delete", "-k", &manifests, &limit()]);
    lab.kubectl(&["wait", "-n", NAMESPACE, "--for=delete", "pod", "-l", "app.kubernetes.io/name=coop-fleet", &limit()]);
}

/// What a fleet may do: this and nothing else.
fn rights(lab: &Lab) {
    let all = [
        "agents.coop.dev [] [] [list watch create patch delete]",
        "pods [] [] [get list watch]",
        "pods/portforward [] [] [get create]",
        "secrets [] [] [get create]",
    ];
    assert_eq!(lab.may("coop-fleet", NAMESPACE), all.map(str::to_owned).into());
    assert_eq!(lab.may("coop-fleet", "default"), BTreeSet::new(), "elsewhere");
    for (verb, what) in
        [("list", "secrets"), ("update", "secrets"), ("delete", "pods"), ("create", "pods/exec"), ("list", "nodes")]
    {
        let who = format!("--as=system:serviceaccount:{NAMESPACE}:coop-fleet");
        let (_, said, _) = lab.try_kubectl(&["auth", "can-i", verb, what, &who, "-n", NAMESPACE]);
        assert_eq!(said.trim(), "no", "{verb} {what}");
    }
}

struct Fleet<'a> {
    lab: &'a Lab,
    /// Who answers for the Service, and on which port.
    address: String,
}

impl<'a> Fleet<'a> {
    /// Finds who answers for the Service. Nothing in this cluster leads from a Service's own address to there.
    fn behind_the_service(lab: &'a Lab) -> Self {
        let service = lab.json(&["get", "service", "coop-fleet"]);
        assert_eq!(service["spec"]["ports"][0]["port"], 80);
        let answers = || {
            let ends = lab.json(&["get", "endpoints", "coop-fleet"])["subsets"][0].clone();
            Some(format!("{}:{}", ends["addresses"][0]["ip"].as_str()?, ends["ports"][0]["port"]))
        };
        let address = RefCell::new(String::new());
        lab.until_so("somebody answers for the Service", || {
            answers().inspect(|found| address.borrow_mut().clone_from(found)).is_some()
        });
        Self { lab, address: address.into_inner() }
    }

    /// Returns what is there; nothing if nobody answers just now.
    fn get(&self, path: &str) -> Value {
        match self.ask("GET", path, None, TOKEN) {
            (200, reply) => reply,
            (0, _) => Value::Null,
            (status, reply) => panic!("{path}: {status} {reply}"),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, reply) = self.ask("POST", path, Some(body), TOKEN);
        assert!(matches!(status, 200..=201), "{path}: {status} {reply}");
        reply
    }

    /// Asks by the Service's name, as a client in the cluster does.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>, token: &str) -> (u16, Value) {
        let url = format!("http://{}/api/v1/{path}", self.address);
        let headers = [format!("Host: {HOST}"), format!("Authorization: Bearer {token}")];
        self.lab.ask(method, &url, &headers, body)
    }
}
