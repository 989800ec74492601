//! Key names to bytes, by the modes the child has set.
//!
//! ```text
//! key      = { modifier "-" } name
//! modifier = "Ctrl" | "C" | "Alt" | "M" | "Meta" | "Shift" | "S"      (any case; "+" works like "-")
//! name     = one character | "Enter" | "Up" | "F5" | …                 (any case)
//! ```

use coop_api::Modes;

/// A key that has no name here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key; use a single character, a name such as Enter, Escape, Tab, Up, PageDown or F5, or one with Ctrl-, Alt- or Shift- before it"
)]
pub struct KeyError(String);

/// Returns the bytes a terminal sends for these keys.
pub fn encode_keys<S: AsRef<str>>(keys: &[S], modes: &Modes) -> Result<Vec<u8>, KeyError> {
    let mut bytes = Vec::new();
    for key in keys {
        let (modifiers, name) = parse(key.as_ref()).ok_or_else(|| KeyError(key.as_ref().to_owned()))?;
        encode(name, modifiers, modes, &mut bytes);
    }
    Ok(bytes)
}

/// Returns the bytes of a paste: line ends as Enter sends them, no control characters, in brackets if the child asked.
pub fn encode_paste(text: &str, modes: &Modes) -> Vec<u8> {
    let lines = text.replace("\r\n", "\n");
    // With ESC gone no text can end the brackets or act as a key.
    let clean = lines.chars().filter(|&c| c == '\n' || c == '\r' || c == '\t' || !c.is_control());
    let mut bytes = Vec::with_capacity(text.len() + 12);
    if modes.bracketed_paste {
        bytes.extend_from_slice(b"\x1b[200~");
        bytes.extend(clean.collect::<String>().into_bytes());
        bytes.extend_from_slice(b"\x1b[201~");
    } else {
        bytes.extend(clean.map(|c| if c == '\n' { '\r' } else { c }).collect::<String>().into_bytes());
    }
    bytes
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Modifiers {
    shift: bool,
    alt: bool,
    ctrl: bool,
}

impl Modifiers {
    /// The number xterm and kitty put into a sequence.
    fn code(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl)
    }

    fn any(self) -> bool {
        self != Self::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Escape,
    /// Arrows, Home and End, by their final letter.
    Cursor(char),
    /// F1 to F4, by their final letter.
    Function(char),
    /// Keys of the form `CSI number ~`.
    Tilde(u8),
}

fn parse(text: &str) -> Option<(Modifiers, Key)> {
    let mut modifiers = Modifiers::default();
    let mut rest = text;
    loop {
        let mut only = rest.chars();
        if let (Some(c), None) = (only.next(), only.next()) {
            return Some((modifiers, Key::Char(c)));
        }
        let Some((before, after)) = rest.split_once(['-', '+']).filter(|(_, after)| !after.is_empty()) else {
            return named(rest).map(|key| (modifiers, key));
        };
        match before.to_ascii_lowercase().as_str() {
            "ctrl" | "control" | "c" => modifiers.ctrl = true,
            "alt" | "meta" | "m" | "option" => modifiers.alt = true,
            "shift" | "s" => modifiers.shift = true,
            _ => return None,
        }
        rest = after;
    }
}

fn named(name: &str) -> Option<Key> {
    Some(match name.to_ascii_lowercase().as_str() {
        "enter" | "return" | "cr" => Key::Enter,
        "tab" => Key::Tab,
        "backtab" | "btab" => Key::Cursor('Z'),
        "backspace" | "bspace" => Key::Backspace,
        "escape" | "esc" => Key::Escape,
        "space" => Key::Char(' '),
        "up" => Key::Cursor('A'),
        "down" => Key::Cursor('B'),
        "right" => Key::Cursor('C'),
        "left" => Key::Cursor('D'),
        "end" => Key::Cursor('F'),
        "home" => Key::Cursor('H'),
        "insert" | "ins" => Key::Tilde(2),
        "delete" | "del" => Key::Tilde(3),
        "pageup" | "pgup" | "page_up" => Key::Tilde(5),
        "pagedown" | "pgdn" | "page_down" => Key::Tilde(6),
        "f1" => Key::Function('P'),
        "f2" => Key::Function('Q'),
        "f3" => Key::Function('R'),
        "f4" => Key::Function('S'),
        "f5" => Key::Tilde(15),
        "f6" => Key::Tilde(17),
        "f7" => Key::Tilde(18),
        "f8" => Key::Tilde(19),
        "f9" => Key::Tilde(20),
        "f10" => Key::Tilde(21),
        "f11" => Key::Tilde(23),
        "f12" => Key::Tilde(24),
        _ => return None,
    })
}

fn encode(key: Key, modifiers: Modifiers, modes: &Modes, out: &mut Vec<u8>) {
    let code = modifiers.code();
    // Flag 1 of the kitty protocol disambiguates, flag 8 reports every key in the new form.
    let (clear, all) = (modes.kitty & 1 != 0 || modes.kitty & 8 != 0, modes.kitty & 8 != 0);
    match key {
        Key::Char(c) => character(c, modifiers, clear, all, out),
        Key::Enter if modes.newline && !modifiers.any() && !all => out.extend_from_slice(b"\r\n"),
        Key::Enter => control(13, b"\r", modifiers, clear, all, out),
        Key::Tab if modifiers.shift && !clear => {
            if modifiers.alt {
                out.push(0x1b);
            }
            out.extend_from_slice(b"\x1b[Z");
        }
        Key::Tab => control(9, b"\t", modifiers, clear, all, out),
        Key::Backspace if modifiers.ctrl && !clear => control(127, b"\x08", modifiers, clear, all, out),
        Key::Backspace => control(127, b"\x7f", modifiers, clear, all, out),
        Key::Escape if clear => csi_u(27, code, out),
        Key::Escape => control(27, b"\x1b", modifiers, clear, all, out),
        Key::Cursor(letter) if modifiers.any() => out.extend(format!("\x1b[1;{code}{letter}").bytes()),
        Key::Cursor(letter) if modes.app_cursor && letter != 'Z' => out.extend(format!("\x1bO{letter}").bytes()),
        Key::Cursor(letter) => out.extend(format!("\x1b[{letter}").bytes()),
        Key::Function('R') if clear => tilde(13, modifiers, out),
        Key::Function(letter) if modifiers.any() => out.extend(format!("\x1b[1;{code}{letter}").bytes()),
        Key::Function(letter) if clear => out.extend(format!("\x1b[{letter}").bytes()),
        Key::Function(letter) => out.extend(format!("\x1bO{letter}").bytes()),
        Key::Tilde(number) => tilde(number, modifiers, out),
    }
}

fn tilde(number: u8, modifiers: Modifiers, out: &mut Vec<u8>) {
    match modifiers.any() {
        true => out.extend(format!("\x1b[{number};{}~", modifiers.code()).bytes()),
        false => out.extend(format!("\x1b[{number}~").bytes()),
    }
}

fn csi_u(code: u32, modifiers: u8, out: &mut Vec<u8>) {
    match modifiers {
        1 => out.extend(format!("\x1b[{code}u").bytes()),
        _ => out.extend(format!("\x1b[{code};{modifiers}u").bytes()),
    }
}

/// Keys that are a control character of their own.
fn control(code: u32, plain: &[u8], modifiers: Modifiers, clear: bool, all: bool, out: &mut Vec<u8>) {
    if all || (clear && modifiers.any()) {
        return csi_u(code, modifiers.code(), out);
    }
    if modifiers.alt {
        out.push(0x1b);
    }
    out.extend_from_slice(plain);
}

fn character(c: char, modifiers: Modifiers, clear: bool, all: bool, out: &mut Vec<u8>) {
    let shifted = if modifiers.shift && !modifiers.ctrl { c.to_uppercase().next().unwrap_or(c) } else { c };
    if all || (clear && (modifiers.ctrl || modifiers.alt)) {
        let base = c.to_lowercase().next().unwrap_or(c);
        return csi_u(base as u32, modifiers.code(), out);
    }
    if modifiers.alt {
        out.push(0x1b);
    }
    let controlled = if modifiers.ctrl { control_code(c) } else { None };
    match controlled {
        Some(byte) => out.push(byte),
        None => out.extend(shifted.encode_utf8(&mut [0; 4]).bytes()),
    }
}

fn control_code(c: char) -> Option<u8> {
    match c {
        'a'..='z' | 'A'..='Z' | '[' | '\\' | ']' | '^' | '_' | '@' => Some(c as u8 & 0x1f),
        ' ' | '2' => Some(0),
        '3' => Some(0x1b),
        '4' => Some(0x1c),
        '5' => Some(0x1d),
        '6' => Some(0x1e),
        '7' | '/' => Some(0x1f),
        '8' | '?' => Some(0x7f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(text: &str, modes: Modes) -> String {
        let keys: Vec<&str> = text.split(' ').collect();
        String::from_utf8_lossy(&encode_keys(&keys, &modes).expect("known keys")).escape_debug().to_string()
    }

    #[test]
    fn keys_are_what_xterm_sends() {
        let plain = Modes::default();
        for (names, bytes) in [
            ("Escape Enter Ctrl-C", "\\u{1b}\\r\\u{3}"),
            ("a A é Space", "aAé "),
            ("Up Down Right Left Home End", "\\u{1b}[A\\u{1b}[B\\u{1b}[C\\u{1b}[D\\u{1b}[H\\u{1b}[F"),
            ("PageUp pgdn Insert Delete", "\\u{1b}[5~\\u{1b}[6~\\u{1b}[2~\\u{1b}[3~"),
            ("F1 F4 F5 F12", "\\u{1b}OP\\u{1b}OS\\u{1b}[15~\\u{1b}[24~"),
            ("Ctrl-Up Shift-F5 Alt-Left C-S-Right", "\\u{1b}[1;5A\\u{1b}[15;2~\\u{1b}[1;3D\\u{1b}[1;6C"),
            ("Shift-Tab Tab Backspace Ctrl-Backspace", "\\u{1b}[Z\\t\\u{7f}\\u{8}"),
            ("Alt-x M-Enter Ctrl-Alt-c", "\\u{1b}x\\u{1b}\\r\\u{1b}\\u{3}"),
            ("Ctrl-Space Ctrl-[ Ctrl-/ Ctrl-- -", "\\0\\u{1b}\\u{1f}--"),
            ("Shift-a ctrl+d", "A\\u{4}"),
        ] {
            assert_eq!(keys(names, plain), bytes, "{names}");
        }
    }

    #[test]
    fn the_childs_modes_change_keys() {
        let app = Modes { app_cursor: true, ..Modes::default() };
        assert_eq!(keys("Up Ctrl-Up Home", app), "\\u{1b}OA\\u{1b}[1;5A\\u{1b}OH");
        let kitty = Modes { kitty: 1, ..Modes::default() };
        assert_eq!(keys("Escape Enter a Ctrl-c Shift-Enter Alt-A", kitty), {
            "\\u{1b}[27u\\ra\\u{1b}[99;5u\\u{1b}[13;2u\\u{1b}[97;3u"
        });
        let newline = Modes { newline: true, ..Modes::default() };
        assert_eq!(keys("Enter Alt-Enter", newline), "\\r\\n\\u{1b}\\r");
        let all = Modes { kitty: 8, ..Modes::default() };
        assert_eq!(keys("a Enter Tab", all), "\\u{1b}[97u\\u{1b}[13u\\u{1b}[9u");
    }

    #[test]
    fn unknown_keys_are_refused() {
        for wrong in ["", "Entre", "Hyper-x", "F13", "Ctrl-Foo"] {
            assert_eq!(encode_keys(&[wrong], &Modes::default()), Err(KeyError(wrong.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn any_name_is_a_key_or_an_error(name in "\\PC{0,12}", kitty in 0_u8..32) {
            let modes = Modes { kitty, ..Modes::default() };
            if let Ok(bytes) = encode_keys(&[&name], &modes) {
                prop_assert!(!bytes.is_empty());
            }
        }

        #[test]
        fn a_paste_cannot_leave_its_brackets(text in any::<String>()) {
            let modes = Modes { bracketed_paste: true, ..Modes::default() };
            let bytes = encode_paste(&text, &modes);
            prop_assert_eq!(bytes.iter().filter(|&&byte| byte == 0x1b).count(), 2);
            prop_assert!(bytes.starts_with(b"\x1b[200~") && bytes.ends_with(b"\x1b[201~"));
        }
    }
}
