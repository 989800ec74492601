//! What the API refuses in its own words, in those of the command line.

use anyhow::anyhow;

use super::ask::Daemon;
use crate::client::Refused;

/// What stands in a refusal, and what it is to somebody who types commands.
const WORDS: [(&str, &str); 13] = [
    ("POST /api/v1/agents/{agent}/revive goes on", "`coop resume {agent}` goes on"),
    ("answer it first with /agent/respond", "see `coop asks`, and answer it first with `coop respond {agent}`"),
    ("try again, or send with \"when\": \"idle\"", "try again, or queue it with `--when idle`"),
    ("send with \"when\": \"idle\" to queue it", "`--when idle` queues it"),
    ("send with \"when\": \"idle\"", "`--when idle` queues it"),
    ("see GET /api/v1/agent/asks", "see `coop asks`"),
    ("use /api/v1/agent/nudge and /api/v1/agent/respond", "use `coop send` and `coop respond`"),
    ("or by /api/v1/input", "by `coop attach {agent}`"),
    ("use /api/v1/input", "use `coop attach {agent}`, or `coop type` and `coop keys`"),
    ("give \"accept\": true or false", "say yes or no"),
    ("give either \"accept\" or \"option\"", "say yes, no, or the number of an option"),
    ("answer(s)", "answer(s); say --answer once for each"),
    ("needs an \"option\" or a \"text\"", "is to be answered too: say --answer once for each question"),
];

/// Returns a refusal about an agent so that it says which command to use. Programs get it as it is.
pub(super) fn in_commands(daemon: &Daemon, agent: &str, error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(Refused(refused)) if !daemon.json => anyhow!(translated(agent, &refused.message)),
        Some(Refused(_)) | None => error,
    }
}

/// Returns why a workspace was not deleted, with the options by which it is all the same.
pub(super) fn of_a_deletion(daemon: &Daemon, error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(Refused(refused)) if !daemon.json => {
            let said = refused.message.replace("say that they may be lost", "lose them with --ignore-warnings");
            let said = said.replace(", keep the branch,", ", keep the branch with --keep-branch,");
            let hint = if said.starts_with("processes work in ") { "; --kill ends them" } else { "" };
            anyhow!("{said}{hint}")
        }
        Some(Refused(_)) | None => error,
    }
}

fn translated(agent: &str, message: &str) -> String {
    // An agent may have been named by a part of its id, and the refusal has the whole.
    let named =
        |message: &str| message.split_once("/agents/").and_then(|(_, rest)| Some(rest.split_once('/')?.0.to_owned()));
    let agent = named(message).unwrap_or_else(|| agent.to_owned());
    WORDS.iter().fold(message.to_owned(), |said, (api, command)| {
        said.replace(&api.replace("{agent}", &agent), &command.replace("{agent}", &agent))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_api_become_commands() {
        let ended = "writer is done, and ended at X with code 0; POST /api/v1/agents/writer/revive goes on with its \
                     conversation";
        insta::assert_snapshot!(
            translated("wri", ended),
            @"writer is done, and ended at X with code 0; `coop resume writer` goes on with its conversation"
        );
        let busy = "the agent is working; send with \"when\": \"idle\" to queue it";
        insta::assert_snapshot!(translated("a", busy), @"the agent is working; `--when idle` queues it");
    }
}
