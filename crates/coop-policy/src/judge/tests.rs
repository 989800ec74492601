use super::*;

#[test]
fn what_only_looks() {
    for line in [
        "ls -la",
        "cat a | grep b | wc -l",
        "git status",
        "git log --oneline -5",
        "git diff --stat main",
        "echo 'rm -rf /'",
        "pwd; ls",
        "ls 2>/dev/null",
        "grep -r x . 2>&1 | head",
        "find . -name '*.rs'",
        "timeout 5 ls",
        "sed -n 1,20p a",
        "sed s/a/b/g a",
        "bash -lc 'ls; pwd'",
        "rg -n x src",
        "sort -u a | uniq -c",
        "",
    ] {
        assert_eq!(judge(line), Does::Looks, "{line}");
    }
}

#[test]
fn what_changes() {
    for line in [
        "touch a",
        "ls > list",
        "mkdir -p x && cd x",
        "cargo build",
        "git commit -m 'x'",
        "git branch x",
        "cp a b; ls",
        "python3 build.py",
        "python3.12 -m pytest -q",
        "sed -i s/a/b/ f",
        "echo a >> b",
        "npm ci | tail -1",
        "sort -uo a b",
        "uniq a b",
        "tree -o f",
    ] {
        assert_eq!(judge(line), Does::Changes, "{line}");
    }
}

/// The public backend looked at the first command only: `ls; rm -rf x` was safe.
#[test]
fn every_part_of_a_chain_counts() {
    for line in [
        "rm -rf x",
        "ls; rm -rf x",
        "ls && rm x",
        "ls || rm x",
        "ls | xargs rm",
        "ls & rm x",
        "ls\nrm x",
        "ls && \\\n  rm -rf x",
        "echo $(rm x)",
        "echo `rm x`",
        "echo \"$(rm x)\"",
        "(ls; rm x)",
        "{ ls; rm x; }",
        "bash -c 'ls; rm x'",
        "sh -c \"rm x\"",
        "/bin/rm x",
        "'rm' x",
        "r\\m x",
        "FOO=1 rm x",
        "FOO=1 ls",
        "env rm x",
        "env LD_PRELOAD=./e.so ls",
        "env PATH=/tmp ls",
        "env -i ls",
        "sudo ls",
        "time rm x",
        "nohup rm x &",
        "timeout -k 1 2 rm x",
        "timeout 5 rm x",
        "if true; then rm x; fi",
        "PATH=/tmp ls",
        "GIT_EXTERNAL_DIFF=./e git diff",
        "! rm x",
        "ls() { rm -rf x; }; ls",
        "{rm,-rf,x}",
        "/bin/r? x",
        "ls > \"a b\"; rm -rf x; ls \"c > \"d",
        "ls 'unclosed",
        "echo $(ls",
        "cat <<E\nrm\nE",
        "$CMD x",
    ] {
        assert_eq!(judge(line), Does::Destroys, "{line}");
    }
}

/// Programs that run others, by their arguments or what they read, and programs that nobody knows.
#[test]
fn what_nobody_can_tell_counts_as_the_worst() {
    for line in [
        "xargs -n1 rm",
        "xargs -n 1 rm",
        "xargs -I {} rm {}",
        "ls | xargs touch",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -fprint0 x",
        "git push --force",
        "git push",
        "git reset --hard",
        "git clean -fdx",
        "git -c core.pager=./e log",
        "git branch -fD x",
        "git branch --del x",
        "git remote remove origin",
        "git grep -Orm x",
        "git diff --ext-diff",
        "git diff --outp=x",
        "git clone ext::./e x",
        "git fetch --upload-pack ./e",
        "rg --pre ./e x",
        "sort --compress-program=./e a",
        "sed s/a/b/e f",
        "sed '1e rm x' f",
        "sed -n '1w x' f",
        "curl x | sh",
        "sh /dev/stdin",
        "bash -s",
        "python3 -c 'import os'",
        "python3.12 -c 'import os'",
        "python3 -m http.server",
        "awk 'BEGIN { system(\"rm x\") }'",
        "eval ls",
        "busybox rm x",
        "strace rm x",
        "flock l rm x",
        "watch rm x",
        "npm publish",
        "cargo publish",
        "cargo build --config x",
    ] {
        assert_eq!(judge(line), Does::Destroys, "{line}");
    }
}

/// Each of these was allowed without a human, and ran something.
#[test]
fn what_looked_harmless_by_its_name_or_options_counts_as_the_worst() {
    for line in [
        "./tools/ls",
        "tools/git status",
        "/tmp/jq . a",
        "./bash -c ls",
        "test -v 'x[$(touch p)]'",
        "printf -v 'x[$(touch p)]' a",
        "printf -v PATH %s /repo/evil; ls",
        "type ls",
        "env",
        "env ls",
        "sort --compress-prog=./z -S 1K big",
        "sort --com=./z big",
        "rg --hostname-b=./z x",
        "env 5 ls",
        "nice inf ls",
        "nice 5 ls",
        "nohup 5 ls",
        "timeout inf ls",
        "timeout nan ls",
        "timeout 5 6 ls",
        "timeout ls",
        "stdbuf -oL ls",
        "go build -toolexec ./z",
    ] {
        assert_eq!(judge(line), Does::Destroys, "{line}");
    }
    assert_eq!(judge("sort --ou=x a"), Does::Changes);
    assert_eq!(judge("file --comp -m x"), Does::Changes);
    assert_eq!(judge("/usr/bin/git status; timeout 1.5s nice /bin/ls"), Does::Looks);
}

proptest::proptest! {
    /// Whatever else stands in a chain, a part that destroys is found.
    #[test]
    fn a_chain_is_as_bad_as_its_worst_part(before in "[a-z \\\\'\"$>{}=()\n-]{0,12}", join in "(;|&&|\\|\\||\\||&|\n)") {
        // A backslash or quote at the end takes the joint into a word: then it is no chain.
        let line = format!("{before}{join} rm -rf x");
        let words = split(&line).ok();
        let quoted = words.is_some_and(|commands| !commands.iter().any(|command| command.words[0] == "rm"));
        proptest::prop_assume!(!quoted);
        proptest::prop_assert_eq!(judge(&line), Does::Destroys);
    }
}
