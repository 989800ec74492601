//! Two repositories with five workspaces each: their status under a script of changes, and what deleting them leaves alone.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::tool::{COOP, LIMIT};
use crate::workspaces::{Lab, git};

const PROJECTS: [&str; 2] = ["one", "two"];
const WORKSPACES: [&str; 5] = ["a", "b", "c", "d", "feature/e"];
const STEPS: u64 = 36;

/// What an agent was last made to do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Idle,
    Working,
    Asking,
}

struct Agent {
    id: String,
    project: usize,
    workspace: &'static str,
    doing: Doing,
    turns: u32,
}

struct World {
    lab: Lab,
    repositories: Vec<PathBuf>,
    agents: Vec<Agent>,
    gates: PathBuf,
}

impl World {
    fn new() -> Self {
        let lab = Lab::new(&[]);
        let home = lab.home.path().canonicalize().expect("there");
        let gates = home.join("gates");
        fs::create_dir(&gates).expect("made");
        let home = home.to_str().expect("UTF-8");
        let env = format!(
            "{{ COOP_SIM_SCENARIO = \"plain\", COOP_SIM_GATES = {gates:?}, HOME = {home:?}, XDG_RUNTIME_DIR = {home:?}, \
             XDG_STATE_HOME = {home:?} }}"
        );
        let definition = format!(
            "[agents.fixer]\ndriver = \"claude\"\nisolate = true\nkind = \"crew\"\non_idle = \"escalate\"\nenv = {env}\n\
             command = [{COOP:?}, \"sim\", \"claude\"]\n"
        );
        let repository = |name: &&str| {
            let path = lab.home.path().join(name);
            fs::create_dir_all(path.join("src")).expect("made");
            fs::write(path.join("coop.toml"), &definition).expect("written");
            fs::write(path.join("src/main.rs"), format!("// {name}\n")).expect("written");
            fs::write(path.join(".gitignore"), "ignored\n").expect("written");
            fs::write(path.join("ignored"), "mine").expect("written");
            lab.open(&path);
            path
        };
        let repositories = PROJECTS.iter().map(repository).collect();
        Self { lab, repositories, agents: Vec::new(), gates }
    }

