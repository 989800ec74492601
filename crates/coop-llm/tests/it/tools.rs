//! The built-in tools on real folders and processes.

use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coop_llm::{
    ApiKey, Claude, Effect, Executor, Exit, Json, Message, ProviderConfig, Root, RunCx, Tool, ToolCx, ToolError,
    coding_tools, reading_tools,
};
use coop_sim::model::{Model, Script};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A test that takes longer has failed.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A folder with a secret beside it.
struct Place {
    outer: TempDir,
    tools: Vec<Arc<dyn Tool>>,
}

impl Place {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        std::fs::create_dir(outer.path().join("root")).unwrap();
        std::fs::write(outer.path().join("secret"), "treasure").unwrap();
        let root = Root::open(outer.path().join("root")).unwrap();
        Self { tools: coding_tools(&root), outer }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.outer.path().join("root").join(name)
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let cancel = CancellationToken::new();
        let cx = ToolCx { call_id: "c".into(), cancel, deadline: Instant::now() + LIMIT };
        let done = tokio::time::timeout(LIMIT, tool.execute(&Json::from(arguments), &cx)).await.expect("in time");
        done.map(|output| output.text).map_err(|error: ToolError| error.to_string())
    }

    async fn ok(&self, name: &str, arguments: Value) -> String {
        self.call(name, arguments).await.unwrap()
    }
}

#[tokio::test]
async fn files_are_written_read_edited_listed_and_searched() {
    let place = Place::new();
    assert_eq!(place.ok("list", json!({})).await, "[nothing]");
    let said = place.ok("write", json!({"path": "src/a.txt", "content": "one\ntwo\n"})).await;
    assert_eq!(said, "wrote 8 bytes to src/a.txt");
    assert_eq!(place.ok("read", json!({"path": "src/a.txt"})).await, "one\ntwo\n");
    assert_eq!(place.ok("read", json!({"path": "src/../src/a.txt", "offset": 2})).await, "two\n[lines 2 to 2 of 2]");
    let said = place.ok("edit", json!({"path": "src/a.txt", "old": "two", "new": "zwei"})).await;
    assert_eq!(said, "changed 1 place in src/a.txt");
    assert_eq!(std::fs::read_to_string(place.path("src/a.txt")).unwrap(), "one\nzwei\n");
    place.ok("write", json!({"path": "b.rs", "content": "Zwei"})).await;
    std::fs::create_dir(place.path(".git")).unwrap();
    std::fs::write(place.path(".git/x"), "zwei").unwrap();
    std::fs::write(place.path("binary"), b"zwei\xff").unwrap();
    assert_eq!(place.ok("list", json!({})).await, ".git/\nb.rs\nbinary\nsrc/");
    assert_eq!(place.ok("list", json!({"path": "src"})).await, "a.txt");
    assert_eq!(place.ok("list", json!({"depth": 9})).await, ".git/\n.git/x\nb.rs\nbinary\nsrc/\nsrc/a.txt");
    assert_eq!(place.ok("search", json!({"pattern": "zw.i"})).await, "src/a.txt:2:zwei");
    let said = place.ok("search", json!({"pattern": "zw.i", "ignore_case": true})).await;
    assert_eq!(said, "b.rs:1:Zwei\nsrc/a.txt:2:zwei");
    assert_eq!(place.ok("search", json!({"pattern": "(?i)zwei", "name": "*.rs"})).await, "b.rs:1:Zwei");
    assert_eq!(place.ok("search", json!({"pattern": "one", "path": "src"})).await, "src/a.txt:1:one");
    assert_eq!(place.ok("search", json!({"pattern": "one", "path": "src/a.txt"})).await, "src/a.txt:1:one");
    assert_eq!(place.ok("search", json!({"pattern": "nichts"})).await, "[no line matches]");
    assert!(place.call("search", json!({"pattern": "("})).await.unwrap_err().contains("do not fit"));
    // An absolute path is as good, if it is in the folder.
    let whole = place.path("b.rs").canonicalize().unwrap();
    assert_eq!(place.ok("read", json!({"path": whole})).await, "Zwei");
}

