//! Which pane a session's name means.

use super::client::Client;
use crate::bridge::control::{Event, Line, PaneId, WindowId};
use crate::bridge::{BridgeError, Multiplexer};

/// The oldest tmux with pause, subscriptions, `-N` and `copy-mode -q`.
const OLDEST: (u32, u32) = (3, 2);

/// Where the session's active pane is.
pub(super) struct Place {
    pub(super) window: WindowId,
    pub(super) pane: PaneId,
    /// The session's other panes.
    pub(super) others: Vec<PaneId>,
}

impl Place {
    /// Asks tmux, and refuses one that is too old to go on with.
    pub(super) async fn find(client: &mut Client) -> Result<Self, BridgeError> {
        let format = "#{window_active}#{pane_active} #{window_id} #{pane_id} #{version}";
        client.send(&format!("list-panes -s -F \"{format}\"")).await?;
        let lines = loop {
            match client.next().await? {
                Event::Reply(reply) => break reply.unwrap_or_default(),
                Event::Exit { reason } => return Err(BridgeError::Refused { program: Multiplexer::Tmux, reason }),
                Event::Output { .. }
                | Event::Foreign(_)
                | Event::LayoutChanged { .. }
                | Event::Regrouped
                | Event::Subscription { .. } => {}
            }
        };
        Self::parse(&lines)?.ok_or(BridgeError::Protocol("a session without an active pane"))
    }

    fn parse(lines: &[Line]) -> Result<Option<Self>, BridgeError> {
        let (mut active, mut others) = (None, Vec::new());
        for line in lines {
            let mut words = line.splitn(4, |&byte| byte == b' ');
            let [Some(flags), Some(window), Some(pane), Some(version)] = [(); 4].map(|()| words.next()) else {
                continue;
            };
            if is_too_old(version) {
                return Err(BridgeError::TooOld(String::from_utf8_lossy(version).into_owned()));
            }
            let (Some(window), Some(pane)) = (WindowId::parse(window), PaneId::parse(pane)) else { continue };
            match flags {
                b"11" => active = Some((window, pane)),
                _ => others.push(pane),
            }
        }
        Ok(active.map(|(window, pane)| Self { window, pane, others }))
    }
}

/// Names like `master`, `next-3.6` or `openbsd-7.5` are newer than any number here.
fn is_too_old(version: &[u8]) -> bool {
    let mut numbers =
        version.split(|byte| !byte.is_ascii_digit()).map(|part| std::str::from_utf8(part).ok()?.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), minor) => (major, minor.unwrap_or(0)) < OLDEST,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Line> {
        text.lines().map(|line| line.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_active_pane_of_the_active_window_is_ours() {
        let place = Place::parse(&lines("10 @3 %4 3.3a\n01 @5 %6 3.3a\n11 @5 %7 3.3a")).unwrap().unwrap();
        assert_eq!((place.window.to_string(), place.pane.to_string()), ("@5".to_owned(), "%7".to_owned()));
        assert_eq!(place.others.iter().map(PaneId::to_string).collect::<Vec<_>>(), ["%4", "%6"]);
        assert!(Place::parse(&lines("10 @3 %4 3.3a")).unwrap().is_none());
    }

    #[test]
    fn only_a_tmux_known_to_be_old_is_refused() {
        for old in ["1.8", "2.9a", "3.0", "3.1c"] {
            assert!(is_too_old(old.as_bytes()), "{old}");
        }
        for new in ["3.2", "3.3a", "3.10", "4", "next-3.1", "master", "openbsd-7.5"] {
            assert!(!is_too_old(new.as_bytes()), "{new}");
        }
    }
}
