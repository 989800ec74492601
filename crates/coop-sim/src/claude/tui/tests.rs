use std::path::PathBuf;

use super::{Menu, Tui, TuiSetup};
use crate::claude::engine::{Command, Effect, Millis, Quit, QuitReason};
use crate::claude::face::{Face, Size, Touch};
use crate::claude::notice::{Notice, State};
use crate::claude::permission::PermissionMode;
use crate::claude::rig::Rig;

/// A screen in front of an engine.
struct Desk {
    tui: Tui,
    rig: Rig,
}

impl Desk {
    fn new() -> Self {
        let mut desk = Self { tui: tui(Vec::new()), rig: Rig::new() };
        desk.touch(Touch::Begin);
        desk
    }

    /// One read of the terminal, and what the engine makes of it.
    fn types(&mut self, bytes: &[u8]) -> Vec<Command> {
        let commands = self.touch(Touch::Input(bytes));
        if self.tui.is_waiting() { self.touch(Touch::Pause) } else { commands }
    }

    fn touch(&mut self, touch: Touch<'_>) -> Vec<Command> {
        let commands = self.tui.touch(touch);
        for command in commands.clone() {
            for effect in self.rig.command(command) {
                if let Effect::Tell(notice) = effect {
                    self.tui.tell(Millis(0), &notice);
                }
            }
        }
        commands
    }

    fn screen(&mut self) -> String {
        plain(&self.tui.draw())
    }
}

fn tui(menus: Vec<Menu>) -> Tui {
    let cwd = PathBuf::from("/home/dev/project");
    let setup = TuiSetup {
        cwd,
        model: "claude-opus-4-8[1m]".into(),
        mode: PermissionMode::Default,
        menus,
        prompt: None,
        history: Vec::new(),
    };
    let mut tui = Tui::new(setup);
    tui.touch(Touch::Resized(Size { cols: 60, rows: 40 }));
    tui
}

/// The text without its colours.
fn plain(bytes: &[u8]) -> String {
    let mut text = String::from_utf8(bytes.to_vec()).unwrap();
    for colour in ["\x1b[32m", "\x1b[35m", "\x1b[36m", "\x1b[2m", "\x1b[0m"] {
        text = text.replace(colour, "");
    }
    text
}

fn submitted(text: &str) -> Vec<Command> {
    vec![Command::Submit(text.into())]
}

#[test]
fn the_prompt_is_drawn_before_pastes_are_asked_for() {
    let mut tui = tui(Vec::new());
    tui.touch(Touch::Begin);
    let screen = plain(&tui.draw());
    assert!(screen.starts_with("\x1b]0;✳ Claude Code\x07"), "{screen}");
    assert!(screen.find("❯ ").unwrap() < screen.find("\x1b[?2004h").unwrap());
    assert!(!screen.contains("\x1b[?1049h"));
    assert_eq!(tui.draw(), b"");
}

#[test]
fn text_and_enter_submit() {
    let mut desk = Desk::new();
    assert_eq!(desk.types(b"hello\r"), submitted("hello"));
    assert_eq!(desk.types(b"\r"), []);
    assert_eq!(desk.types(b"a\nb\r"), submitted("a\nb"));
}

#[test]
fn a_paste_of_a_hundred_kilobytes_arrives_whole() {
    let mut desk = Desk::new();
    let text: String = (0..5000).map(|row| format!("row {row} of a long paste\n")).collect();
    assert!(text.len() > 100_000);
    let bytes = format!("\x1b[200~{text}\x1b[201~");
    for read in bytes.as_bytes().chunks(4095) {
        assert_eq!(desk.types(read), []);
    }
    assert!(desk.screen().contains("[Pasted text #1 +5000 lines]"));
    assert_eq!(desk.types(b"\r"), submitted(&text));
}

#[test]
fn a_long_plain_text_with_its_enter_stays_in_the_box() {
    let mut desk = Desk::new();
    let long = "x".repeat(300);
    assert_eq!(desk.types(format!("{long}\r").as_bytes()), []);
    assert_eq!(desk.types(b"\r"), submitted(&format!("{long}\n")));
}

