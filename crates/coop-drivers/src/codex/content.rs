//! What is said and done in a conversation: messages, tools, files, tokens. Each is told once.

use coop_api::{Artifact, Message, Role, ToolPhase, ToolUse, Usage};
use serde_json::{Value, json};

use super::Codex;
use crate::{Meaning, artifact_kind};

/// Which turn an item belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemTurn {
    Current,
    /// A turn that is over. A command may outlive its turn; what it tells then never changes the state.
    Earlier,
}

impl Codex {
    pub(super) fn item_began(&mut self, item: &Value, turn: ItemTurn) -> Vec<Meaning> {
        let Some(id) = item["id"].as_str() else { return Vec::new() };
        if !self.begun.insert(id) {
            return Vec::new();
        }
        let is_current = turn == ItemTurn::Current;
        if kind(item) == "user_message" {
            let text = text_of(&item["content"]);
            let began = is_current.then(|| self.announce(Some(text.clone()))).flatten();
            return began.into_iter().chain([said(Role::User, text, id)]).collect();
        }
        if kind(item) == "file_change" {
            self.file_change = Some((id.to_owned(), item["changes"].clone()));
        }
        let began = is_current.then(|| self.announce(None)).flatten();
        if is_current && kind(item) == "command_execution" {
            self.commands.insert(id.to_owned());
        }
        let used = tool(item).map(|name| {
            let requested = ToolUse {
                id: id.to_owned(),
                tool: name.clone(),
                phase: ToolPhase::Requested,
                input: Some(input(item)),
                output: None,
                duration_ms: None,
                subagent: None,
            };
            let works = is_current.then_some(Meaning::Working { tool: Some(name) });
            [Meaning::Tool(requested)].into_iter().chain(works)
        });
        began.into_iter().chain(used.into_iter().flatten()).collect()
    }

    pub(super) fn item_ended(&mut self, item: &Value, turn: ItemTurn) -> Vec<Meaning> {
        let Some(id) = item["id"].as_str() else { return Vec::new() };
        // What we have joined in the middle of is told whole.
        let mut meanings = self.item_began(item, turn);
        if !self.ended.insert(id) {
            return meanings;
        }
        match (kind(item).as_str(), tool(item)) {
            ("agent_message" | "plan", _) => {
                let text = item["text"].as_str().unwrap_or_default().to_owned();
                meanings.push(said(Role::Assistant, text, id));
            }
            (_, Some(name)) => {
                let succeeded = succeeded(item);
                meanings.push(Meaning::Tool(ToolUse {
                    id: id.to_owned(),
                    tool: name.clone(),
                    phase: if succeeded { ToolPhase::Completed } else { ToolPhase::Failed },
                    input: None,
                    output: Some(output(item)),
                    duration_ms: duration(item),
                    subagent: None,
                }));
                if succeeded {
                    meanings.extend(written(item, &name));
                }
                if turn == ItemTurn::Current {
                    meanings.push(Meaning::Working { tool: None });
                }
            }
            _ => {}
        }
        meanings
    }

    /// Counts requests to the model, by the growth of the conversation's sum: a client that joins late is told only the sum
    /// and the last request. The same sum is told again when nothing was added to it, and after each join.
    pub(super) fn used(&mut self, params: &Value) -> Vec<Meaning> {
        let [last, total] = ["last", "total"].map(|part| usage(&params["tokenUsage"][part], Spelling::Camel));
        let Some(counted) = self.counted_usage else {
            self.counted_usage = Some(total);
            let is_of_turn = params["turnId"].as_str() == self.turn.as_deref();
            return vec![if is_of_turn { self.used_now(total, last) } else { self.used_before(total) }];
        };
        // What the turn was told is not known yet; the sum waits until it is, or until the turn is over.
        if self.busy && !self.announced {
            self.untold_usage = Some(params.clone());
            return Vec::new();
        }
        self.counted_usage = Some(total);
        let growth = difference(total, counted);
        let missed = difference(growth, last);
        let before_last = difference(total, last);
        [(before_last, missed), (total, difference(growth, missed))]
            .into_iter()
            .filter(|(_, used)| *used != Usage::default())
            .map(|(sum, used)| self.used_now(sum, used))
            .collect()
    }

    fn used_now(&self, sum: Usage, usage: Usage) -> Meaning {
        Meaning::Used { id: self.usage_id(sum), usage, at: None }
    }

    fn used_before(&self, sum: Usage) -> Meaning {
        Meaning::UsedBefore { id: self.usage_id(sum), usage: sum }
    }

