//! What a container is made of.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;

use bollard::models::{ContainerCreateBody, HostConfig, PortBinding};

use super::super::local::words;
use super::Containers;
use crate::adapter::AgentConfig;
use crate::sidecar::container_folder;

/// Labels of what is ours: whose fleet's, and which agent.
pub(super) const FLEET: &str = "coop.dev/fleet";
pub(super) const AGENT: &str = "coop.dev/agent";
/// Where a sidecar listens in its container.
pub(super) const PORT: &str = "9200/tcp";
const PORT_NUMBER: &str = "9200";
/// Where coop is in the container: brought by us, or the image's own.
const BROUGHT: &str = "/coop/coop";
const OWN: &str = "/usr/local/bin/coop";

/// The memory of a container without `--memory`: enough for an agent and a compiler, less than most machines have.
const MEMORY: u64 = 8 << 30;
/// More than a build runs at a time, and fewer than fill the machine's table of processes.
const MOST_PROCESSES: i64 = 4096;
/// The only folder beside the mounted ones that can be written to. Its content counts as the container's memory.
const TMP: &str = "rw,exec,nosuid,nodev,mode=1777";

/// Returns the container of an agent, with its port on this one of ours.
pub(super) fn body(
    options: &Containers,
    config: &AgentConfig,
    folder: &Path,
    token: &str,
    port: u16,
) -> Result<ContainerCreateBody, String> {
    let text = |path: &Path| {
        let text = path.to_str().filter(|text| !text.contains(':')).map(str::to_owned);
        text.ok_or_else(|| format!("{} cannot be mounted", path.display()))
    };
    let (inside, work) = (text(&container_folder(folder))?, text(&config.folder)?);
    let mut binds = vec![format!("{inside}:{inside}"), format!("{work}:{work}")];
    if !options.image_has_coop {
        binds.push(format!("{}:{BROUGHT}:ro", text(&options.coop)?));
    }
    binds.extend(options.mounts.iter().cloned());
    let mut env = config.env.clone();
    // Its conversation is in its home, and outlives the container there.
    env.entry("HOME".to_owned()).or_insert_with(|| format!("{inside}/home"));
    env.insert("COOP_AUTH_TOKEN".to_owned(), token.to_owned());
    let program = if options.image_has_coop { OWN } else { BROUGHT };
    let command = ["--host", "0.0.0.0", "--port", PORT_NUMBER].map(str::to_owned).into_iter();
    let command =
        command.chain(words(config, Path::new(&inside)).into_iter().map(|word| word.to_string_lossy().into_owned()));
    let ours = PortBinding { host_ip: Some(Ipv4Addr::LOCALHOST.to_string()), host_port: Some(port.to_string()) };
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    // Without it a user who is not root would be somebody else in Podman's containers, and could not write here.
    let keeps_id = !user.is_root() && options.engine.to_string_lossy().contains("podman");
    Ok(ContainerCreateBody {
        image: Some(options.image.clone()),
        entrypoint: Some(vec![program.to_owned()]),
        cmd: Some(command.collect()),
        env: Some(env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: Some(work),
        user: Some(format!("{}:{}", user.as_raw(), group.as_raw())),
        labels: Some(HashMap::from([
            (FLEET.to_owned(), options.fleet.clone()),
            (AGENT.to_owned(), config.agent.0.clone()),
        ])),
        exposed_ports: Some(vec![PORT.to_owned()]),
        host_config: Some(HostConfig {
            binds: Some(binds),
            port_bindings: Some(HashMap::from([(PORT.to_owned(), Some(vec![ours]))])),
            memory: i64::try_from(options.memory.unwrap_or(MEMORY)).ok(),
            pids_limit: Some(MOST_PROCESSES),
            readonly_rootfs: Some(true),
            tmpfs: Some(HashMap::from([("/tmp".to_owned(), TMP.to_owned())])),
            nano_cpus: options.nano_cpus.and_then(|cpus| i64::try_from(cpus).ok()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            userns_mode: keeps_id.then(|| "keep-id".to_owned()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    })
}
