//! coop's gRPC client, from the code the server commits.

#[allow(clippy::all, dead_code, unreachable_pub, clippy::unwrap_used, reason = "generated")]
#[rustfmt::skip]
mod proto {
    include!("../../coop-server/src/grpc/coop.v1.rs");
}

pub(crate) use proto::coop_client::CoopClient;
pub(crate) use proto::{OutputChunk, SendInputRequest, StreamOutputRequest};
