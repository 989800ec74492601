use proptest::prelude::*;

use super::*;

fn words(line: &str) -> Option<Vec<Vec<String>>> {
    Some(split(line).ok()?.into_iter().map(|command| command.words).collect())
}

#[test]
fn commands_of_a_chain_are_told_apart() {
    for line in ["a b; c", "a b && c", "a b || c", "a b | c", "a b |& c", "a b & c", "a b\nc", "a 'b';c", "\\a \"b\"&c"]
    {
        let expected = [vec!["a", "b"], vec!["c"]].map(|words| words.into_iter().map(str::to_owned).collect());
        assert_eq!(words(line), Some(expected.to_vec()), "{line}");
    }
}

#[test]
fn where_output_goes_is_seen() {
    for (line, writes) in [
        ("a > b", true),
        ("a>>b", true),
        ("a 2>b", true),
        ("a &> b", true),
        ("a > /dev/null", false),
        ("a >/dev/null 2>&1", false),
        ("a 2>/dev/null", false),
        ("a '>' b", false),
    ] {
        assert_eq!(split(line).map(|commands| commands[0].writes), Ok(writes), "{line}");
    }
}

/// Each of these runs something else than its plain words say.
#[test]
fn what_cannot_be_told_is_opaque() {
    for line in [
        "a $(b)",
        "a `b`",
        "a \"$b\"",
        "(a)",
        "{ a; }",
        "{rm,-rf,x}",
        "r{m,} x",
        "/bin/r? x",
        "ls *",
        "ls() { rm x; }; ls",
        "X=1 a",
        "if a; then b; fi",
        "for x in a; do b; done",
        "! a",
        "a <<E\nb\nE",
        "a < b",
        "a \\\n b",
        "ls && \\\n  rm -rf x",
        "a > \"b c\"; rm x; ls \"d > \"e",
        "a > $b",
        "a > `b`",
        "a > b*",
        "a >| b",
        "a >& b",
        "> a",
        "a 'b",
        "a # b",
        "make x=~",
        "make x=a:~",
        "a &>&1",
        "a > 1>b",
        ">/dev/null",
        "a; >/dev/null",
        "a &&",
        "a |\n",
        "&& a",
        "a; ; b",
        "a & ; b",
        "; a",
        "",
    ] {
        assert!(split(line).is_err(), "{line:?}: {:?}", split(line));
    }
}

proptest! {
    /// Whatever is quoted is one word, and nothing in it is read.
    #[test]
    fn quoted_words_come_back(words in prop::collection::vec("[^\0]{0,12}", 1..5)) {
        let line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        // Quoted keywords and assignments are plain words to a shell; here they are not worth telling apart.
        prop_assume!(!is_special(&words[0]));
        prop_assert_eq!(split(&line), Ok(vec![Command { words, writes: false }]));
    }

    /// A shell's own special characters outside quotes never stay in a word.
    #[test]
    fn what_is_split_has_nothing_special_left(line in "[a-c \\$;&|<>(){}`*?~#!=\n-]{0,24}") {
        if let Ok(commands) = split(&line) {
            for word in commands.iter().flat_map(|command| &command.words) {
                let special = "$;&|<>(){}`*?!\n ";
                prop_assert!(!word.contains(|c| special.contains(c)), "{}", word);
            }
            prop_assert!(commands.iter().all(|command| !command.words.is_empty()));
        }
    }

    #[test]
    fn no_line_is_too_strange(line in "\\PC{0,60}") {
        let _ = split(&line);
    }
}
