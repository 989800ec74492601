//! What agents ask, and the answers.

use std::io::{self, Write};

use anyhow::bail;
use coop_api::{visible, visible_line};
use serde_json::{Value, json};

use super::ask::{Daemon, items};
use super::cli::Response;
use super::table::{self, Paper, text};
use crate::run::{read_answer, terminal};

/// How many lines of one ask a list on a terminal shows.
const MAX_LISTED: usize = 40;
/// What stands before each line of an ask, so that none passes for a line of coop's.
const MARGIN: &str = "    │ ";

/// How much of each ask is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    Listed,
}

/// Lists open asks, of one agent or of all.
pub(super) async fn asks(daemon: &Daemon, agent: Option<&str>) -> anyhow::Result<i32> {
    let mut open = daemon.get("asks").await?;
    if let Some(agent) = agent {
        let id = daemon.agent(agent).await?["id"].take();
        open["asks"] = items(&open, "asks").iter().filter(|open| open["agent"] == id).cloned().collect();
    }
    let paper = Paper::of_stdout();
    let extent = if agent.is_some() || paper == Paper::Plain { Extent::Whole } else { Extent::Listed };
    daemon.tell(&open, |open| io::stdout().lock().write_all(listed(items(open, "asks"), paper, extent).as_bytes()))
}

/// Answers an ask. An answer that approves has to be about an ask that the person has seen: the one named by its id, or the
/// one that is shown whole now.
pub(super) async fn respond(daemon: &Daemon, agent: &str, response: &Response) -> anyhow::Result<i32> {
    let mut body = body(response)?;
    let mut shown = 0;
    if response.ask.is_some() && body["accept"] != false {
        // Ids of asks begin anew with each agent: those of another one would fit.
        let id = text(&daemon.agent(agent).await?["id"]);
        if id != agent {
            bail!("{agent} is short for {id}; an answer has to name its agent whole: `coop respond {id} …`");
        }
    }
    if response.ask.is_none() && body["accept"] != false {
        let open = daemon.get_of(agent, "agent/asks").await?;
        let Some(ask) = items(&open, "asks").first() else {
            bail!("{agent} asks nothing; see `coop asks`");
        };
        let id = text(&ask["id"]);
        let Some(terminal) = terminal() else {
            let words = words(response);
            bail!(
                "an answer has to name its ask, since {agent} may ask something else by now; read `coop asks {agent}`, \
                 then answer with `coop respond {agent} {words} --ask {id}`"
            );
        };
        let text = listed(&[json!({ "agent": agent, "ask": ask })], Paper::of(&io::stderr()), Extent::Whole);
        let question = format!("{text}Answer {id} with {}? [y]es, [N]o: ", visible_line(&words(response)));
        let line = tokio::task::spawn_blocking(move || read_answer(terminal, &question)).await??;
        if !matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            bail!("nothing was answered");
        }
        body["ask"] = json!(id);
        shown = text.chars().count();
    }
    body["shown"] = json!({ "surface": "cli", "characters": shown, "whole": shown > 0 });
    daemon.done(&daemon.post_to(agent, "agent/respond", &body).await?)
}

/// Returns an answer as it is typed.
fn words(response: &Response) -> String {
    let quoted = |name: &str, text: &String| format!("{name} {}", coop_policy::quoted(text));
    let answers = response.answers.iter().map(|answer| quoted("--answer", answer));
    let text = response.text.iter().map(|text| quoted("--text", text));
    let keys = response.keys.iter().map(|key| quoted("--keys", key));
    response.answer.iter().cloned().chain(answers).chain(text).chain(keys).collect::<Vec<_>>().join(" ")
}

