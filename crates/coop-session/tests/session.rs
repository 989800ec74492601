//! A session with real children.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use coop_api::{
    AgentId, Agents, Error, ErrorCode, EventBody, Input, Lifecycle, LockAction, Offset, ProcessState, Read, Reply,
    Request, Seq, Signal, Size, WriterId, Written,
};
use coop_session::{Handle, Options, Queries, start};
use coop_term::{Command, Exit};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Ten times and more what any of these takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(60);
const ME: WriterId = WriterId(0);

fn options(script: &str) -> Options {
    Options {
        id: AgentId("test".into()),
        agent: "unknown".into(),
        command: Command {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: vec![("TERM".into(), Some("xterm-256color".into()))],
            ..Command::default()
        },
        driven: None,
        size: Size::DEFAULT,
        ring: 16 << 20,
        queries: Queries::Answered,
        grace: Duration::from_secs(10),
        idle_timeout: None,
        guard: None,
    }
}

struct Live {
    handle: Handle,
    done: oneshot::Receiver<Option<Exit>>,
}

impl Live {
    async fn run(script: &str) -> Self {
        Self::with(options(script)).await
    }

    async fn with(options: Options) -> Self {
        let (handle, done) = start(options).await.expect("the child starts");
        Self { handle, done }
    }

    async fn call(&self, request: Request) -> Result<Reply, Error> {
        let answer = timeout(LIMIT, self.handle.call(self.handle.id(), request)).await;
        answer.expect("the session answers in time")
    }

    async fn write(&self, bytes: impl Into<Bytes>) -> Result<Written, Error> {
        match self.call(Request::Write { writer: ME, input: Input::Bytes(bytes.into()) }).await? {
            Reply::Written(written) => Ok(written),
            other => panic!("unexpected reply {other:?}"),
        }
    }

    /// Follows the output until `enough` says so, and returns all of it.
    async fn output_until(&self, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut feed = self.handle.feed(self.handle.id()).expect("the session has a feed");
        let mut output = Vec::new();
        let follow = async {
            loop {
                let ended = feed.pulse.borrow_and_update().ended;
                loop {
                    match feed.tap.read(Offset(output.len() as u64)) {
                        Read::Chunk { chunk, skip } => output.extend_from_slice(&chunk.data[skip..]),
                        Read::UpToDate => break,
                        Read::Gap { from, to } => panic!("lost {from}..{to}"),
                    }
                }
                if enough(&output) {
                    return;
                }
                assert!(!ended, "the child ended with {:?}", String::from_utf8_lossy(&output));
                feed.pulse.changed().await.expect("the session goes on");
            }
        };
        let outcome = timeout(LIMIT, follow).await;
        assert!(outcome.is_ok(), "only {:?} came in time", String::from_utf8_lossy(&output));
        output
    }

    async fn see(&self, text: &str) -> String {
        let output = self.output_until(|output| String::from_utf8_lossy(output).contains(text)).await;
        String::from_utf8_lossy(&output).into_owned()
    }

    async fn ended(&self) {
        let mut feed = self.handle.feed(self.handle.id()).expect("the session has a feed");
        timeout(LIMIT, feed.pulse.wait_for(|pulse| pulse.ended)).await.expect("in time").expect("the session goes on");
    }

    async fn lifecycle(&self) -> Vec<Lifecycle> {
        let Ok(Reply::Events(page)) = self.call(Request::Events(Seq(0))).await else { panic!("no events") };
        page.events
            .into_iter()
            .filter_map(|event| match event.body {
                EventBody::Lifecycle(lifecycle) => Some(lifecycle),
                _ => None,
            })
            .collect()
    }

    async fn shut_down(self) -> Option<Exit> {
        self.call(Request::Shutdown).await.expect("a shutdown is never refused");
        timeout(LIMIT, self.done).await.expect("the child ends in time").expect("the session tells")
    }
}

#[tokio::test]
async fn exit_codes_and_last_words_arrive() {
    let live = Live::run("printf 'last words'; exit 42").await;
    live.ended().await;
    assert_eq!(live.see("last words").await, "last words");
    let Ok(Reply::Status(status)) = live.call(Request::Status).await else { panic!("no status") };
    assert_eq!((status.state, status.exit_code, status.pid), (ProcessState::Exited, Some(42), None));
    assert_eq!(live.write("x").await.map_err(|error| error.code), Err(ErrorCode::Exited));
    assert!(matches!(
        live.lifecycle().await[..],
        [Lifecycle::Started { .. }, Lifecycle::Exited { code: Some(42), signal: None }]
    ));
}

