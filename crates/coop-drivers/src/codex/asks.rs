//! What the server asks of its clients, and the answers.
//!
//! | Request | Yes | Always | No |
//! |---|---|---|---|
//! | `item/commandExecution/requestApproval` | `accept` | `acceptForSession`, or the rule that is proposed | `decline` |
//! | `item/fileChange/requestApproval` | `accept` | `acceptForSession` | `decline` |
//! | `item/permissions/requestApproval` | what is asked for, for the turn | for the session | nothing of it |
//! | `mcpServer/elicitation/request` | `accept` | – | `decline` |
//! | `item/tool/requestUserInput` | the answers | – | no answers |
//!
//! After `decline` the turn goes on, and what is said along with it reaches the agent as one more message in that turn.
//! `cancel` would end the turn and is not used: there is an interrupt for that.

use std::time::Duration;

use coop_api::{Answer, Ask, AskKind, AskOption, OptionKind, Question, preview};
use serde_json::{Map, Value, json};

use super::protocol::STEER;
use crate::driver::{Expected, Refusal, Step};
use crate::{AskDraft, Reach, questions};

const COMMAND: &str = "item/commandExecution/requestApproval";
const FILES: &str = "item/fileChange/requestApproval";
const PERMISSIONS: &str = "item/permissions/requestApproval";
const ELICITATION: &str = "mcpServer/elicitation/request";
const INPUT: &str = "item/tool/requestUserInput";

/// What a request says of itself, of the conversation, and of the answers it takes: not of what is to be done. The text of
/// the command is not judged by `commandActions`, the server's summary of it, which may leave commands out.
const ENVELOPE: [&str; 13] = [
    "kind",
    "threadId",
    "turnId",
    "itemId",
    "approvalId",
    "environmentId",
    "startedAtMs",
    "cwd",
    "command",
    "commandActions",
    "availableDecisions",
    "proposedExecpolicyAmendment",
    "reason",
];
/// How long the server may take to say that an answer was taken.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// Decisions that allow more than this once, the narrowest first.
const ALWAYS: [&str; 2] = ["acceptForSession", "acceptWithExecpolicyAmendment"];

/// Returns the ask for a request of the server; nothing if it is not for a person. `params` of a change of files has to have
/// its `changes`, which the server does not repeat in the request.
pub(super) fn draft(method: &str, id: &Value, params: &Value) -> Option<AskDraft> {
    let (kind, tool, questions) = match method {
        COMMAND => (AskKind::Permission, "command_execution", Vec::new()),
        FILES => (AskKind::Permission, "file_change", Vec::new()),
        PERMISSIONS => (AskKind::Permission, "request_permissions", Vec::new()),
        ELICITATION => match fields(params) {
            fields if fields.is_empty() => (AskKind::Permission, "mcp_elicitation", Vec::new()),
            fields => (AskKind::Question, "mcp_elicitation", fields),
        },
        INPUT => {
            let questions =
                params["questions"].as_array().into_iter().flatten().filter_map(questions::question).collect();
            (AskKind::Question, "request_user_input", questions)
        }
        _ => return None,
    };
    let options = match (kind, &questions[..]) {
        (AskKind::Question, [only]) => only.options.clone(),
        (AskKind::Question, _) => Vec::new(),
        _ => permission_options(method, params),
    };
    Some(AskDraft {
        kind,
        tool: Some(tool.to_owned()),
        input: Some(params.clone()),
        preview: about(method, params),
        questions,
        options,
        screen_lines: Vec::new(),
        reach: Reach::Control { request: id.to_string(), suggestions: json!(method) },
    })
}

fn permission_options(method: &str, params: &Value) -> Vec<AskOption> {
    let option =
        |id: &str, label: &str, kind| AskOption { id: id.into(), label: label.into(), description: None, kind };
    // What cannot be shown to be the person in front of the machine can only be declined.
    let allowed = params["mode"] != "openai/userVerification";
    let mut options = Vec::new();
    if allowed {
        options.push(option("allow", "Yes", OptionKind::AllowOnce));
    }
    match always(method, params) {
        Some(Value::Object(rule)) => {
            let rule = &rule["acceptWithExecpolicyAmendment"]["execpolicy_amendment"];
            let words: Vec<_> = rule.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let label = format!("Yes, and don't ask again for commands that start with `{}`", words.join(" "));
            options.push(option("allow_always", &label, OptionKind::AllowAlways));
        }
        Some(_) => options.push(option("allow_always", "Yes, for this session", OptionKind::AllowAlways)),
        None => {}
    }
    options.push(option("reject", "No", OptionKind::Reject));
    options
}

