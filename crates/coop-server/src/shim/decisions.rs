//! What the agent asks as decisions, and what humans decide as answers. The first one wins.

use coop_api::{Answer, Ask, AskId, AskKind, AskOption, OptionKind, Question, QuestionAnswer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::policy;
use super::prompt::cut;
use super::types::{Action, BlastRadius, Decision, DecisionOption, Resolution, Severity};

/// How sure an agent is of what it asks nobody can tell.
const UNSURE: f64 = 0.5;
/// The choices for a plan, and for a question to be answered in own words.
const APPROVE: &str = "approve";
const REJECT: &str = "reject";
const ANSWER: &str = "answer";
/// How long a title is, in characters.
const TITLE: usize = 120;

/// The decisions that are open.
#[derive(Debug, Default)]
pub(crate) struct Decisions(Vec<Open>);

#[derive(Debug)]
struct Open {
    ask: Ask,
    parts: Vec<Part>,
    /// Whether an answer is on its way.
    is_claimed: bool,
}

/// One decision; an ask with several questions has one for each.
#[derive(Debug)]
struct Part {
    id: String,
    answer: Option<QuestionAnswer>,
}

/// What is to be done about a resolution.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// It counts once the other questions are answered too.
    Noted,
    Answer(Box<Given>),
}

/// An answer for the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) ask: AskId,
    pub(crate) answer: Answer,
    /// What to say to an agent that cannot do the first.
    pub(crate) instead: Option<Answer>,
    /// Whether it lets the agent use the tool as it wanted to, or another way.
    pub(crate) allows: bool,
    /// The tool to allow from now on.
    pub(crate) always: Option<String>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("No pending decision with id {0}")]
    NotPending(String),
    #[error("{0}")]
    Invalid(String),
}

impl Decisions {
    /// Takes in what the agent asks, and returns what a human is to decide.
    pub(crate) fn open(&mut self, ask: &Ask) -> Vec<Decision> {
        let decisions = decisions(ask);
        let parts = decisions.iter().map(|decision| Part { id: id_of(decision).to_owned(), answer: None }).collect();
        self.0.push(Open { ask: ask.clone(), parts, is_claimed: false });
        decisions
    }

    /// Forgets an ask that was answered or is gone.
    pub(crate) fn close(&mut self, ask: &AskId) -> Option<Ask> {
        let at = self.0.iter().position(|open| open.ask.id == *ask)?;
        Some(self.0.remove(at).ask)
    }

    pub(crate) fn pending(&self) -> Vec<String> {
        let parts = self.0.iter().flat_map(|open| &open.parts);
        parts.filter(|part| part.answer.is_none()).map(|part| part.id.clone()).collect()
    }

    /// Takes in what a human decided. An answer that is to be given is claimed until it is [closed](Self::close) or
    /// [released](Self::release).
    pub(crate) fn resolve(&mut self, id: &str, resolution: &Resolution) -> Result<Step, Refused> {
        let not_pending = || Refused::NotPending(id.to_owned());
        let has_it = |open: &&mut Open| open.parts.iter().any(|part| part.id == id && part.answer.is_none());
        let open = self.0.iter_mut().find(has_it).filter(|open| !open.is_claimed).ok_or_else(not_pending)?;
        let at = open.parts.iter().position(|part| part.id == id).ok_or_else(not_pending)?;
        let given = match (open.ask.kind, resolution) {
            (
                AskKind::Permission,
                Resolution::ToolApproval { action, modified_args, always_approve, rationale, .. },
            ) => permission(&open.ask, *action, modified_args.as_ref(), *always_approve, rationale.as_deref())?,
            (AskKind::Permission, Resolution::Option { .. }) => {
                return Err(Refused::Invalid("this decision is a tool_approval, not an option".to_owned()));
            }
            (_, Resolution::ToolApproval { .. }) => {
                return Err(Refused::Invalid("this decision is an option, not a tool_approval".to_owned()));
            }
            (AskKind::Question, Resolution::Option { chosen_option_id, rationale, .. }) => {
                let questions = questions(&open.ask);
                let Some(question) = questions.get(at) else { return Err(not_pending()) };
                open.parts[at].answer = Some(answered(question, chosen_option_id, rationale)?);
                let answers: Option<Vec<_>> = open.parts.iter().map(|part| part.answer.clone()).collect();
                let Some(answers) = answers else { return Ok(Step::Noted) };
                Given { answer: Answer { answers, ..Answer::default() }, ..plain(&open.ask, true) }
            }
            (AskKind::Plan | AskKind::Setup, Resolution::Option { chosen_option_id, rationale, .. }) => {
                choice(&open.ask, chosen_option_id, rationale)?
            }
        };
        open.is_claimed = true;
        let answer = Answer { ask: Some(given.ask.clone()), ..given.answer };
        let instead = given.instead.map(|instead| Answer { ask: Some(given.ask.clone()), ..instead });
        Ok(Step::Answer(Box::new(Given { answer, instead, ..given })))
    }

