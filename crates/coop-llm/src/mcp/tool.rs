//! One tool of an MCP server.

use std::collections::HashSet;

use async_trait::async_trait;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ResourceContents};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

use crate::{Effect, Json, Tool, ToolCx, ToolError, ToolOutput, ToolSpec};

pub(super) struct McpTool {
    spec: ToolSpec,
    /// The server's own name for it.
    name: String,
    peer: Peer<RoleClient>,
}

impl McpTool {
    pub(super) fn new(server: &str, tool: rmcp::model::Tool, peer: Peer<RoleClient>) -> Self {
        let name = tool.name.into_owned();
        let spec = ToolSpec {
            name: full_name(server, &name),
            description: tool.description.unwrap_or_default().into_owned(),
            parameters: Value::Object((*tool.input_schema).clone()),
        };
        Self { spec, name, peer }
    }

    /// Takes a name that nobody has yet: two may be the same once they are such as providers take.
    pub(super) fn make_unique(&mut self, taken: &mut HashSet<String>) {
        self.spec.name = free_name(&self.spec.name, taken);
        taken.insert(self.spec.name.clone());
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    // A server's word that a tool only looks is not to be trusted.
    fn effect(&self) -> Effect {
        Effect::Run
    }

    async fn execute(&self, arguments: &Json, _cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let arguments = arguments.parse().map_err(|error| ToolError::Arguments(error.to_string()))?;
        let call = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
        // When this is dropped, the SDK tells the server that the call is cancelled.
        match self.peer.call_tool_once(call).await {
            Ok(CallToolResponse::Complete(result)) => output(result),
            Ok(CallToolResponse::InputRequired(_)) => {
                Err(ToolError::Failed("the tool asks for more input, which nobody can give".into()))
            }
            Ok(_) => Err(ToolError::Failed("the server answered in a way that is not supported".into())),
            Err(ServiceError::McpError(error)) => Err(ToolError::Failed(error.message.into_owned())),
            Err(error) => Err(ToolError::Failed(error.to_string())),
        }
    }
}

/// The longest name that providers take.
const MAX_NAME: usize = 64;

/// Returns a name that providers take, and that no built-in tool has.
fn full_name(server: &str, tool: &str) -> String {
    let name: String = format!("mcp__{server}__{tool}")
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || char == '-' { char } else { '_' })
        .take(MAX_NAME)
        .collect();
    name
}

/// Returns the name, or the first with a number that is free.
fn free_name(name: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..).map(|number| {
        let end = format!("_{number}");
        format!("{}{end}", &name[..name.len().min(MAX_NAME - end.len())])
    });
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default()
}

fn output(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let mut texts: Vec<String> = result.content.into_iter().map(text).collect();
    // What is structured is the same again, unless there is nothing else.
    if let (true, Some(value)) = (texts.is_empty(), result.structured_content) {
        texts.push(value.to_string());
    }
    let text = texts.join("\n");
    if result.is_error == Some(true) { Err(ToolError::Failed(text)) } else { Ok(text.into()) }
}

fn text(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => format!("[a picture, {}, left out]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[a sound, {}, left out]", audio.mime_type),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            ResourceContents::BlobResourceContents { uri, .. } => format!("[data of {uri}, left out]"),
            _ => "[something new, left out]".into(),
        },
        ContentBlock::ResourceLink(link) => link.uri,
        _ => "[something new, left out]".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_such_as_providers_take() {
        assert_eq!(full_name("my files", "read.all"), "mcp__my_files__read_all");
        assert_eq!(full_name("s", &"x".repeat(99)).len(), 64);
    }

    #[test]
    fn two_names_do_not_become_one() {
        let long = full_name("s", &"x".repeat(99));
        let mut taken: HashSet<String> = [long.clone(), "mcp__s__a_b".to_owned()].into();
        assert_eq!(free_name("mcp__s__a_b", &taken), "mcp__s__a_b_2");
        taken.insert("mcp__s__a_b_2".into());
        assert_eq!(free_name("mcp__s__a_b", &taken), "mcp__s__a_b_3");
        let other = free_name(&long, &taken);
        assert!(other.len() == 64 && other.ends_with("x_2"), "{other}");
    }
}
