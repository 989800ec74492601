//! The fuzz targets on inputs from a fixed seed: words that the parsers know, cut, repeated and mixed with noise.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::panic;

use fastrand::Rng;

const SEED: u64 = 1;
const MAX_PIECES: usize = 40;

/// Words of the terminal's language, as libFuzzer reads them.
const SCREEN_DICTIONARY: &str = include_str!("../screen.dict");
const REQUEST_WORDS: [&[u8]; 22] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\n",
    b"&",
    b"=",
    b"%2f",
    b"\"message\"",
    b"\"type\"",
    b"\"offset\"",
    b"\"cols\":",
    b"{\"text\":\"x\",\"enter\":true}",
    b"{\"type\":\"input\",\"text\":\"",
];

/// Pieces of command lines; plain ones several times, so that many lines can be told apart.
const SHELL_PIECES: [&str; 70] = [
    "a",
    "b",
    "ls",
    "git",
    "push",
    "-x",
    "a",
    "b",
    "ls",
    "git",
    "push",
    "-x",
    " ",
    " ",
    " ",
    " ",
    " ",
    " ",
    " ",
    " ",
    " ",
    " ",
    " ",
    " ",
    "; ",
    ";",
    "\n",
    "&&",
    " && ",
    "||",
    " | ",
    "|",
    "|&",
    "&",
    " & ",
    "'",
    "'c d'",
    "\"",
    "\"e f\"",
    "''",
    "\\",
    "\\ ",
    "\\;",
    "$",
    "$(b)",
    "`b`",
    "~",
    "HEAD~1",
    "=",
    "x=1",
    "#",
    "!",
    ">",
    " > f",
    " 2>&1",
    "&>g",
    ">>",
    " >/dev/null",
    "<",
    "2",
    "1>",
    "{",
    "}",
    "(",
    "*",
    "[",
    "if",
    "time",
    "eval",
    "\u{a0}",
];

fn make_line(rng: &mut Rng) -> Vec<u8> {
    let pieces = rng.usize(1..=12);
    (0..pieces).flat_map(|_| SHELL_PIECES[rng.usize(..SHELL_PIECES.len())].bytes()).collect()
}

/// Runs a target on so many inputs.
fn run_all(inputs: usize, words: &[Vec<u8>], target: fn(&[u8])) {
    run_made(inputs, |rng| make_input(words, rng), target);
}

fn run_made(inputs: usize, make: impl Fn(&mut Rng) -> Vec<u8>, target: fn(&[u8])) {
    let mut rng = Rng::with_seed(SEED);
    for number in 0..inputs {
        let data = make(&mut rng);
        let outcome = panic::catch_unwind(|| target(&data));
        assert!(outcome.is_ok(), "input {number} of seed {SEED} breaks it: {data:?}");
    }
}

fn make_input(words: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut data = vec![rng.u8(..)];
    for _ in 0..rng.usize(1..=MAX_PIECES) {
        let word = &words[rng.usize(..words.len())];
        match rng.u8(..8) {
            0 => data.extend((0..rng.usize(1..8)).map(|_| rng.u8(..))),
            1 => data.extend(rng.u32(..2000).to_string().bytes().chain([b';'])),
            2 => data.extend(&word[..rng.usize(..=word.len())]),
            3 => data.extend(word.repeat(rng.usize(1..20))),
            4 => data.extend("aé日👩‍🚀\u{301} ".as_bytes()),
            5 => data.extend([rng.u8(..), rng.u8(..), 0xfe]),
            _ => data.extend(word),
        }
    }
    data
}

/// Reads the words of a dictionary: lines of `name="word"`, with `\xHH` for a byte.
fn parse_dictionary(text: &str) -> Vec<Vec<u8>> {
    let quoted = text.lines().filter_map(|line| line.split_once("=\"")?.1.strip_suffix('"'));
    quoted.map(unescape).collect()
}

fn unescape(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        if let Some(hex) = rest.strip_prefix("\\x") {
            bytes.push(u8::from_str_radix(&hex[..2], 16).expect("two digits"));
            rest = &hex[2..];
        } else {
            let rest_of_escape = rest.strip_prefix('\\').unwrap_or(rest);
            bytes.push(rest_of_escape.as_bytes()[0]);
            rest = &rest_of_escape[1..];
        }
    }
    bytes
}

#[test]
fn no_bytes_break_the_screen() {
    let words = parse_dictionary(SCREEN_DICTIONARY);
    assert!(words.len() > 20, "the dictionary is read: {}", words.len());
    run_all(3000, &words, coop_fuzz::fuzz_screen);
}

#[test]
fn no_request_breaks_a_parser() {
    run_all(20_000, &REQUEST_WORDS.map(<[u8]>::to_vec), coop_fuzz::fuzz_requests);
}

#[test]
fn bash_runs_what_the_shell_reader_says_and_nothing_else() {
    if !coop_fuzz::has_bash() {
        return coop_testkit::skip("bash is not installed");
    }
    run_made(3000, make_line, coop_fuzz::fuzz_shell);
}
