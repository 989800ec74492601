//! Operating system commands: titles, colours, links, the working directory.
//!
//! The clipboard (OSC 52) is deliberately absent: a program must not read or write what a person copied.

use std::str;
use std::sync::Arc;

use super::palette::{Slot, parse_color};
use super::terminal::Terminal;

const MAX_TITLE: usize = 1024;
const MAX_LINK: usize = 2048;
const MAX_PATH: usize = 4096;

pub(super) fn dispatch(term: &mut Terminal, params: &[&[u8]], bell_terminated: bool) {
    let end = if bell_terminated { "\x07" } else { "\x1b\\" };
    let Some((code, args)) = params.split_first() else { return };
    let code = &code[code.iter().take_while(|&&digit| digit == b'0').count().min(code.len().saturating_sub(1))..];
    match code {
        b"0" | b"2" => term.set_title(cut(clean(&joined(args)), MAX_TITLE)),
        b"4" => indexed_colors(term, args, end),
        b"7" => term.cwd = path_of(&joined(args)),
        b"8" => set_link(term, args),
        b"10" | b"11" | b"12" => dynamic_colors(term, code, args, end),
        b"104" if args.is_empty() => term.palette.reset_indexed(),
        b"104" => args.iter().filter_map(|arg| number(arg)).for_each(|n| term.palette.reset(Slot::Indexed(n))),
        b"110" => term.palette.reset(Slot::Foreground),
        b"111" => term.palette.reset(Slot::Background),
        b"112" => term.palette.reset(Slot::Cursor),
        _ => {}
    }
}

/// The parser splits at every semicolon, also in a title.
fn joined(args: &[&[u8]]) -> String {
    String::from_utf8_lossy(&args.join(&b';')).into_owned()
}

fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// `file://host/path`, percent-encoded.
fn path_of(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let path = &rest[rest.find('/')?..];
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.as_bytes();
    while let Some((&byte, after)) = left.split_first() {
        let hex = if byte == b'%' { after.get(..2).and_then(|hex| str::from_utf8(hex).ok()) } else { None };
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                left = &after[2..];
            }
            None => {
                bytes.push(byte);
                left = after;
            }
        }
    }
    let path = clean(&String::from_utf8(bytes).ok()?);
    (path.len() <= MAX_PATH).then_some(path)
}

fn set_link(term: &mut Terminal, args: &[&[u8]]) {
    // The first argument may hold an id; we know links by their target.
    let Some((_, uri)) = args.split_first() else { return };
    let uri = clean(&joined(uri));
    let link = Some(uri).filter(|uri| !uri.is_empty() && uri.len() <= MAX_LINK).map(Arc::from);
    term.change_extra(|extra| extra.link = link);
}

fn indexed_colors(term: &mut Terminal, args: &[&[u8]], end: &str) {
    for pair in args.chunks_exact(2) {
        let (Some(n), Ok(value)) = (number(pair[0]), str::from_utf8(pair[1])) else { continue };
        if value == "?" {
            term.report_color(&format!("4;{n}"), Slot::Indexed(n), end);
        } else if let Some(color) = parse_color(value) {
            term.palette.set(Slot::Indexed(n), color);
        }
    }
}

/// Several values may follow: they mean the next codes.
fn dynamic_colors(term: &mut Terminal, code: &[u8], args: &[&[u8]], end: &str) {
    let slots = [(10, Slot::Foreground), (11, Slot::Background), (12, Slot::Cursor)];
    let first = number(code).map_or(0, |code| usize::from(code.saturating_sub(10)));
    for ((code, slot), value) in slots.into_iter().skip(first).zip(args) {
        match str::from_utf8(value) {
            Ok("?") => term.report_color(&code.to_string(), slot, end),
            Ok(value) => {
                if let Some(color) = parse_color(value) {
                    term.palette.set(slot, color);
                }
            }
            Err(_) => {}
        }
    }
}

fn number(text: &[u8]) -> Option<u8> {
    str::from_utf8(text).ok()?.parse().ok()
}
