//! From a prompt to an answer: the steps of a turn, one after the other.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

use super::{AfterRetries, Counter, Effect, Engine, Frame, Hooks, Input, Phase, Tally, Wait, Work};
use crate::claude::hook::{HookEvent, Verdict};
use crate::claude::ids::{MessageId, WaitId};
use crate::claude::notice::{
    AgentRef, ApiError, Block, Message, Notice, PromptSource, Requests, State, StopReason, TurnOutcome,
};
use crate::claude::scenario::{Asked, Script};
use crate::claude::step::Step;
use crate::claude::tool::{Tool, ToolCall};

/// Two ticks a second, as the fake model streams them.
const TICK: Duration = Duration::from_millis(500);
/// Short, so that tests do not wait; the real one starts at half a second and doubles.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// What the real one allows before it gives up.
const MAX_RETRIES: u32 = 10;

impl Engine {
    pub(super) fn submit(&mut self, text: String) {
        if matches!(self.phase, Phase::Idle) {
            self.take_up(text, PromptSource::Typed);
        } else if !matches!(self.phase, Phase::Ending { .. } | Phase::Gone) {
            self.queue.push_back(text.clone());
            self.tell(Notice::Queued(text));
        }
    }

    /// Nothing is under way: takes the next queued prompt, ends if the input is closed, or rests.
    pub(super) fn rest(&mut self) {
        self.phase = Phase::Idle;
        if let Some(text) = self.queue.pop_front() {
            self.tell(Notice::Dequeued);
            self.take_up(text, PromptSource::Queued);
        } else {
            self.tell(Notice::State(State::Idle));
            if self.input == Input::Closed {
                self.quit(super::Quit { code: 0, reason: super::QuitReason::Other });
            }
        }
    }

    pub(super) fn begin_turn(&mut self, text: String, source: PromptSource) {
        let process = self.tally.requests.process;
        self.tally =
            Tally { started: self.now, requests: Requests { turn: 0, process }, num_turns: 1, denials: Vec::new() };
        self.prompt_id = Some(self.setup.ids.uuid());
        self.count(Counter::Turns);
        self.out.push(Effect::Record(text.clone()));
        self.tell(Notice::State(State::Busy));
        let hooks = self.run_hooks(HookEvent::UserPromptSubmit, "", json!({ "prompt": text }));
        self.phase = Phase::Submitting { hooks, text, source };
    }

    pub(super) fn submitted(&mut self, hooks: &Hooks, text: String, source: PromptSource) {
        let verdict = Verdict::of(hooks.event, &hooks.results);
        if let Some(reason) = verdict.block {
            self.tell(Notice::PromptBlocked { text, reason });
            return self.end_turn(TurnOutcome::Completed);
        }
        self.context.extend(verdict.context.iter().cloned());
        let script = self.setup.scenario.script(&text, Asked::Prompt);
        self.tell(Notice::Prompt {
            text: text.clone(),
            prompt_id: self.prompt_id.clone().unwrap_or_default(),
            source,
            mode: self.setup.mode,
            context: verdict.context,
        });
        self.frames = vec![Frame::new(script, text)];
        self.next_step();
    }

    /// Takes the next step, after a moment if the scenario is to be watched.
    pub(super) fn next_step(&mut self) {
        match self.frames.last() {
            Some(frame) if !frame.pace.is_zero() && !frame.steps.is_empty() => {
                let pace = frame.pace;
                self.wait(Wait::Time(pace), Work::Pace);
            }
            Some(_) | None => self.take_step(),
        }
    }

