//! The API server of a cluster that is not there, and the sidecars in its pods: what an operator can be tested and measured
//! against without one.
//!
//! It keeps any object as JSON and treats it as the real one does as far as a controller can tell: numbers for every change,
//! lists, watches, refused writes of what has changed meanwhile, finalizers, pods that are gone only when their node says so.
//! It knows no schema and no rights.
//!
//! What objects are and become (`store`) is pure; only `serve` and this handle wait or send.

mod serve;
mod sidecars;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use self::sidecars::{Said, Sidecars};
pub use self::store::Refusal;
use self::store::{Place, Store};

/// The node that all pods are on.
const NODE: &str = "node-1";

/// A handle of the cluster.
#[derive(Clone)]
pub struct Cluster {
    store: Arc<Mutex<Store>>,
    /// The number of the last change.
    version: watch::Sender<u64>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { store: Arc::default(), version: watch::Sender::new(0) }
    }
}

impl Cluster {
    /// Returns its API, for a client in this process.
    pub fn router(&self) -> Router {
        serve::router(self.clone())
    }

    /// Serves its API until it is dropped.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        axum::serve(listener, self.router()).await
    }

    /// Makes an object, as `POST` does; `path` is that of its kind.
    pub fn create(&self, path: &str, object: Value) -> Result<Value, Refusal> {
        self.change(|store| store.create(&Place::parse(path)?, object))
    }

    /// Changes an object by a merge patch, whatever has become of it meanwhile.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<Value, Refusal> {
        self.change(|store| store.patch(&Place::parse(path)?, patch))
    }

    /// Deletes an object, as far as that can be done at once.
    pub fn delete(&self, path: &str) -> Result<Value, Refusal> {
        self.change(|store| store.delete(&Place::parse(path)?, &Value::Null))
    }

    /// Returns an object.
    pub fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.lock().get(&Place::parse(path)?)
    }

    /// Returns all objects of a kind.
    pub fn list(&self, path: &str) -> Result<Vec<Value>, Refusal> {
        Ok(self.lock().list(&Place::parse(path)?, ""))
    }

    /// Waits until an object is so, and returns it.
    pub async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut versions = self.version.subscribe();
        loop {
            versions.borrow_and_update();
            if let Ok(object) = self.get(path)
                && is_so(&object)
            {
                return object;
            }
            // We hold a sender, so there will be news.
            let _ = versions.changed().await;
        }
    }

    /// Returns how often each thing was asked for, as `PUT agents/status`.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.lock().calls.clone()
    }

    /// Is the cluster's one node: runs pods at once, at this address, and lets those go that are to end.
    pub async fn run_pods(self, address: &str) {
        let ready = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        // If it is there already, it is ready already.
        let _ = self.create("/api/v1/nodes", json!({ "metadata": { "name": NODE }, "status": ready }));
        let mut versions = self.version.subscribe();
        loop {
            versions.borrow_and_update();
            for pod in self.list("/api/v1/pods").unwrap_or_default() {
                let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
                // Whoever else has changed or removed it meanwhile is right.
                let _ = if pod["metadata"]["deletionTimestamp"].is_string() {
                    self.change(|store| store.remove(&Place::parse(&path)?)).map(|()| Value::Null)
                } else if pod["spec"]["nodeName"].is_null() {
                    let status = json!({ "phase": "Running", "podIP": address });
                    self.patch(&path, &json!({ "spec": { "nodeName": NODE }, "status": status }))
                } else {
                    Ok(Value::Null)
                };
            }
            let _ = versions.changed().await;
        }
    }

    fn change<T>(&self, how: impl FnOnce(&mut Store) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let mut store = self.lock();
        let result = how(&mut store);
        let version = store.version();
        drop(store);
        self.version.send_if_modified(|known| std::mem::replace(known, version) != version);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
