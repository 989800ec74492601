//! coop's own agent: a model and tools, by `coop run --acp`.
//!
//! It is the program that the sidecar itself is, so there is nothing to install and no name to find it by: whoever wants it
//! says `--agent api`. It speaks ACP like others do.

use crate::acp;
use crate::driver::Runtime;
use crate::registry::Known;
use crate::tools::Unasked;

pub(crate) const KNOWN: Known = Known {
    name: "api",
    programs: &[],
    package: "",
    binaries: &[],
    tested: Some((env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_VERSION"))),
    runtimes: &[Runtime::Inproc],
    variables: acp::VARIABLES,
    folders: &[],
    files: &[],
    state_variable: Some("XDG_STATE_HOME"),
    asks_version: false,
    keys: &["COOP_API_KEY", "COBBLER_AGENT_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"],
    logins: &[],
    rules: include_str!("../rules/acp.toml"),
    reads: |_| Vec::new(),
    new: |_, launch| acp::driver(launch, &["--acp"]),
    tools: &[acp::TOOLS],
    never_asks: &[Unasked::Option(&["--allow"], "all")],
    modes: &[],
};
