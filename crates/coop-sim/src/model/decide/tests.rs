use super::*;
use crate::model::asked::{Delivery, Tool};

/// A conversation with one model.
struct Talk {
    script: Script,
    memory: Memory,
    asked: Asked,
}

impl Talk {
    fn new(text: &str) -> Self {
        Self::scripted("", text)
    }

    fn scripted(script: &str, text: &str) -> Self {
        let asked = Asked {
            model: "m".to_owned(),
            system: "You are an agent.".to_owned(),
            delivery: Delivery::Stream,
            tools: ["Bash", "Write"].map(Tool::function).to_vec(),
            messages: 1,
            text: text.to_owned(),
            results: Vec::new(),
        };
        Self { script: script.parse().unwrap(), memory: Memory::new(0), asked }
    }

    fn outcome(&mut self) -> Outcome {
        decide(&self.script, &mut self.memory, &self.asked)
    }

    fn says(&mut self, text: &str) -> String {
        text.clone_into(&mut self.asked.text);
        self.next()
    }

    fn next(&mut self) -> String {
        match self.outcome() {
            Outcome::Fail { fault, .. } => format!("fails with {}", fault.status),
            Outcome::Answer { reply, ending, .. } => {
                let call = reply.call.as_ref().map(|call| format!("<{} {}>", call.name, call.input));
                let ending = match ending {
                    Ending::Complete => "",
                    Ending::Cut => "(cut)",
                    Ending::Hang => "(hangs)",
                };
                let parts = [reply.text(), call.unwrap_or_default(), ending.to_owned()];
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Has the tool return something and asks again.
    fn returned(&mut self) -> String {
        self.asked.results.push("done".to_owned());
        self.next()
    }
}

#[test]
fn a_prompt_without_directives_gets_the_default_text() {
    assert_eq!(Talk::new("hi").next(), "Hello from the mock model.");
    assert_eq!(Talk::scripted("text = 'Hm.'", "hi").next(), "Hm.");
}

#[test]
fn tools_are_called_one_after_another() {
    let mut talk = Talk::new("do [[bash:one]] and [[write:/f|two]]");
    let turn = [talk.next(), talk.returned(), talk.returned()];
    insta::assert_snapshot!(turn.join("\n"), @r#"
    I will call Bash. <Bash {"command":"one","description":"run a command"}>
    I will call Write. <Write {"content":"two","file_path":"/f"}>
    Mock reply after 2 tool result(s).
    "#);
}

#[test]
fn the_text_comes_after_the_last_tool() {
    let mut talk = Talk::new("[[text:All done.]] [[bash:x]]");
    assert_eq!(talk.next(), r#"I will call Bash. <Bash {"command":"x","description":"run a command"}>"#);
    assert_eq!(talk.returned(), "All done.");
}

#[test]
fn a_fault_happens_before_what_follows_it() {
    let mut talk = Talk::new("[[err:529x2]] [[bash:x]] [[cutx1]] [[text:Done.]]");
    let bash = r#"I will call Bash. <Bash {"command":"x","description":"run a command"}>"#;
    assert_eq!([talk.next(), talk.next(), talk.next()], ["fails with 529", "fails with 529", bash]);
    assert_eq!([talk.returned(), talk.next()], ["Done. (cut)", "Done."]);
}

#[test]
fn faults_are_counted_for_each_text() {
    let mut talk = Talk::new("");
    let texts = ["a [[err:500x1]]", "b [[err:500x1]]", "a [[err:500x1]]"];
    assert_eq!(texts.map(|text| talk.says(text)), ["fails with 500", "fails with 500", "Hello from the mock model."]);
    talk.memory.forget();
    assert_eq!(talk.next(), "fails with 500");
}

#[test]
fn slow_talk_takes_its_time() {
    let Outcome::Answer { reply, .. } = Talk::new("[[slow:1]]").outcome() else { panic!("no answer") };
    assert_eq!(reply.text(), "tick 0. tick 1. tick 2. tick 3. ");
    assert_eq!(reply.duration(), Duration::from_secs(1));
    assert_eq!(Talk::new("[[slow:0.5]] [[text:Done.]]").next(), "tick 0. tick 1. Done.");
}

#[test]
fn a_hang_begins_like_an_answer() {
    assert_eq!(Talk::new("[[hang]]").next(), "Hello from the mock model. (hangs)");
}

#[test]
fn usage_is_told_as_asked_for() {
    let Outcome::Answer { reply, .. } = Talk::new("[[usage:1,2,3,4]]").outcome() else { panic!("no answer") };
    assert_eq!(reply.usage, Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 });
}

#[test]
fn what_cannot_be_done_is_said() {
    assert_eq!(Talk::new("[[ask]]").next(), "NO TOOL for ask; tools=Bash,Write");
    assert_eq!(Talk::new("[[err:soon]]").next(), "BAD DIRECTIVE [[err:soon]]");
}

/// On a busy machine Claude Code asks its model before coop's tools are there.
#[test]
fn a_server_of_tools_that_is_being_connected_is_waited_for() {
    let mut talk = Talk::new("[[tool mcp__coop__x {}]] [[text:Done.]]");
    talk.asked.tools.push(Tool::function(WAIT_FOR_SERVERS));
    assert_eq!(talk.next(), "<WaitForMcpServers {}>");
    talk.asked.tools = vec![Tool::function("mcp__coop__x")];
    assert_eq!(talk.returned(), "I will call mcp__coop__x. <mcp__coop__x {}>");
    assert_eq!(talk.returned(), "Done.");

    let mut never = Talk::new("[[tool mcp__coop__x {}]]");
    never.asked.tools = vec![Tool::function(WAIT_FOR_SERVERS)];
    never.next();
    let said: Vec<String> = (0..MOST_WAITS).map(|_| never.returned()).collect();
    assert!(said.last().is_some_and(|said| said.starts_with("NO TOOL")), "{said:?}");
}

#[test]
fn side_requests_use_nothing_up() {
    let mut talk = Talk::scripted("[[reply]]\ntext = 'scripted'", "x [[err:500x1]]");
    let tools = std::mem::take(&mut talk.asked.tools);
    talk.asked.system = "Generate a concise Title.".to_owned();
    assert_eq!(talk.next(), "Mock title");
    talk.asked.tools = tools;
    let codex = "Generate a concise, single-line task title of few words.\n\nUser prompt:\nx [[bash:ls]]";
    assert_eq!(talk.says(codex), "Mock title");
    "x [[err:500x1]]".clone_into(&mut talk.asked.text);
    assert_eq!([talk.next(), talk.next()], ["scripted", "fails with 500"]);
}

#[test]
fn the_first_reply_that_fits_and_is_left_is_given() {
    let script = r#"
        [[reply]]
        when = "deploy"
        times = 2
        tool = "Nope"
        input = { a = 1 }
        [[reply]]
        when = "deploy"
        times = "always"
        text = "Again?"
        [[reply]]
        cut = true
        text = "Half"
        [[reply]]
        error = { status = 503 }
    "#;
    let mut talk = Talk::scripted(script, "");
    let texts = ["deploy", "hi", "deploy", "deploy", "deploy", "hi", "hi [[text:Own.]]"];
    insta::assert_snapshot!(texts.map(|text| talk.says(text)).join("\n"), @r#"
    <Nope {"a":1}>
    Half (cut)
    <Nope {"a":1}>
    Again?
    Again?
    fails with 503
    Own.
    "#);
}

#[test]
fn ids_differ_between_answers_and_runs() {
    let id = |memory: &mut Memory| memory.next_id().0;
    let (mut one, mut other) = (Memory::new(1), Memory::new(2));
    assert_eq!(
        [id(&mut one), id(&mut one), id(&mut other)],
        ["0000000100000001", "0000000100000002", "0000000200000001"]
    );
}
