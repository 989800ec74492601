//! A person's own `claude`.
//!
//! Its command line is read as its own parser does: an option with a value takes the next word whatever that is, one that may
//! have a value takes it unless it looks like an option, short options can be joined, and behind `--` is the prompt.

use super::setup::{WITH_VALUE, WITH_VALUE_OR_NOT, WITH_VALUES};
use crate::wrap::{At, Chosen, Conversation, Plan};

/// Options by which a command line chooses its conversation, or is about another folder's or another machine's.
const CHOOSES: &[&str] = &[
    "--continue",
    "--resume",
    "--session-id",
    "--fork-session",
    "--from-pr",
    "--teleport",
    "--remote",
    "--cloud",
    "--worktree",
    "--no-session-persistence",
];
/// Options of one question and its answer, which is a conversation of its own, and of what is none.
const APART: &[&str] = &["--print", "--help", "--version", "--init-only", "--maintenance", "--background", "--bg"];
/// Commands that are no conversation.
const COMMANDS: &[&str] = &[
    "agents",
    "attach",
    "auth",
    "auto-mode",
    "config",
    "daemon",
    "doctor",
    "gateway",
    "install",
    "kill",
    "logs",
    "mcp",
    "migrate-installer",
    "plugin",
    "plugins",
    "project",
    "remote-control",
    "rc",
    "respawn",
    "rm",
    "setup-token",
    "stop",
    "ultrareview",
    "update",
    "upgrade",
];

/// What a command line is about. What comes later here outweighs what comes before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    /// A conversation, and it leaves it to us which.
    #[default]
    Any,
    /// A conversation that it chooses.
    Chosen,
    /// None that a person leads.
    None,
}

/// What a command line says.
#[derive(Debug, Default)]
struct Said {
    about: About,
    /// The conversation that it names.
    named: Option<String>,
    /// It goes on with the last.
    continues: bool,
    /// It goes on with a copy.
    forks: bool,
}

/// Tells whether a command line is about a conversation that a person leads.
pub(crate) fn converses(words: &[String]) -> bool {
    read(words).about != About::None
}

/// Tells whether it also leaves room for hooks of ours.
pub(crate) fn takes_hooks(words: &[String]) -> bool {
    let own = &words[..words.iter().position(|word| word == "--").unwrap_or(words.len())];
    let has = |name: &str| own.iter().any(|word| word.split('=').next() == Some(name));
    converses(words) && !has("--settings") && !has("--bare")
}

/// Returns which conversation a command line goes on with, also for one question and its answer.
pub(crate) fn chosen(words: &[String]) -> Chosen {
    match read(words) {
        Said { forks: true, .. } => Chosen::Open,
        Said { named: Some(id), .. } => Chosen::Named(id),
        Said { continues: true, .. } => Chosen::Last,
        Said { .. } => Chosen::Open,
    }
}

pub(crate) fn wrapped(words: &[String], known: &Conversation) -> Plan {
    if read(words).about != About::Any {
        return Plan::AsItIs;
    }
    match (&known.at, &known.id) {
        (At::Agent(agent), _) if words.is_empty() => Plan::Attach(agent.clone()),
        // A second process would write into the conversation of the first.
        (At::Agent(agent), _) => Plan::Refuse(format!(
            "the agent {agent} has the conversation of this workspace open: `coop attach {agent}` shows it, `coop send {agent} \
             TEXT` tells it something; with --session-id claude begins another conversation beside it"
        )),
        (At::Kept, Some(id)) => Plan::With(before(format!("--resume={id}"), words)),
        (At::Unbegun, Some(id)) => Plan::With(before(format!("--session-id={id}"), words)),
        (At::Server(_) | At::Silent(_), _) | (At::Kept | At::Unbegun, None) => Plan::AsItIs,
    }
}

fn before(first: String, words: &[String]) -> Vec<String> {
    std::iter::once(first).chain(words.iter().cloned()).collect()
}

