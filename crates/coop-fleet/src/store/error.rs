use super::db::Trouble;
use super::place::Place;

/// Why something is not kept, or not known.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no room. Nothing of what was to be written is.
    #[error("there is no room for {place}; free some and try again. Nothing was written")]
    Full {
        /// Where.
        place: Place,
    },
    /// What is there is not what was written.
    #[error(
        "{place} is damaged: {detail}. It was not changed; put a backup in its place, or move it away to begin anew"
    )]
    Damaged {
        /// Where.
        place: Place,
        /// What does not fit.
        detail: String,
    },
    /// A later version has written it.
    #[error("{place} was written by a later version of coop (format {found}, this one knows {known})")]
    Newer {
        /// Where.
        place: Place,
        /// Its format.
        found: u32,
        /// The latest that is known here.
        known: u32,
    },
    /// Somebody else writes, for too long.
    #[error("another program has {place} locked; is another coop running?")]
    Locked {
        /// Where.
        place: Place,
    },
    /// Another daemon has it.
    #[error("{place} is used by {by}; there is one daemon for a store")]
    Taken {
        /// Where.
        place: Place,
        /// By whom.
        by: String,
    },
    /// Its server cannot be reached.
    #[error("{place} cannot be reached: {why}")]
    Lost {
        /// Where.
        place: Place,
        /// What was seen.
        why: String,
    },
    /// There is no such agent, or nothing says what is to be done about it.
    #[error("no agent {agent} is defined")]
    Undefined {
        /// Which.
        agent: String,
    },
    /// Anything else that the database says.
    #[error("cannot use {place}: {said}")]
    Sql {
        /// Where.
        place: Place,
        /// What it says.
        said: String,
    },
}

impl StoreError {
    pub(super) fn of(place: &Place, trouble: Trouble) -> Self {
        let place = place.clone();
        match trouble {
            Trouble::Full => Self::Full { place },
            Trouble::Damaged(detail) => Self::Damaged { place, detail },
            Trouble::Locked => Self::Locked { place },
            Trouble::Taken(by) => Self::Taken { place, by },
            Trouble::Lost(why) => Self::Lost { place, why },
            Trouble::Other(said) => Self::Sql { place, said },
        }
    }
}