/// Returns the decision that allows more than this once, if the server offers one.
fn always(method: &str, params: &Value) -> Option<Value> {
    match method {
        COMMAND => {
            let offered = params["availableDecisions"].as_array().map_or(&[][..], Vec::as_slice);
            let is = |decision: &Value, name: &str| decision == name || decision.get(name).is_some();
            ALWAYS.iter().find_map(|name| offered.iter().find(|decision| is(decision, name)).cloned())
        }
        FILES | PERMISSIONS => Some(json!("acceptForSession")),
        _ => None,
    }
}

/// Returns the fields of a form as questions, in the order of their names.
fn fields(params: &Value) -> Vec<Question> {
    let properties = params["requestedSchema"]["properties"].as_object();
    let field = |(name, schema): (&String, &Value)| {
        let named = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let labels: Vec<&str> = if schema["type"] == "boolean" { vec!["true", "false"] } else { named.collect() };
        let text = ["description", "title"].iter().find_map(|key| schema[*key].as_str()).unwrap_or(name);
        Question {
            question: text.to_owned(),
            header: Some(name.clone()),
            options: labels.iter().zip(1..).map(|(label, number)| choice(number, label)).collect(),
            multi_select: false,
        }
    };
    properties.into_iter().flatten().map(field).collect()
}

fn choice(number: u32, label: &str) -> AskOption {
    AskOption { id: number.to_string(), label: label.to_owned(), description: None, kind: OptionKind::Choice }
}

fn about(method: &str, params: &Value) -> String {
    let reason = params["reason"].as_str().or_else(|| params["message"].as_str());
    let mut rest = params.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.retain(|name, _| !ENVELOPE.contains(&name.as_str()));
    }
    match method {
        INPUT => questions::about_questions(params),
        COMMAND => preview(params["command"].as_str().map(without_shell).or(reason).unwrap_or(method), &rest),
        FILES => {
            let changes = params["changes"].as_array().into_iter().flatten();
            let paths: Vec<_> = changes.clone().filter_map(|change| change["path"].as_str()).collect();
            rest["changes"] = changes.map(|change| change["diff"].clone()).collect();
            match (reason, &paths[..]) {
                (Some(reason), _) => preview(reason, &rest),
                (None, []) => "change files; only the agent's own terminal shows which".to_owned(),
                (None, paths) => preview(&format!("change {}", paths.join(", ")), &rest),
            }
        }
        ELICITATION => {
            let fields = params["requestedSchema"]["properties"].as_object();
            preview(reason.unwrap_or(method), &fields.into_iter().flat_map(|fields| fields.keys().cloned()).collect())
        }
        PERMISSIONS => preview(reason.unwrap_or("more permissions"), &rest),
        _ => preview(reason.unwrap_or(method), &rest),
    }
}

/// Returns the text that `bash -lc 'TEXT'` runs; the whole command unless that is plainly it.
fn without_shell(command: &str) -> &str {
    let mut words = command.splitn(3, ' ');
    let (Some(shell), Some("-c" | "-lc"), Some(text)) = (words.next(), words.next(), words.next()) else {
        return command;
    };
    let is_shell = matches!(shell.rsplit('/').next(), Some("sh" | "bash" | "zsh"));
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).filter(|text| !text.contains('\''));
    inner.filter(|_| is_shell).unwrap_or(command)
}

/// Returns the steps that answer a request. Feedback comes first: while the request waits, its turn is surely under way. If
/// the server does not take it nothing is answered.
pub(super) fn answer(
    ask: &Ask,
    answer: &Answer,
    request: &str,
    method: &Value,
    steer: impl Fn(&str) -> Option<Value>,
) -> Result<Vec<Step>, Refusal> {
    let method = method.as_str().unwrap_or_default();
    let id: Value = serde_json::from_str(request)
        .map_err(|_| Refusal::BadRequest(format!("the request {request} has no name that could be answered")))?;
    if answer.input.is_some() {
        let why = "Codex runs what it asked for or nothing; deny with the change as \"text\" instead";
        return Err(Refusal::Unsupported(why.into()));
    }
    let params = ask.input.as_ref().unwrap_or(&Value::Null);
    let (result, feedback) = match ask.kind {
        AskKind::Question => answer_questions(ask, answer, method, params)?,
        AskKind::Permission | AskKind::Plan | AskKind::Setup => answer_permission(ask, answer, method, params)?,
    };
    let mut steps = Vec::new();
    if let Some(text) = feedback.filter(|text| !text.trim().is_empty()) {
        let told = steer(text).ok_or_else(|| Refusal::Occupied("the turn is not known yet; try again".into()))?;
        let taken = Expected::Reply(STEER.to_owned());
        steps.extend([Step::Send(told), Step::Expect { what: taken, within: TAKEN_WITHIN, retry: None }]);
    }
    steps.push(Step::Send(json!({ "id": id, "result": result })));
    steps.push(Step::Expect { what: Expected::AskGone, within: TAKEN_WITHIN, retry: None });
    Ok(steps)
}