    /// Names a request by the conversation's sum after it.
    fn usage_id(&self, sum: Usage) -> String {
        let tokens = sum.input_tokens + sum.output_tokens + sum.cache_read_tokens + sum.cache_write_tokens;
        format!("{}:{tokens}", self.thread.as_deref().unwrap_or_default())
    }
}

/// Returns by how much tokens grew; zero where they did not.
fn difference(now: Usage, before: Usage) -> Usage {
    Usage {
        input_tokens: now.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: now.output_tokens.saturating_sub(before.output_tokens),
        cache_read_tokens: now.cache_read_tokens.saturating_sub(before.cache_read_tokens),
        cache_write_tokens: now.cache_write_tokens.saturating_sub(before.cache_write_tokens),
        cost_usd: None,
    }
}

/// How the names of a thing's parts are spelled.
#[derive(Clone, Copy)]
pub(super) enum Spelling {
    /// By the server.
    Camel,
    /// By `exec --json`.
    Snake,
}

/// Returns what a request used. What was read from the cache is part of the input there, and told apart here.
pub(super) fn usage(tokens: &Value, spelling: Spelling) -> Usage {
    let [input, cached, written, output] = match spelling {
        Spelling::Camel => ["inputTokens", "cachedInputTokens", "cacheWriteInputTokens", "outputTokens"],
        Spelling::Snake => ["input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens"],
    }
    .map(|name| tokens[name].as_u64().unwrap_or(0));
    Usage {
        input_tokens: input.saturating_sub(cached).saturating_sub(written),
        output_tokens: output,
        cache_read_tokens: cached,
        cache_write_tokens: written,
        cost_usd: None,
    }
}

fn said(role: Role, text: String, id: &str) -> Meaning {
    Meaning::Said(Message { role, text, id: Some(id.to_owned()), subagent: None })
}

fn text_of(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    parts.collect::<Vec<_>>().join("\n")
}

/// Returns an item's kind, spelled as `exec --json` spells it.
fn kind(item: &Value) -> String {
    let mut kind = String::new();
    for c in item["type"].as_str().unwrap_or_default().chars() {
        if c.is_ascii_uppercase() {
            kind.push('_');
        }
        kind.push(c.to_ascii_lowercase());
    }
    kind
}

/// Returns the tool that an item is the use of.
fn tool(item: &Value) -> Option<String> {
    let kind = kind(item);
    match kind.as_str() {
        "mcp_tool_call" => {
            let word = |key: &str| item[key].as_str().unwrap_or_default();
            Some(format!("mcp__{}__{}", word("server"), word("tool")))
        }
        "dynamic_tool_call" | "collab_agent_tool_call" => item["tool"].as_str().map(str::to_owned),
        "command_execution" | "file_change" | "web_search" | "image_view" | "image_generation" => Some(kind),
        _ => None,
    }
}

fn input(item: &Value) -> Value {
    match kind(item).as_str() {
        "command_execution" => json!({ "command": item["command"], "cwd": item["cwd"] }),
        "file_change" => json!({ "changes": item["changes"] }),
        "web_search" => json!({ "query": item["query"] }),
        "image_view" => json!({ "path": item["path"] }),
        _ => item["arguments"].clone(),
    }
}

fn output(item: &Value) -> Value {
    let either = |one: &str, other: &str| item.get(one).or_else(|| item.get(other)).cloned().unwrap_or_default();
    match kind(item).as_str() {
        "command_execution" => {
            let (text, code) = (either("aggregatedOutput", "aggregated_output"), either("exitCode", "exit_code"));
            json!({ "output": text, "exit_code": code, "status": item["status"] })
        }
        "mcp_tool_call" => match &item["error"] {
            Value::Null => item["result"].clone(),
            error => error.clone(),
        },
        _ => item["status"].clone(),
    }
}

fn succeeded(item: &Value) -> bool {
    !matches!(item["status"].as_str(), Some("failed" | "declined")) && item["success"] != false
}

fn duration(item: &Value) -> Option<u64> {
    let stamped = || item["completedAtMs"].as_u64()?.checked_sub(item["startedAtMs"].as_u64()?);
    item["durationMs"].as_u64().or_else(stamped)
}

fn written(item: &Value, tool: &str) -> Vec<Meaning> {
    if kind(item) != "file_change" {
        return Vec::new();
    }
    let is_there = |change: &&Value| change["kind"] != "delete" && change["kind"]["type"] != "delete";
    let paths = item["changes"].as_array().into_iter().flatten().filter(is_there);
    let artifact = |path: &str| Artifact {
        path: path.to_owned(),
        artifact_kind: artifact_kind(path).to_owned(),
        tool: tool.to_owned(),
    };
    paths.filter_map(|change| change["path"].as_str()).map(|path| Meaning::Wrote(artifact(path))).collect()
}
