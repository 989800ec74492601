use std::str::FromStr;
#[derive(Clone, Debug)]
pub(crate) enum Target { Tmux(String), Screen(String) }
impl FromStr for Target { type Err = BridgeError; fn from_str(s:&str)->Result<Self,BridgeError>{ Ok(Target::Tmux(s.into())) } }
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub(crate) struct BridgeError;
pub(crate) async fn run(_: Target) -> Result<i32, BridgeError> { Ok(0) }