#[tokio::test]
async fn nothing_leads_out_of_the_folder() {
    let place = Place::new();
    let secret = place.outer.path().join("secret");
    symlink("../secret", place.path("relative")).unwrap();
    symlink(&secret, place.path("absolute")).unwrap();
    symlink("..", place.path("up")).unwrap();
    symlink(place.outer.path(), place.path("far")).unwrap();
    symlink("/proc/self/cwd", place.path("magic")).unwrap();
    std::fs::create_dir(place.path("sub")).unwrap();
    let ways = [
        "../secret".to_owned(),
        "sub/../../secret".to_owned(),
        secret.to_str().unwrap().to_owned(),
        "relative".to_owned(),
        "absolute".to_owned(),
        "up/secret".to_owned(),
        "far/secret".to_owned(),
        "far/root/../secret".to_owned(),
        format!("{}/../secret", place.path("").canonicalize().unwrap().display()),
    ];
    for way in &ways {
        for (tool, arguments) in [
            ("read", json!({"path": way})),
            ("write", json!({"path": way, "content": "x"})),
            ("edit", json!({"path": way, "old": "treasure", "new": "x"})),
            ("search", json!({"path": way, "pattern": "."})),
        ] {
            let refused = place.call(tool, arguments).await.unwrap_err();
            assert_eq!(refused, format!("{way} is outside the folder"), "{tool}");
        }
    }
    for way in ["..", "up", "far", "magic", "/", "sub/../.."] {
        assert!(place.call("list", json!({"path": way})).await.is_err(), "{way}");
        assert!(place.call("write", json!({"path": format!("{way}/new"), "content": "x"})).await.is_err(), "{way}");
    }
    // A search of everything goes through no link.
    assert_eq!(place.ok("search", json!({"pattern": "treasure"})).await, "[no line matches]");
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "treasure");
    assert_eq!(std::fs::read_dir(place.outer.path()).unwrap().count(), 2);
}

/// Somebody swaps a folder for a link to the outside as fast as they can, while files in it are read and written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_for_a_link_is_lost() {
    let place = Place::new();
    std::fs::create_dir(place.path("dir")).unwrap();
    std::fs::write(place.path("dir/secret"), "mine").unwrap();
    symlink(place.outer.path(), place.path("link")).unwrap();
    let (dir, link) = (place.path("dir"), place.path("link"));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let swapper = std::thread::spawn(move || {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        while !stopped.is_cancelled() {
            renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        }
    });
    let (mut read, mut refused) = (0, 0);
    let begun = Instant::now();
    // As long as it takes to have come both ways, and not for ever.
    for round in 0.. {
        match place.call("read", json!({"path": "dir/secret"})).await {
            Ok(text) => {
                assert_eq!(text, "mine");
                read += 1;
            }
            Err(_) => refused += 1,
        }
        let _ = place.call("write", json!({"path": "dir/secret", "content": "mine"})).await;
        if round >= 500 && read > 0 && refused > 0 {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "{read} were read, {refused} refused");
    }
    stop.cancel();
    swapper.join().unwrap();
    assert_eq!(std::fs::read_to_string(place.outer.path().join("secret")).unwrap(), "treasure");
    // Nothing was left outside either.
    let mut outside: Vec<_> =
        std::fs::read_dir(place.outer.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    outside.sort();
    assert_eq!(outside, ["root", "secret"]);
}

