//! What the agent is told: its brief as text, and what is to be known later.

use serde_json::{Map, Value};

use super::types::{AgentBrief, ContextInjection, Priority};

/// The longest prompt, in characters.
const MOST: usize = 8000;

/// What an agent is told that goes on where it stopped.
pub(crate) const GO_ON: &str = "Go on with your task where you left off.";

/// Returns how many characters of a brief are too many to be told, if there are.
pub(crate) fn lost(brief: &AgentBrief) -> Option<usize> {
    let longer = blocks(brief).join("\n").chars().count().checked_sub(MOST)?;
    (longer > 0).then_some(longer + 3)
}

/// Returns the brief as text.
pub(crate) fn of_brief(brief: &AgentBrief) -> String {
    with_schema(capped(&blocks(brief).join("\n")), brief)
}

/// Returns the brief as text for an agent that has done another one before.
pub(crate) fn of_next_brief(brief: &AgentBrief) -> String {
    let opening = ["Your last assignment is done. This is the next one.".to_owned(), String::new()];
    with_schema(capped(&[opening.to_vec(), blocks(brief)].concat().join("\n")), brief)
}

/// Adds what the last message is to look like; half of a schema would say something else.
fn with_schema(text: String, brief: &AgentBrief) -> String {
    match &brief.output_schema {
        Some(schema) if !schema.is_empty() => {
            let schema = serde_json::Value::Object(schema.clone());
            format!("{text}\n\n## Output\nYour last message is JSON and nothing else, by this JSON Schema: {schema}")
        }
        _ => text,
    }
}

fn blocks(brief: &AgentBrief) -> Vec<String> {
    let project = &brief.project_brief;
    let mut blocks = vec![
        format!("You are a {} working on the \"{}\" workstream.", brief.role, brief.workstream),
        brief.description.clone(),
    ];
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            blocks.extend([String::new(), format!("## {title}")]);
            blocks.extend(lines);
        }
    };
    let bullets = |items: &[String]| items.iter().map(|item| format!("- {item}")).collect::<Vec<_>>();
    section("Project", vec![format!("{}: {}", project.title, project.description)]);
    section("Goals", bullets(&project.goals));
    section("Constraints", [bullets(&brief.constraints), bullets(&project.constraints)].concat());
    section("Context", counts(brief));
    blocks
}

fn counts(brief: &AgentBrief) -> Vec<String> {
    let known = &brief.knowledge_snapshot;
    let counted = [
        (known.workstreams.len(), "active workstream(s)"),
        (known.pending_decisions.len(), "pending decision(s)"),
        (known.artifact_index.len(), "artifact(s)"),
    ];
    let parts: Vec<_> =
        counted.iter().filter(|(count, _)| *count > 0).map(|(count, of)| format!("{count} {of}")).collect();
    if known.estimated_tokens == 0 || parts.is_empty() { vec![] } else { vec![parts.join(", ") + "."] }
}

fn capped(text: &str) -> String {
    cut(text, MOST)
}

/// Returns a text of this many characters at most; what is longer ends in three dots.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(3)).chain("...".chars()).collect()
}

/// The keys of a brief that an agent is told. The others are for us, and there are secrets among them.
const TOLD: [&str; 6] = ["role", "description", "workstream", "constraints", "projectBrief", "outputSchema"];

/// Returns what an agent is told of changes to its brief, if they are about it.
pub(crate) fn of_changes(changes: &Map<String, Value>) -> Option<String> {
    let lines = changes.iter().filter(|(key, _)| TOLD.contains(&key.as_str())).map(|(key, value)| match value {
        Value::String(text) => format!("- {key}: {text}"),
        other => format!("- {key}: {other}"),
    });
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| format!("Your brief has changed. From now on:\n{}", lines.join("\n")))
}

/// Returns what an agent is told of something it is to know.
pub(crate) fn of_context(context: &ContextInjection) -> String {
    format!("News of the project (version {}):\n{}", context.snapshot_version, context.content)
}

/// Takes out what there is room for, what matters most first. What is required is always told.
pub(crate) fn fitting(mut queue: Vec<ContextInjection>, budget: Option<u64>) -> Vec<ContextInjection> {
    queue.sort_by_key(|context| context.priority);
    let mut left = budget.unwrap_or(u64::MAX);
    queue.retain(|context| {
        let fits = context.priority == Priority::Required || context.estimated_tokens <= left;
        if fits {
            left = left.saturating_sub(context.estimated_tokens);
        }
        fits
    });
    queue
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn brief(change: impl FnOnce(&mut Value)) -> AgentBrief {
        let mut brief = crate::shim::tests::brief();
        change(&mut brief);
        serde_json::from_value(brief).expect("a brief")
    }

    #[test]
    fn a_brief_is_laid_out_as_the_protocol_says() {
        let brief = brief(|brief| {
            brief["constraints"] = json!(["no network"]);
            brief["projectBrief"]["constraints"] = json!(["MIT only"]);
            brief["knowledgeSnapshot"]["estimatedTokens"] = json!(10);
            brief["knowledgeSnapshot"]["workstreams"] = json!([{}, {}]);
            brief["knowledgeSnapshot"]["artifactIndex"] = json!([{}]);
        });
        insta::assert_snapshot!(of_brief(&brief), @r#"
        You are a coder working on the "core" workstream.
        Add a health endpoint

        ## Project
        Demo: d

        ## Goals
        - ship

        ## Constraints
        - no network
        - MIT only

        ## Context
        2 active workstream(s), 1 artifact(s).
        "#);
        assert!(of_next_brief(&brief).starts_with("Your last assignment is done. This is the next one.\n\nYou are a"));
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let brief = brief(|brief| brief["projectBrief"]["goals"] = json!([]));
        let text = of_brief(&brief);
        assert!(text.ends_with("## Project\nDemo: d"), "{text}");
    }

    #[test]
    fn of_changes_only_what_is_for_the_agent_is_told() {
        let changes = json!({ "description": "other", "mcpServers": [{ "env": { "TOKEN": "secret" } }],
                              "secretRefs": ["secret"], "agentId": "b", "controlMode": "ecosystem" });
        let Value::Object(changes) = changes else { unreachable!() };
        assert_eq!(of_changes(&changes).as_deref(), Some("Your brief has changed. From now on:\n- description: other"));
        let quiet = changes.into_iter().filter(|(key, _)| key != "description").collect();
        assert_eq!(of_changes(&quiet), None);
    }

    #[test]
    fn a_long_brief_is_cut_by_characters() {
        let brief = brief(|brief| brief["description"] = json!("é".repeat(9000)));
        let text = of_brief(&brief);
        assert_eq!(text.chars().count(), 8000);
        assert!(text.ends_with("é..."));
    }

    #[test]
    fn what_matters_most_is_told_first_and_what_is_required_always() {
        let context = |priority: &str, tokens: u64| -> ContextInjection {
            let body = json!({ "content": priority, "format": "plain", "snapshotVersion": tokens,
                               "estimatedTokens": tokens, "priority": priority });
            serde_json::from_value(body).expect("a context")
        };
        let queue = vec![context("supplementary", 5), context("recommended", 7), context("required", 100)];
        let told = |budget| fitting(queue.clone(), budget).into_iter().map(|told| told.content).collect::<Vec<_>>();
        assert_eq!(told(None), ["required", "recommended", "supplementary"]);
        assert_eq!(told(Some(108)), ["required", "recommended"]);
        assert_eq!(told(Some(1)), ["required"]);
    }
}
