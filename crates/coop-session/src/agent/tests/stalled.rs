//! What becomes of a screen that no rule knows, and of dialogs that are drawn otherwise than they were recorded.

use std::cell::RefCell;
use std::collections::HashMap;

use coop_drivers::Rules;

use super::*;

/// Within this time an agent has to ask about a screen that no rule knows.
const ASKED_WITHIN: Duration = Duration::from_secs(15);
macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../../coop-drivers/recordings/", $name, ".txt"))
    };
}

const TRUST: &str = recorded!("claude/B26_trust_dialog_unnumbered");

/// Returns a screen without a cursor, as wide as its rows, in a terminal that takes pastes.
fn dialog(rows: &str) -> std::sync::Arc<Screen> {
    let cols = rows.lines().map(|row| row.chars().count()).max().unwrap_or(0).max(80);
    let mut screen = coop_term::Screen::new(Size::new(cols as u32, 60).expect("a size"));
    screen.feed(b"\x1b[?2004h\x1b[?25l");
    screen.feed(rows.trim_end().replace('\n', "\r\n").as_bytes());
    screen.snapshot()
}

/// Returns an agent that is driven by nothing but its screen and title.
fn by_screen(kind: &str, now: &Now) -> Agent {
    let command: &[&str] = match kind {
        "claude" => &["claude", "--bare"],
        "codex" => &["codex", "--remote", "ws://127.0.0.1:1"],
        other => &[other],
    };
    let command = command.iter().map(|&word| word.to_owned()).collect();
    let launch = Launch { command, session_id: "S".into(), ..Launch::default() };
    let known = Known::by_name(kind).expect("a known agent");
    // They are costly to read, and the same for every redrawn dialog.
    let rules =
        RULES.with_borrow_mut(|all| all.entry(known.name).or_insert_with(|| known.rules().expect("rules")).clone());
    Agent::new((known.new)(rules, &launch), launch.runtime, Duration::ZERO, StopConfig::default(), None, now)
}

thread_local! {
    static RULES: RefCell<HashMap<&'static str, Rules>> = RefCell::default();
}

/// Lets time pass for an agent whose screen stands still.
fn wait(agent: &mut Agent, screen: &Screen, from: &Now, time: Duration) -> Vec<Effect> {
    let end = from.instant + time;
    let mut effects = Vec::new();
    for _ in 0..1000 {
        let Some(at) = agent.deadline().filter(|at| *at <= end) else { return effects };
        let passed = at.saturating_duration_since(from.instant);
        effects.extend(agent.tick(screen, &after(from, passed)));
    }
    panic!("the agent's deadline does not move on");
}

/// Returns an agent that asks about a screen that no rule knows.
fn stalled(screen: &Screen, now: &Now) -> Agent {
    let mut agent = by_screen("claude", now);
    agent.look(screen, now);
    assert_eq!(asks_told(&wait(&mut agent, screen, now, ASKED_WITHIN)), ["opened"]);
    agent
}

fn respond(agent: &mut Agent, answer: Value, screen: &Screen, now: &Now) -> (Vec<Effect>, Result<Reply, Error>) {
    let answer: Answer = serde_json::from_value(answer).expect("an answer");
    let (reply, mut answered) = oneshot::channel();
    let effects = agent.respond(WriterId::default(), &answer, reply, screen, now);
    let pending = Err(Error::bad_request("no answer yet"));
    (effects, answered.try_recv().unwrap_or(pending))
}

/// OpenCode marks what is chosen by colour alone, so nothing is read off its dialogs.
#[test]
fn a_dialog_of_which_nothing_can_be_read_is_asked_about_as_it_is() {
    for rows in [recorded!("opencode/B02_permission"), recorded!("opencode/B05_question")] {
        let now = now();
        let mut agent = by_screen("opencode", &now);
        let shown = dialog(rows);
        agent.look(&shown, &now);
        assert_eq!(asks_told(&wait(&mut agent, &shown, &now, ASKED_WITHIN)), ["opened"]);
        assert!(agent.asks()[0].options.is_empty() && agent.asks()[0].screen_lines.len() > 5);
    }
}

const STRANGE: &str = "A quite new dialog\n\n   [ Go on ]   [ Leave ]\n";