#[tokio::test]
async fn files_keep_their_mode_and_links_stay_links() {
    let place = Place::new();
    std::fs::write(place.path("run.sh"), "old").unwrap();
    std::fs::set_permissions(place.path("run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    symlink("run.sh", place.path("link")).unwrap();
    place.ok("write", json!({"path": "link", "content": "new"})).await;
    assert_eq!(std::fs::read_to_string(place.path("run.sh")).unwrap(), "new");
    assert_eq!(std::fs::metadata(place.path("run.sh")).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert_eq!(place.ok("list", json!({})).await, "link@\nrun.sh");
}

#[tokio::test]
async fn what_is_no_text_file_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("dir")).unwrap();
    std::fs::write(place.path("binary"), [0xff]).unwrap();
    std::fs::File::create(place.path("large")).unwrap().set_len(17 << 20).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for (path, why) in [
        ("none", "none does not exist"),
        ("binary", "binary is not a text in UTF-8"),
        ("large", "large is larger than 16 MiB"),
        ("pipe", "pipe: not a file"),
        ("dir", "dir: is a directory"),
    ] {
        assert_eq!(place.call("read", json!({"path": path})).await.unwrap_err(), why);
    }
    for path in ["pipe", "dir", ".", ""] {
        assert!(place.call("write", json!({"path": path, "content": ""})).await.is_err(), "{path}");
    }
    assert_eq!(
        place.call("edit", json!({"path": "none", "old": "a", "new": "b"})).await.unwrap_err(),
        "none does not exist"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_one_turn_do_not_undo_each_other() {
    let place = Place::new();
    let words: Vec<String> = (0..50).map(|number| format!("<{number}>")).collect();
    std::fs::write(place.path("f"), words.concat()).unwrap();
    let edits = words.iter().map(|word| place.call("edit", json!({"path": "f", "old": word, "new": "."})));
    for done in futures_util::future::join_all(edits).await {
        done.unwrap();
    }
    assert_eq!(std::fs::read_to_string(place.path("f")).unwrap(), ".".repeat(50));
}

#[tokio::test]
async fn a_shell_says_what_its_command_says() {
    let place = Place::new();
    let text = place.ok("shell", json!({"command": "echo out; echo err >&2; echo out"})).await;
    assert_eq!(text, "out\nerr\nout\n");
    let pwd = place.ok("shell", json!({"command": "pwd; cat"})).await;
    assert_eq!(Path::new(pwd.trim()), place.path("").canonicalize().unwrap());
    assert_eq!(place.call("shell", json!({"command": "echo no; exit 3"})).await.unwrap_err(), "no\n\n[exit code 3]");
    assert_eq!(place.call("shell", json!({"command": "kill -9 $$"})).await.unwrap_err(), "\n[killed by signal 9]");
    let much = place.ok("shell", json!({"command": "yes | head -c 10000000; echo end"})).await;
    assert!(much.len() < 70_000 && much.ends_with("end\n"), "{}", much.len());
}

/// A FIFO that a process and all its children hold open: its reader hears when the last of them is gone.
pub(crate) struct Alive(std::fs::File);

impl Alive {
    pub(crate) fn new(path: &Path) -> Self {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        // Opened so that it does not wait for a writer; reading does, once there is one.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let reader = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).unwrap();
        Self(reader.into())
    }

    /// Waits until somebody has written a line; then they have it open.
    pub(crate) async fn begun(&self) {
        let mut file = self.0.try_clone().unwrap();
        aside(move || {
            // As long as nobody has had it open there is neither something to read nor an end.
            let mut wanted = [rustix::event::PollFd::new(&file, rustix::event::PollFlags::IN)];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut wanted, None)).unwrap();
            assert_eq!(file.read(&mut [0]).unwrap(), 1);
        })
        .await;
    }

    /// Waits until nobody holds it any more.
    pub(crate) async fn gone(mut self) {
        let read = move || {
            let mut written = String::new();
            self.0.read_to_string(&mut written).unwrap();
            written
        };
        assert!(aside(read).await.ends_with('\n'), "nobody ever had it open");
    }
}

/// Waits for something that blocks, in a thread that does not keep a failed test from ending.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (told, done) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || drop(told.send(work())));
    tokio::time::timeout(LIMIT, done).await.expect("in time").unwrap()
}

/// Children of children, two of them in process groups of their own, of which one has lost its parent.
const NEST: &str = "exec 3>alive; (sleep 1000 & sleep 1000) & (timeout 1000 sleep 1000; true) & \
                    (timeout 1000 sleep 1000 &); echo x >&3;";

