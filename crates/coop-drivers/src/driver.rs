//! The trait that each agent's driver implements, and what passes through it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use coop_api::{Answer, Ask, Capability, Screen};
use serde_json::Value;

use crate::{Allowed, McpServer, Reach, Serve, Served, Signal, StartSource};

/// What coop knows of one agent.
pub trait Driver: Send {
    /// Returns what can be done with it, the way it is run.
    fn capabilities(&self) -> &'static [Capability];

    /// Returns which of coop's own options it heeds; the others are refused for it.
    fn heeds(&self) -> Heeds {
        Heeds::default()
    }

    /// Returns what has to be done before the agent is started.
    fn setup(&self, launch: &Launch) -> Result<Setup, SetupError>;

    /// Takes in something that was seen, at this time in milliseconds since 1970, and returns what it means.
    fn observe(&mut self, seen: &Observation<'_>, at: u64) -> Vec<Signal>;

    /// Returns what the agent's link has to be told now for the protocol's own sake, such as a subscription. It is asked
    /// after every observation. Nothing said here may answer an ask, and keys cannot be said at all.
    fn say(&mut self) -> Vec<Say> {
        Vec::new()
    }

    /// Tells whether a status file is the agent's own and not another one's in the same folder, as far as is known after
    /// it was observed. From then on no other is.
    fn owns_status(&self, _: &Value) -> bool {
        false
    }

    /// Returns how a message is handed to the agent, which waits for one.
    fn deliver(&mut self, text: &str, view: &View<'_>) -> Result<Vec<Step>, Refusal>;

    /// Returns how an ask is answered.
    fn answer(&self, ask: &Ask, reach: &Reach, answer: &Answer, view: &View<'_>) -> Result<Vec<Step>, Refusal>;

    /// Returns how the agent is stopped in what it does.
    fn interrupt(&self, view: &View<'_>) -> Vec<Step>;

    /// Takes in whether the agent may end its turn, and returns what the hook prints that asked.
    fn stop_reply(&mut self, reply: &StopReply) -> Option<Value>;

    /// Tells whether an agent that may end its turn has ended it. Otherwise something else will tell: others may have a say
    /// in it too.
    fn ends_on_stop(&self) -> bool {
        true
    }

    /// Returns what a hook prints to tell an agent that begins what it should know.
    fn start_reply(&self, source: StartSource, context: &str) -> Option<Value>;

    /// Tells whether a screen shows something that a step waits for.
    fn shows(&self, _: &OnScreen, _: &Screen) -> bool {
        false
    }

    /// Returns what kind of screen this is.
    fn classify(&self, _: &Screen) -> ScreenKind {
        ScreenKind::NotJudged
    }

    /// Returns the signals that the driver expects of the agent and has not had, in words for people.
    fn missing_signals(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Tells whether the turn is over and more of what was said and done in it is still to be told.
    fn is_behind(&self) -> bool {
        false
    }

    /// Returns how a setting of the running agent is changed; nothing if that cannot be done.
    fn configure(&mut self, settings: &coop_api::Configure, view: &View<'_>) -> Result<Vec<Step>, Refusal>;
}

/// Options of coop's own that a driver may heed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heeds {
    /// [`Launch::resume`].
    pub resume: bool,
    /// [`Launch::allowed`].
    pub allowed: bool,
    /// [`Launch::isolated`].
    pub isolated: bool,
    /// [`Launch::settings`].
    pub settings: bool,
    /// [`Launch::mcp`].
    pub mcp: bool,
    /// [`Launch::ask_first`].
    pub ask_first: bool,
}

/// How the agent is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// In its own terminal interface.
    #[default]
    Pty,
    /// By its protocol over pipes.
    Pipe,
    /// By its server, without a terminal interface.
    Server,
    /// In coop's own program, as a process of its own.
    Inproc,
}

impl Runtime {
    /// Returns the runtime's name on the command line and every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pty => "pty",
            Self::Pipe => "pipe",
            Self::Server => "server",
            Self::Inproc => "inproc",
        }
    }
}

/// What is to be launched.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// How.
    pub runtime: Runtime,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Which word of it is the agent's program.
    pub program_at: usize,
    /// Where it runs.
    pub cwd: String,
    /// The user's home.
    pub home: String,
    /// A name for a new conversation.
    pub session_id: String,
    /// The earlier conversation to go on with.
    pub resume: Option<String>,
    /// What may be done for the agent when its protocol asks for it.
    pub allowed: Allowed,
    /// A secret that the agent's server can be given.
    pub secret: String,
    /// A port on loopback that was free a moment ago.
    pub port: u16,
    /// The command that the agent's hooks run.
    pub hook_command: String,
    /// A folder that is ours and private, for files.
    pub folder: String,
    /// Whether nobody but root can write to that folder or one above it.
    pub is_roots: bool,
    /// A folder for a configuration of the agent's own, which outlives it; set if it is to have one, without dialogs.
    pub isolated: Option<String>,
    /// Whether it asks before it uses any tool, whatever its permission mode.
    pub ask_first: bool,
    /// Whether that configuration says that the folder is trusted. Without it the agent asks, as it would ask any user.
    pub trusts_folder: bool,
    /// Settings that the caller wants merged into the agent's own.
    pub settings: Option<Value>,
    /// Servers of tools that the agent is to use beside its own.
    pub mcp: Vec<McpServer>,
    /// The variables of the environment that the driver wanted to know, those that are set.
    pub variables: Variables,
    /// The content of the files that the driver wanted to read, by path.
    pub contents: BTreeMap<String, String>,
    /// What the program says of its version, if the driver wanted to know and it said something.
    pub version: Option<String>,
}

impl Launch {
    /// Returns the words before our options, and those after: ours stand right behind the agent's program, before anything
    /// that could swallow them.
    pub fn split(&self) -> (&[String], &[String]) {
        self.command.split_at((self.program_at + 1).min(self.command.len()))
    }
}

/// Variables of the environment. Their values may be secrets and are not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

impl Variables {
    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Why an agent cannot be launched this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(pub String);

/// What has to be done before an agent is started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Files to write first.
    pub files: Vec<FileToWrite>,
    /// Files to watch.
    pub watch: Vec<Watch>,
    /// Another process that runs as long as the agent does.
    pub companion: Option<Companion>,
    /// How the agent's protocol is reached.
    pub link: Link,
    /// What it is told first.
    pub opening: Vec<Say>,
    /// Variables by which the agent's program finds its conversations, whoever runs it; none where it looks by itself.
    pub at_home: Vec<(String, String)>,
}

/// A process that an agent needs beside it. It is started first and ended last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// What has to be there before the agent is started, if it cannot wait for it by itself.
    pub ready: Option<Ready>,
}

