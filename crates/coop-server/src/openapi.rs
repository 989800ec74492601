//! The OpenAPI description, made from the table of routes and the types themselves.

use coop_api::{Answer, Answered, Configure, Error, ErrorCode, Explanation, Receipt, Size, UsageReport, Written};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::error::mapping;
use crate::page::{ChangesBody, LoginBody};
use crate::routes::{ROUTES, Route};
use crate::wire::{
    AgentBody, AsksBody, Delivered, DumpBody, HealthBody, InputBody, KeysBody, LockBody, LockedBody, NudgeBody,
    NudgesBody, OutputBody, ResizeBody, ScreenBody, SignalBody, StatusBody, StopBody,
};

/// Returns the description of a sidecar.
pub fn document() -> Value {
    let mut generator = generator();
    add::<HealthBody>(&mut generator);
    add::<StatusBody>(&mut generator);
    add::<ScreenBody>(&mut generator);
    add::<DumpBody>(&mut generator);
    add::<OutputBody>(&mut generator);
    add::<InputBody>(&mut generator);
    add::<KeysBody>(&mut generator);
    add::<LockBody>(&mut generator);
    add::<ResizeBody>(&mut generator);
    add::<LockedBody>(&mut generator);
    add::<SignalBody>(&mut generator);
    add::<NudgeBody>(&mut generator);
    add::<AgentBody>(&mut generator);
    add::<Delivered>(&mut generator);
    add::<Answered>(&mut generator);
    add::<AsksBody>(&mut generator);
    add::<Configure>(&mut generator);
    add::<Explanation>(&mut generator);
    add::<NudgesBody>(&mut generator);
    add::<Receipt>(&mut generator);
    add::<StopBody>(&mut generator);
    add::<UsageReport>(&mut generator);
    add::<Written>(&mut generator);
    add::<ChangesBody>(&mut generator);
    add::<LoginBody>(&mut generator);
    add::<Answer>(&mut generator);
    add::<Size>(&mut generator);
    add::<Error>(&mut generator);
    describe(generator, ROUTES, "One agent's terminal and state, see docs/HTTP.md.")
}

/// Returns what collects the schemas of a description.
pub(crate) fn generator() -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.into_generator()
}

/// Puts a description together of a table of routes and the schemas they name.
pub(crate) fn describe(mut generator: SchemaGenerator, routes: &[Route], what: &str) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "coop",
            "description": what,
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "security": [{}, { "token": [] }],
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

pub(crate) fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

fn operation(route: &Route) -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let mut responses = Map::new();
    let ok = match route.response {
        Some(name) => json!({ "application/json": { "schema": reference(name) } }),
        None => match route.path {
            "/api/v1/events" => json!({ "text/event-stream": {} }),
            "/api/v1/screen/text" => json!({ "text/plain": {} }),
            "/api/v1/transcripts/catchup" => json!({ "application/x-ndjson": {} }),
            _ => json!({ "application/json": {} }),
        },
    };
    if route.path.ends_with("/ws") {
        responses.insert("101".into(), json!({ "description": "switched to WebSocket" }));
    } else {
        responses.insert("200".into(), json!({ "description": "done", "content": ok }));
    }
    for code in ErrorCode::ALL {
        let status = mapping(code).http.as_str().to_owned();
        let entry = responses.entry(status).or_insert_with(|| {
            let schema = json!({ "type": "object", "properties": { "error": reference("Error") } });
            json!({ "description": "", "content": { "application/json": { "schema": schema } } })
        });
        let known = entry["description"].as_str().unwrap_or_default();
        entry["description"] = json!(if known.is_empty() { code.to_string() } else { format!("{known}, {code}") });
    }
    let mut operation = json!({ "summary": route.summary, "responses": responses });
    if let Some(name) = route.request {
        operation["requestBody"] = json!({ "content": { "application/json": { "schema": reference(name) } } });
    }
    let query = route.query.iter().map(|(name, kind, meaning)| {
        json!({ "name": name, "in": "query", "description": meaning, "schema": { "type": kind } })
    });
    let in_path = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let parameters: Vec<_> = in_path.chain(query).collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}
