//! What the model does with a request.

use std::collections::HashMap;
use std::time::Duration;

use super::asked::Asked;
use super::directive::{Act, Directive, Times, parse};
use super::fault::Fault;
use super::reply::{Delta, Ending, Reply, ReplyId, words};
use super::script::{Script, Scripted, ScriptedOutcome, Usage};
use super::tools;

/// What the model does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Answer { delay: Duration, reply: Reply, ending: Ending },
    Fail { delay: Duration, fault: Fault },
}

/// What the model keeps in mind between requests.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    salt: u32,
    answers: u64,
    /// How often each fault of a text happened, by its place among the text's directives.
    faults: HashMap<(String, usize), u32>,
    /// How often each reply of the script was given.
    given: HashMap<usize, u32>,
    /// How often servers of tools were waited for, or tools looked up, by the text.
    waits: HashMap<String, usize>,
}

/// What agents get that ask for a name of the conversation.
const SIDE_TEXT: &str = "Mock title";
/// The tool by which Claude Code lets its model wait for servers of tools that it is still connecting to.
const WAIT_FOR_SERVERS: &str = "WaitForMcpServers";
/// The tool by which it looks up tools that are not listed until then.
const SEARCH: &str = "ToolSearch";
/// A server that is not there by then will not be.
const MOST_WAITS: usize = 3;
/// Four words a second.
const TICK: Duration = Duration::from_millis(250);

impl Memory {
    /// Returns an empty one. The salt makes the ids of one run differ from those of others.
    pub(crate) fn new(salt: u32) -> Self {
        Self { salt, ..Self::default() }
    }

    /// Forgets what happened; ids stay unique.
    pub(crate) fn forget(&mut self) {
        self.faults.clear();
        self.given.clear();
        self.waits.clear();
    }

    fn next_id(&mut self) -> ReplyId {
        self.answers += 1;
        ReplyId(format!("{:08x}{:08x}", self.salt, self.answers))
    }
}

/// Decides what to do with a request and remembers what that uses up.
pub(crate) fn decide(script: &Script, memory: &mut Memory, asked: &Asked) -> Outcome {
    let id = memory.next_id();
    let reply = Reply { id, model: asked.model.clone(), text: Vec::new(), call: None, usage: script.usage };
    if asked.is_side() {
        return answer(Reply { text: words(SIDE_TEXT), ..reply });
    }
    let fitting = script.reply.iter().enumerate().find(|(number, scripted)| {
        let fits = scripted.when.as_ref().is_none_or(|when| when.is_match(&asked.text));
        fits && spend(scripted.times, memory.given.entry(*number).or_default())
    });
    match fitting {
        Some((_, scripted)) => recite(scripted, script, asked, reply),
        None => follow(script, memory, asked, reply),
    }
}

fn answer(reply: Reply) -> Outcome {
    Outcome::Answer { delay: Duration::ZERO, reply, ending: Ending::Complete }
}

/// Gives a reply of the script.
fn recite(scripted: &Scripted, script: &Script, asked: &Asked, reply: Reply) -> Outcome {
    let (delay, ending) = (scripted.delay, scripted.ending);
    match &scripted.outcome {
        ScriptedOutcome::Fail(fault) => Outcome::Fail { delay, fault: fault.clone() },
        ScriptedOutcome::Say { text, tool } => {
            let call = tool.as_ref().map(|(name, input)| tools::call_by_name(name, input.clone(), &asked.tools));
            let text = match (text, &call) {
                (Some(text), _) => words(text),
                (None, Some(_)) => Vec::new(),
                (None, None) => words(&script.text),
            };
            Outcome::Answer { delay, reply: Reply { text, call, ..reply }, ending }
        }
    }
}