    /// Makes all workspaces at once, with an agent in each, and two in the first of each project.
    fn fill(&mut self) {
        let (lab, repositories) = (&self.lab, &self.repositories);
        let make = |project: usize, workspace: &'static str| {
            let at = &repositories[project];
            let mut agents = Vec::new();
            lab.json(at, &["ws", "create", workspace]);
            for number in 0..if workspace == "a" { 2 } else { 1 } {
                let id = format!("{}-{}-{number}", PROJECTS[project], workspace.replace('/', "-"));
                lab.agent(at, workspace, &id);
                agents.push(Agent { id, project, workspace, doing: Doing::Idle, turns: 0 });
            }
            agents
        };
        self.agents = thread::scope(|scope| {
            let places = (0..PROJECTS.len()).flat_map(|project| WORKSPACES.map(|workspace| (project, workspace)));
            let made: Vec<_> =
                places.map(|(project, workspace)| scope.spawn(move || make(project, workspace))).collect();
            made.into_iter().flat_map(|made| made.join().expect("no panic")).collect()
        });
    }

    fn step(&mut self, which: usize, choice: u64) {
        let agent = &mut self.agents[which];
        let at = &self.repositories[agent.project];
        let gate = self.gates.join(format!("{}-{}", agent.id, agent.turns));
        match (agent.doing, choice % 2) {
            (Doing::Idle, 0) => {
                agent.turns += 1;
                let name = format!("{}-{}", agent.id, agent.turns);
                let made = Command::new("mkfifo").arg(self.gates.join(&name)).status().expect("it runs");
                assert!(made.success());
                self.lab.json(at, &["send", &agent.id, &format!("work [[gate:{name}]]")]);
                agent.doing = Doing::Working;
            }
            (Doing::Idle, _) => {
                self.lab.json(at, &["send", &agent.id, "[[ask]]"]);
                let (code, _, err) = self.lab.run(at, &["wait", &agent.id, "--for", "ask", "--timeout", "170"]);
                assert_eq!(code, 0, "{err}");
                agent.doing = Doing::Asking;
            }
            (Doing::Working, _) => {
                drop(OpenOptions::new().write(true).open(gate).expect("it waits"));
                agent.doing = Doing::Idle;
            }
            (Doing::Asking, _) => {
                let open = self.lab.json(at, &["asks", &agent.id]);
                let ask = open["asks"][0]["ask"]["id"].as_str().expect("it asks").to_owned();
                self.lab.json(at, &["respond", &agent.id, "1", "--ask", &ask]);
                // Who asks counts as idle too, so the status does not tell when it is.
                let (code, _, err) = self.lab.run(at, &["wait", &agent.id, "--for", "idle", "--timeout", "170"]);
                assert_eq!(code, 0, "{err}");
                agent.doing = Doing::Idle;
            }
        }
    }

    /// Returns what the status of each workspace and of each project has to be: the fold of its agents.
    fn expected(&self) -> BTreeMap<String, Value> {
        let mut counts: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for agent in &self.agents {
            let (idle, busy) = if agent.doing == Doing::Working { (0, 1) } else { (1, 0) };
            let project = PROJECTS[agent.project];
            for key in [project.to_owned(), format!("{project}/{}", agent.workspace)] {
                let entry = counts.entry(key).or_default();
                *entry = (entry.0 + idle, entry.1 + busy);
            }
        }
        let status = |(idle, busy): (u32, u32)| {
            let mood = match (idle, busy) {
                (_, 0) => "idle",
                (0, _) => "busy",
                _ => "mixed",
            };
            json!({ "type": mood, "counts": { "idle": idle, "busy": busy, "total": idle + busy } })
        };
        counts.into_iter().map(|(key, counts)| (key, status(counts))).collect()
    }

    fn told(&self) -> BTreeMap<String, Value> {
        let listed = self.lab.json(self.lab.home.path(), &["ws", "ls"]);
        let mut told = BTreeMap::new();
        for project in listed["projects"].as_array().expect("a list") {
            let name = project["name"].as_str().expect("a name");
            told.insert(name.to_owned(), project["agent"].clone());
            for workspace in project["workspaces"].as_array().expect("a list") {
                let key = format!("{name}/{}", workspace["name"].as_str().expect("a name"));
                told.insert(key, workspace["agent"].clone());
            }
        }
        told
    }

    /// Waits until what is told is what has to be.
    fn settle(&self, after: &str) {
        let (expected, deadline) = (self.expected(), Instant::now() + LIMIT);
        loop {
            let told = self.told();
            if told == expected {
                return;
            }
            assert!(Instant::now() < deadline, "after {after}:\n{told:#?}\nnot {expected:#?}\n{}", self.lab.log());
            crate::tool::pause();
        }
    }

    fn path(&self, project: usize, workspace: &str) -> PathBuf {
        let shown = self.lab.json(&self.repositories[project], &["ws", "show", workspace]);
        shown["path"].as_str().expect("a path").into()
    }

    /// Tries to delete a workspace, and checks that nothing else has changed.
    fn delete(&mut self, project: usize, workspace: &'static str) -> Result<(), String> {
        let at = self.repositories[project].clone();
        let mut projects = fs::read_dir(self.lab.home.path().join("s/projects")).expect("readable").flatten();
        let is_it = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PROJECTS[project]);
        let folder = projects.find(is_it).expect("it is open").path();
        let own = folder.join("workspaces").join(workspace.replace('/', "%"));
        // What coop noted about it goes with it.
        let notes = folder.join("notes.json");
        let is_own = |file: &Path| file == own || file == notes;
        let before = self.rest(&is_own);
        let (code, _, err) = self.lab.run(&at, &["ws", "rm", workspace]);
        assert_eq!(self.rest(&is_own), before, "something else has changed with {workspace}");
        if code == 0 {
            self.agents.retain(|agent| (agent.project, agent.workspace) != (project, workspace));
            return Ok(());
        }
        Err(err)
    }

    /// Returns all files of all repositories and workspaces but one, and of a folder beside them, with what is in them. What
    /// git keeps for itself is asked of git.
    fn rest(&self, is_own: &dyn Fn(&Path) -> bool) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders: Vec<_> = self.repositories.clone();
        folders.extend([self.lab.home.path().join("beside"), self.lab.home.path().join("s/projects")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("readable").flatten() {
                let (path, kind) = (entry.path(), entry.file_type().expect("known"));
                if is_own(&path) || entry.file_name() == ".git" {
                    continue;
                }
                if kind.is_dir() {
                    folders.push(path);
                } else {
                    let content = if kind.is_file() { fs::read(&path).expect("readable") } else { b"link".to_vec() };
                    found.insert(path, content);
                }
            }
        }
        for repository in &self.repositories {
            let head = git(repository, &["rev-parse", "HEAD", "main"]) + &git(repository, &["status", "--porcelain"]);
            found.insert(repository.join(".git"), head.into_bytes());
        }
        found
    }
}