#[test]
fn a_screen_that_no_rule_knows_becomes_an_ask_with_the_screen_as_its_body() {
    for kind in ["claude", "codex", "gemini", "opencode"] {
        let now = now();
        let mut agent = by_screen(kind, &now);
        let screen = dialog(STRANGE);
        agent.look(&screen, &now);
        assert_eq!(asks_told(&wait(&mut agent, &screen, &now, ASKED_WITHIN)), ["opened"], "{kind}");
        let asks = agent.asks();
        assert_eq!(asks[0].kind, coop_api::AskKind::Setup, "{kind}");
        assert_eq!(asks[0].screen_lines, ["A quite new dialog", "", "   [ Go on ]   [ Leave ]"], "{kind}");
        assert!(asks[0].options.is_empty() && asks[0].preview.contains("A quite new dialog"), "{kind}");
        assert!(matches!(agent.state(), AgentState::Waiting { .. }), "{kind}");
        let hour = Duration::from_secs(3600);
        assert_eq!(asks_told(&wait(&mut agent, &screen, &after(&now, ASKED_WITHIN), hour)), [""; 0], "{kind}: once");
    }
    let (mut hooked, now) = agent(Runtime::Pty);
    let screen = dialog(STRANGE);
    hooked.look(&screen, &now);
    wait(&mut hooked, &screen, &now, ASKED_WITHIN);
    assert_eq!(hooked.explain().missing_signals, ["a hook", "the status file"]);
    assert!(hooked.explain().evidence.detail.contains("not seen: a hook"), "{:?}", hooked.explain().evidence);
}

#[test]
fn keys_answer_it_while_the_screen_still_shows_it() {
    let now = now();
    let shown = dialog(STRANGE);
    let mut agent = stalled(&shown, &now);
    let later = after(&now, ASKED_WITHIN);
    for answer in [json!({ "accept": true }), json!({ "accept": false }), json!({ "option": 1 })] {
        let (effects, answered) = respond(&mut agent, answer.clone(), &shown, &later);
        assert_eq!(typed(&effects), [""; 0], "{answer}");
        assert!(answered.expect_err("an error").message.contains("\"keys\""), "{answer}");
    }
    let keys = json!({ "ask": "ask-1", "keys": ["Right", "Enter"] });
    let (effects, answered) = respond(&mut agent, keys.clone(), &dialog("Something else\n  [ Go on ]"), &later);
    assert_eq!((typed(&effects).len(), answered.expect_err("an error").code), (0, coop_api::ErrorCode::NoSuchOption));
    let (effects, _) = respond(&mut agent, json!({ "keys": ["Sideways"] }), &shown, &later);
    assert_eq!(typed(&effects), [""; 0], "no such key");

    let (effects, _) = respond(&mut agent, keys, &shown, &later);
    assert_eq!(typed(&effects), ["\x1b[C\r"]);
    let next = dialog("And one more thing\n  [ Fine ]");
    let mut effects = agent.look(&next, &later);
    effects.extend(agent.tick(&next, &later));
    assert_eq!(asks_told(&effects), ["answered"]);
    // What follows an answer is asked soon.
    assert_eq!(asks_told(&wait(&mut agent, &next, &later, Duration::from_secs(3))), ["opened"]);
}

#[test]
fn it_is_withdrawn_when_the_agent_goes_on() {
    let now = now();
    let shown = dialog(STRANGE);
    let later = after(&now, ASKED_WITHIN);
    let mut agent = stalled(&shown, &now);
    assert_eq!(asks_told(&agent.look(&dialog("gone"), &later)), ["withdrawn"]);
    let mut agent = stalled(&shown, &now);
    assert_eq!(asks_told(&status(&mut agent, "busy", None, &later)), ["withdrawn"]);
}

#[test]
fn an_ask_with_options_takes_no_keys() {
    let now = now();
    let mut agent = by_screen("claude", &now);
    let shown = dialog(TRUST);
    agent.look(&shown, &now);
    wait(&mut agent, &shown, &now, ASKED_WITHIN);
    let (effects, answered) = respond(&mut agent, json!({ "keys": ["Enter"] }), &shown, &now);
    assert_eq!((typed(&effects).len(), answered.expect_err("an error").code), (0, coop_api::ErrorCode::BadRequest));
}