/// When a companion is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The Unix socket that it will listen on.
    pub socket: String,
    /// The status file that is written if it does not in time. Its content is `{"companion":"missing"}`.
    pub missing: String,
    /// What is run in the agent's place if it does not in time: the program and its arguments.
    pub instead: Vec<String>,
}

/// How an agent's protocol is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// It has none that is used.
    #[default]
    None,
    /// Lines of JSON over its standard input and output.
    Pipe,
    /// Messages over a WebSocket on a Unix socket.
    Socket {
        /// Where it is, or will be. If a part of its name is not known it is `*`, which means the first of those there are.
        path: String,
    },
    /// Calls over HTTP on loopback, and a stream of events.
    Http {
        /// The address, such as `http://127.0.0.1:4096`.
        url: String,
        /// The path of the stream of events.
        events: String,
        /// The value of the `authorization` header.
        authorization: String,
    },
}

/// Something to tell an agent's protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Say {
    /// A message, over pipes or a socket.
    Message(Value),
    /// A call, over HTTP.
    Call(Call),
    /// Something that its protocol asked of us, for the session to do.
    Serve(Serve),
    /// Something it said that is not the protocol's, for people to see.
    Show(String),
}

/// A call over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The name that its reply will have.
    pub name: String,
    /// The method, in capitals.
    pub method: &'static str,
    /// The path with its query.
    pub path: String,
    /// What is sent along.
    pub body: Option<Value>,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileToWrite {
    /// Where.
    pub path: String,
    /// What.
    pub content: String,
    /// What becomes of what is there.
    pub existing: Existing,
}

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It goes.
    Replaced,
    /// It is JSON: its fields stay, but for those that are written, and its lists become longer.
    Merged,
}

/// A file to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Lines of JSON that are appended.
    Log {
        /// Where it is, or will be.
        path: String,
    },
    /// The status files of a folder, one for each process.
    Status {
        /// Where they are.
        folder: String,
    },
}

/// How long after a change of the title the session looks at the screen once more: agents write the title before the frame that
/// belongs to it, and either may be delayed on the way.
pub const TITLE_LEAD: Duration = Duration::from_millis(250);