type Told<'a> = (Value, Option<&'a String>);

fn answer_permission<'a>(ask: &Ask, answer: &'a Answer, method: &str, params: &Value) -> Result<Told<'a>, Refusal> {
    if !answer.answers.is_empty() || !answer.options.is_empty() {
        return Err(Refusal::BadRequest("\"answers\" and \"options\" are for questions; give \"accept\"".into()));
    }
    let wanted = match (answer.accept, answer.option) {
        (Some(true), None) if answer.always => OptionKind::AllowAlways,
        (Some(true), None) => OptionKind::AllowOnce,
        (Some(false), None) => OptionKind::Reject,
        (None, Some(number)) => questions::pick(&ask.options, number)?.kind,
        (Some(_), Some(_)) => return Err(Refusal::BadRequest("give either \"accept\" or \"option\"".into())),
        (None, None) => return Err(Refusal::BadRequest("give \"accept\": true or false".into())),
    };
    if !ask.options.iter().any(|option| option.kind == wanted) {
        return Err(Refusal::NoSuchOption(format!("the agent does not offer {wanted:?} here")));
    }
    let not_offered = || Refusal::NoSuchOption("the agent offers no way to allow this always".into());
    let result = match (method, wanted) {
        (COMMAND | FILES, OptionKind::AllowOnce) => json!({ "decision": "accept" }),
        (COMMAND | FILES, OptionKind::AllowAlways) => {
            json!({ "decision": always(method, params).ok_or_else(not_offered)? })
        }
        (COMMAND | FILES, _) => json!({ "decision": "decline" }),
        (PERMISSIONS, OptionKind::AllowOnce) => json!({ "permissions": params["permissions"], "scope": "turn" }),
        (PERMISSIONS, OptionKind::AllowAlways) => json!({ "permissions": params["permissions"], "scope": "session" }),
        (PERMISSIONS, _) => json!({ "permissions": {}, "scope": "turn" }),
        (_, OptionKind::AllowOnce) => json!({ "action": "accept", "content": {}, "_meta": null }),
        (_, OptionKind::AllowAlways) => return Err(not_offered()),
        (_, _) => json!({ "action": "decline", "content": null, "_meta": null }),
    };
    let feedback = answer.text.as_ref();
    if feedback.is_some() && wanted != OptionKind::Reject {
        return Err(Refusal::BadRequest("\"text\" goes with a denial".into()));
    }
    Ok((result, feedback))
}

fn answer_questions<'a>(ask: &Ask, answer: &'a Answer, method: &str, params: &Value) -> Result<Told<'a>, Refusal> {
    if answer.accept == Some(false) {
        let declined = match method {
            INPUT => json!({ "answers": {} }),
            _ => json!({ "action": "decline", "content": null, "_meta": null }),
        };
        return Ok((declined, answer.text.as_ref()));
    }
    let given = questions::given(answer, ask.questions.len())?;
    let mut told = Map::new();
    for (at, (question, given)) in ask.questions.iter().zip(&given).enumerate() {
        // There is one: none of its questions takes several.
        let text = questions::worded(question, given)?.concat();
        match method {
            INPUT => {
                let name = params["questions"][at]["id"].as_str().unwrap_or_default();
                told.insert(name.to_owned(), json!({ "answers": [text] }));
            }
            _ => {
                let name = question.header.clone().unwrap_or_default();
                let value = typed(&params["requestedSchema"]["properties"][&name], &text)?;
                told.insert(name, value);
            }
        }
    }
    let result = match method {
        INPUT => json!({ "answers": told }),
        _ => json!({ "action": "accept", "content": told, "_meta": null }),
    };
    Ok((result, None))
}

/// Returns a field's value as its form wants it.
fn typed(schema: &Value, text: &str) -> Result<Value, Refusal> {
    match schema["type"].as_str() {
        Some("boolean" | "number" | "integer") => serde_json::from_str::<Value>(text)
            .ok()
            .filter(|value| value.is_boolean() == (schema["type"] == "boolean") && !value.is_string())
            .ok_or_else(|| Refusal::BadRequest(format!("{text:?} is not a {}", schema["type"]))),
        _ => Ok(json!(text)),
    }
}