/// Does what the prompt tells: the step after as many as there are results.
fn follow(script: &Script, memory: &mut Memory, asked: &Asked, reply: Reply) -> Outcome {
    let turn = Turn::of(parse(&asked.text));
    let waits = memory.waits.entry(asked.text.clone()).or_default();
    let results = asked.results.len().saturating_sub(*waits);
    let step = turn.steps.get(results).unwrap_or(&turn.last);
    let mut ending = step.ending;
    for (place, fault, times) in &step.faults {
        if spend(*times, memory.faults.entry((asked.text.clone(), *place)).or_default()) {
            match fault {
                StepFault::Fail(fault) => return Outcome::Fail { delay: Duration::ZERO, fault: fault.clone() },
                StepFault::Cut => ending = Ending::Cut,
            }
            break;
        }
    }
    let mut text = ticks(step.talk);
    let mut call = None;
    match &step.act {
        Some(act) => match tools::call(act, &asked.tools) {
            Some(found) => {
                text.extend(words(&format!("I will call {}.", found.name)));
                call = Some(found);
            }
            None if *waits < MOST_WAITS && may_come(act, asked) => {
                *waits += 1;
                call = Some(tools::call_by_name(WAIT_FOR_SERVERS, serde_json::json!({}), &asked.tools));
            }
            None => match tools::unlisted(act).filter(|_| asked.tools.iter().any(|tool| tool.name == SEARCH)) {
                Some(found) if *waits == 0 => {
                    *waits += 1;
                    let input = serde_json::json!({ "query": format!("select:{}", found.name), "max_results": 5 });
                    call = Some(tools::call_by_name(SEARCH, input, &asked.tools));
                }
                Some(found) => call = Some(found),
                None => text.extend(words(&no_tool(act, asked))),
            },
        },
        None => text.extend(turn.last_words(script, results).iter().flat_map(|text| words(text))),
    }
    let usage = turn.usage.unwrap_or(reply.usage);
    Outcome::Answer { delay: Duration::ZERO, reply: Reply { text, call, usage, ..reply }, ending }
}

/// What to do in one turn: a step for each tool, then the last words.
#[derive(Default)]
struct Turn {
    steps: Vec<Step>,
    last: Step,
    text: Vec<String>,
    usage: Option<Usage>,
}

/// One request's worth of directives: whatever stands before a tool happens when it is its turn.
struct Step {
    act: Option<Act>,
    talk: Duration,
    ending: Ending,
    faults: Vec<(usize, StepFault, Times)>,
}

enum StepFault {
    Fail(Fault),
    Cut,
}

impl Default for Step {
    fn default() -> Self {
        Self { act: None, talk: Duration::ZERO, ending: Ending::Complete, faults: Vec::new() }
    }
}

impl Turn {
    fn of(directives: Vec<Directive>) -> Self {
        let mut turn = Self::default();
        for (place, directive) in directives.into_iter().enumerate() {
            match directive {
                Directive::Act(act) => {
                    let step = std::mem::take(&mut turn.last);
                    turn.steps.push(Step { act: Some(act), ..step });
                }
                Directive::Text(text) => turn.text.push(text),
                Directive::Bad(inside) => turn.text.push(format!("BAD DIRECTIVE [[{inside}]]")),
                Directive::Usage(usage) => turn.usage = Some(usage),
                Directive::Slow(talk) => turn.last.talk += talk,
                Directive::Hang => turn.last.ending = Ending::Hang,
                Directive::Fail(fault, times) => turn.last.faults.push((place, StepFault::Fail(fault), times)),
                Directive::Cut(times) => turn.last.faults.push((place, StepFault::Cut, times)),
            }
        }
        turn
    }

    /// Returns the answer after the last step; one who talked on has said enough.
    fn last_words(&self, script: &Script, results: usize) -> Option<String> {
        match (self.text.as_slice(), results) {
            ([], _) if !self.last.talk.is_zero() => None,
            ([], 0) => Some(script.text.clone()),
            ([], results) => Some(format!("Mock reply after {results} tool result(s).")),
            (text, _) => Some(text.join("\n")),
        }
    }
}

/// Counts once more, if it may happen once more.
fn spend(times: Times, so_far: &mut u32) -> bool {
    let may = match times {
        Times::Always => true,
        Times::Only(times) => *so_far < times,
    };
    *so_far += u32::from(may);
    may
}

fn ticks(talk: Duration) -> Vec<Delta> {
    let count = talk.as_millis() / TICK.as_millis();
    (0..count).map(|number| Delta { text: format!("tick {number}. "), wait: TICK }).collect()
}

/// Tells whether a tool may be of a server that is not connected yet.
fn may_come(act: &Act, asked: &Asked) -> bool {
    tools::directive_name(act).starts_with("mcp__") && asked.tools.iter().any(|tool| tool.name == WAIT_FOR_SERVERS)
}

fn no_tool(act: &Act, asked: &Asked) -> String {
    let names: Vec<&str> = asked.tools.iter().map(|tool| tool.name.as_str()).collect();
    format!("NO TOOL for {}; tools={}", tools::directive_name(act), names.join(","))
}

#[cfg(test)]
mod tests;