#[tokio::test]
async fn a_killing_signal_is_told() {
    let live = Live::run("echo up; sleep 1000").await;
    live.see("up").await;
    live.call(Request::Signal(Signal::Kill)).await.expect("the child lives");
    live.ended().await;
    let Ok(Reply::Status(status)) = live.call(Request::Status).await else { panic!("no status") };
    assert_eq!((status.exit_code, status.exit_signal), (None, Some(9)));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_of_the_start() {
    let mut options = options("");
    options.command.program = "/no/such/program".into();
    let error = start(options).await.err().expect("it cannot start").to_string();
    assert_eq!(error, "cannot run \"/no/such/program\"; check its name and that it is on PATH");
}

#[tokio::test]
async fn ten_mebibytes_to_an_echoing_child_neither_block_nor_lose_a_byte() {
    let live = Live::run("stty raw -echo; echo ready; exec cat").await;
    live.see("ready").await;
    let begin = live.output_until(|_| true).await.len();
    let paste: Vec<u8> = (0..10 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let length = paste.len();
    let sent = live.write(paste.clone());
    let echoed = live.output_until(|output| output.len() >= begin + length);
    let (written, output) = tokio::join!(sent, echoed);
    let written = written.expect("the paste is taken");
    assert_eq!(written.bytes_written + written.queued, length as u64);
    assert!(output[begin..] == paste, "the echo differs from what was sent");
}

#[tokio::test]
async fn a_thousand_concurrent_inputs_arrive_whole_and_in_order_of_each_sender() {
    let live = Live::run("stty raw -echo; echo ready; exec cat").await;
    live.see("ready").await;
    let begin = live.output_until(|_| true).await.len();
    let tasks: Vec<_> = (0..100)
        .map(|sender| {
            let handle = live.handle.clone();
            tokio::spawn(async move {
                for number in 0..10 {
                    let text = format!("<{sender}:{number}:{}>", "x".repeat(sender));
                    let input = Input::Bytes(text.into());
                    handle.call(handle.id(), Request::Write { writer: ME, input }).await.expect("it is written");
                }
            })
        })
        .collect();
    let output = live.output_until(|output| output.iter().filter(|&&byte| byte == b'>').count() == 1000).await;
    for task in tasks {
        task.await.expect("no sender fails");
    }
    let mut next: HashMap<usize, usize> = HashMap::new();
    let text = String::from_utf8(output[begin..].to_vec()).expect("text was sent");
    for input in text.split_terminator('>') {
        let parts: Vec<_> = input.trim_start_matches('<').split(':').collect();
        let (sender, number) = (parts[0].parse::<usize>().expect("whole"), parts[1].parse::<usize>().expect("whole"));
        assert_eq!(parts[2].len(), sender, "torn apart: {input}");
        let expected = next.entry(sender).or_default();
        assert_eq!(number, *expected);
        *expected += 1;
    }
    assert_eq!(next.len(), 100);
}

#[tokio::test]
async fn a_child_that_does_not_read_is_told_as_queued() {
    let live = Live::run("stty raw -echo; echo ready; sleep 1000").await;
    live.see("ready").await;
    let written = live.write(vec![b'x'; 1 << 20]).await.expect("it is queued");
    assert!(written.queued > 0 && written.bytes_written + written.queued == 1 << 20, "{written:?}");
    let huge = live.write(vec![b'x'; 40 << 20]).await;
    assert_eq!(huge.map_err(|error| error.code), Err(ErrorCode::WriterBusy));
}

#[tokio::test]
async fn nothing_typed_for_one_child_reaches_the_next() {
    let live = Live::run("stty raw -echo; echo ready $$; exec sleep 1000").await;
    live.see("ready").await;
    let typed = tokio::spawn({
        let handle = live.handle.clone();
        async move {
            let input = Input::Bytes(vec![b'!'; 1 << 20].into());
            handle.call(handle.id(), Request::Write { writer: ME, input }).await
        }
    });
    // Queued behind what the first child never reads.
    live.call(Request::Health).await.expect("the session answers");
    live.call(Request::Restart).await.expect("it can be restarted");
    let output = live.output_until(|output| String::from_utf8_lossy(output).matches("ready").count() == 2).await;
    assert!(!output.contains(&b'!'));
    let outcome = typed.await.expect("the writer ends").map_err(|error| error.code);
    assert!(matches!(outcome, Err(ErrorCode::Exited) | Ok(_)), "{outcome:?}");
    let Ok(Reply::Status(status)) = live.call(Request::Status).await else { panic!("no status") };
    assert_eq!((status.state, status.epoch.0), (ProcessState::Running, 2));
    live.call(Request::Signal(Signal::Term)).await.expect("the second child lives");
    live.ended().await;
    assert!(!live.output_until(|_| true).await.contains(&b'!'));
}

#[tokio::test]
async fn the_lock_keeps_others_out() {
    let live = Live::run("cat").await;
    let (holder, other) = (WriterId(7), WriterId(8));
    live.call(Request::Lock { writer: holder, action: LockAction::Acquire }).await.expect("the lock is free");
    let refused = live.call(Request::Write { writer: other, input: Input::Keys(vec!["a".into()]) }).await;
    assert_eq!(refused.map(|_| ()).map_err(|error| error.code), Err(ErrorCode::WriterBusy));
    live.call(Request::Write { writer: holder, input: Input::Keys(vec!["b".into()]) }).await.expect("the holder types");
    live.call(Request::Lock { writer: holder, action: LockAction::Release }).await.expect("it gives back");
    live.call(Request::Write { writer: other, input: Input::Keys(vec!["c".into()]) }).await.expect("now it may");
    assert_eq!(live.see("bc").await, "bc");
}

/// Several who look with windows of different sizes share one terminal: it has the size of whoever types.
#[tokio::test]
async fn who_holds_the_lock_says_the_size() {
    let live = Live::run("cat").await;
    let (holder, other) = (WriterId(1), WriterId(2));
    let resize = async |writer, cols| {
        let size = Size::new(cols, 20).expect("within bounds");
        live.call(Request::Resize { writer, size }).await.map(|_| ()).map_err(|error| error.code)
    };
    assert_eq!(resize(other, 60).await, Ok(()), "nobody types");
    live.call(Request::Lock { writer: holder, action: LockAction::Acquire }).await.expect("the lock is free");
    assert_eq!(resize(other, 70).await, Err(ErrorCode::WriterBusy));
    assert_eq!(resize(holder, 80).await, Ok(()));
    let Ok(Reply::Screen(screen)) = live.call(Request::Screen).await else { panic!("no screen") };
    assert_eq!(screen.size.cols(), 80);
    live.call(Request::Lock { writer: holder, action: LockAction::Release }).await.expect("it gives back");
    assert_eq!(resize(other, 90).await, Ok(()));
}

#[tokio::test]
async fn the_terminal_answers_and_resizes() {
    let script = "stty raw -echo min 1 time 0; printf '\\033[6n'; dd bs=1 count=6 2>/dev/null | od -An -c; \
                  trap 'stty size' WINCH; echo waiting; while :; do sleep 0.1; done";
    let live = Live::run(script).await;
    assert!(live.see("waiting").await.contains("033   [   1   ;   1   R"));
    live.call(Request::Resize { writer: ME, size: Size::new(123, 45).expect("within bounds") })
        .await
        .expect("it can be resized");
    live.see("45 123").await;
    let Ok(Reply::Screen(screen)) = live.call(Request::Screen).await else { panic!("no screen") };
    assert_eq!((screen.size.cols(), screen.size.rows()), (123, 45));
    assert!(live.lifecycle().await.contains(&Lifecycle::Resized { size: screen.size }));
}

/// A frame's bytes are obeyed when it ends. Who asked within one that was ended for it got its answer only with the next
/// output, which may be another child's.
#[tokio::test]
async fn a_query_in_a_frame_that_never_ends_is_answered() {
    let ask =
        "stty raw -echo min 1 time 0; printf '\\033[?2026h\\033[6n'; dd bs=1 count=6 2>/dev/null | od -An -c; cat";
    let live = Live::run(ask).await;
    live.see("033   [   1   ;   1   R").await;
    // Resized meanwhile, the frame ends too.
    let live = Live::run(ask).await;
    live.see("\x1b[6n").await;
    live.call(Request::Resize { writer: ME, size: Size::new(123, 45).expect("within bounds") })
        .await
        .expect("it can be resized");
    live.see("033   [   1   ;   1   R").await;
}

#[tokio::test]
async fn an_answer_to_one_child_does_not_reach_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "if mkdir {}/first; then printf '\\033[?2026h\\033[6n'; exit; fi 2>/dev/null; \
         stty raw -echo min 1 time 0; echo second; dd bs=1 count=1 2>/dev/null | od -An -c; cat",
        folder.path().display()
    );
    let live = Live::run(&script).await;
    live.ended().await;
    live.call(Request::Restart).await.expect("it can be restarted");
    let mut feed = live.handle.feed(live.handle.id()).expect("the session has a feed");
    timeout(LIMIT, feed.pulse.wait_for(|pulse| !pulse.ended)).await.expect("in time").expect("the session goes on");
    live.see("second").await;
    live.write("x").await.expect("the second child lives");
    live.see("\n   x").await;
}

