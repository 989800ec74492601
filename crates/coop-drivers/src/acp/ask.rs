//! Permissions: the agent offers options and says what each does, and is answered with one of them.

use agent_client_protocol_schema::{
    PermissionOption, PermissionOptionKind, RequestId, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, ToolKind,
};
use coop_api::{Answer, Ask, AskKind, AskOption, OptionKind, preview};
use serde_json::Value;

use super::{Acp, wire};
use crate::driver::{Refusal, Step};
use crate::{AskDraft, Meaning, Reach};

/// Something the agent waits for an answer to.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) request: RequestId,
    pub(super) tool_call: String,
    options: Vec<PermissionOption>,
}

/// Returns the name of a request.
pub(super) fn name(id: &RequestId) -> String {
    wire::value(id).to_string()
}

/// Returns the step that answers a request with nothing chosen.
pub(super) fn cancelled(request: &RequestId) -> Option<Step> {
    (*request != RequestId::Null).then(|| respond(request, RequestPermissionOutcome::Cancelled))
}

fn respond(request: &RequestId, outcome: RequestPermissionOutcome) -> Step {
    Step::Send(wire::reply(request.clone(), RequestPermissionResponse::new(outcome)))
}

/// Tells whether an answer of ours allows what was asked.
pub(super) fn allows(asking: &Asking, answer: &Value) -> bool {
    let chosen = answer["outcome"]["optionId"].as_str();
    asking.options.iter().any(|option| Some(&*option.option_id.0) == chosen && !is_no(option.kind))
}

impl Acp {
    /// Takes in a request for leave; nothing if it is not one.
    pub(super) fn asked(&mut self, id: &RequestId, params: &Value, at: u64) -> Option<Vec<Meaning>> {
        let asked: RequestPermissionRequest = wire::parse(params)?;
        let mut meanings: Vec<_> = self.saying.take().into_iter().collect();
        let tool_call = asked.tool_call.tool_call_id.to_string();
        let (tool, input, call, requested) = self.tools.asked(asked.tool_call, at);
        meanings.extend(requested);
        let reach = Reach::Control { request: name(id), suggestions: Value::Null };
        let draft = AskDraft {
            kind: if call.kind == ToolKind::SwitchMode { AskKind::Plan } else { AskKind::Permission },
            preview: preview(
                if call.title.trim().is_empty() { &tool } else { &call.title },
                &if call.raw_input.is_some() { input.clone() } else { without_types(&input) },
            ),
            tool: Some(tool),
            input: Some(input),
            questions: Vec::new(),
            options: asked.options.iter().map(option).collect(),
            screen_lines: Vec::new(),
            reach,
        };
        let asking = Asking { request: id.clone(), tool_call, options: asked.options };
        self.asking.insert(name(id), asking);
        meanings.push(Meaning::Ask(Box::new(draft)));
        Some(meanings)
    }

    /// Returns the step that answers a request, with an option that does what the answer says.
    pub(super) fn answered(&self, ask: &Ask, request: &str, answer: &Answer) -> Result<Vec<Step>, Refusal> {
        let Some(asking) = self.asking.get(request) else {
            return Err(Refusal::BadRequest("the agent no longer waits for it".into()));
        };
        let outcome = match choose(&asking.options, ask, answer)? {
            Some(option) => {
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
            }
            None => RequestPermissionOutcome::Cancelled,
        };
        Ok(vec![respond(&asking.request, outcome)])
    }
}

/// Chooses the option that an answer means; nothing if it is a no and no option says no.
fn choose<'a>(
    options: &'a [PermissionOption],
    ask: &Ask,
    answer: &Answer,
) -> Result<Option<&'a PermissionOption>, Refusal> {
    if answer.input.is_some() || !answer.answers.is_empty() || !answer.options.is_empty() {
        let why = "over ACP one option is chosen; what is asked for cannot be changed";
        return Err(Refusal::Unsupported(why.into()));
    }
    if answer.text.is_some() {
        let why = "over ACP an answer carries no words; answer without, then send them as a message";
        return Err(Refusal::Unsupported(why.into()));
    }
    let of_kind = |kind| options.iter().filter(move |option| option.kind == kind);
    match (answer.accept, answer.option) {
        (Some(false), None) => {
            let mut noes = of_kind(PermissionOptionKind::RejectOnce).chain(of_kind(PermissionOptionKind::RejectAlways));
            Ok(noes.next())
        }
        (Some(true), None) => {
            let (kind, wanted) = match answer.always {
                true => (PermissionOptionKind::AllowAlways, OptionKind::AllowAlways),
                false => (PermissionOptionKind::AllowOnce, OptionKind::AllowOnce),
            };
            let mut found = of_kind(kind);
            match (found.next(), found.next()) {
                (Some(only), None) => Ok(Some(only)),
                _ => Err(none_such(&format!("exactly one option of kind {wanted:?}"), ask)),
            }
        }
        (accept, Some(number)) => {
            let at = (number as usize).checked_sub(1);
            let chosen =
                at.and_then(|at| options.get(at)).ok_or_else(|| none_such(&format!("option {number}"), ask))?;
            if accept.is_some_and(|accept| accept == is_no(chosen.kind)) {
                return Err(Refusal::BadRequest(format!("{} is not what `accept` says", chosen.name)));
            }
            Ok(Some(chosen))
        }
        (None, None) => Err(Refusal::BadRequest("say `accept`, or which `option`".into())),
    }
}

fn none_such(wanted: &str, ask: &Ask) -> Refusal {
    let offered = ask.options.iter().zip(1..).map(|(option, number)| format!("{number}. {}", option.label));
    Refusal::NoSuchOption(format!("there is not {wanted}; there are {}", offered.collect::<Vec<_>>().join(", ")))
}

/// Whether an option is a no. What is not known is neither, and so is never chosen for a no.
fn is_no(kind: PermissionOptionKind) -> bool {
    matches!(kind, PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways)
}

/// Returns the content of a tool call without the protocol's own words, which say what kind each part is.
fn without_types(content: &Value) -> Value {
    match content {
        Value::Array(parts) => parts.iter().map(without_types).collect(),
        Value::Object(fields) => {
            let told = fields.iter().filter(|(name, _)| *name != "type");
            told.map(|(name, value)| (name.clone(), without_types(value))).collect()
        }
        other => other.clone(),
    }
}

fn option(offered: &PermissionOption) -> AskOption {
    AskOption {
        id: offered.option_id.to_string(),
        label: offered.name.clone(),
        description: None,
        kind: match offered.kind {
            PermissionOptionKind::AllowOnce => OptionKind::AllowOnce,
            PermissionOptionKind::AllowAlways => OptionKind::AllowAlways,
            PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways => OptionKind::Reject,
            _ => OptionKind::Choice,
        },
    }
}
