//! What agents ask, and the answers.

use std::io::{self, Write};

use anyhow::bail;
use serde_json::{Value, json};

use super::ask::items;
use super::cli::Response;
use super::table::{self, Paper, text};

/// Lists what is asked, each with what can be answered beneath it.
pub(super) fn list(answer: &Value) -> io::Result<()> {
    io::stdout().lock().write_all(listed(items(answer, "asks"), Paper::of_stdout()).as_bytes())
}

fn listed(asks: &[Value], paper: Paper) -> String {
    let row = |open: &Value| {
        let ask = &open["ask"];
        [&open["agent"], &ask["id"], &ask["kind"], &ask["tool"], &ask["preview"]].map(text).to_vec()
    };
    let rows: Vec<_> = asks.iter().map(row).collect();
    let rows = table::layout(&["AGENT", "ASK", "KIND", "TOOL", "ABOUT"], &rows, paper);
    let mut lines = rows.lines();
    let mut shown: Vec<String> = lines.next().map(str::to_owned).into_iter().collect();
    for (line, open) in lines.zip(asks) {
        shown.push(line.to_owned());
        shown.extend(choices(&open["ask"]).into_iter().map(|line| format!("    {}", table::plain(&line))));
    }
    shown.join("\n") + "\n"
}

/// Returns what can be chosen, by the numbers that `coop respond` takes: a line for each question, or one.
fn choices(ask: &Value) -> Vec<String> {
    let options = |of: &Value| {
        let numbered = items(of, "options").iter().enumerate();
        let words: Vec<_> = numbered.map(|(at, option)| format!("{}: {}", at + 1, text(&option["label"]))).collect();
        words.join("   ")
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
        Some("yes") => json!({ "accept": true }),
        Some("no") => json!({ "accept": false }),
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
            json!({ "agent": "a", "ask": { "id": "ask-1", "kind": "permission", "tool": "Bash", "preview": "ls",
                "options": [option("Yes"), option("No")] } }),
            json!({ "agent": "form", "ask": { "id": "ask-7", "kind": "question", "preview": "Which colour?",
                "questions": [
                    { "question": "Which colour?", "options": [option("Red"), option("Blue")], "multi_select": false },
                    { "question": "Which\u{1b} sizes?", "options": [option("S"), option("M")], "multi_select": true },
                ] } }),
        ];
        insta::assert_snapshot!(listed(&asks, Paper::Plain), @r"
        AGENT  ASK    KIND        TOOL  ABOUT
        a      ask-1  permission  Bash  ls
            1: Yes   2: No
        form   ask-7  question          Which colour?
            Which colour?   1: Red   2: Blue
            Which  sizes? (one or more)   1: S   2: M
        ");
        assert_eq!(listed(&[], Paper::Plain), "AGENT  ASK  KIND  TOOL  ABOUT\n");
    }

    #[test]
    fn an_answer_says_what_was_said() {
        let said = |answer: Option<&str>, answers: &[&str]| {
            let answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
            body(&Response { ask: None, answer: answer.map(str::to_owned), answers, text: None })
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
