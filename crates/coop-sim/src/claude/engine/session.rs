//! The session around the turns: start, slash commands, shell commands, the end.

use serde_json::json;

use super::{Asker, Counter, Effect, Engine, Hooks, Phase, Quit, QuitReason, Stage};
use crate::claude::hook::{HookEvent, Verdict};
use crate::claude::notice::{Local, Notice, PromptSource, StartSource, State};
use crate::claude::tool::{Tool, ToolCall, ToolOutcome};
use crate::claude::tui::Closed;

/// What there is to say about a conversation nobody had.
const SUMMARY: &str = "The user and the scripted agent talked; nothing needs to be remembered.";

impl Engine {
    pub(super) fn start(&mut self) {
        if !matches!(self.phase, Phase::Dormant) {
            return;
        }
        self.count(Counter::Starts);
        let hooks = self.begin_session(self.setup.source);
        self.phase = Phase::Starting(hooks);
    }

    fn begin_session(&mut self, source: StartSource) -> Hooks {
        self.tell(Notice::Session { id: self.setup.session.clone(), source });
        let fields = json!({ "source": source.name(), "model": self.setup.model });
        self.run_hooks(HookEvent::SessionStart, source.name(), fields)
    }

    pub(super) fn started(&mut self, hooks: &Hooks) {
        let context = Verdict::of(hooks.event, &hooks.results).context;
        self.context.extend(context.iter().cloned());
        self.tell(Notice::Ready { context });
        self.rest();
    }

    /// Takes up what was submitted: a command of ours, a shell command, or a prompt. With a blank before it, or unknown,
    /// a command is a prompt too.
    pub(super) fn take_up(&mut self, text: String, source: PromptSource) {
        let (word, argument) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        let has_screen = matches!(self.setup.asker, Asker::Screen { .. });
        match (word, argument.trim()) {
            ("/exit" | "/quit", _) => self.quit(Quit { code: 0, reason: QuitReason::PromptInputExit }),
            ("/clear", _) => self.clear(),
            ("/compact", argument) => self.compact(argument),
            ("/help", _) if has_screen => self.open_dialog(Local::Help),
            ("/model", "") if has_screen => self.open_dialog(Local::Models),
            ("/model", model) if has_screen => self.open_dialog(Local::Switch(model.to_owned())),
            _ => match text.strip_prefix('!') {
                Some(command) => self.shell(command.trim().to_owned()),
                None => self.begin_turn(text, source),
            },
        }
    }

    fn open_dialog(&mut self, local: Local) {
        self.tell(Notice::DialogOpened(local.clone()));
        self.tell(Notice::State(State::Dialog));
        self.phase = Phase::Dialog(local);
    }

    pub(super) fn close_dialog(&mut self, closed: Closed) {
        let Phase::Dialog(local) = &self.phase else { return };
        let command = local.command();
        if let Some(model) = closed.model {
            self.setup.model.clone_from(&model);
            self.tell(Notice::Model(model));
        }
        self.tell(Notice::Ran { command, outcome: closed.outcome });
        self.rest();
    }

    fn shell(&mut self, command: String) {
        let input = json!({ "command": command });
        let call = ToolCall { id: self.setup.ids.tool_use(), tool: Tool::Bash, input };
        self.out.push(Effect::RunTool(call.clone()));
        self.phase = Phase::Shell(call);
    }

    /// A shell command of the user's: of all hooks, only Stop hears of it.
    pub(super) fn shell_done(&mut self, call: &ToolCall, outcome: ToolOutcome) {
        self.tell(Notice::Shell { command: call.field("command").to_owned(), outcome });
        let fields = json!({ "stop_hook_active": false, "background_tasks": self.background_tasks(),
            "session_crons": [] });
        let hooks = self.run_hooks(HookEvent::Stop, "", fields);
        self.phase = Phase::ShellStopping(hooks);
    }

    fn compact(&mut self, instructions: &str) {
        self.tell(Notice::State(State::Busy));
        self.tell(Notice::Compacting);
        let fields = json!({ "trigger": "manual", "custom_instructions": instructions });
        let hooks = self.run_hooks(HookEvent::PreCompact, "manual", fields);
        self.phase = Phase::Compacting { hooks, stage: Stage::Pre };
    }

    pub(super) fn compacted(&mut self, hooks: &Hooks, stage: Stage) {
        let verdict = Verdict::of(hooks.event, &hooks.results);
        match stage {
            Stage::Pre => {
                if let Some(reason) = verdict.block {
                    self.tell(Notice::Remark(format!("Compaction blocked by hook: {reason}")));
                    return self.rest();
                }
                self.tell(Notice::Compacted { summary: SUMMARY.to_owned() });
                let fields = json!({ "trigger": "manual", "compact_summary": SUMMARY });
                let hooks = self.run_hooks(HookEvent::PostCompact, "manual", fields);
                self.phase = Phase::Compacting { hooks, stage: Stage::Post };
            }
            Stage::Post => {
                self.context.clear();
                let hooks = self.begin_session(StartSource::Compact);
                self.phase = Phase::Compacting { hooks, stage: Stage::Start };
            }
            Stage::Start => {
                self.context.extend(verdict.context.iter().cloned());
                self.tell(Notice::Ready { context: verdict.context });
                self.rest();
            }
        }
    }

    fn clear(&mut self) {
        let hooks = self.run_hooks(HookEvent::SessionEnd, "clear", json!({ "reason": "clear" }));
        self.phase = Phase::Clearing(hooks);
    }

    pub(super) fn cleared(&mut self) {
        self.setup.session = self.setup.ids.session();
        self.context.clear();
        self.prompt_id = None;
        let hooks = self.begin_session(StartSource::Clear);
        self.phase = Phase::Starting(hooks);
    }

    pub(super) fn quit(&mut self, quit: Quit) {
        if matches!(self.phase, Phase::Ending { .. } | Phase::Gone) {
            return;
        }
        if let Some(hooks) = self.phase.hooks() {
            let run = hooks.run;
            self.out.push(Effect::KillHooks(run));
        }
        if matches!(self.phase, Phase::Dormant) {
            self.phase = Phase::Gone;
            return self.out.push(Effect::Exit(quit.code));
        }
        if let Phase::Running(call) | Phase::Shell(call) = &self.phase {
            self.out.push(Effect::KillTool(call.id.clone()));
        }
        self.frames.clear();
        self.queue.clear();
        let reason = match quit.reason {
            QuitReason::PromptInputExit => "prompt_input_exit",
            QuitReason::Other => "other",
        };
        let hooks = self.run_hooks(HookEvent::SessionEnd, reason, json!({ "reason": reason }));
        self.phase = Phase::Ending { hooks, code: quit.code };
    }
}
