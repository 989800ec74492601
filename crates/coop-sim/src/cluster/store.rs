//! Objects, and what becomes of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::text;

/// How many changes are kept for watches; what is older has expired.
const KEPT: usize = 10_000;

/// Why something was not done, as the API server says it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {about}")]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// Its word.
    pub reason: &'static str,
    about: String,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, about: impl Into<String>) -> Self {
        Self { code, reason, about: about.into() }
    }

    pub(super) fn expired() -> Self {
        Self::new(410, "Expired", "too old resource version")
    }

    /// Returns it as the object that is sent.
    pub(super) fn status(&self) -> Value {
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.to_string(),
                "reason": self.reason, "code": self.code })
    }
}

/// What a path is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Group, version and kind, as `apis/coop.dev/v1alpha1/agents`.
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// A part of the object, as `status`.
    pub(super) part: String,
}

impl Place {
    pub(super) fn parse(path: &str) -> Result<Self, Refusal> {
        let words: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match words.as_slice() {
            ["api", version, rest @ ..] => (format!("api/{version}"), rest),
            ["apis", group, version, rest @ ..] => (format!("apis/{group}/{version}"), rest),
            _ => return Err(Refusal::new(404, "NotFound", path)),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (kind, name, part) = match rest {
            [kind] => (kind, "", ""),
            [kind, name] => (kind, *name, ""),
            [kind, name, part] => (kind, *name, *part),
            _ => return Err(Refusal::new(404, "NotFound", path)),
        };
        let kind = format!("{group}/{kind}");
        Ok(Self { kind, namespace: namespace.to_owned(), name: name.to_owned(), part: part.to_owned() })
    }

    /// Returns it in a few words, for counting.
    pub(super) fn word(&self) -> String {
        let kind = self.kind.rsplit('/').next().unwrap_or_default();
        if self.part.is_empty() { kind.to_owned() } else { format!("{kind}/{}", self.part) }
    }

    fn key(&self) -> Key {
        (self.kind.clone(), self.namespace.clone(), self.name.clone())
    }

    fn holds(&self, (kind, namespace, _): &Key) -> bool {
        *kind == self.kind && (self.namespace.is_empty() || *namespace == self.namespace)
    }
}

/// Kind, namespace and name.
type Key = (String, String, String);

/// One change of an object.
struct Change {
    version: u64,
    key: Key,
    what: &'static str,
    object: Value,
}

#[derive(Default)]
pub(super) struct Store {
    version: u64,
    objects: BTreeMap<Key, Value>,
    changes: VecDeque<Change>,
    pub(super) calls: BTreeMap<String, u64>,
}

impl Store {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, place: &Place) -> Result<Value, Refusal> {
        self.objects.get(&place.key()).cloned().ok_or_else(|| Refusal::new(404, "NotFound", &place.name))
    }

    pub(super) fn list(&self, place: &Place, labels: &str) -> Vec<Value> {
        let all = self.objects.iter().filter(|(key, object)| place.holds(key) && has_labels(object, labels));
        all.map(|(_, object)| object.clone()).collect()
    }

    /// Returns what a watch tells that has told everything up to a change.
    pub(super) fn since(&self, place: &Place, labels: &str, version: u64) -> Result<Vec<Value>, Refusal> {
        if self.changes.front().is_some_and(|oldest| oldest.version > version + 1) {
            return Err(Refusal::expired());
        }
        let from = self.changes.partition_point(|change| change.version <= version);
        let about = |change: &&Change| place.holds(&change.key) && has_labels(&change.object, labels);
        let event = |change: &Change| json!({ "type": change.what, "object": change.object });
        Ok(self.changes.range(from..).filter(about).map(event).collect())
    }