    /// Opens a decision again whose answer did not reach the agent.
    pub(crate) fn release(&mut self, ask: &AskId) {
        for open in self.0.iter_mut().filter(|open| open.ask.id == *ask) {
            open.is_claimed = false;
            open.parts.iter_mut().for_each(|part| part.answer = None);
        }
    }
}

fn plain(ask: &Ask, allows: bool) -> Given {
    Given { ask: ask.id.clone(), answer: Answer::default(), instead: None, allows, always: None }
}

/// Returns the answer that allows what is asked, once.
pub(crate) fn allowing(ask: &Ask) -> Answer {
    Answer { ask: Some(ask.id.clone()), accept: Some(true), ..Answer::default() }
}

fn denial(text: Option<&str>) -> Answer {
    let text = text.filter(|text| !text.trim().is_empty()).map(str::to_owned);
    Answer { accept: Some(false), text, ..Answer::default() }
}

fn permission(
    ask: &Ask,
    action: Action,
    modified: Option<&Map<String, Value>>,
    always: bool,
    rationale: Option<&str>,
) -> Result<Given, Refused> {
    let accept = Answer { accept: Some(true), ..Answer::default() };
    let always = ask.tool.clone().filter(|_| always && action != Action::Reject);
    Ok(match (action, modified) {
        (Action::Approve, _) => Given { answer: accept, always, ..plain(ask, true) },
        (Action::Reject, _) => Given { answer: denial(rationale), ..plain(ask, false) },
        (Action::Modify, Some(input)) => {
            let input = Value::Object(input.clone());
            let why = rationale.filter(|why| !why.trim().is_empty()).map(|why| format!(" {why}")).unwrap_or_default();
            let words = format!("Do not do it like this. Do it with this input instead: {input}.{why}");
            let answer = Answer { input: Some(input), ..accept };
            Given { answer, instead: Some(denial(Some(&words))), always, ..plain(ask, true) }
        }
        (Action::Modify, None) => {
            return Err(Refused::Invalid("modify needs modifiedArgs: what the tool is to be called with".to_owned()));
        }
    })
}

fn choice(ask: &Ask, chosen: &str, rationale: &str) -> Result<Given, Refused> {
    if ask.options.is_empty() {
        return match chosen {
            APPROVE => Ok(Given { answer: Answer { accept: Some(true), ..Answer::default() }, ..plain(ask, true) }),
            REJECT => Ok(Given { answer: denial(Some(rationale)), ..plain(ask, false) }),
            _ => Err(no_such(chosen)),
        };
    }
    let at = ask.options.iter().position(|option| option.id == chosen).ok_or_else(|| no_such(chosen))?;
    match ask.options[at].kind {
        OptionKind::Reject => Ok(Given { answer: denial(Some(rationale)), ..plain(ask, false) }),
        OptionKind::AllowOnce | OptionKind::AllowAlways | OptionKind::Choice => {
            Ok(Given { answer: Answer { option: Some(at as u32 + 1), ..Answer::default() }, ..plain(ask, true) })
        }
    }
}

fn answered(question: &Question, chosen: &str, rationale: &str) -> Result<QuestionAnswer, Refused> {
    if question.options.is_empty() {
        if chosen != ANSWER || rationale.trim().is_empty() {
            return Err(Refused::Invalid("this question is answered by the rationale".to_owned()));
        }
        return Ok(QuestionAnswer { text: Some(rationale.to_owned()), ..QuestionAnswer::default() });
    }
    let at = question.options.iter().position(|option| option.id == chosen).ok_or_else(|| no_such(chosen))?;
    let number = at as u32 + 1;
    Ok(match question.multi_select {
        true => QuestionAnswer { options: vec![number], ..QuestionAnswer::default() },
        false => QuestionAnswer { option: Some(number), ..QuestionAnswer::default() },
    })
}

fn no_such(chosen: &str) -> Refused {
    Refused::Invalid(format!("there is no option {chosen}"))
}

/// Returns the questions of an ask; one without any is a question itself.
fn questions(ask: &Ask) -> Vec<Question> {
    if !ask.questions.is_empty() {
        return ask.questions.clone();
    }
    let options = ask.options.clone();
    vec![Question { question: ask.preview.clone(), header: None, options, multi_select: false }]
}