#[test]
fn two_repositories_with_five_workspaces_each() {
    let mut world = World::new();
    fs::create_dir(world.lab.home.path().join("beside")).expect("made");
    fs::write(world.lab.home.path().join("beside/note"), "not yours").expect("written");
    world.fill();
    assert_eq!(world.agents.len(), 12);
    world.settle("the start");
    // A linear congruential generator: the same script each time, with everything in it.
    let mut random = 7_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for step in 0..STEPS {
        let which = next() as usize % world.agents.len();
        world.step(which, next());
        let agent = &world.agents[which];
        world.settle(&format!("step {step}, {} {:?}", agent.id, agent.doing));
    }
    // All wait again.
    for which in 0..world.agents.len() {
        if world.agents[which].doing != Doing::Idle {
            world.step(which, 0);
        }
    }
    world.settle("the script");
    // Something in no commit.
    let dirty = world.path(0, "a");
    fs::write(dirty.join("new"), "x").expect("written");
    let why = world.delete(0, "a").expect_err("it is dirty");
    assert!(why.contains("in no commit"), "{why}");
    // A commit that the base does not have.
    let ahead = world.path(1, "b");
    fs::write(ahead.join("src/main.rs"), "// more\n").expect("written");
    git(&ahead, &["commit", "--quiet", "-am", "more"]);
    let why = world.delete(1, "b").expect_err("it is not merged");
    assert!(why.contains("commit"), "{why}");
    // Git itself cannot tell.
    let unreadable = world.path(0, "feature/e");
    let index = git(&unreadable, &["rev-parse", "--absolute-git-dir"]);
    let index = Path::new(index.trim()).join("index");
    let whole = fs::read(&index).expect("readable");
    fs::write(&index, "no index").expect("written");
    let why = world.delete(0, "feature/e").expect_err("git fails");
    assert!(why.contains("git"), "{why}");
    world.settle("three refusals");
    assert!(dirty.join("new").exists() && ahead.exists() && unreadable.exists());
    // Once nothing would be lost all of them go, and their agents with them.
    fs::write(&index, whole).expect("written");
    fs::remove_file(dirty.join("new")).expect("removed");
    git(&world.repositories[1], &["merge", "--quiet", "--ff-only", "b"]);
    for project in 0..PROJECTS.len() {
        for workspace in WORKSPACES {
            world.delete(project, workspace).unwrap_or_else(|why| panic!("{project} {workspace}: {why}"));
        }
    }
    let none = json!({ "type": "none" });
    assert_eq!(world.told(), PROJECTS.map(|name| (name.to_owned(), none.clone())).into());
    for repository in &world.repositories {
        assert_eq!(git(repository, &["branch", "--format=%(refname:short)"]), "main\n");
        assert_eq!(git(repository, &["worktree", "list"]).lines().count(), 1);
        assert_eq!(git(repository, &["fsck", "--no-progress", "--no-dangling"]), "");
    }
}