#[test]
fn starting_cannot_last() {
    let hour = Duration::from_secs(3600);
    // Its hooks never came.
    let (mut silent, now) = agent(Runtime::Pty);
    let prompt = input("");
    silent.look(&prompt, &now);
    assert_eq!(asks_told(&wait(&mut silent, &prompt, &now, hour)), [""; 0]);
    assert_eq!(silent.state().short_name(), "idle");

    let (mut blank, now) = agent(Runtime::Pty);
    let nothing = dialog("");
    blank.look(&nothing, &now);
    assert_eq!(asks_told(&wait(&mut blank, &nothing, &now, Duration::from_secs(30))), [""; 0], "it may be slow");
    assert_eq!(asks_told(&wait(&mut blank, &nothing, &now, hour)), ["opened"]);

    let (mut piped, now) = agent(Runtime::Pipe);
    wait(&mut piped, &nothing, &now, hour);
    assert!(matches!(piped.state(), AgentState::Blocked { .. }), "{:?}", piped.state());
}

#[test]
fn an_input_is_no_ask_while_an_agent_works() {
    for (kind, rows) in [
        ("claude", recorded!("claude/B13_working")),
        ("codex", recorded!("codex/B05_working")),
        ("gemini", recorded!("gemini/B09_working")),
        ("opencode", recorded!("opencode/B08_working")),
    ] {
        let now = now();
        let mut agent = by_screen(kind, &now);
        let rows: Vec<_> = rows.trim_end().lines().collect();
        let input = rows.iter().rposition(|row| row.starts_with('›')).map_or(0, |at| at + 1);
        let shown = dialog(&format!("{}\x1b[{input};3H\x1b[?25h", rows.join("\n")));
        agent.observe(&Observation::Title("⠋ works"), &now);
        agent.look(&shown, &now);
        assert_eq!(asks_told(&wait(&mut agent, &shown, &now, Duration::from_secs(3600))), [""; 0], "{kind}");
    }
}

/// A dialog as a later release might draw it.
struct Redrawn {
    rows: Vec<String>,
    /// Where its options are, and what stands before each.
    options: Vec<DrawnOption>,
    marked: usize,
    mark: char,
    colour: &'static str,
}

struct DrawnOption {
    row: usize,
    /// Which option of the recording it is, counted from 0.
    recorded: usize,
    /// The key that chooses it, if it has a number.
    digit: Option<String>,
    column: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Kept,
    None,
    Brackets,
    Letters,
    FromZero,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    numbers: Numbers,
    is_reversed: bool,
    has_other_words: bool,
    has_other_boxes: bool,
    colour: &'static str,
}

const WORDS: [(&str, &str); 12] = [
    ("Yes", "Sure"),
    ("No,", "Never,"),
    ("Do you want to", "Shall I"),
    ("Would you like to", "Shall I"),
    ("Is this a project you created or one you trust", "May this folder be trusted"),
    ("Do you trust the files in this folder", "May these files be read"),
    ("Enter to confirm", "Return accepts"),
    ("Press enter to confirm", "Return accepts"),
    ("Esc to cancel", "Escape aborts"),
    ("enter confirm", "return accepts"),
    ("Allow", "Permit"),
    ("enter continue", "return goes on"),
];
const BOXES: [(char, char); 10] = [
    ('─', '='),
    ('│', '|'),
    ('╭', '+'),
    ('╮', '+'),
    ('╰', '+'),
    ('╯', '+'),
    ('┃', '|'),
    ('❯', '▶'),
    ('›', '▸'),
    ('●', '◉'),
];
const MARKS: [char; 4] = ['❯', '›', '●', '>'];

/// Splits a row of an option into what stands before its label and the label.
fn option_row(row: &str) -> Option<(usize, bool, String)> {
    let bare = row.trim_start_matches(['│', ' ', '┃']);
    let is_marked = bare.starts_with(MARKS);
    let bare = bare.trim_start_matches(MARKS).trim_start();
    let mut chars = bare.chars();
    let number = chars.next().filter(char::is_ascii_digit)?;
    let label = chars.as_str().strip_prefix('.')?.trim_start();
    (number != '0' && !label.is_empty())
        .then(|| (row.chars().count() - bare.chars().count(), is_marked, label.to_owned()))
}

