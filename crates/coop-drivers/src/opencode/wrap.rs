//! A person's own `opencode`.

use super::setup::{Begin, Program, Words};
use crate::driver::Launch;
use crate::wrap::{At, Chosen, Conversation, Plan};

/// What the interface of another server takes too.
const ALSO_ATTACHED: &[&str] =
    &["-s", "--session", "-c", "--continue", "--fork", "--dir", "--print-logs", "--log-level", "--pure"];

/// Tells whether a command line is about a conversation that a person leads.
pub(crate) fn converses(words: &[String]) -> bool {
    let said = read(words);
    matches!(said.program, Program::Interface { .. }) && !said.asks_for(&["-h", "--help", "-v", "--version"])
}

/// Returns which conversation a command line says that it goes on with. Which was the last only OpenCode can tell.
pub(crate) fn chosen(words: &[String]) -> Chosen {
    match read(words).begin {
        Begin::Named(id) if converses(words) && !words.iter().any(|word| word == "--fork") => Chosen::Named(id),
        Begin::Named(_) | Begin::New | Begin::Last => Chosen::Open,
    }
}

fn read(words: &[String]) -> Words {
    let command = std::iter::once("opencode").map(str::to_owned).chain(words.iter().cloned()).collect();
    Words::of(&Launch { command, ..Launch::default() })
}

pub(crate) fn wrapped(words: &[String], known: &Conversation) -> Plan {
    let said = read(words);
    if said.program != (Program::Interface { folder: None }) || !converses(words) {
        return Plan::AsItIs;
    }
    let session = match (&said.begin, &known.id) {
        (Begin::New, Some(id)) => vec!["--session".to_owned(), id.clone()],
        (Begin::New, None) | (Begin::Named(_) | Begin::Last, _) => Vec::new(),
    };
    match &known.at {
        // What its interface cannot be told there would be lost.
        At::Server(url) if said.takes_only(ALSO_ATTACHED) => {
            Plan::With([vec!["attach".to_owned(), url.clone()], words.to_vec(), session].concat())
        }
        // Another process would write into the conversation beside the one that may only be slow.
        At::Silent(agent) if said.takes_only(ALSO_ATTACHED) => Plan::Refuse(format!(
            "the agent {agent} has the conversation of this workspace, and its server does not answer: `coop resume {agent}` \
             restarts it, with its port and its conversation"
        )),
        At::Kept if !session.is_empty() => Plan::With([words.to_vec(), session].concat()),
        At::Server(_) | At::Silent(_) | At::Kept | At::Unbegun | At::Agent(_) => Plan::AsItIs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wrapped;

    fn plan(line: &str, at: At) -> String {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        match Wrapped::OpenCode.plan(&words, Some(&Conversation { id: Some("ses_1".to_owned()), at })) {
            Plan::AsItIs => "as it is".to_owned(),
            Plan::With(words) => words.join(" "),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn every_form_comes_to_the_running_server_or_is_left_alone() {
        let url = "http://127.0.0.1:5000";
        let attached = |line: &str| plan(line, At::Server(url.to_owned()));
        for (line, expected) in [
            ("", "attach http://127.0.0.1:5000 --session ses_1"),
            ("-s ses_2", "attach http://127.0.0.1:5000 -s ses_2"),
            ("--session=ses_2", "attach http://127.0.0.1:5000 --session=ses_2"),
            ("-c", "attach http://127.0.0.1:5000 -c"),
            ("--continue", "attach http://127.0.0.1:5000 --continue"),
            // What it cannot be told there, and what is none of it.
            ("--prompt fix", "as it is"),
            ("-m a/b", "as it is"),
            ("--agent plan", "as it is"),
            ("--port 7", "as it is"),
            ("src", "as it is"),
            ("run fix", "as it is"),
            ("serve", "as it is"),
            ("attach http://127.0.0.1:9", "as it is"),
            ("auth login", "as it is"),
            ("--help", "as it is"),
            ("-v", "as it is"),
        ] {
            assert_eq!(attached(line), expected, "{line}");
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_not_passed_by() {
        for line in ["", "-s ses_1", "-c"] {
            let said = plan(line, At::Silent("a".to_owned()));
            assert!(said.contains("Refuse") && said.contains("coop resume a"), "{line}: {said}");
        }
        for line in ["--prompt fix", "run fix", "--help"] {
            assert_eq!(plan(line, At::Silent("a".to_owned())), "as it is", "{line}");
        }
    }

    #[test]
    fn a_conversation_is_chosen_by_its_name() {
        let chosen = |line: &str| chosen(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        for line in ["-s ses_2", "--session ses_2", "--session=ses_2", "-m a/b -s ses_2"] {
            assert_eq!(chosen(line), Chosen::Named("ses_2".to_owned()), "{line}");
        }
        for line in ["", "-c", "-s ses_2 --fork", "run -s ses_2", "--help"] {
            assert_eq!(chosen(line), Chosen::Open, "{line}");
        }
    }

    #[test]
    fn without_a_server_it_goes_on_with_the_conversation() {
        for (line, expected) in [
            ("", "--session ses_1"),
            ("-m a/b", "-m a/b --session ses_1"),
            ("--prompt fix", "--prompt fix --session ses_1"),
            ("-s ses_2", "as it is"),
            ("--session=ses_2", "as it is"),
            ("-c", "as it is"),
            ("run fix", "as it is"),
            ("src", "as it is"),
        ] {
            assert_eq!(plan(line, At::Kept), expected, "{line}");
        }
        assert_eq!(plan("", At::Unbegun), "as it is");
    }
}
