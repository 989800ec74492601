//! What a model can call.

use std::future::Future;
use std::marker::PhantomData;

use async_trait::async_trait;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Json, ToolSpec};

/// Something that a model can call.
///
/// Tools of one turn run at the same time in one task, so a tool must wait and not block. When a run is cancelled or the
/// tool's time is over, its future is dropped; what it started has to end with it.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns what the model is told of it.
    fn spec(&self) -> &ToolSpec;

    /// Returns what it can do to the world. A [`Gate`](crate::Gate) may ask a person by this.
    fn effect(&self) -> Effect {
        Effect::Run
    }

    /// Does it. The arguments are an object; whether they fit is for the tool to say.
    async fn execute(&self, arguments: &Json, cx: &ToolCx) -> Result<ToolOutput, ToolError>;
}

/// What a tool can do to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only looks.
    Look,
    /// It changes files.
    Change,
    /// It can do anything.
    Run,
}

/// What surrounds one run of a tool.
#[derive(Clone, Debug)]
pub struct ToolCx {
    /// The provider's name for the call.
    pub call_id: String,
    /// Is cancelled with the run.
    pub cancel: CancellationToken,
    /// When the tool will be dropped.
    pub deadline: Instant,
}

/// What a tool has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self { text }
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self { text: value.to_string() }
    }
}

/// Why a tool has no result. The model is told, and the run goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The arguments do not fit.
    #[error("the arguments do not fit: {0}")]
    Arguments(String),
    /// It did not work.
    #[error("{0}")]
    Failed(String),
}

impl From<std::io::Error> for ToolError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A tool made of a function; see [`typed`] and [`dynamic`].
pub struct Function<A, F> {
    spec: ToolSpec,
    effect: Effect,
    function: F,
    arguments: PhantomData<fn(A)>,
}

/// Makes a tool of a function. The schema comes from the type of its argument.
///
/// ```
/// use coop_llm::{Tool, ToolError, typed};
///
/// /// Two numbers.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum {
///     /// The first.
///     a: i64,
///     b: i64,
/// }
///
/// let add = typed("add", "Adds two numbers.", |sum: Sum, _| async move {
///     sum.a.checked_add(sum.b).map(|sum| sum.to_string()).ok_or(ToolError::Failed("too large".into()))
/// });
/// assert_eq!(add.spec().parameters["properties"]["a"]["description"], "The first.");
/// assert_eq!(add.spec().parameters["required"], serde_json::json!(["a", "b"]));
/// ```
pub fn typed<A, F, R, O>(name: &str, description: &str, function: F) -> Function<A, F>
where
    A: DeserializeOwned + JsonSchema + Send,
    F: Fn(A, ToolCx) -> R + Send + Sync,
    R: Future<Output = Result<O, ToolError>> + Send,
    O: Into<ToolOutput>,
{
    let spec = ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters: schema_of::<A>() };
    dynamic(spec, function)
}

/// Makes a tool of a function and a schema written by hand; its argument is usually a [`Value`].
pub fn dynamic<A, F, R, O>(spec: ToolSpec, function: F) -> Function<A, F>
where
    A: DeserializeOwned + Send,
    F: Fn(A, ToolCx) -> R + Send + Sync,
    R: Future<Output = Result<O, ToolError>> + Send,
    O: Into<ToolOutput>,
{
    Function { spec, effect: Effect::Run, function, arguments: PhantomData }
}

impl<A, F> Function<A, F> {
    /// Says what it can do to the world; [`Effect::Run`] if nobody does.
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
}

#[async_trait]
impl<A, F, R, O> Tool for Function<A, F>
where
    A: DeserializeOwned + Send,
    F: Fn(A, ToolCx) -> R + Send + Sync,
    R: Future<Output = Result<O, ToolError>> + Send,
    O: Into<ToolOutput>,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    async fn execute(&self, arguments: &Json, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let arguments = arguments.parse().map_err(|error| ToolError::Arguments(error.to_string()))?;
        (self.function)(arguments, cx.clone()).await.map(Into::into)
    }
}

/// Returns the JSON Schema of a type, with nothing in it that providers do not read.
pub fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The type's name and comment are about the program; the model has the tool's own.
    schema.remove("title");
    schema.remove("description");
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    struct Greet {
        name: String,
        times: Option<u8>,
    }

    fn cx() -> ToolCx {
        ToolCx { call_id: "c".into(), cancel: CancellationToken::new(), deadline: Instant::now() }
    }

    #[tokio::test]
    async fn a_typed_tool_has_a_schema_and_gets_its_type() {
        let greet = typed("greet", "Greets.", |greet: Greet, cx: ToolCx| async move {
            Ok::<_, ToolError>(format!("{} {} {:?}", cx.call_id, greet.name, greet.times))
        });
        assert_eq!(
            greet.spec().parameters,
            json!({"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"},
                "times": {"type": ["integer", "null"], "format": "uint8", "minimum": 0, "maximum": 255},
            }})
        );
        let said = greet.execute(&Json::new(r#"{"name": "Ada"}"#), &cx()).await;
        assert_eq!(said, Ok("c Ada None".into()));
        let wrong = greet.execute(&Json::new(r#"{"name": 1}"#), &cx()).await.unwrap_err();
        assert!(matches!(&wrong, ToolError::Arguments(why) if why.contains("expected a string")), "{wrong}");
    }

    #[tokio::test]
    async fn a_dynamic_tool_gets_whatever_there_is() {
        let spec = ToolSpec { name: "echo".into(), description: String::new(), parameters: json!({"type": "object"}) };
        let echo = dynamic(spec, |value: Value, _| async move { Ok::<_, ToolError>(value) }).with_effect(Effect::Look);
        assert_eq!(echo.execute(&Json::new(""), &cx()).await, Ok("{}".into()));
        assert_eq!(echo.effect(), Effect::Look);
    }
}