impl Redrawn {
    /// Redraws the last block of numbered options of a recording.
    fn new(recording: &str, change: Change) -> Self {
        let mut rows: Vec<String> = recording.trim_end().lines().map(str::to_owned).collect();
        let found: Vec<_> = rows.iter().enumerate().filter_map(|(at, row)| Some((at, option_row(row)?))).collect();
        let first = found.iter().rposition(|(at, _)| rows[*at].contains("1. ")).expect("a first option");
        let found = &found[first..];
        let marked = found.iter().position(|(_, (_, is_marked, _))| *is_marked).expect("a marked option");
        let at = found[marked].0;
        let mark = rows[at].chars().find(|c| MARKS.contains(c)).expect("a mark");
        let mut options = Vec::new();
        for (place, (row, (column, ..))) in found.iter().enumerate() {
            let recorded = if change.is_reversed { found.len() - 1 - place } else { place };
            let (_, (_, _, label)) = &found[recorded];
            let (digit, number) = match change.numbers {
                Numbers::Kept => (Some((place + 1).to_string()), format!("{}. ", place + 1)),
                Numbers::None => (None, String::new()),
                Numbers::Brackets => (Some((place + 1).to_string()), format!("[{}] ", place + 1)),
                Numbers::Letters => (None, format!("{}) ", char::from(b'a' + place as u8))),
                Numbers::FromZero => (Some(place.to_string()), format!("{place}. ")),
            };
            let lead: String = rows[*row].chars().take(*column).collect();
            let tail = rows[*row].trim_end().chars().last().filter(|c| *c == '│').map(|c| format!("   {c}"));
            let label = label.trim_end_matches('│').trim_end();
            rows[*row] = format!("{lead}{number}{label}{}", tail.unwrap_or_default());
            let column = lead
                .chars()
                .position(|c| c == mark)
                .unwrap_or_else(|| rows[at].chars().position(|c| c == mark).expect("a mark"));
            options.push(DrawnOption { row: *row, recorded, digit, column });
        }
        for row in &mut rows {
            if change.has_other_words {
                *row = WORDS.iter().fold(row.clone(), |row, (from, to)| row.replace(from, to));
            }
            if change.has_other_boxes {
                let other = |c: char| BOXES.iter().find(|(from, _)| *from == c).map_or(c, |(_, to)| *to);
                *row = row.chars().map(other).collect();
            }
        }
        let mark = if change.has_other_boxes {
            BOXES.iter().find(|(from, _)| *from == mark).map_or(mark, |(_, to)| *to)
        } else {
            mark
        };
        Self { rows, options, marked, mark, colour: change.colour }
    }

    fn screen(&self) -> std::sync::Arc<Screen> {
        let reset = if self.colour.is_empty() { "" } else { "\x1b[0m" };
        let rows: Vec<_> = self.rows.iter().map(|row| format!("{}{row}{reset}", self.colour)).collect();
        dialog(&rows.join("\n"))
    }

    fn move_mark(&mut self, to: usize) {
        for (place, option) in self.options.iter().enumerate() {
            let sign = if place == to { self.mark } else { ' ' };
            let row = &mut self.rows[option.row];
            *row = row.chars().enumerate().map(|(at, c)| if at == option.column { sign } else { c }).collect();
        }
        self.marked = to;
    }

    /// Takes keys as such a dialog does, and returns the option that they choose.
    fn press(&mut self, keys: &str) -> Option<usize> {
        match keys {
            "\x1b[B" | "\x1bOB" => self.move_mark((self.marked + 1).min(self.options.len() - 1)),
            "\x1b[A" | "\x1bOA" => self.move_mark(self.marked.saturating_sub(1)),
            "\r" => return Some(self.marked),
            digit => return self.options.iter().position(|option| option.digit.as_deref() == Some(digit)),
        }
        None
    }
}

/// What becomes of a dialog that is answered.
#[derive(Debug, Default)]
struct Outcome {
    asked_within: bool,
    /// The option that was pressed, as the recording counts it.
    chosen: Option<usize>,
    label: String,
}

