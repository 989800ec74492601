//! What an agent's protocol may ask of coop itself, where a person allowed it: files of its folder, and terminals.
//!
//! A driver turns what the protocol asks into a [`Service`] and says it; the session does it, within the folder the agent
//! works in, and tells what came of it as an [`crate::Observation::Served`].

/// What a person allows an agent to have done for it. Nothing unless it is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Reading and writing text files in its folder.
    pub files: bool,
    /// Running commands in terminals of coop's.
    pub terminals: bool,
}

impl Allowed {
    /// Tells whether anything is allowed.
    pub fn anything(self) -> bool {
        self != Self::default()
    }
}

/// Something to be done for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// The name that its outcome will have.
    pub name: String,
    /// What.
    pub what: Service,
}

/// Things that can be done for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reads a text file, or some of its lines.
    ReadFile {
        /// Where it is.
        path: String,
        /// The first line, counted from 1.
        from: Option<u32>,
        /// How many lines.
        lines: Option<u32>,
    },
    /// Writes a text file anew, and the folders it is in.
    WriteFile {
        /// Where it is.
        path: String,
        /// All of it.
        content: String,
    },
    /// Runs a command in a terminal of its own.
    StartTerminal {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables to set.
        env: Vec<(String, String)>,
        /// Where it runs; the agent's folder without it.
        cwd: Option<String>,
        /// How many bytes of its output are kept, the newest.
        keep: Option<u64>,
    },
    /// Tells what a terminal's command has written.
    TerminalOutput {
        /// Which.
        terminal: String,
    },
    /// Waits until a terminal's command has ended.
    AwaitTerminal {
        /// Which.
        terminal: String,
    },
    /// Ends a terminal's command; what it wrote can still be read.
    KillTerminal {
        /// Which.
        terminal: String,
    },
    /// Ends the commands of all terminals; what they wrote can still be read.
    KillTerminals,
    /// Ends a terminal's command if it runs, and forgets the terminal.
    ReleaseTerminal {
        /// Which.
        terminal: String,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It is done.
    Done,
    /// What a file says.
    Text(String),
    /// A terminal was started.
    Terminal(String),
    /// What a terminal's command has written.
    Output {
        /// The newest of it.
        text: String,
        /// Whether there was more.
        truncated: bool,
        /// How it ended, if it has.
        ended: Option<Ended>,
    },
    /// A terminal's command has ended.
    Ended(Ended),
    /// There is no such file.
    Missing(String),
    /// It was not done.
    Failed(String),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, if it was not killed.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}
