//! Connections to a sidecar in a pod.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use coop_fleet::launcher::{Dial, Stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use tokio::net::TcpStream;

use super::Reach;
use crate::manifest::PORT;

/// The way to one pod.
#[derive(Clone)]
pub(super) struct ToPod {
    pub(super) pods: Api<Pod>,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) reach: Reach,
}

impl fmt::Debug for ToPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToPod({} {})", self.name, self.uid)
    }
}

impl ToPod {
    /// Returns the pod, if it is still the one that is meant: another can have its name and its address.
    async fn pod(&self) -> io::Result<Pod> {
        let pod = self.pods.get(&self.name).await.map_err(io::Error::other)?;
        match pod.uid().as_deref() == Some(&self.uid) {
            true => Ok(pod),
            false => Err(io::Error::other("its pod was replaced by another")),
        }
    }
}

#[async_trait]
impl Dial for ToPod {
    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        match self.reach {
            Reach::Forward => {
                let mut forwarder = self.pods.portforward(&self.name, &[PORT]).await.map_err(io::Error::other)?;
                let stream = forwarder.take_stream(PORT).ok_or_else(|| io::Error::other("no port is forwarded"))?;
                // It is there now, so it was when the connection was made.
                self.pod().await?;
                Ok(Box::new(stream))
            }
            Reach::Direct => {
                let pod = self.pod().await?;
                let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
                let address = address.and_then(|ip| ip.parse().ok()).map(|ip| SocketAddr::new(ip, PORT));
                let address = address.ok_or_else(|| io::Error::other("its pod has no address"))?;
                let stream = TcpStream::connect(address).await?;
                self.pod().await?;
                Ok(Box::new(stream))
            }
        }
    }
}