fn answer_redrawn(kind: &str, recording: &str, change: Change, answer: &Value) -> Outcome {
    let now = now();
    let mut agent = by_screen(kind, &now);
    let mut drawn = Redrawn::new(recording, change);
    agent.observe(&Observation::Title(if kind == "gemini" { "✋  Action Required" } else { "⠋ works" }), &now);
    if kind == "claude" {
        status(&mut agent, "busy", None, &now);
    }
    agent.look(&drawn.screen(), &now);
    wait(&mut agent, &drawn.screen(), &now, ASKED_WITHIN);
    let Some(ask) = agent.asks().first().cloned() else { return Outcome::default() };
    let mut outcome = Outcome { asked_within: true, ..Outcome::default() };
    if let Some(option) = answer["option"].as_u64() {
        let Some(option) = ask.options.get(option as usize - 1) else { return outcome };
        outcome.label = option.label.clone();
    }
    let mut at = after(&now, ASKED_WITHIN);
    let answer: Answer = serde_json::from_value(answer.clone()).expect("an answer");
    let (reply, mut answered) = oneshot::channel();
    let mut effects = agent.respond(WriterId::default(), &answer, reply, &drawn.screen(), &at);
    while answered.try_recv().is_err() {
        for keys in typed(&effects) {
            if let Some(chosen) = drawn.press(&keys) {
                outcome.chosen = Some(drawn.options[chosen].recorded);
                return outcome;
            }
            agent.look(&drawn.screen(), &at);
        }
        at = after(&at, Duration::from_millis(100));
        effects = agent.tick(&drawn.screen(), &at);
    }
    outcome
}

fn changes() -> Vec<Change> {
    let mut changes = Vec::new();
    for numbers in [Numbers::Kept, Numbers::None, Numbers::Brackets, Numbers::Letters, Numbers::FromZero] {
        for bits in 0..8 {
            for colour in ["", "\x1b[7;35m"].into_iter().take(if bits == 0 { 2 } else { 1 }) {
                changes.push(Change {
                    numbers,
                    is_reversed: bits & 1 != 0,
                    has_other_words: bits & 2 != 0,
                    has_other_boxes: bits & 4 != 0,
                    colour,
                });
            }
        }
    }
    changes
}

/// Every recorded dialog with numbered options, drawn with other numbers, in another order, with other words, other lines and
/// signs, and other colours: coop asks, and whatever it types chooses what the answer means, or nothing.
#[test]
fn no_redrawn_dialog_ends_in_silence_or_in_a_wrong_answer() {
    let dialogs = [
        ("claude", recorded!("claude/B02_trust_dialog")),
        ("claude", recorded!("claude/B03_apikey_dialog")),
        ("claude", recorded!("claude/B05_permission_bash")),
        ("claude", recorded!("claude/B16_plan")),
        ("claude", recorded!("claude/B25_bypass_dialog")),
        ("codex", recorded!("codex/B03_approval")),
        ("codex", recorded!("codex/B07_hooks_trust")),
        ("codex", recorded!("codex/B08_model_dialog")),
        ("codex", recorded!("codex/B09_trust_dialog")),
        ("gemini", recorded!("gemini/B01_trust_dialog")),
        ("gemini", recorded!("gemini/B03_permission")),
        ("gemini", recorded!("gemini/B40_edit")),
        ("gemini", recorded!("gemini/B41_ask_one")),
    ];
    let (mut read, mut asked) = (0, 0);
    for (kind, recording) in dialogs {
        let labels: Vec<_> = {
            let rows: Vec<_> = recording.lines().filter_map(option_row).map(|(_, _, label)| label).collect();
            let drawn = Redrawn::new(recording, changes()[0]);
            rows[rows.len() - drawn.options.len()..].to_vec()
        };
        let is_no = |at: usize| {
            labels[at].starts_with("No") || labels[at].starts_with("Don't") || labels[at].starts_with("Tell")
        };
        for change in changes() {
            let about = |answer: &Value| format!("{kind} {:?} {change:?} {answer}", labels);
            for number in 1..=labels.len() {
                let answer = json!({ "option": number });
                let outcome = answer_redrawn(kind, recording, change, &answer);
                assert!(outcome.asked_within, "silence: {}", about(&answer));
                if let Some(chosen) = outcome.chosen {
                    let other =
                        |text: &str| WORDS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
                    let label = if change.has_other_words { other(&labels[chosen]) } else { labels[chosen].clone() };
                    let is_called = label.starts_with(&outcome.label) || outcome.label.ends_with(&label);
                    assert!(is_called, "{outcome:?} {}", about(&answer));
                    read += 1;
                }
                asked += 1;
            }
            for accept in [true, false] {
                let answer = json!({ "accept": accept });
                if let Some(chosen) = answer_redrawn(kind, recording, change, &answer).chosen {
                    assert_eq!(is_no(chosen), !accept, "{}", about(&answer));
                }
            }
        }
    }
    assert!(read > asked / 10, "of {asked} answers only {read} were typed");
}
