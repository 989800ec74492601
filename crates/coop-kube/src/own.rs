//! The image of the pod that this program runs in, for those who are told no other.

use std::fs;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use tokio::time::timeout;

const ANSWER: Duration = Duration::from_secs(10);

/// Why nobody knows the image.
#[derive(Debug, thiserror::Error)]
pub enum OwnImageError {
    /// It is not known which pod this is, or this is none.
    #[error("this is not the pod {0:?} of the namespace")]
    NoPod(String),
    /// Others run in the pod too, and none has the name it would have.
    #[error("the pod {pod} has no container {container:?}")]
    NoContainer {
        /// The pod.
        pod: String,
        /// The name that was looked for.
        container: &'static str,
    },
    /// The API server does not say.
    #[error("the API server does not tell the image of the pod that this is")]
    Unheard(#[source] kube::Error),
    /// The API server does not answer.
    #[error("the API server does not answer")]
    Silent,
}

/// Returns the image of the container with this name, or of the only one, in the pod that this runs in.
pub(crate) async fn own_image(pods: &Api<Pod>, container: &'static str) -> Result<String, OwnImageError> {
    image_of(pods, &host(), container).await
}

/// Returns the name of this machine, which within a pod is the pod's.
fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

async fn image_of(pods: &Api<Pod>, name: &str, container: &'static str) -> Result<String, OwnImageError> {
    // Whoever may list pods need not be one who may get them.
    let which = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = timeout(ANSWER, pods.list(&which)).await;
    let found = found.map_err(|_| OwnImageError::Silent)?.map_err(OwnImageError::Unheard)?;
    let pod = found.items.into_iter().find(|pod| pod.metadata.name.as_deref() == Some(name));
    let pod = pod.and_then(|pod| pod.spec).ok_or_else(|| OwnImageError::NoPod(name.to_owned()))?;
    let image = match pod.containers.as_slice() {
        [only] => only.image.clone(),
        several => several.iter().find(|one| one.name == container).and_then(|one| one.image.clone()),
    };
    image.ok_or_else(|| OwnImageError::NoContainer { pod: name.to_owned(), container })
}

#[cfg(test)]
mod tests {
    use coop_sim::cluster::Cluster;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::client;

    #[tokio::test]
    async fn the_image_is_that_of_the_container_in_the_pod_of_this_name() {
        let cluster = Cluster::default();
        let make = |name: &str, containers: Value| {
            let pod = json!({ "metadata": { "name": name }, "spec": { "containers": containers } });
            cluster.create("/api/v1/namespaces/team/pods", pod).expect("made");
        };
        make("alone", json!([{ "name": "mine", "image": "registry.example/coop:2" }]));
        make("beside", json!([{ "name": "mesh", "image": "mesh:1" }, { "name": "operator", "image": "coop:3" }]));
        make("strange", json!([{ "name": "mesh", "image": "mesh:1" }, { "name": "mine", "image": "coop:3" }]));
        let pods = Api::namespaced(client(&cluster), "team");
        let image = async |name: &str| image_of(&pods, name, "operator").await.map_err(|error| error.to_string());
        assert_eq!(image("alone").await.as_deref(), Ok("registry.example/coop:2"));
        assert_eq!(image("beside").await.as_deref(), Ok("coop:3"));
        assert_eq!(image("strange").await, Err("the pod strange has no container \"operator\"".to_owned()));
        assert_eq!(image("laptop").await, Err("this is not the pod \"laptop\" of the namespace".to_owned()));
    }
}
