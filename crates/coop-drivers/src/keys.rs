//! Typing, where there is no better way.
//!
//! Digits act at once and are never followed by Enter, which would land on whatever comes next. Letters do nothing, and
//! Enter takes what is highlighted, which may be the opposite of what was meant. So an option is chosen only by its
//! digit, and only if the dialog that was seen when the ask was opened is on the screen right now, word for word.

use std::time::Duration;

use bytes::Bytes;
use coop_api::{Answer, Ask, AskKind, AskOption, OptionKind, Screen};

use crate::driver::{Expected, Refusal, Step};
use crate::rules::{Dialog, Rules, rows};
use crate::{AskDraft, Reach};

/// How long an agent may take to show that it took an answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// How long a message may take to show in a hook before Enter is pressed once more.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(3);
/// The unit in which long messages are counted.
const BLOCK: usize = 64 * 1024;
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(5);
/// Clears a line to its start and joins it to the one above.
const CLEAR_LINE: &[u8] = b"\x15\x7f";
pub(crate) const ENTER: Bytes = Bytes::from_static(b"\r");
pub(crate) const ESCAPE: Bytes = Bytes::from_static(b"\x1b");

/// How an agent's terminal takes what is typed.
pub(crate) struct Manners {
    /// How long it takes to be done with a paste.
    pub(crate) after_paste: Duration,
    /// How much longer each 64 KiB of a message may take.
    pub(crate) per_block: Duration,
    /// How the option of a question begins that opens a field for free text.
    pub(crate) free_text: Option<&'static str>,
    /// How the rejecting option begins that opens a field for what is to be changed.
    pub(crate) feedback: Option<&'static str>,
    /// Whether Escape rejects a dialog none of whose options does.
    pub(crate) escape_rejects: bool,
}

/// Returns the ask for a dialog on the screen.
pub(crate) fn draft(dialog: &Dialog) -> AskDraft {
    let question = || dialog.heading.iter().rev().find(|line| line.ends_with('?'));
    let preview = match dialog.kind {
        // What is trusted says more than that it is asked.
        AskKind::Setup => dialog.heading.iter().find(|line| line.starts_with(['/', '~'])).or_else(question),
        AskKind::Permission | AskKind::Plan | AskKind::Question => question(),
    };
    let preview = preview.or(dialog.heading.first());
    AskDraft {
        kind: dialog.kind,
        tool: None,
        input: None,
        preview: preview.cloned().unwrap_or_default(),
        questions: Vec::new(),
        options: dialog.ask_options(),
        screen_lines: dialog.heading.clone(),
        reach: Reach::Keys,
    }
}

/// Returns the options of an ask, if the dialog it was opened with is on the screen right now.
pub(crate) fn offered(rules: &Rules, ask: &Ask, screen: &Screen) -> Result<Vec<AskOption>, Refusal> {
    let gone = || Refusal::NoSuchOption("what the agent asked is not on its screen any more".into());
    let dialog = rules.dialog(&rows(screen)).ok_or_else(gone)?;
    let offered = dialog.ask_options();
    if dialog.kind != ask.kind || dialog.heading != ask.screen_lines || offered != ask.options {
        return Err(gone());
    }
    Ok(offered)
}

impl Manners {
    /// Returns the keys for an answer, or why none can be sent.
    pub(crate) fn answer(
        &self,
        rules: &Rules,
        ask: &Ask,
        answer: &Answer,
        screen: &Screen,
    ) -> Result<Vec<Step>, Refusal> {
        let offered = offered(rules, ask, screen)?;
        let mut steps = match self.choose(ask, &offered, answer)? {
            Chosen::Escape => vec![Step::Type(ESCAPE)],
            Chosen::Option(option) => vec![Step::Type(digit(option))],
            Chosen::Words(option, text) => vec![
                Step::Type(digit(option)),
                Step::Pause(self.after_paste),
                Step::Type(paste(text)),
                Step::Pause(self.after_paste),
                Step::Type(ENTER),
            ],
        };
        steps.push(taken());
        Ok(steps)
    }

    /// Returns what an answer means.
    fn choose<'a>(&self, ask: &Ask, offered: &'a [AskOption], answer: &'a Answer) -> Result<Chosen<'a>, Refusal> {
        if answer.input.is_some() || !answer.answers.is_empty() || !answer.options.is_empty() {
            let why = "this ask can only be answered by keys: give one of \"accept\", \"option\" or \"text\"";
            return Err(Refusal::BadRequest(why.into()));
        }
        match (answer.accept, answer.option, &answer.text) {
            (Some(_), Some(_), _) => Err(Refusal::BadRequest("give either \"accept\" or \"option\"".into())),
            (None, Some(number), None) => {
                let at = (number as usize).checked_sub(1);
                let option = at.and_then(|at| offered.get(at)).ok_or_else(|| {
                    Refusal::NoSuchOption(format!("there is no option {number}; the screen shows {}", offered.len()))
                })?;
                Ok(Chosen::Option(option))
            }
            (Some(true), None, None) if answer.always => Ok(Chosen::Option(of_kind(offered, OptionKind::AllowAlways)?)),
            (Some(true), None, None) => Ok(Chosen::Option(of_kind(offered, OptionKind::AllowOnce)?)),
            (Some(false), None, text) => self.reject(offered, text.as_deref()),
            (None, None, Some(text)) if ask.kind == AskKind::Question => {
                let takes_text =
                    |option: &&AskOption| self.free_text.is_some_and(|name| option.label.starts_with(name));
                let none = || Refusal::NoSuchOption("the screen shows no option for free text".into());
                Ok(Chosen::Words(offered.iter().find(takes_text).ok_or_else(none)?, text))
            }
            _ => Err(Refusal::BadRequest("give \"accept\", \"option\" or, for a question, \"text\"".into())),
        }
    }