fn read(words: &[String]) -> Said {
    let mut said = Said::default();
    let mut rest = words.iter().map(String::as_str).peekable();
    let is_value = |word: &&str| !word.starts_with('-') || *word == "-";
    let mut is_first = true;
    while let Some(word) = rest.next() {
        if word == "--" {
            return said;
        }
        if word.starts_with("--") {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            said.option(name, value.or_else(|| rest.peek().copied().filter(is_value)));
            if value.is_none() {
                skip_values(word, &mut rest, is_value);
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            if let Some(option) = said.letters(letters, rest.peek().copied().filter(is_value)) {
                skip_values(option, &mut rest, is_value);
            }
        } else {
            if is_first && COMMANDS.contains(&word) {
                return Said { about: About::None, ..Said::default() };
            }
            is_first = false;
        }
    }
    said
}

impl Said {
    /// Takes in an option, with what may be its value: no conversation is called like an option.
    fn option(&mut self, name: &str, value: Option<&str>) {
        if APART.contains(&name) {
            self.about = About::None;
        }
        if CHOOSES.contains(&name) {
            self.about = self.about.max(About::Chosen);
        }
        match name {
            "--continue" => self.continues = true,
            "--fork-session" => self.forks = true,
            "--resume" | "--session-id" => self.named = value.map(str::to_owned),
            _ => {}
        }
    }

    /// Takes in joined short options, with what may be the value of the last. Returns that if it may have one.
    fn letters(&mut self, letters: &str, value: Option<&str>) -> Option<&'static str> {
        for (at, letter) in letters.char_indices() {
            let joined = &letters[at + letter.len_utf8()..];
            let lacks = joined.is_empty();
            match letter {
                'p' | 'h' | 'v' => self.about = About::None,
                'c' => self.option("--continue", None),
                // The rest of these is the value.
                'r' => {
                    self.option("--resume", if lacks { value } else { Some(joined) });
                    return lacks.then_some("-r");
                }
                'w' => {
                    self.option("--worktree", None);
                    return lacks.then_some("-w");
                }
                'n' => return lacks.then_some("-n"),
                'd' => return lacks.then_some("-d"),
                _ => {}
            }
        }
        None
    }
}