#[test]
fn the_title_tells_working_from_idle() {
    let mut desk = Desk::new();
    desk.screen();
    desk.types(b"[[hang]]\r");
    let screen = desk.screen();
    assert!(screen.contains("\x1b]0;⠐ Claude Code\x07"));
    assert!(screen.contains("✽ Working… (esc to interrupt)"));
    desk.types(b"\x1b");
    let screen = desk.screen();
    assert!(screen.contains("\x1b]0;✳ Claude Code\x07"));
    assert!(screen.contains("  ⎿  Interrupted · What should Claude do instead?"));
}

#[test]
fn typing_while_it_works_queues_and_up_takes_it_back() {
    let mut desk = Desk::new();
    desk.types(b"[[hang]]\r");
    desk.types(b"later\r");
    let screen = desk.screen();
    assert!(screen.contains("  ❯ later") && screen.contains("❯ Press up to edit queued messages"), "{screen}");
    assert_eq!(desk.types(b"\x1b[A"), [Command::Unqueue]);
    assert!(desk.screen().contains("❯ later"));
    assert_eq!(desk.types(b"!\r"), submitted("later!"));
}

#[test]
fn a_permission_is_asked_and_answered_on_the_screen() {
    let mut desk = Desk::new();
    desk.types(b"hello [[bash:touch perm.txt]]\r");
    let screen = desk.screen();
    for part in ["❯ hello [[bash:touch perm.txt]]", "● Bash(touch perm.txt)", "  ⎿  Waiting…", " ❯ 1. Yes", "   3. No"]
    {
        assert!(screen.contains(part), "{part} is not in {screen}");
    }
    desk.types(b"n\r");
    let screen = desk.screen();
    for part in ["  ⎿  Done", "● Mock reply after 1 tool result(s).", "✻ Worked for 0s"] {
        assert!(screen.contains(part), "{part} is not in {screen}");
    }
}

#[test]
fn keys_after_the_answer_do_not_answer_again() {
    let mut desk = Desk::new();
    desk.types(b"[[bash:touch a]] [[bash:touch b]]\r");
    let commands = desk.types(b"1\r1");
    assert_eq!(commands.len(), 1, "{commands:?}");
    assert!(desk.screen().contains("Bash(touch b)"));
}

#[test]
fn control_c_twice_ends_and_once_does_not() {
    let mut desk = Desk::new();
    assert_eq!(desk.types(b"draft\x03"), []);
    assert!(desk.screen().contains("Press Ctrl-C again to exit"));
    assert_eq!(desk.types(b"x"), []);
    assert_eq!(desk.types(b"\x03"), []);
    assert_eq!(desk.types(b"\x03"), [Command::Quit(Quit { code: 0, reason: QuitReason::PromptInputExit })]);
}

#[test]
fn shift_and_tab_cycle_the_modes() {
    let mut desk = Desk::new();
    for mode in [PermissionMode::AcceptEdits, PermissionMode::Plan, PermissionMode::Default] {
        assert_eq!(desk.types(b"\x1b[Z"), [Command::SetMode(mode)]);
    }
}

#[test]
fn set_up_dialogs_come_before_everything() {
    let mut tui = tui(vec![Menu::trust(&PathBuf::from("/p")), Menu::bypass()]);
    assert_eq!(tui.touch(Touch::Begin), []);
    let screen = plain(&tui.draw());
    assert!(screen.contains(" ❯ 1. Yes, I trust this folder") && !screen.contains("\x1b[?2004h"));
    assert_eq!(tui.touch(Touch::Input(b"hello")), []);
    assert_eq!(tui.touch(Touch::Input(b"\r")), [Command::Trust]);
    assert_eq!(tui.touch(Touch::Input(b"2")), [Command::Start]);
    assert!(plain(&tui.draw()).contains("\x1b[?2004h"));
}

#[test]
fn a_flood_has_as_many_bytes_as_asked_for() {
    let mut tui = tui(Vec::new());
    tui.draw();
    tui.tell(Millis(0), &Notice::Flood(8000));
    let screen = plain(&tui.draw());
    assert_eq!(screen.matches('~').count(), 100 * 67);
}

#[test]
fn the_alternate_screen_lasts_until_the_turn_ends() {
    let mut desk = Desk::new();
    desk.screen();
    desk.types(b"[[altscreen]] [[hang]]\r");
    assert!(desk.screen().contains("\x1b[?1049h"));
    desk.types(b"\x1b");
    assert!(desk.screen().contains("\x1b[?1049l"));
    assert_eq!(desk.tui.state, State::Idle);
}