/// Something that was seen of an agent.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A hook ran.
    Hook {
        /// Which.
        event: &'a str,
        /// What it was told.
        payload: &'a Value,
    },
    /// A line was appended to the log.
    LogLine {
        /// The line.
        line: &'a Value,
        /// Whether it was there before the agent was started.
        past: bool,
    },
    /// The agent's status file changed.
    StatusFile(&'a Value),
    /// The agent's control protocol said something.
    Control(&'a Value),
    /// A call was answered.
    Reply {
        /// The call's name.
        name: &'a str,
        /// The status; none if nobody answered.
        status: Option<u16>,
        /// What came back, if that was JSON.
        body: &'a Value,
    },
    /// A message of ours was written to the agent's standard input, whole.
    Sent(&'a Value),
    /// Something was done for the agent, or not.
    Served {
        /// Its name.
        name: &'a str,
        /// What came of it.
        outcome: &'a Served,
    },
    /// The link to the agent's protocol came up, or is down; it comes up again by itself.
    Link {
        /// Which.
        up: bool,
    },
    /// The link has been down for long. It may still come up again, but what was heard over it is old.
    LinkLost,
    /// The terminal has another title.
    Title(&'a str),
    /// The screen changed.
    Screen(&'a Screen),
}

/// What a driver may look at when it decides on steps.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// How the agent is run.
    pub runtime: Runtime,
    /// What its terminal shows.
    pub screen: &'a Screen,
}

/// Something to do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Answers the hook that waits with the ask.
    Reply(Value),
    /// Tells the agent's control protocol something.
    Send(Value),
    /// Calls the agent's server.
    Call(Call),
    /// Types.
    Type(Bytes),
    /// Waits.
    Pause(Duration),
    /// Waits for a proof, and without one in time tries once more, if it may, or gives up. Nothing further is done then.
    Expect {
        /// What proves it.
        what: Expected,
        /// For how long.
        within: Duration,
        /// What to type once if nothing comes.
        retry: Option<Retry>,
    },
}

/// Keys that are typed a second time.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// How long it may take to show without them.
    pub after: Duration,
    /// The keys.
    pub keys: Bytes,
    /// What the screen must show right then: anywhere else they could do something else.
    pub only_if: OnScreen,
}

/// What proves that something took.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// The agent began a turn.
    TurnBegan,
    /// The agent took a command of its own: it began a turn or anew, works, asks something, or wrote the command down.
    /// When the time is up its empty input will do.
    Command,
    /// The ask is settled.
    AskGone,
    /// The agent is idle.
    Idle,
    /// The agent's server took the last call; a refusal ends the wait at once.
    Accepted,
    /// The agent replied to this request.
    Reply(String),
    /// The screen shows this.
    Screen(OnScreen),
}

/// What kind of screen an agent shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKind {
    /// The agent's input, where it takes messages. An agent that works may show it too.
    Input,
    /// A dialog that the driver has reported.
    Dialog,
    /// Nothing that the driver knows.
    Unknown,
    /// The driver does not go by screens.
    NotJudged,
}

/// Something on the agent's screen.
#[derive(Clone, Debug, PartialEq)]
pub enum OnScreen {
    /// Its input is open, and nothing is typed in it.
    InputEmpty,
    /// Its input is open for messages, and something is typed in it.
    InputFilled,
    /// Its input is open, and holds this message.
    InputHolds(String),
    /// This is asked, word for word.
    Asked(Box<Ask>),
    /// The mark stands before this option.
    Marked {
        /// The option's number.
        number: char,
        /// How it is called.
        label: Label,
    },
    /// An option of several that can be chosen is chosen, or not.
    Ticked {
        /// The option's number.
        number: char,
        /// Whether it is.
        ticked: bool,
    },
    /// Each of these stands in a row, with single blanks, at or below the last row that has something.
    Rows {
        /// What stands there.
        rows: Vec<String>,
        /// Where to begin.
        below: String,
    },
}

/// What an option is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// Anything.
    Any,
    /// Something that begins with this.
    Begins(String),
    /// Something, but nothing that begins with this.
    Other(String),
}

/// What an agent is told that wants to end its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReply {
    /// It may.
    Allow,
    /// It is told this and goes on.
    Block(String),
}

/// Why there are no steps for what somebody wants. Nothing has been sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What was chosen is not offered.
    #[error("{0}")]
    NoSuchOption(String),
    /// Somebody is in the middle of something.
    #[error("{0}")]
    Occupied(String),
    /// The agent shows nothing to type into; that may be over in a moment.
    #[error("{0}")]
    NotYet(String),
    /// The request makes no sense for this ask or agent.
    #[error("{0}")]
    BadRequest(String),
    /// This agent cannot do it, the way it is run.
    #[error("{0}")]
    Unsupported(String),
    /// Nothing is known of the program.
    #[error("{0}")]
    NoDriver(String),
}