    fn take_step(&mut self) {
        let Some(frame) = self.frames.last_mut() else { return };
        let Some(step) = frame.steps.pop_front() else { return self.frame_over() };
        let is_last = frame.steps.is_empty();
        match step {
            Step::Text(text) => {
                let text = self.filled(&text);
                if is_last {
                    self.answer(text);
                } else if self.a_tool_is_next() {
                    self.lead(text);
                } else {
                    self.say(vec![Block::Text(text)], StopReason::ToolUse);
                    self.next_step();
                }
            }
            Step::Think(text) => {
                let text = self.filled(&text);
                self.say(vec![Block::Thinking(text)], StopReason::ToolUse);
                self.next_step();
            }
            Step::Bash(_)
            | Step::Write { .. }
            | Step::Read(_)
            | Step::Edit { .. }
            | Step::Ask(_)
            | Step::Plan(_)
            | Step::Agent(_)
            | Step::Bg(_) => {
                if let Some((tool, input)) = self.tool_input(&step) {
                    self.call_tool(tool, input);
                }
            }
            Step::Slow(seconds) => {
                let total = (seconds / TICK.as_secs_f64()).round().max(1.0) as u32;
                let message = self.setup.ids.message();
                self.wait(Wait::Time(TICK), Work::Ticks { message, said: String::new(), tick: 0, total });
            }
            Step::Wait(seconds) => {
                let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                self.wait(Wait::Time(time), Work::Silence);
            }
            Step::Hang => {
                let wait = self.setup.ids.wait();
                self.phase = Phase::Waiting { wait, work: Work::Hang };
            }
            Step::Gate(name) => self.wait(Wait::Gate(name), Work::Gate),
            Step::Err { status, times } => self.refused_by_model(ApiError { status }, times),
            Step::Crash => self.out.push(Effect::Crash),
            Step::Exit(code) => {
                self.phase = Phase::Gone;
                self.out.push(Effect::Exit(code));
            }
            Step::Flood(bytes) => {
                self.tell(Notice::Flood(bytes));
                self.next_step();
            }
            Step::Altscreen => {
                self.tell(Notice::AltScreen);
                self.next_step();
            }
        }
    }

    pub(super) fn wait_done(&mut self, wait: WaitId) {
        if let Phase::Asking { notify: Some(notify), call, .. } = &self.phase
            && *notify == wait
        {
            let call = call.clone();
            return self.notify(&call);
        }
        if !matches!(&self.phase, Phase::Waiting { wait: awaited, .. } if *awaited == wait) {
            return;
        }
        let Phase::Waiting { work, .. } = std::mem::replace(&mut self.phase, Phase::Gone) else { return };
        match work {
            Work::Pace => self.take_step(),
            Work::Silence | Work::Gate | Work::Hang => self.next_step(),
            Work::Ticks { message, said, tick, total } => self.ticked(message, said, tick, total),
            Work::Retry { error, attempt, last, max, then } => {
                if attempt < last {
                    self.retry(error, attempt + 1, last, max, then);
                } else {
                    match then {
                        AfterRetries::GoOn => self.next_step(),
                        AfterRetries::GiveUp => self.give_up(error),
                    }
                }
            }
        }
    }

    fn ticked(&mut self, message: MessageId, mut said: String, tick: u32, total: u32) {
        said.push_str(&format!("tick {tick}. "));
        self.tell(Notice::Streaming(said.clone()));
        if tick + 1 < total {
            return self.wait(Wait::Time(TICK), Work::Ticks { message, said, tick: tick + 1, total });
        }
        let said = said.trim_end().to_owned();
        let Some(frame) = self.frames.last_mut() else { return };
        let stop = if frame.steps.is_empty() {
            frame.answer = Some(said.clone());
            StopReason::EndTurn
        } else {
            StopReason::ToolUse
        };
        self.say_as(message, vec![Block::Text(said)], stop);
        self.next_step();
    }

    fn refused_by_model(&mut self, error: ApiError, times: Option<u32>) {
        match (times, self.setup.max_retries) {
            (Some(0), _) => self.next_step(),
            (Some(times), max) => self.retry(error, 1, times, max.unwrap_or(MAX_RETRIES), AfterRetries::GoOn),
            (None, Some(max)) if max > 0 && error.is_retried() => self.retry(error, 1, max, max, AfterRetries::GiveUp),
            (None, _) => self.give_up(error),
        }
    }

    fn retry(&mut self, error: ApiError, attempt: u32, last: u32, max: u32, then: AfterRetries) {
        self.tell(Notice::Retry { attempt, max, delay: RETRY_DELAY, error });
        self.wait(Wait::Time(RETRY_DELAY), Work::Retry { error, attempt, last, max, then });
    }

    fn give_up(&mut self, error: ApiError) {
        self.tell(Notice::ApiError(error));
        let fields = json!({ "error": error.word(), "last_assistant_message": error.text() });
        let hooks = self.run_hooks(HookEvent::StopFailure, error.word(), fields);
        self.phase = Phase::Failing { hooks, error };
    }

    fn lead(&mut self, text: String) {
        if let Some(frame) = self.frames.last_mut() {
            frame.lead = Some(text);
        }
        self.next_step();
    }

    pub(super) fn answer(&mut self, text: String) {
        self.say(vec![Block::Text(text.clone())], StopReason::EndTurn);
        if let Some(frame) = self.frames.last_mut() {
            frame.answer = Some(text);
        }
        self.frame_over();
    }