/// Returns asks as a list, each with its input, what can be answered, and the command that says yes.
fn listed(asks: &[Value], paper: Paper, extent: Extent) -> String {
    let row = |open: &Value| {
        let ask = &open["ask"];
        [&open["agent"], &ask["id"], &ask["kind"], &ask["tool"], &ask["preview"]].map(text).to_vec()
    };
    let rows: Vec<_> = asks.iter().map(row).collect();
    let rows = table::layout(&["AGENT", "ASK", "KIND", "TOOL", "ABOUT"], &rows, paper);
    let mut lines = rows.lines();
    let mut shown: Vec<String> = lines.next().map(str::to_owned).into_iter().collect();
    for (line, open) in lines.zip(asks) {
        let (agent, ask) = (text(&open["agent"]), &open["ask"]);
        shown.push(line.to_owned());
        let whole: Vec<_> = content(ask).iter().flat_map(|line| wrapped(line, paper)).collect();
        let most = if extent == Extent::Whole { whole.len() } else { MAX_LISTED.min(whole.len()) };
        shown.extend(whole[..most].iter().map(|line| format!("{MARGIN}{line}")));
        if most < whole.len() {
            shown.push(format!("    … (+{} lines), shown by `coop asks {agent}`", whole.len() - most));
        }
        shown.extend(choices(ask).iter().map(|line| format!("    {}", visible_line(line))));
        let questions = items(ask, "questions").len();
        let answer = match (questions, ask["kind"] == "question") {
            (0, _) if ask["channel"] == "keys" && items(ask, "options").is_empty() => "--keys KEY…".to_owned(),
            (2.., _) => vec!["--answer NUMBER"; questions].join(" "),
            (_, true) => "NUMBER".to_owned(),
            (_, false) => "yes".to_owned(),
        };
        shown.push(format!("    coop respond {agent} {answer} --ask {}", text(&ask["id"])));
    }
    shown.join("\n") + "\n"
}

/// Returns all that an ask is about, in lines in which every character can be seen.
fn content(ask: &Value) -> Vec<String> {
    let lines = |text: &str| visible(text).lines().map(str::to_owned).collect::<Vec<_>>();
    let field = |name: &str, value: &Value| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match &lines(&value)[..] {
            [] => vec![format!("{name}:")],
            [only] => vec![format!("{name}: {only}")],
            several => {
                let several = several.iter().map(|line| format!("  {line}"));
                [format!("{name}:")].into_iter().chain(several).collect()
            }
        }
    };
    match &ask["input"] {
        // The terminal has all that is known, and what it is about.
        Value::Null => items(ask, "screen_lines").iter().flat_map(|line| lines(&text(line))).collect(),
        Value::Object(fields) => {
            // They are listed with their options.
            let is_listed = |name: &str| name == "questions" && !items(ask, "questions").is_empty();
            let fields = fields.iter().filter(|(name, _)| !is_listed(name));
            fields.flat_map(|(name, value)| field(&visible_line(name), value)).collect()
        }
        other => lines(&text(other)),
    }
}

/// Returns a line in pieces that fit a terminal with their margin: where the terminal breaks a line, the rest would begin
/// where coop's own lines do. Characters beyond ASCII may be two columns wide.
fn wrapped(line: &str, paper: Paper) -> Vec<String> {
    let Paper::Terminal { columns, .. } = paper else { return vec![line.to_owned()] };
    let room = columns.saturating_sub(MARGIN.chars().count()).max(1);
    let mut pieces = vec![String::new()];
    let mut width = 0;
    for c in line.chars() {
        let wide = match c {
            '\t' => 8,
            c if c.is_ascii() => 1,
            _ => 2,
        };
        if width + wide > room && width > 0 {
            pieces.push(String::new());
            width = 0;
        }
        width += wide;
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
    }
    pieces
}

/// Returns what can be chosen, by the numbers that `coop respond` takes: a line for each question, or one.
fn choices(ask: &Value) -> Vec<String> {
    let options = |of: &Value| {
        let numbered = items(of, "options").iter().enumerate();
        let word = |(at, option): (usize, &Value)| match text(&option["description"]) {
            none if none.is_empty() => format!("{}: {}", at + 1, text(&option["label"])),
            meaning => format!("{}: {} ({meaning})", at + 1, text(&option["label"])),
        };
        numbered.map(word).collect::<Vec<_>>().join("   ")
    };
    match items(ask, "questions") {
        [] => Some(options(ask)).filter(|line| !line.is_empty()).into_iter().collect(),
        questions => {
            let line = |question: &Value| {
                let several = if question["multi_select"] == true { " (one or more)" } else { "" };
                format!("{}{several}   {}", text(&question["question"]), options(question))
            };
            questions.iter().map(line).collect()
        }
    }
}

/// Returns an answer as the API takes it.
pub(super) fn body(response: &Response) -> anyhow::Result<Value> {
    let mut body = match response.answer.as_deref() {
        None => json!({}),
        Some(yes) if yes.eq_ignore_ascii_case("yes") => json!({ "accept": true }),
        Some(no) if no.eq_ignore_ascii_case("no") => json!({ "accept": false }),
        Some(other) => match numbers(other).as_deref() {
            Some([option]) => json!({ "option": option }),
            Some(options) => json!({ "options": options }),
            None => bail!("{other:?} is no answer; say yes, no, the number of an option, or your own words by --text"),
        },
    };
    if !response.answers.is_empty() {
        let answer = |answer: &String| match numbers(answer).as_deref() {
            Some([option]) => json!({ "option": option }),
            Some(options) => json!({ "options": options }),
            None => json!({ "text": answer }),
        };
        body["answers"] = response.answers.iter().map(answer).collect();
    }
    body["ask"] = json!(response.ask);
    body["text"] = json!(response.text);
    body["keys"] = json!(response.keys);
    Ok(body)
}

