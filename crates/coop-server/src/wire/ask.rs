//! What the agent asks.

use coop_api::{Ask, AskId, AskKind};
use schemars::JsonSchema;
use serde::Serialize;

/// What the agent asks.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct PromptBody {
    /// `permission`, `plan`, `question` or `setup`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The ask's name, to answer just this one.
    pub(crate) ask: AskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input_preview: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<String>,
    /// The labels of what can be chosen, in order.
    pub(crate) options: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
    pub(crate) screen_lines: Vec<String>,
}

impl From<&Ask> for PromptBody {
    fn from(ask: &Ask) -> Self {
        let only = |kind: AskKind| (ask.kind == kind).then(|| ask.preview.clone());
        Self {
            kind: ask.kind.as_str(),
            ask: ask.id.clone(),
            tool: ask.tool.clone(),
            input_preview: only(AskKind::Permission).or(only(AskKind::Setup)),
            question: only(AskKind::Question),
            options: ask.options.iter().map(|option| option.label.clone()).collect(),
            summary: only(AskKind::Plan),
            screen_lines: ask.screen_lines.clone(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct AsksBody {
    pub(crate) asks: Vec<Ask>,
}