    /// The script has run out: answers if that is still to be done, and goes to the Stop hooks.
    fn frame_over(&mut self) {
        let Some(frame) = self.frames.last() else { return };
        match &frame.answer {
            None => {
                let text = match frame.results {
                    0 => "Hello from the mock model.".to_owned(),
                    results => format!("Mock reply after {results} tool result(s)."),
                };
                self.answer(text);
            }
            Some(_) => self.stop(),
        }
    }

    /// Sends the agent back to work, with a reason that may hold directives.
    pub(super) fn go_on(&mut self, reason: String) {
        let script = self.setup.scenario.script(&reason, Asked::Aside);
        let Some(frame) = self.frames.last_mut() else { return };
        frame.steps.extend(script.steps);
        frame.answer = None;
        frame.results = 0;
        frame.blocked_before = true;
        self.next_step();
    }

    pub(super) fn say(&mut self, blocks: Vec<Block>, stop: StopReason) {
        let id = self.setup.ids.message();
        self.say_as(id, blocks, stop);
    }

    fn say_as(&mut self, id: MessageId, blocks: Vec<Block>, stop: StopReason) {
        self.tally.requests.turn += 1;
        self.tally.requests.process += 1;
        let agent = self.agent();
        self.tell(Notice::Message(Message { id, blocks, stop, agent }));
    }

    /// Fills in `{prompt}`, `{context}`, `{result}` and `{results}`.
    pub(super) fn filled(&self, text: &str) -> String {
        let Some(frame) = self.frames.last() else { return text.to_owned() };
        text.replace("{results}", &frame.results.to_string())
            .replace("{result}", &frame.last_result)
            .replace("{context}", &self.context.join("\n"))
            .replace("{prompt}", &frame.prompt)
    }

    fn a_tool_is_next(&self) -> bool {
        let next = self.frames.last().and_then(|frame| frame.steps.front());
        next.is_some_and(|step| self.tool_input(step).is_some())
    }

    fn call_tool(&mut self, tool: Tool, input: Value) {
        let call = ToolCall { id: self.setup.ids.tool_use(), tool, input };
        let lead = self.frames.last_mut().and_then(|frame| frame.lead.take());
        let lead = lead.unwrap_or_else(|| format!("I will call {}.", tool.name()));
        self.say(vec![Block::Text(lead), Block::ToolUse(call.clone())], StopReason::ToolUse);
        self.before_tool(call);
    }

    /// The tool a step calls, if it calls one.
    fn tool_input(&self, step: &Step) -> Option<(Tool, Value)> {
        let path = |path: &str| self.setup.cwd.join(path);
        Some(match step {
            Step::Bash(command) => (Tool::Bash, json!({ "command": command, "description": "run a command" })),
            Step::Bg(command) => (
                Tool::Bash,
                json!({ "command": command, "description": "run in the background", "run_in_background": true }),
            ),
            Step::Read(file) => (Tool::Read, json!({ "file_path": path(file) })),
            Step::Write { path: file, content } => {
                (Tool::Write, json!({ "file_path": path(file), "content": self.filled(content) }))
            }
            Step::Edit { path: file, old, new } => {
                (Tool::Edit, json!({ "file_path": path(file), "old_string": old, "new_string": new }))
            }
            Step::Ask(questions) => (Tool::AskUserQuestion, json!({ "questions": questions })),
            Step::Plan(plan) => (Tool::ExitPlanMode, json!({ "plan": plan })),
            Step::Agent(prompt) => {
                let kind = super::payload::AGENT_TYPE;
                (Tool::Agent, json!({ "description": "a part of the task", "prompt": prompt, "subagent_type": kind }))
            }
            Step::Text(_)
            | Step::Think(_)
            | Step::Slow(_)
            | Step::Wait(_)
            | Step::Hang
            | Step::Gate(_)
            | Step::Err { .. }
            | Step::Crash
            | Step::Exit(_)
            | Step::Flood(_)
            | Step::Altscreen => return None,
        })
    }
}

impl Frame {
    pub(super) fn new(script: Script, prompt: String) -> Self {
        Self {
            steps: VecDeque::from(script.steps),
            pace: Duration::try_from_secs_f64(script.pace).unwrap_or_default(),
            prompt,
            results: 0,
            last_result: String::new(),
            lead: None,
            answer: None,
            blocked_before: false,
            agent: None,
        }
    }

    pub(super) fn for_agent(script: Script, agent: AgentRef, call: ToolCall) -> Self {
        let prompt = call.field("prompt").to_owned();
        Self { agent: Some((agent, call)), ..Self::new(script, prompt) }
    }
}
