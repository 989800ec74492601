use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{
    AdapterEvent, AgentBrief, AgentHandle, Bootstrap, CheckpointRequest, ContextInjection, KillRequest, KillResponse,
    ResolveRequest, SandboxHealthResponse, SerializedAgentState,
};

/// Returns the JSON Schema of everything on the wire, by name.
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("AgentBrief", taken::<AgentBrief>()),
        ("KillRequest", taken::<KillRequest>()),
        ("CheckpointRequest", taken::<CheckpointRequest>()),
        ("ResolveRequest", taken::<ResolveRequest>()),
        ("ContextInjection", taken::<ContextInjection>()),
        ("SandboxBootstrap", taken::<Bootstrap>()),
        ("AdapterEvent", sent::<AdapterEvent>()),
        ("AgentHandle", sent::<AgentHandle>()),
        // They hold a brief as it came.
        ("KillResponse", taken::<KillResponse>()),
        ("SerializedAgentState", taken::<SerializedAgentState>()),
        ("SandboxHealthResponse", sent::<SandboxHealthResponse>()),
    ]
}

/// Describes what we take: what may be left out is optional.
fn taken<T: JsonSchema>() -> Value {
    described::<T>(SchemaSettings::draft2020_12().for_deserialize().into_generator())
}

/// Describes what we send: what is absent is left out and never null, unless its key is always there.
fn sent<T: JsonSchema>() -> Value {
    let mut schema = described::<T>(SchemaSettings::draft2020_12().for_serialize().into_generator());
    forbid_nulls(&mut schema);
    schema
}

fn described<T: JsonSchema>(generator: SchemaGenerator) -> Value {
    generator.into_root_schema_for::<T>().to_value()
}

fn forbid_nulls(schema: &mut Value) {
    let required: Vec<String> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, property) in properties.iter_mut().filter(|(name, _)| !required.contains(name)) {
            without_null(property);
        }
    }
    match schema {
        Value::Object(parts) => parts.values_mut().for_each(forbid_nulls),
        Value::Array(parts) => parts.iter_mut().for_each(forbid_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn without_null(property: &mut Value) {
    if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| name != "null");
    }
    if let Some(choices) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice["type"] != "null");
    }
}
