//! Which port a shim gets.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;

/// The ports of seed 002's backend.
const POOL: RangeInclusive<u16> = 9100..=9199;
/// Those it keeps for containers.
const CONTAINERS: RangeInclusive<u16> = 9200..=9299;

/// Where shims listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Each chooses for itself, and says which on the first line of its output.
    Any,
    /// Each is given the first that is free, for shims that do not say.
    Pool(RangeInclusive<u16>),
}

impl Ports {
    /// Returns the ports from 9100 to 9199.
    pub fn pool() -> Self {
        Self::Pool(POOL)
    }

    /// Returns the ports from 9200 to 9299.
    pub fn for_containers() -> Self {
        Self::Pool(CONTAINERS)
    }

    /// Returns a port for a shim: 0 if it chooses itself, none if all are taken.
    pub(crate) fn choose(&self, taken: &[u16]) -> Option<u16> {
        match self {
            Self::Any => Some(0),
            // Bound for a moment only: if somebody is faster after that, the shim does not start and says so.
            Self::Pool(ports) => ports
                .clone()
                .find(|port| !taken.contains(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_free_is_chosen_and_none_if_none_is() {
        // Not one that the system hands out: another process could get it in between.
        let mut ports = (28_000..32_000).cycle().skip(std::process::id() as usize % 4000);
        let busy = ports.find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()).expect("a port");
        let port = busy.local_addr().expect("it has one").port();
        assert_eq!(Ports::Pool(port..=port).choose(&[]), None);
        drop(busy);
        assert_eq!(Ports::Pool(port..=port).choose(&[]), Some(port));
        assert_eq!(Ports::Pool(port..=port).choose(&[port]), None);
        assert_eq!(Ports::Any.choose(&[]), Some(0));
    }
}