#[tokio::test]
async fn a_command_that_takes_too_long_goes_with_all_it_started() {
    let place = Place::new();
    let alive = Alive::new(&place.path("alive"));
    // Enough for all of it to begin, also on a busy machine.
    let call = place.call("shell", json!({"command": format!("{NEST} echo hello; wait"), "seconds": 10}));
    let said = tokio::time::timeout(LIMIT, call).await.expect("in time");
    assert_eq!(said.unwrap_err(), "hello\n\n[stopped after 10s]");
    alive.gone().await;
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_goes_with_it() {
    let place = Place::new();
    let alive = Alive::new(&place.path("alive"));
    assert_eq!(place.ok("shell", json!({"command": format!("{NEST} echo done")})).await, "done\n");
    alive.gone().await;
}

/// Who goes to the length of a new session wants to stay.
#[tokio::test]
async fn a_session_of_its_own_outlives_the_command() {
    let place = Place::new();
    let alive = Alive::new(&place.path("alive"));
    let command = "setsid sh -c 'exec 3>alive; echo x >&3; read end <end' & read begun <begun";
    for fifo in ["end", "begun"] {
        let made = std::process::Command::new("mkfifo").arg(place.path(fifo)).status().unwrap();
        assert!(made.success());
    }
    let said = place.call("shell", json!({"command": command}));
    let told = async {
        alive.begun().await;
        let begun = place.path("begun");
        aside(move || std::fs::write(begun, "x\n").unwrap()).await;
    };
    let (said, ()) = tokio::join!(said, told);
    assert_eq!(said.unwrap(), "\n[a program that it started still runs]");
    // Nobody would read this if it were gone.
    let end = place.path("end");
    aside(move || std::fs::write(end, "x\n").unwrap()).await;
    alive.gone().await;
}

#[tokio::test]
async fn a_dropped_command_goes_with_all_it_started() {
    let place = Place::new();
    let alive = Alive::new(&place.path("alive"));
    tokio::select! {
        said = place.call("shell", json!({"command": format!("{NEST} wait")})) => panic!("it ended: {said:?}"),
        () = alive.begun() => {}
    }
    alive.gone().await;
}

#[tokio::test]
async fn cancelling_a_run_ends_the_command_and_keeps_the_metrics() {
    let place = Place::new();
    let alive = Alive::new(&place.path("alive"));
    let model = Model::start(Script::default()).await.unwrap();
    let config = ProviderConfig { base_url: Some(model.url().into()), ..ProviderConfig::new("m") };
    let claude = Arc::new(Claude::new(ApiKey::new("none"), config).unwrap());
    let executor = Executor::new(claude).tools(place.tools.iter().cloned());
    let text = format!("[[tool shell {}]] [[usage:100,7,0,0]]", json!({"command": format!("{NEST} wait")}));
    let cx = RunCx::default();
    let run = executor.run(vec![Message::user(text)], &cx);
    let cancel = async {
        alive.begun().await;
        cx.cancel.cancel();
    };
    let (outcome, ()) = tokio::time::timeout(LIMIT, async { tokio::join!(run, cancel) }).await.expect("in time");
    assert!(matches!(outcome.exit, Exit::Cancelled), "{:?}", outcome.exit);
    assert_eq!((outcome.metrics.usage.total(), outcome.metrics.tool_errors, outcome.history.len()), (107, 1, 3));
    alive.gone().await;
}

#[tokio::test]
async fn tools_say_what_they_can_do() {
    let place = Place::new();
    let effects: Vec<_> = place.tools.iter().map(|tool| (tool.spec().name.clone(), tool.effect())).collect();
    let expected = [
        ("read", Effect::Look),
        ("list", Effect::Look),
        ("search", Effect::Look),
        ("write", Effect::Change),
        ("edit", Effect::Change),
        ("shell", Effect::Run),
    ];
    assert_eq!(effects, expected.map(|(name, effect)| (name.to_owned(), effect)));
    let root = Root::open(place.path("")).unwrap();
    assert!(reading_tools(&root).iter().all(|tool| tool.effect() == Effect::Look));
}
