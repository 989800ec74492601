//! One status for each workspace, of all agents in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use coop_api::AgentState;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::engine::{Agent, Phase};

/// What agents do, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mood {
    /// There is no agent whose state is known.
    None,
    /// All wait for a person.
    Idle,
    /// All work.
    Busy,
    /// Some wait, and some work.
    Mixed,
}

/// How many agents do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They wait for a person: idle, asking, or with an error.
    pub idle: u32,
    /// They work.
    pub busy: u32,
}

/// The status of a workspace, or of a project: that of all agents in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentStatus(pub Counts);

impl AgentStatus {
    /// Returns the status of one agent. `driver` is the one that its definition names, `heard` the state that its sidecar told
    /// of last in this run.
    pub fn of(agent: &Agent, driver: &str, heard: Option<&AgentState>) -> Self {
        let (none, idle, busy) =
            (Self::default(), Self(Counts { idle: 1, busy: 0 }), Self(Counts { idle: 0, busy: 1 }));
        if agent.run == 0 || agent.phase == Phase::Dead || agent.outcome.is_some() {
            return none;
        }
        if matches!(heard, Some(AgentState::Unknown | AgentState::Exited { .. })) {
            return none;
        }
        match agent.phase {
            // Whoever asks waits for a person, whatever else goes on.
            _ if !agent.asks.is_empty() => idle,
            // Nobody can tell what a program without a driver does, and a name like "auto" need not come to one.
            Phase::Starting if heard.is_none() && matches!(driver, "unknown" | "auto") => none,
            Phase::Starting if agent.has_first_words() => busy,
            Phase::Working => busy,
            Phase::Starting | Phase::Idle | Phase::Asking | Phase::Blocked => idle,
            Phase::Dead => none,
        }
    }

    /// Returns it in one word.
    pub fn mood(self) -> Mood {
        match self.0 {
            Counts { idle: 0, busy: 0 } => Mood::None,
            Counts { busy: 0, .. } => Mood::Idle,
            Counts { idle: 0, .. } => Mood::Busy,
            Counts { .. } => Mood::Mixed,
        }
    }

    /// Returns the status of the agents of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Counts { idle: self.0.idle + other.0.idle, busy: self.0.busy + other.0.busy })
    }
}

impl FromIterator<Self> for AgentStatus {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        parts.into_iter().fold(Self::default(), Self::and)
    }
}

/// `{"type":"none"}`, or with another type `{"type":…,"counts":{"idle":…,"busy":…,"total":…}}`.
impl Serialize for AgentStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mood = self.mood();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &mood)?;
        if mood != Mood::None {
            let Counts { idle, busy } = self.0;
            let counts = BTreeMap::from([("idle", idle), ("busy", busy), ("total", idle + busy)]);
            map.serialize_entry("counts", &counts)?;
        }
        map.end()
    }
}

/// A workspace's status is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusChange {
    /// Of which project it is.
    pub project_id: String,
    /// Where it is.
    pub path: PathBuf,
    /// What its agents do now.
    pub agent: AgentStatus,
}

/// The status of every workspace that has one, as it was last told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statuses(BTreeMap<PathBuf, (String, AgentStatus)>);

impl Statuses {
    /// Takes what all agents do now, by workspace, and returns what is new. A workspace that is not among them has no agent.
    pub fn update(&mut self, agents: impl IntoIterator<Item = (String, PathBuf, AgentStatus)>) -> Vec<StatusChange> {
        let mut now: BTreeMap<PathBuf, (String, AgentStatus)> = BTreeMap::new();
        for (project, path, status) in agents {
            let known = now.entry(path).or_insert_with(|| (project, AgentStatus::default()));
            known.1 = known.1.and(status);
        }
        now.retain(|_, (_, status)| status.mood() != Mood::None);
        let before = std::mem::replace(&mut self.0, now);
        let ended = before.iter().filter(|(path, _)| !self.0.contains_key(*path)).map(|(path, (project, _))| {
            StatusChange { project_id: project.clone(), path: path.clone(), agent: AgentStatus::default() }
        });
        let changed =
            self.0.iter().filter(|(path, now)| before.get(*path) != Some(now)).map(|(path, (project, now))| {
                StatusChange { project_id: project.clone(), path: path.clone(), agent: *now }
            });
        ended.chain(changed).collect()
    }

    /// Returns the status of a workspace.
    pub fn workspace(&self, path: &std::path::Path) -> AgentStatus {
        self.0.get(path).map(|(_, status)| *status).unwrap_or_default()
    }

    /// Returns the status of a project.
    pub fn project(&self, id: &str) -> AgentStatus {
        self.0.values().filter(|(project, _)| project == id).map(|(_, status)| *status).collect()
    }
}

#[cfg(test)]
mod tests {
    use coop_api::{AgentId, Ask, AskChannel, AskId, AskKind};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::engine::{Input, Rules, Timestamp};
    use crate::sidecar::launcher::RunOwner;
    use crate::store::Defined;

