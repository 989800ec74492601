//! Commands that ask a running agent one thing.

use std::io::{self, Read, Write};

use anyhow::Context;
use serde_json::{Value, json};

use crate::cli::{Keys, Screen, TargetOptions, Type};
use crate::client::Client;

fn client(options: TargetOptions) -> anyhow::Result<Client> {
    Client::new(options.target.as_deref(), options.token.auth_token)
}

pub(crate) async fn screen(options: Screen) -> anyhow::Result<i32> {
    let client = client(options.target)?;
    let text = if options.ansi {
        let body: Value = serde_json::from_slice(&client.get("/api/v1/screen?format=ansi").await?)?;
        let lines = body["lines"].as_array().context("the agent gave no lines")?;
        lines.iter().filter_map(Value::as_str).fold(String::new(), |text, line| text + line + "\n").into()
    } else {
        client.get(&format!("/api/v1/screen/text?scrollback={}", options.scrollback)).await?
    };
    io::stdout().write_all(&text)?;
    Ok(0)
}

pub(crate) async fn type_text(options: Type) -> anyhow::Result<i32> {
    let mut text = options.text;
    if text == "-" {
        text.clear();
        io::stdin().read_to_string(&mut text).context("cannot read the text from standard input")?;
    }
    let body = json!({ "text": text, "enter": options.enter, "paste": options.paste });
    report(&client(options.target)?.post("/api/v1/input", &body).await?)
}

pub(crate) async fn keys(options: Keys) -> anyhow::Result<i32> {
    report(&client(options.target)?.post("/api/v1/input/keys", &json!({ "keys": options.keys })).await?)
}

/// Says nothing when all is well, and what is not when the child does not read.
fn report(answer: &[u8]) -> anyhow::Result<i32> {
    let answer: Value = serde_json::from_slice(answer)?;
    if let Some(queued) = answer["queued"].as_u64() {
        writeln!(io::stderr(), "coop: the child is not reading; {queued} bytes wait for it")?;
    }
    Ok(0)
}
