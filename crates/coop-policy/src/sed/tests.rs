use super::*;

fn judged(words: &[&str]) -> Does {
    effect(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

#[test]
fn a_script_that_prints_only_looks() {
    for words in [
        &["-n", "5,10p", "x"][..],
        &["-n", "$p", "x"],
        &["s/a/b/g", "x"],
        &["-e", "s,/usr,/opt,;s|a|b|2p", "-e", "/^#/d", "x"],
        &["--expression=1!G;h;$!d", "x"],
        &["-E", "s,([^/]+)$,<\\1>,", "x"],
        &["-n", "/begin/,/end/{ s/[aeiou]//g; p }", "x"],
        &["-nE", "\\,^/home,I p", "x"],
        &["y/abc/xyz/", "x"],
        &["1i hello; e ls", "x"],
        &["0~4d", "x"],
        &["-l", "5", "l 7", "x"],
        &["--line-length", "5", "q5", "x"],
        &["--version"],
    ] {
        assert_eq!(judged(words), Does::Looks, "{words:?}");
    }
}

#[test]
fn editing_in_place_changes() {
    for words in [
        &["-i", "s/a/b/", "x"][..],
        &["-i.bak", "1d", "x"],
        &["-ni", "p", "x"],
        &["--in-place=.x", "1d", "x"],
        &["-i", "", "1d", "x"],
    ] {
        assert_eq!(judged(words), Does::Changes, "{words:?}");
    }
}

/// Most run `ls` or write a file with GNU sed 4.9; some are errors, and some are read differently by other seds.
#[test]
fn a_script_that_runs_or_writes_counts_as_the_worst() {
    for words in [
        &["e ls", "x"][..],
        &["1e", "x"],
        &["s/a/ls/e", "x"],
        &["s/a/ls/ge", "x"],
        &["s/a/b/w out", "x"],
        &["w out", "x"],
        &["W out", "x"],
        &["r in", "x"],
        &["/a/{e ls\n}", "x"],
        &["p;e ls", "x"],
        &["p\ne ls", "x"],
        &["s/a/b/;1!e ls", "x"],
        &["s/[/]x/ls/e", "x"],
        &["s/[/]x/ls/", "x"],
        &["s/[\\]/x]/g;s/e;/ls/p", "x"],
        &["s/[/]/b/;e ls", "x"],
        &["s/\\/a/b/;e ls", "x"],
        &["1i hello\ne ls", "x"],
        &["1i\\\nhello\ne ls", "x"],
        &["#n\ne ls", "x"],
        &["-n", "-e", "p", "-e", "e ls", "x"],
        &["-ne", "e ls", "x"],
        &["--expr", "e ls", "x"],
        &["-f", "script", "x"],
        &["--file=script", "x"],
        &["-sf", "script"],
        &["-i", "", "e ls", "x"],
        &["--", "e ls", "x"],
        &["-l", "5", "e ls", "x"],
        &["--line-length", "5", "e ls", "x"],
        &["5", "x"],
        &["s/a/b", "x"],
        &["snanbne", "x"],
    ] {
        assert_eq!(judged(words), Does::Destroys, "{words:?}");
    }
}