    fn reject<'a>(&self, offered: &'a [AskOption], text: Option<&'a str>) -> Result<Chosen<'a>, Refusal> {
        let has_none = !offered.iter().any(|option| option.kind == OptionKind::Reject);
        if self.escape_rejects && has_none {
            return Ok(Chosen::Escape);
        }
        let option = of_kind(offered, OptionKind::Reject)?;
        // Only that one opens a field for it; after any other the text would land in the prompt.
        let takes_text = self.feedback.is_some_and(|name| option.label.starts_with(name));
        match text {
            Some(text) if takes_text && !is_blank(text) => Ok(Chosen::Words(option, text)),
            Some(_) | None if !takes_text => Ok(Chosen::Option(option)),
            Some(_) | None => {
                Err(Refusal::BadRequest("say in \"text\" what is to be changed: the agent asks for it".into()))
            }
        }
    }

    /// Returns how a message is typed into an input that holds so many lines to be cleared first.
    pub(crate) fn submit(&self, text: &str, clear: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        if clear > 0 {
            steps.extend([Step::Type(CLEAR_LINE.repeat(clear).into()), Step::Pause(self.after_paste)]);
        }
        let blocks = (text.len() / BLOCK) as u32;
        let within = SUBMITTED_WITHIN + self.per_block * blocks;
        steps.extend([
            Step::Type(paste(text)),
            Step::Pause(self.after_paste * (1 + blocks)),
            Step::Type(ENTER),
            Step::Expect { what: Expected::TurnBegan, within, retry: Some(ENTER) },
        ]);
        steps
    }
}

enum Chosen<'a> {
    Option(&'a AskOption),
    /// An option that opens a field for these words.
    Words(&'a AskOption, &'a str),
    Escape,
}

/// Returns the only option of a kind.
fn of_kind(offered: &[AskOption], kind: OptionKind) -> Result<&AskOption, Refusal> {
    let mut found = offered.iter().filter(|option| option.kind == kind);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Refusal::NoSuchOption(format!("the screen does not show one option that means {kind:?}"))),
    }
}

/// Returns why a message cannot be typed at all.
pub(crate) fn untypable(text: &str, screen: &Screen) -> Option<Refusal> {
    if !screen.modes.bracketed_paste {
        return Some(Refusal::Occupied("the agent's terminal takes no pastes yet; try again in a moment".into()));
    }
    is_blank(text).then(|| Refusal::BadRequest("there is nothing to type in this message".into()))
}

/// Returns the refusal to type over what a person has typed.
pub(crate) fn occupied(typed: &str) -> Refusal {
    Refusal::Occupied(format!("somebody has typed {typed:?} into the agent's input; send or clear that first"))
}

/// Tells whether two texts are the same but for blanks: an input wraps what is in it.
pub(crate) fn is_same(typed: &str, text: &str) -> bool {
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    bare(typed) == bare(text)
}

pub(crate) fn digit(option: &AskOption) -> Bytes {
    Bytes::copy_from_slice(option.id.as_bytes())
}

pub(crate) fn interrupt() -> Vec<Step> {
    let idle = Step::Expect { what: Expected::Idle, within: INTERRUPTED_WITHIN, retry: None };
    vec![Step::Type(ESCAPE), idle]
}

/// Returns the step that waits for the agent to show that it took an answer.
pub(crate) fn taken() -> Step {
    Step::Expect { what: Expected::AskGone, within: TAKEN_WITHIN, retry: None }
}

/// Returns text as a paste, without anything that could end the paste or act by itself.
pub(crate) fn paste(text: &str) -> Bytes {
    let mut bytes = Vec::with_capacity(text.len() + 12);
    bytes.extend_from_slice(b"\x1b[200~");
    bytes.extend_from_slice(plain(text).as_bytes());
    bytes.extend_from_slice(b"\x1b[201~");
    bytes.into()
}

/// Returns text with one kind of line end and no control characters. A leading `!` would run it as a command.
pub(crate) fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let kept: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    if kept.starts_with('!') { format!(" {kept}") } else { kept }
}

/// Tells whether nothing of a text would be seen.
fn is_blank(text: &str) -> bool {
    plain(text).trim().is_empty()
}
