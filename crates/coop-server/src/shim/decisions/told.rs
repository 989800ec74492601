//! What the agent asks, as decisions.

use coop_api::{Ask, AskKind, AskOption, Question};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::policy;
use super::super::prompt::cut;
use super::super::types::{BlastRadius, Decision, DecisionOption, Severity};
use super::{ANSWER, APPROVE, REJECT};

/// How sure an agent is of what it asks nobody can tell.
const UNSURE: f64 = 0.5;
/// How long a title is, in characters.
const TITLE: usize = 120;

/// Returns the questions of an ask; one without any is a question itself.
pub(super) fn questions(ask: &Ask) -> Vec<Question> {
    if !ask.questions.is_empty() {
        return ask.questions.clone();
    }
    let options = ask.options.clone();
    vec![Question { question: ask.preview.clone(), header: None, options, multi_select: false }]
}

pub(super) fn decisions(ask: &Ask) -> Vec<Decision> {
    let risk = policy::risk(ask.tool.as_deref().unwrap_or_default(), ask.input.as_ref());
    match ask.kind {
        AskKind::Permission => vec![Decision::ToolApproval {
            decision_id: Uuid::new_v4().to_string(),
            tool_name: ask.tool.clone().unwrap_or_else(|| "unknown".to_owned()),
            tool_args: args(ask),
            severity: risk.severity,
            confidence: None,
            blast_radius: risk.radius,
            affected_artifact_ids: vec![],
        }],
        AskKind::Plan | AskKind::Setup => {
            let fixed = |id: &str, label: &str| DecisionOption {
                id: id.to_owned(),
                label: label.to_owned(),
                description: String::new(),
                tradeoffs: None,
            };
            let options = match ask.options.is_empty() {
                true => vec![fixed(APPROVE, "Approve"), fixed(REJECT, "Reject; the rationale is told to the agent")],
                false => ask.options.iter().map(option).collect(),
            };
            let plan = ask.input.as_ref().and_then(|input| input["plan"].as_str());
            vec![decision(&ask.preview, plan.unwrap_or(&ask.preview), options)]
        }
        AskKind::Question => questions(ask).iter().map(of_question).collect(),
    }
}

fn of_question(question: &Question) -> Decision {
    let mut options: Vec<_> = question.options.iter().map(option).collect();
    if options.is_empty() {
        options.push(DecisionOption {
            id: ANSWER.to_owned(),
            label: "Answer".to_owned(),
            description: "The rationale is the answer".to_owned(),
            tradeoffs: None,
        });
    }
    let mut summary = question.question.clone();
    if question.multi_select {
        summary.push_str(" (several can be chosen: their ids, with commas between them)");
    }
    decision(question.header.as_deref().unwrap_or(&question.question), &summary, options)
}

fn decision(title: &str, summary: &str, options: Vec<DecisionOption>) -> Decision {
    Decision::Option {
        decision_id: Uuid::new_v4().to_string(),
        title: cut(title, TITLE),
        summary: summary.to_owned(),
        severity: Severity::Medium,
        confidence: UNSURE,
        blast_radius: BlastRadius::Unknown,
        options,
        recommended_option_id: None,
        affected_artifact_ids: vec![],
        requires_rationale: false,
    }
}

fn option(option: &AskOption) -> DecisionOption {
    DecisionOption {
        id: option.id.clone(),
        label: option.label.clone(),
        description: option.description.clone().unwrap_or_default(),
        tradeoffs: None,
    }
}

fn args(ask: &Ask) -> Map<String, Value> {
    match &ask.input {
        Some(Value::Object(input)) => input.clone(),
        Some(other) => Map::from_iter([("input".to_owned(), other.clone())]),
        None => Map::from_iter([("preview".to_owned(), ask.preview.clone().into())]),
    }
}

pub(super) fn id_of(decision: &Decision) -> &str {
    match decision {
        Decision::ToolApproval { decision_id, .. } | Decision::Option { decision_id, .. } => decision_id,
    }
}