fn skip_values<'a>(
    option: &str,
    rest: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    is_value: impl Fn(&&str) -> bool,
) {
    if WITH_VALUE.contains(&option) {
        rest.next();
    } else if WITH_VALUE_OR_NOT.contains(&option) {
        rest.next_if(is_value);
    } else if WITH_VALUES.contains(&option) {
        while rest.next_if(&is_value).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wrapped;

    const ID: &str = "5bd9d1a2-0000-4000-8000-000000000001";

    fn plan(line: &[&str], at: At) -> Plan {
        let words: Vec<_> = line.iter().map(|&word| word.to_owned()).collect();
        Wrapped::Claude.plan(&words, Some(&Conversation { id: Some(ID.to_owned()), at }))
    }

    /// Every way to say which conversation is meant, alone, before and after a prompt, and beside other options.
    #[test]
    fn a_command_line_that_names_a_conversation_is_left_as_it_is() {
        let forms: &[&[&str]] = &[
            &["--continue"],
            &["-c"],
            &["--resume"],
            &["--resume", ID],
            &["--resume=x"],
            &["--resume="],
            &["-r"],
            &["-r", ID],
            &["-rx"],
            &["-r=x"],
            &["--session-id", ID],
            &["--session-id=x"],
            &["-cp"],
            &["-pc"],
            &["-cr"],
            &["--fork-session", "--resume", ID],
            &["--from-pr"],
            &["--from-pr=7"],
            &["--worktree", "x"],
            &["-w"],
            &["-wx"],
            &["--no-session-persistence"],
        ];
        for form in forms {
            for before in [&[][..], &["fix it"], &["--model", "opus"], &["-d"], &["--add-dir", "a", "b"], &["-n", "x"]]
            {
                for after in [&[][..], &["fix it"], &["--verbose"], &["--", "--model"]] {
                    let line = [before, form, after].concat();
                    for at in [At::Kept, At::Unbegun, At::Agent("a".into())] {
                        assert_eq!(plan(&line, at), Plan::AsItIs, "{line:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_conversation_of_its_own_is_left_as_it_is() {
        let lines: &[&[&str]] = &[
            &["-p", "why?"],
            &["--print", "why?"],
            &["why?", "-p"],
            &["--help"],
            &["-h"],
            &["--version"],
            &["-v"],
            &["mcp", "list"],
            &["--verbose", "doctor"],
            &["--model", "opus", "update"],
        ];
        for line in lines {
            assert_eq!(plan(line, At::Kept), Plan::AsItIs, "{line:?}");
            assert_eq!(plan(line, At::Agent("a".into())), Plan::AsItIs, "{line:?}");
        }
    }

    /// What looks like such an option and is none: a value, or words of the prompt.
    #[test]
    fn any_other_command_line_goes_on_with_the_conversation_that_is_known() {
        let lines: &[&[&str]] = &[
            &[],
            &["fix it"],
            &["--model", "opus"],
            &["--model=opus", "fix it"],
            &["--model", "--resume"],
            &["--system-prompt", "-c"],
            &["--name", "--continue"],
            &["-n", "-r"],
            &["-nr"],
            &["-dc"],
            &["--", "--resume", "x"],
            &["--", "-c"],
            &["--", "-rx", "--session-id=x"],
            &["--verbose", "--", "--continue"],
            &["fix it", "--", "-c"],
            &["fix", "mcp"],
            &["--add-dir", "a", "mcp", "--verbose"],
            &["--resumed"],
            &["--continued=1"],
            &["explain --resume"],
            &["-"],
        ];
        for line in lines {
            let with = |first: String| {
                Plan::With(before(first, &line.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()))
            };
            assert_eq!(plan(line, At::Kept), with(format!("--resume={ID}")), "{line:?}");
            assert_eq!(plan(line, At::Unbegun), with(format!("--session-id={ID}")), "{line:?}");
        }
    }

    #[test]
    fn no_second_process_writes_into_a_conversation_that_is_open() {
        assert_eq!(plan(&[], At::Agent("a".into())), Plan::Attach("a".into()));
        for line in [&["fix it"][..], &["--model", "opus"], &["--", "-c"]] {
            let Plan::Refuse(why) = plan(line, At::Agent("a".into())) else { panic!("{line:?} is run") };
            assert!(why.contains("coop attach a"), "{why}");
        }
    }

    #[test]
    fn only_conversations_that_a_person_leads_count() {
        let is_one = |line: &str| takes_hooks(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        for line in ["", "fix it", "-c", "--resume=x", "-r x", "--model opus", "-- --settings", "--session-id x"] {
            assert!(is_one(line), "{line}");
        }
        for line in
            ["-p why", "mcp list", "--help", "-cp", "-c --print", "-r x -p", "--settings x", "--settings=x", "--bare"]
        {
            assert!(!is_one(line), "{line}");
        }
    }

    #[test]
    fn what_a_command_line_goes_on_with_is_known_in_every_form() {
        let chosen = |line: &str| chosen(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        for line in [
            "--resume x",
            "--resume=x",
            "-r x",
            "-rx",
            "--session-id x",
            "--session-id=x",
            "-p -r x",
            "-pr x",
            "fix -r x",
        ] {
            assert_eq!(chosen(line), Chosen::Named("x".to_owned()), "{line}");
        }
        for line in ["-c", "--continue", "-cp", "-pc", "-c fix"] {
            assert_eq!(chosen(line), Chosen::Last, "{line}");
        }
        for line in
            ["", "-r", "fix", "-- -r x", "-r x --fork-session", "--fork-session -c", "-r --verbose", "--model -c"]
        {
            assert_eq!(chosen(line), Chosen::Open, "{line}");
        }
    }

    #[test]
    fn without_a_conversation_nothing_is_changed() {
        let nameless = Conversation { id: None, at: At::Kept };
        let words = ["fix it".to_owned()];
        assert_eq!(Wrapped::Claude.plan(&words, Some(&nameless)), Plan::AsItIs);
        assert_eq!(Wrapped::Claude.plan(&words, None), Plan::AsItIs);
    }

    proptest::proptest! {
        /// Whatever is typed, every word of it stays, in order, and at most one is added, in front.
        #[test]
        fn no_word_is_lost(words in proptest::collection::vec("-{0,2}[a-z]{0,3}|-r|--resume|--model|--", 0..6)) {
            let known = Conversation { id: Some(ID.to_owned()), at: At::Kept };
            match Wrapped::Claude.plan(&words, Some(&known)) {
                Plan::AsItIs => {}
                Plan::With(with) => proptest::prop_assert_eq!(&with[1..], &words[..]),
                other => proptest::prop_assert!(false, "{:?}", other),
            }
        }
    }
}