/// Reads `2`, or `1,3` where several can be chosen.
fn numbers(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_answered_stands_beneath_what_is_asked() {
        let option = |label: &str| json!({ "label": label });
        let asks = [
            json!({ "agent": "a", "ask": { "id": "ask-1", "kind": "permission", "tool": "Bash", "preview": "ls … (+1 line)",
                "input": { "command": "ls\nrm \u{202e}x", "off": true }, "options": [option("Yes"), option("No")] } }),
            json!({ "agent": "form", "ask": { "id": "ask-7", "kind": "question", "preview": "Which colour?",
                "questions": [
                    { "question": "Which colour?", "options": [{ "label": "Red", "description": "as a rose" }, option("Blue")], "multi_select": false },
                    { "question": "Which\u{1b} sizes?", "options": [option("S"), option("M")], "multi_select": true },
                ] } }),
        ];
        insta::assert_snapshot!(listed(&asks, Paper::Plain, Extent::Whole), @r"
        AGENT  ASK    KIND        TOOL  ABOUT
        a      ask-1  permission  Bash  ls … (+1 line)
            │ command:
            │   ls
            │   rm <U+202E>x
            │ off: true
            1: Yes   2: No
            coop respond a yes --ask ask-1
        form   ask-7  question          Which colour?
            Which colour?   1: Red (as a rose)   2: Blue
            Which<U+001B> sizes? (one or more)   1: S   2: M
            coop respond form --answer NUMBER --answer NUMBER --ask ask-7
        ");
        assert_eq!(listed(&[], Paper::Plain, Extent::Whole), "AGENT  ASK  KIND  TOOL  ABOUT\n");
    }

    #[test]
    fn a_terminal_shows_so_many_lines_and_says_how_many_more_there_are() {
        let command = (1..=100).map(|n| format!("echo {n}")).collect::<Vec<_>>().join("\n");
        let asks = [json!({ "agent": "a", "ask": { "id": "ask-1", "kind": "permission", "tool": "Bash",
            "preview": "echo 1", "input": { "command": command } } })];
        let paper = Paper::Terminal { columns: 40, colours: false };
        let list = listed(&asks, paper, Extent::Listed);
        assert!(list.contains("echo 39\n    … (+61 lines), shown by `coop asks a`\n"), "{list}");
        for whole in [listed(&asks, paper, Extent::Whole), listed(&asks, Paper::Plain, Extent::Whole)] {
            assert!(whole.contains("    │   echo 100\n"), "{whole}");
        }
    }

    #[test]
    fn no_line_of_an_ask_passes_for_one_of_the_list() {
        let command = format!("ls{}b      ask-2  permission  Bash  ls\n漢{}x", " ".repeat(32), "漢".repeat(20));
        let ask = json!({ "agent": "a", "ask": { "id": "ask-1", "input": { "command": command } } });
        let shown = listed(&[ask], Paper::Terminal { columns: 40, colours: false }, Extent::Whole);
        let of_the_ask = shown.lines().skip(2).filter(|line| !line.starts_with("    coop respond"));
        for line in of_the_ask {
            assert!(line.starts_with(MARGIN) && line.chars().count() <= 40, "{shown}");
        }
    }

    #[test]
    fn an_answer_says_what_was_said() {
        let said = |answer: Option<&str>, answers: &[&str]| {
            let answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
            body(&Response { ask: None, answer: answer.map(str::to_owned), answers, text: None, keys: Vec::new() })
        };
        let nothing = Value::Null;
        for (answer, expected) in [("yes", json!(true)), ("no", json!(false))] {
            assert_eq!(said(Some(answer), &[]).expect("an answer")["accept"], expected);
        }
        assert_eq!(said(Some("2"), &[]).expect("an answer")["option"], 2);
        assert_eq!(said(Some("1,3"), &[]).expect("an answer")["options"], json!([1, 3]));
        assert!(said(Some("maybe"), &[]).is_err());
        let form = said(None, &["2", "1, 2", "as you like"]).expect("an answer");
        assert_eq!(form["answers"], json!([{ "option": 2 }, { "options": [1, 2] }, { "text": "as you like" }]));
        assert_eq!((&form["accept"], &form["option"]), (&nothing, &nothing));
    }
}