/// A dump ended before a frame that was still open. With a frame longer than the ring nobody could follow from there:
/// what came next was a gap, the gap asked for a dump, and so on without end.
#[tokio::test]
async fn a_dump_can_be_followed_also_within_a_long_frame() {
    let mut options =
        options("stty raw -echo; printf '\\033[?2026h'; head -c 100000 /dev/zero | tr '\\0' x; printf end; cat");
    options.ring = 4096;
    let live = Live::with(options).await;
    let feed = live.handle.feed(live.handle.id()).expect("the session has a feed");
    timeout(LIMIT, feed.pulse.clone().wait_for(|pulse| pulse.written >= Offset(100_000)))
        .await
        .expect("in time")
        .expect("it goes on");
    let Ok(Reply::Dump(dump)) = live.call(Request::Dump).await else { panic!("no dump") };
    assert!(!matches!(feed.tap.read(dump.offset), Read::Gap { .. }), "{}", dump.offset);
}

#[tokio::test]
async fn a_shutdown_reaches_children_that_ignore_hang_ups_and_their_jobs() {
    let mut options = options("trap '' HUP TERM; set -m; sleep 1000 & echo job $!; while :; do sleep 0.1; done");
    options.grace = Duration::from_millis(200);
    let live = Live::with(options).await;
    let output = live.output_until(|output| output.ends_with(b"\n")).await;
    let job: i32 = String::from_utf8_lossy(&output).trim().rsplit(' ').next().expect("a pid").parse().expect("a pid");
    let exit = live.shut_down().await;
    assert_eq!(exit, Some(Exit { code: None, signal: Some(9) }));
    let job = rustix::process::Pid::from_raw(job).expect("a pid");
    // The job is killed in the same moment, but the one who reaps it may take its time: wait for that.
    let gone = async {
        while rustix::process::test_kill_process(job).is_ok() && !is_zombie(job) {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, gone).await.expect("the job ends too");
}

fn is_zombie(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn a_polite_child_may_clean_up() {
    let live = Live::run("trap 'echo bye; exit 3' HUP; echo up; while :; do sleep 0.1; done").await;
    live.see("up").await;
    assert_eq!(live.shut_down().await, Some(Exit { code: Some(3), signal: None }));
}

#[tokio::test]
async fn an_idle_session_ends_itself_when_told_to() {
    let mut options = options("echo up; exec sleep 1000");
    options.idle_timeout = Some(Duration::from_millis(100));
    let live = Live::with(options).await;
    let exit = timeout(LIMIT, live.done).await.expect("it ends in time").expect("the session tells");
    assert_eq!(exit, Some(Exit { code: None, signal: Some(1) }));
}

#[tokio::test]
async fn output_of_a_grandchild_that_keeps_the_terminal_does_not_hide_the_exit() {
    let live = Live::run("(trap '' HUP; sleep 1000) & echo gone; exit 5").await;
    live.ended().await;
    let Ok(Reply::Status(status)) = live.call(Request::Status).await else { panic!("no status") };
    assert_eq!(status.exit_code, Some(5));
    assert!(live.see("gone").await.contains("gone"));
}
