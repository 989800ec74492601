//! What is known of the agent, as messages.

use coop_api::{
    AgentReport, Answer, Answered, Ask, AskId, Error, Event, EventBody, Explanation, Nudge, Receipt, UsageReport, When,
};
use serde::Serialize;

use super::proto::*;
use crate::wire::{PromptBody, tool};

impl From<AgentReport> for GetAgentStateResponse {
    fn from(report: AgentReport) -> Self {
        Self {
            agent: report.agent,
            state: report.state.as_str().into(),
            since_seq: report.since_seq.0,
            screen_seq: report.screen_seq.0,
            detection_tier: report.evidence.source.as_str().into(),
            prompt: report.ask.as_ref().map(|ask| PromptBody::from(ask).into()),
            idle_grace_remaining_secs: report.idle_grace_remaining.map(|left| left.as_secs_f32()),
            evidence: report.evidence.detail,
            session_id: report.session_id,
            last_message: report.last_message,
            name: report.state.short_name().into(),
            since: report.since,
            detail_json: json(&report.state),
            queue: report.queue.into_iter().map(Into::into).collect(),
            stop_held: report.stop_held,
            permission_mode: report.permission_mode.map(|mode| mode.as_str().into()),
        }
    }
}

/// Returns what has no message of its own. These types have no maps and no failing fields.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl From<Nudge> for QueuedNudge {
    fn from(nudge: Nudge) -> Self {
        Self {
            id: nudge.id.0,
            preview: nudge.preview,
            bytes: nudge.bytes as u64,
            when_idle: nudge.when == When::Idle,
            since: nudge.since,
            under_way: nudge.under_way,
        }
    }
}

pub(super) fn nudges(queue: Vec<Nudge>) -> ListNudgesResponse {
    ListNudgesResponse { nudges: queue.into_iter().map(Into::into).collect() }
}

pub(super) fn asks(asks: &[Ask]) -> ListAsksResponse {
    ListAsksResponse { asks_json: asks.iter().map(json).collect() }
}

pub(super) fn event(event: &Event) -> AgentEvent {
    AgentEvent { seq: event.seq.0, kind: event.body.kind().into(), json: json(event) }
}

impl From<PromptBody> for PromptContext {
    fn from(prompt: PromptBody) -> Self {
        Self {
            r#type: prompt.kind.into(),
            tool: prompt.tool,
            input_preview: prompt.input_preview,
            question: prompt.question,
            options: prompt.options,
            summary: prompt.summary,
            screen_lines: prompt.screen_lines,
            ask: prompt.ask.0,
        }
    }
}

impl From<NudgeRequest> for coop_api::NudgeRequest {
    fn from(request: NudgeRequest) -> Self {
        let when = if request.when_idle { When::Idle } else { When::Now };
        Self { message: request.message, when, wait: request.wait }
    }
}

impl From<Receipt> for NudgeResponse {
    fn from(receipt: Receipt) -> Self {
        Self {
            delivered: receipt.delivered,
            state_before: receipt.state_before,
            reason: receipt.reason,
            id: receipt.id.0,
            queued: receipt.queued,
            confirmed_by: receipt.confirmed_by,
            attempts: receipt.attempts,
            ms: receipt.ms,
        }
    }
}

/// Returns the answer in a request.
pub(super) fn answer(request: RespondRequest) -> Result<Answer, Error> {
    let input = request.input_json.map(|json| serde_json::from_str(&json)).transpose();
    let answers = request.answers.into_iter().map(|given| {
        Ok(coop_api::QuestionAnswer {
            option: given.option.map(number).transpose()?,
            options: numbers(given.options)?,
            text: given.text,
        })
    });
    Ok(Answer {
        ask: request.ask.map(AskId),
        accept: request.accept,
        always: request.always,
        option: request.option.map(number).transpose()?,
        options: numbers(request.options)?,
        text: request.text,
        answers: answers.collect::<Result<_, Error>>()?,
        input: input.map_err(|error| Error::bad_request(format!("input_json is not JSON: {error}")))?,
        keys: request.keys,
        shown: None,
    })
}

fn number(option: i32) -> Result<u32, Error> {
    u32::try_from(option).map_err(|_| Error::bad_request("options count from 1"))
}

fn numbers(options: Vec<i32>) -> Result<Vec<u32>, Error> {
    options.into_iter().map(number).collect()
}

impl From<Answered> for RespondResponse {
    fn from(answered: Answered) -> Self {
        Self {
            delivered: answered.delivered,
            prompt_type: answered.prompt_type.as_str().into(),
            reason: None,
            ask: answered.ask.0,
            via: answered.via,
            confirmed_by: answered.confirmed_by,
        }
    }
}

/// Returns a change of state; nothing for other events.
pub(super) fn state_event(event: &Event) -> Option<AgentStateEvent> {
    let EventBody::State(change) = &event.body else { return None };
    Some(AgentStateEvent {
        prev: change.prev.as_str().into(),
        next: change.next.as_str().into(),
        seq: change.screen_seq.0,
        prompt: change.ask.as_ref().map(|ask| PromptBody::from(ask).into()),
        event: event.seq.0,
        tool: tool(&change.next),
    })
}

impl From<Explanation> for ExplainResponse {
    fn from(explanation: Explanation) -> Self {
        let signals = explanation.signals.into_iter().map(|heard| HeardSignal {
            ts: heard.ts,
            source: heard.source.as_str().into(),
            detail: heard.detail,
            meaning: heard.meaning,
            verdict: heard.verdict,
        });
        Self {
            state: explanation.state.as_str().into(),
            detection_tier: explanation.evidence.source.as_str().into(),
            evidence: explanation.evidence.detail,
            signals: signals.collect(),
            missing_signals: explanation.missing_signals,
        }
    }
}

impl From<UsageReport> for GetUsageResponse {
    fn from(report: UsageReport) -> Self {
        let tokens = |usage: coop_api::Usage| TokenUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            cost_usd: usage.cost_usd,
        };
        Self { turn: Some(tokens(report.turn)), total: Some(tokens(report.total)), requests: report.requests }
    }
}