    pub(super) fn create(&mut self, place: &Place, mut object: Value) -> Result<Value, Refusal> {
        let mut place = place.clone();
        text(&object["metadata"]["name"]).clone_into(&mut place.name);
        if self.objects.contains_key(&place.key()) {
            return Err(Refusal::new(409, "AlreadyExists", place.name));
        }
        let metadata =
            json!({ "uid": format!("uid-{}", self.version + 1), "creationTimestamp": now(), "generation": 1 });
        merge(&mut object, &json!({ "metadata": metadata }));
        if !place.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(place.namespace);
        }
        // What a Secret is given as text it has as base64.
        if let Some(Value::Object(plain)) = object.as_object_mut().and_then(|object| object.remove("stringData")) {
            let coded = plain.iter().map(|(name, value)| (name.clone(), json!(STANDARD.encode(text(value)))));
            object["data"] = Value::Object(coded.collect::<Map<_, _>>());
        }
        Ok(self.write(place.key(), "ADDED", object))
    }

    pub(super) fn replace(&mut self, place: &Place, object: &Value) -> Result<Value, Refusal> {
        let known = self.get(place)?;
        fresh(place, &known, object)?;
        let mut new = known.clone();
        if place.part == "status" {
            new["status"] = object["status"].clone();
        } else {
            new = object.clone();
            if !known["status"].is_null() {
                new["status"] = known["status"].clone();
            }
        }
        Ok(self.update(place, &known, new))
    }

    pub(super) fn patch(&mut self, place: &Place, patch: &Value) -> Result<Value, Refusal> {
        let known = self.get(place)?;
        fresh(place, &known, patch)?;
        let mut new = known.clone();
        merge(&mut new, patch);
        Ok(self.update(place, &known, new))
    }

    pub(super) fn delete(&mut self, place: &Place, options: &Value) -> Result<Value, Refusal> {
        let known = self.get(place)?;
        let wanted = &options["preconditions"]["uid"];
        if !wanted.is_null() && *wanted != known["metadata"]["uid"] {
            return Err(Refusal::new(409, "Conflict", &place.name));
        }
        // A pod that runs somewhere is gone when its node says so, or when nobody waits for that.
        let is_run = place.kind == "api/v1/pods" && !known["spec"]["nodeName"].is_null();
        let is_held = known["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if is_held || (is_run && options["gracePeriodSeconds"] != 0) {
            let mut new = known.clone();
            if new["metadata"]["deletionTimestamp"].is_null() {
                new["metadata"]["deletionTimestamp"] = json!(now());
            }
            return Ok(self.update(place, &known, new));
        }
        self.remove(place)?;
        Ok(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }))
    }

    pub(super) fn remove(&mut self, place: &Place) -> Result<(), Refusal> {
        let object = self.get(place)?;
        self.objects.remove(&place.key());
        self.note(place.key(), "DELETED", object);
        Ok(())
    }

    /// Writes an object anew; nothing has changed if it is the same.
    fn update(&mut self, place: &Place, known: &Value, mut new: Value) -> Value {
        new["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
        if new == *known {
            return new;
        }
        if new["spec"] != known["spec"] {
            new["metadata"]["generation"] = json!(known["metadata"]["generation"].as_u64().unwrap_or(0) + 1);
        }
        let is_held = new["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        let was_held = known["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if new["metadata"]["deletionTimestamp"].is_string() && was_held && !is_held {
            self.objects.remove(&place.key());
            return self.note(place.key(), "DELETED", new);
        }
        self.write(place.key(), "MODIFIED", new)
    }

    fn write(&mut self, key: Key, what: &'static str, object: Value) -> Value {
        let object = self.note(key.clone(), what, object);
        self.objects.insert(key, object.clone());
        object
    }

    fn note(&mut self, key: Key, what: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.changes.push_back(Change { version: self.version, key, what, object: object.clone() });
        if self.changes.len() > KEPT {
            self.changes.pop_front();
        }
        object
    }
}

/// Refuses to write over what has changed since it was read.
fn fresh(place: &Place, known: &Value, new: &Value) -> Result<(), Refusal> {
    let version = &new["metadata"]["resourceVersion"];
    if version.is_null() || *version == known["metadata"]["resourceVersion"] {
        return Ok(());
    }
    Err(Refusal::new(409, "Conflict", &place.name))
}

/// Tells whether an object has these labels, as `a=b,c`.
fn has_labels(object: &Value, labels: &str) -> bool {
    let own = &object["metadata"]["labels"];
    labels.split(',').filter(|label| !label.is_empty()).all(|label| match label.split_once('=') {
        Some((name, value)) => own[name] == value,
        None => own[label].is_string(),
    })
}

/// JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        patch.clone_into(target);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            if let Some(target) = target.as_object_mut() {
                target.remove(name);
            }
        } else {
            merge(&mut target[name.as_str()], value);
        }
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