    fn rules(prompt: &str) -> Rules {
        let text = format!("[agents.a]\ndriver = \"claude\"\n{prompt}");
        Defined { text, name: "a".into(), folder: "/".into(), prompt: None, parent: None, run_owner: RunOwner::Fleet }
            .rules()
            .expect("a definition")
    }

    fn status(idle: u32, busy: u32) -> AgentStatus {
        AgentStatus(Counts { idle, busy })
    }

    #[test]
    fn it_is_told_as_seed_001_has_it() {
        assert_eq!(json!(status(0, 0)), json!({ "type": "none" }));
        let counts = json!({ "idle": 2, "busy": 1, "total": 3 });
        assert_eq!(json!(status(2, 1)), json!({ "type": "mixed", "counts": counts }));
        assert_eq!((status(1, 0).mood(), status(0, 2).mood()), (Mood::Idle, Mood::Busy));
    }

    #[test]
    fn nobody_is_idle_by_guess() {
        let rules = rules("");
        let new = Agent::new(AgentId("a".into()), Timestamp(0));
        assert_eq!(AgentStatus::of(&new, "claude", None), status(0, 0), "there is no process");
        let (runs, _) = new.step(&rules, &Input::Spawned { resumed: false }, Timestamp(0));
        assert_eq!(AgentStatus::of(&runs, "claude", None), status(1, 0));
        for driver in ["unknown", "auto"] {
            assert_eq!(AgentStatus::of(&runs, driver, None), status(0, 0), "{driver}");
        }
        assert_eq!(AgentStatus::of(&runs, "auto", Some(&AgentState::Starting)), status(1, 0));
        assert_eq!(AgentStatus::of(&runs, "claude", Some(&AgentState::Unknown)), status(0, 0));
        let told = self::rules("prompt = \"go\"");
        let (told, _) = new.step(&told, &Input::Spawned { resumed: false }, Timestamp(0));
        assert_eq!(
            AgentStatus::of(&told, "claude", Some(&AgentState::Starting)),
            status(0, 1),
            "it has something to do"
        );
        let (works, _) = runs.step(&rules, &Input::Working, Timestamp(0));
        assert_eq!(AgentStatus::of(&works, "claude", None), status(0, 1));
        let ask = Ask {
            id: AskId("1".into()),
            kind: AskKind::Permission,
            tool: None,
            input: None,
            preview: String::new(),
            questions: Vec::new(),
            options: Vec::new(),
            opened: String::new(),
            channel: AskChannel::Structured,
            screen_lines: Vec::new(),
        };
        let (asks, _) = works.step(&rules, &Input::Prompt { ask: Box::new(ask) }, Timestamp(0));
        let (asks, _) = asks.step(&rules, &Input::Working, Timestamp(0));
        assert_eq!(AgentStatus::of(&asks, "claude", None), status(1, 0), "it waits, whatever else it does");
        let (gone, _) = runs.step(&rules, &Input::Gone { code: Some(0), signal: None }, Timestamp(0));
        assert_eq!(AgentStatus::of(&gone, "claude", Some(&AgentState::Idle)), status(0, 0));
    }

    proptest! {
        /// Whatever agents do in whatever order, a workspace's status is the sum of its agents', a project's that of its
        /// workspaces', and who only hears of changes knows the same.
        #[test]
        fn the_aggregate_is_the_fold_of_the_parts(
            script in prop::collection::vec((0..2_usize, 0..5_usize, 0..3_usize, 0..3_u8), 0..60),
        ) {
            let mut parts: BTreeMap<(usize, usize, usize), AgentStatus> = BTreeMap::new();
            let (mut statuses, mut heard) = (Statuses::default(), BTreeMap::new());
            let path = |project: usize, workspace: usize| PathBuf::from(format!("/{project}/{workspace}"));
            for (project, workspace, agent, doing) in script {
                let part = [status(0, 0), status(1, 0), status(0, 1)][usize::from(doing)];
                parts.insert((project, workspace, agent), part);
                let told = parts.iter().map(|((project, workspace, _), part)| (project.to_string(), path(*project, *workspace), *part));
                for change in statuses.update(told) {
                    let before = heard.insert(change.path.clone(), change.agent).unwrap_or_default();
                    prop_assert_ne!(before, change.agent, "told without a change");
                }
                for project in 0..2 {
                    for workspace in 0..5 {
                        let fold: AgentStatus =
                            parts.iter().filter(|(at, _)| (at.0, at.1) == (project, workspace)).map(|(_, part)| *part).collect();
                        prop_assert_eq!(statuses.workspace(&path(project, workspace)), fold);
                        prop_assert_eq!(heard.get(&path(project, workspace)).copied().unwrap_or_default(), fold);
                    }
                    let fold: AgentStatus = (0..5).map(|workspace| statuses.workspace(&path(project, workspace))).collect();
                    prop_assert_eq!(statuses.project(&project.to_string()), fold);
                }
            }
        }
    }
}
