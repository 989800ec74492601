//! Agents that others apply in a cluster: they are shown, and steered by whoever is asked. Their operator starts them, goes on with
//! them and ends them; a fleet only follows, and does what their resource asks of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coop_api::AgentId;
use coop_fleet::adapter::{SidecarAdapter, can_be_id};
use coop_fleet::engine::Phase;
use coop_fleet::fleet::{Fleet, FleetError};
use coop_fleet::launcher::{RunOwner, Running};
use coop_fleet::store::Defined;
use coop_kube::{Applied, ClusterLauncher};
use tokio::time::sleep;

use super::adhoc;
use super::places::agents_of;

/// Whose doing it is that such an agent comes and goes.
const BY: &str = "kubernetes";

/// How long to wait before the store is read again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Follows the agents of a cluster that others apply, as they come and go.
pub(super) async fn follow(fleet: Fleet, sidecars: SidecarAdapter, cluster: ClusterLauncher) {
    cluster.told().await;
    let mut changes = cluster.changes();
    let mut following = None;
    loop {
        changes.mark_unchanged();
        match others(&fleet).await {
            Ok(others) => {
                let following = following.get_or_insert_with(|| Following::of(&others));
                let all = fleet.agents();
                let steps =
                    following.hear(cluster.applied(), |agent| all.contains(agent), |agent| others.contains(agent));
                for (agent, step) in steps {
                    if let Err(error) = take(&fleet, &sidecars, &agent, step).await {
                        tracing::error!(%agent, %error, "an Agent of the cluster is not followed");
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot read which Agents of the cluster are followed; trying again");
                sleep(RETRY_PAUSE).await;
                continue;
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Returns the agents that others have applied.
async fn others(fleet: &Fleet) -> Result<BTreeSet<AgentId>, FleetError> {
    let agents = fleet.look(|store| agents_of(store, RunOwner::Others)).await?;
    Ok(agents.into_iter().map(|agent| agent.id).collect())
}

async fn take(fleet: &Fleet, sidecars: &SidecarAdapter, agent: &AgentId, step: Step) -> Result<(), FleetError> {
    let id = agent.clone();
    match step {
        Step::Adopt(defined) => {
            fleet.adopt(agent, defined, BY).await?;
            tracing::info!(%agent, "an Agent of the cluster is followed");
        }
        Step::Define(defined) => {
            let before = fleet.look(move |store| store.defined(&id)).await?;
            if before.is_none_or(|before| before != defined) {
                fleet.redefine(agent, defined, BY).await?;
                tracing::info!(%agent, "an Agent of the cluster is another than before");
            }
        }
        Step::GoOn { pod } => {
            let record = fleet.look(move |store| store.agent(&id)).await?;
            if record.is_some_and(|record| record.outcome.is_some() && record.phase != Phase::Dead) {
                fleet.runs_on(agent, BY).await?;
            }
            // After a restart it is found by itself.
            if !sidecars.follows(agent, &pod) {
                fleet.look_again(agent).await?;
            }
        }
        Step::End => {
            let record = fleet.look(move |store| store.agent(&id)).await?;
            // Somebody here may have ended it, and then it was they.
            if record.is_some_and(|record| record.outcome.is_none()) {
                fleet.ended(agent, BY).await?;
            }
        }
    }
    Ok(())
}

/// What follows from what is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Nobody knows it yet.
    Adopt(Defined),
    /// Its resource may say otherwise than what is written down.
    Define(Defined),
    /// It has another pod, or is to go on in the one that it has.
    GoOn { pod: String },
    /// Somebody has suspended or deleted it.
    End,
}

/// What was seen last of those that are followed.
#[derive(Debug, Default)]
struct Following {
    known: BTreeMap<AgentId, Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    pod: Option<String>,
    is_stopped: bool,
    defined: Option<Defined>,
}

impl Following {
    fn of(others: &BTreeSet<AgentId>) -> Self {
        Self { known: others.iter().map(|agent| (agent.clone(), Known::default())).collect() }
    }

    /// Compares what is there with what was. What has not changed was seen to: a person may want otherwise since.
    /// `is_there` tells whether the fleet has an agent that is called so, `is_others` whether that is one that others applied.
    fn hear(
        &mut self,
        found: Vec<Applied>,
        is_there: impl Fn(&AgentId) -> bool,
        is_others: impl Fn(&AgentId) -> bool,
    ) -> Vec<(AgentId, Step)> {
        let mut steps = Vec::new();
        let before = std::mem::take(&mut self.known);
        for Applied { running, actions, pod, is_stopped } in found {
            let agent = running.agent.clone();
            let defined = defined(&running, &actions);
            if !is_there(&agent) {
                if !can_be_id(&agent) {
                    tracing::warn!(%agent, "an Agent with such a name cannot be shown");
                    continue;
                }
                // It is shown once it runs.
                if pod.is_none() || is_stopped {
                    continue;
                }
                steps.push((agent.clone(), Step::Adopt(defined.clone())));
            } else if let Some(before) = before.get(&agent).cloned().or_else(|| is_others(&agent).then(Known::default))
            {
                if before.defined.as_ref() != Some(&defined) {
                    steps.push((agent.clone(), Step::Define(defined.clone())));
                }
                if is_stopped && !before.is_stopped {
                    steps.push((agent.clone(), Step::End));
                }
                let is_other = |pod: &String| before.is_stopped || before.pod.as_ref() != Some(pod);
                if let Some(pod) = pod.clone().filter(|pod| !is_stopped && is_other(pod)) {
                    steps.push((agent.clone(), Step::GoOn { pod }));
                }
            } else {
                // The fleet has one of its own that is called so.
                continue;
            }
            self.known.insert(agent, Known { pod, is_stopped, defined: Some(defined) });
        }
        let gone = before.iter().filter(|(agent, known)| !self.known.contains_key(*agent) && !known.is_stopped);
        steps.extend(gone.map(|(agent, _)| (agent.clone(), Step::End)));
        steps
    }
}

/// Returns what an Agent of others is to the fleet.
fn defined(running: &Running, actions: &str) -> Defined {
    let name = running.agent.0.clone();
    let text = adhoc::applied(running, actions);
    let folder = running.folder.display().to_string();
    Defined { text, name, folder, prompt: None, parent: None, run_owner: running.run_owner }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(pod: Option<&str>, is_stopped: bool) -> Vec<Applied> {
        let (agent, driver) = (AgentId("a".to_owned()), "claude".to_owned());
        let running = Running {
            agent,
            pid: None,
            command: vec![driver.clone()],
            driver,
            folder: "/".into(),
            isolate: false,
            sandbox: None,
            permission_mode: None,
            ask_first: false,
            run_owner: RunOwner::Others,
        };
        vec![Applied { running, actions: String::new(), pod: pod.map(str::to_owned), is_stopped }]
    }

    /// What an agent is to the fleet already.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Standing {
        New,
        /// It is one that others applied.
        Followed,
        /// The fleet has an agent of its own that is called so.
        TheFleets,
    }

    /// What is done about the one agent, in a word.
    fn words(following: &mut Following, found: Vec<Applied>, standing: Standing) -> Vec<String> {
        let word = |step| match step {
            Step::Adopt(_) => "adopt".to_owned(),
            Step::Define(_) => "define".to_owned(),
            Step::GoOn { pod } => pod,
            Step::End => "end".to_owned(),
        };
        let steps = following.hear(found, |_| standing != Standing::New, |_| standing == Standing::Followed);
        steps.into_iter().map(|(_, step)| word(step)).collect()
    }

    #[test]
    fn each_pod_is_gone_on_with_once_and_each_end_is_told_once() {
        let mut following = Following::default();
        let mut hear = |found, standing| words(&mut following, found, standing);
        assert_eq!(hear(applied(None, false), Standing::New), [] as [&str; 0], "it does not run yet");
        assert_eq!(hear(applied(Some("p1"), false), Standing::New), ["adopt"]);
        assert_eq!(hear(applied(Some("p1"), false), Standing::Followed), [] as [&str; 0]);
        assert_eq!(hear(applied(None, false), Standing::Followed), [] as [&str; 0], "its operator sees to that");
        assert_eq!(hear(applied(Some("p2"), false), Standing::Followed), ["p2"]);
        assert_eq!(hear(applied(Some("p2"), true), Standing::Followed), ["end"]);
        assert_eq!(hear(applied(None, true), Standing::Followed), [] as [&str; 0], "a person may resume it meanwhile");
        assert_eq!(hear(applied(Some("p3"), false), Standing::Followed), ["p3"]);
        assert_eq!(hear(Vec::new(), Standing::Followed), ["end"], "it was deleted");
        assert_eq!(hear(Vec::new(), Standing::Followed), [] as [&str; 0]);
        assert_eq!(hear(applied(Some("p4"), false), Standing::Followed), ["define", "p4"], "and applied again");
        assert_eq!(hear(applied(Some("p4"), false), Standing::TheFleets), [] as [&str; 0], "it is being looked for");
        assert_eq!(hear(Vec::new(), Standing::TheFleets), ["end"]);
        assert_eq!(hear(applied(Some("p5"), false), Standing::TheFleets), [] as [&str; 0], "another is called so");
    }

    /// The bug this keeps away: somebody suspends an Agent and takes that back before its pod was ended, and the fleet takes it for
    /// over as long as it runs.
    #[test]
    fn a_pod_that_was_to_end_and_runs_on_is_gone_on_with() {
        let mut following = Following::default();
        let mut hear = |found| words(&mut following, found, Standing::Followed);
        assert_eq!(hear(applied(Some("p1"), false)), ["define", "p1"]);
        assert_eq!(hear(applied(Some("p1"), true)), ["end"]);
        assert_eq!(hear(applied(Some("p1"), false)), ["p1"]);
        assert_eq!(hear(applied(Some("p1"), false)), [] as [&str; 0]);
        assert_eq!(hear(applied(None, true)), ["end"], "it is not ready for a while");
        assert_eq!(hear(applied(None, false)), [] as [&str; 0]);
        assert_eq!(hear(applied(Some("p1"), false)), ["p1"]);
    }

    /// The bug this keeps away: what an Agent may no longer do is still allowed.
    #[test]
    fn what_the_resource_says_anew_holds_from_then_on() {
        let mut following = Following::default();
        let mut hear = |actions: &str| {
            let mut found = applied(Some("p1"), false);
            actions.clone_into(&mut found[0].actions);
            words(&mut following, found, Standing::Followed)
        };
        assert_eq!(hear("on_prompt = \"allow\"\n"), ["define", "p1"]);
        assert_eq!(hear("on_prompt = \"allow\"\n"), [] as [&str; 0]);
        assert_eq!(hear(""), ["define"]);
        assert_eq!(hear(""), [] as [&str; 0]);
    }

    #[test]
    fn what_was_deleted_while_nobody_looked_has_ended() {
        let mut following = Following::of(&[AgentId("a".to_owned())].into());
        assert_eq!(words(&mut following, Vec::new(), Standing::Followed), ["end"]);
    }
}
