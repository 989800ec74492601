//! `coop operator`, and what its init containers run.

use std::convert::Infallible;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use coop_kube::{Options, Reached, Way, operate};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::cli::{LogFormat, LogLevel};
use crate::fleet::{parse_image, parse_namespace, parse_object_name};
use crate::log_file::LogOwner;
use crate::serve::{Signals, start_log};
use crate::shim::brief;

#[derive(Debug, Args)]
pub(crate) struct Operator {
    /// The namespace whose agents it sees to [default: that of its service account, or of the configuration's context]
    #[arg(long, env = "COOP_NAMESPACE", value_name = "NAME", value_parser = parse_namespace)]
    namespace: Option<String>,
    /// Context of the configuration [default: the current one]
    #[arg(long, env = "COOP_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// File with the configuration [default: KUBECONFIG, ~/.kube/config, or the service account]
    #[arg(long, env = "COOP_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The image with coop that agents' pods bring it from [default: that of the pod it runs in]
    #[arg(long, env = "COOP_IMAGE", value_name = "IMAGE", value_parser = parse_image)]
    image: Option<String>,
    /// When that image is fetched
    #[arg(long, env = "COOP_IMAGE_PULL_POLICY", value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: Option<String>,
    /// The Lease by which one operator sees to the agents at a time
    #[arg(long, env = "COOP_LEASE", value_name = "NAME", default_value = "coop-operator", value_parser = parse_object_name)]
    lease: String,
    /// TCP port that answers health probes
    #[arg(long, env = "COOP_HEALTH_PORT", value_name = "PORT")]
    health_port: Option<u16>,
    /// Address to bind that port to
    #[arg(long, env = "COOP_HOST", value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// How log lines on standard error look
    #[arg(long, env = "COOP_LOG_FORMAT", value_name = "FMT", default_value = "json")]
    log_format: LogFormat,
    /// Which log lines are written
    #[arg(long, env = "COOP_LOG_LEVEL", value_name = "LVL", default_value = "info")]
    log_level: LogLevel,
}

pub(crate) async fn run(options: Operator) -> anyhow::Result<i32> {
    start_log(options.log_format, options.log_level, LogOwner::User);
    let mut signals = Signals::new()?;
    let cluster = Way { kubeconfig: options.kubeconfig, context: options.context }.reach().await?;
    if let Some(port) = options.health_port {
        let listener = TcpListener::bind((options.host, port)).await;
        tokio::spawn(answer_probes(
            listener.with_context(|| format!("cannot listen on port {port}"))?,
            cluster.clone(),
        ));
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let options = Options {
        namespace: options.namespace,
        image: options.image,
        pull_policy: options.image_pull_policy,
        lease: options.lease,
        // Another for each start: what an earlier one of this name has begun is not ours.
        identity: format!("{}-{}", host.trim(), uuid::Uuid::new_v4().simple()),
        read_brief: brief::message,
    };
    operate(cluster, options, signals.next()).await?;
    Ok(0)
}

/// Says that the process lives: its one thread does everything, so it answers only while that goes on. At `/readyz` it says whether
/// something keeps it from its work.
async fn answer_probes(listener: TcpListener, cluster: Reached) {
    while let Ok((stream, _)) = listener.accept().await {
        let cluster = cluster.clone();
        let answer = move |request: Request<Incoming>| {
            let trouble = cluster.trouble().filter(|_| request.uri().path() == "/readyz");
            let status = if trouble.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            let mut answer = Response::new(Full::new(Bytes::from(trouble.unwrap_or_else(|| "ok".to_owned()) + "\n")));
            *answer.status_mut() = status;
            async { Ok::<_, Infallible>(answer) }
        };
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            // A probe that goes away is no concern of ours.
            let _ = connection.await;
        });
    }
}

#[derive(Debug, Args)]
pub(crate) struct Unpack {
    /// Where to put this program
    #[arg(long, value_name = "PATH")]
    to: Option<PathBuf>,
    /// Folders to make
    #[arg(long, value_name = "DIR")]
    folder: Vec<PathBuf>,
}

/// Prepares the volumes of a pod: an image may have no shell to do it with.
pub(crate) fn unpack(options: &Unpack) -> anyhow::Result<i32> {
    for folder in &options.folder {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    if let Some(to) = &options.to {
        let program = std::env::current_exe().context("cannot find coop's own program file")?;
        fs::copy(&program, to).with_context(|| format!("cannot copy coop to {}", to.display()))?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_brief_in_the_docs_is_one() {
        let docs = include_str!("../../../docs/KUBERNETES.md");
        let (_, brief) = docs.split_once("```yaml\n  brief:\n").expect("it is there");
        let (brief, _) = brief.split_once("```").expect("it ends");
        let brief: Value = serde_saphyr::from_str(brief).expect("YAML");
        let message = brief::message(&brief, "claude").expect("a brief");
        assert!(message.contains("`cache::expires`") && message.contains("Change no other test."), "{message}");
    }
}