fn decisions(ask: &Ask) -> Vec<Decision> {
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
    decision(question.header.as_deref().unwrap_or(&question.question), &question.question, options)
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

fn id_of(decision: &Decision) -> &str {
    match decision {
        Decision::ToolApproval { decision_id, .. } | Decision::Option { decision_id, .. } => decision_id,
    }
}

#[cfg(test)]
mod tests {
    use coop_api::AskChannel;
    use serde_json::json;

    use super::*;

    fn ask(kind: AskKind) -> Ask {
        Ask {
            id: AskId("ask-1".into()),
            kind,
            tool: Some("Bash".into()),
            input: Some(json!({ "command": "make" })),
            preview: "make".into(),
            questions: vec![],
            options: vec![],
            opened: "2026-01-01T00:00:00Z".into(),
            channel: AskChannel::Structured,
            screen_lines: vec![],
        }
    }

    fn question(text: &str, options: &[&str]) -> Question {
        let option = |label: &&str| AskOption {
            id: label.to_lowercase(),
            label: (*label).to_owned(),
            description: None,
            kind: OptionKind::Choice,
        };
        let options = options.iter().map(option).collect();
        Question { question: text.into(), header: None, options, multi_select: false }
    }

    fn resolution(body: Value) -> Resolution {
        serde_json::from_value(body).expect("a resolution")
    }

    fn approval(action: &str) -> Value {
        json!({ "type": "tool_approval", "action": action, "actionKind": "update" })
    }

    fn given(step: Result<Step, Refused>) -> Given {
        match step {
            Ok(Step::Answer(given)) => *given,
            other => panic!("no answer: {other:?}"),
        }
    }

    #[test]
    fn the_first_answer_wins_and_one_that_fails_is_asked_for_again() {
        let mut decisions = Decisions::default();
        decisions.open(&ask(AskKind::Permission));
        let id = decisions.pending().remove(0);
        let yes = resolution(approval("approve"));
        let told = given(decisions.resolve(&id, &yes));
        assert_eq!((told.answer.accept, told.allows, told.always), (Some(true), true, None));
        assert_eq!(decisions.resolve(&id, &yes), Err(Refused::NotPending(id.clone())));
        decisions.release(&told.ask);
        assert!(decisions.resolve(&id, &yes).is_ok());
        decisions.close(&told.ask);
        assert_eq!(decisions.resolve(&id, &yes), Err(Refused::NotPending(id)));
        assert!(decisions.pending().is_empty());
    }

    #[test]
    fn a_change_is_made_or_told_with_a_no() {
        let mut decisions = Decisions::default();
        decisions.open(&ask(AskKind::Permission));
        let id = decisions.pending().remove(0);
        let refused = decisions.resolve(&id, &resolution(approval("modify")));
        assert!(matches!(refused, Err(Refused::Invalid(_))), "{refused:?}");
        let mut body = approval("modify");
        body["modifiedArgs"] = json!({ "command": "make -n" });
        body["alwaysApprove"] = json!(true);
        let told = given(decisions.resolve(&id, &resolution(body)));
        assert_eq!((told.answer.accept, told.answer.input), (Some(true), Some(json!({ "command": "make -n" }))));
        let instead = told.instead.expect("another way");
        assert_eq!(instead.accept, Some(false));
        assert!(instead.text.expect("words").contains(r#"{"command":"make -n"}"#));
        assert_eq!(told.always.as_deref(), Some("Bash"));
    }

    #[test]
    fn several_questions_are_several_decisions_and_one_answer() {
        let mut decisions = Decisions::default();
        let mut ask = ask(AskKind::Question);
        ask.questions = vec![question("Which?", &["A", "B"]), question("Why?", &[])];
        decisions.open(&ask);
        let [first, second] = <[String; 2]>::try_from(decisions.pending()).expect("two");
        let pick =
            |id: &str, why: &str| resolution(json!({ "type": "option", "chosenOptionId": id, "rationale": why }));
        assert!(matches!(decisions.resolve(&first, &pick("c", "")), Err(Refused::Invalid(_))));
        assert_eq!(decisions.resolve(&first, &pick("b", "")), Ok(Step::Noted));
        assert_eq!(decisions.pending(), std::slice::from_ref(&second));
        let told = given(decisions.resolve(&second, &pick(ANSWER, "because")));
        let picked = QuestionAnswer { option: Some(2), ..QuestionAnswer::default() };
        let said = QuestionAnswer { text: Some("because".into()), ..QuestionAnswer::default() };
        assert_eq!(told.answer.answers, [picked, said]);
    }

    #[test]
    fn a_plan_is_approved_or_sent_back() {
        for (chosen, accept, text) in [(APPROVE, true, None), (REJECT, false, Some("too long".to_owned()))] {
            let mut decisions = Decisions::default();
            decisions.open(&ask(AskKind::Plan));
            let id = decisions.pending().remove(0);
            let body = json!({ "type": "option", "chosenOptionId": chosen, "rationale": "too long" });
            let told = given(decisions.resolve(&id, &resolution(body)));
            assert_eq!((told.answer.accept, told.answer.text, told.allows), (Some(accept), text, accept));
        }
    }
}
