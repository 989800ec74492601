//! `coop db`.

use std::io::{self, Write};

use anyhow::bail;

use super::cli::{Db, StateOption, StoreOption};
use super::state_path;

/// The store is looked at by ourselves, so that it can be saved also when no daemon starts with it any more.
pub(super) fn look_after(command: Db) -> anyhow::Result<i32> {
    let place = |state: &StateOption, store: &StoreOption| {
        let place = store.place(&state_path(state.state.as_deref())?)?;
        match place.file() {
            Some(path) if !path.exists() => bail!("there is no store at {}; `coop up` makes one", path.display()),
            Some(_) | None => Ok(place),
        }
    };
    match command {
        Db::Backup { state, store, file: to } => {
            let place = place(&state, &store)?;
            match place.file() {
                Some(path) => coop_fleet::store::back_up(path, &to)?,
                None => bail!(
                    "the store is in PostgreSQL, whose own tools save it: pg_dump --format=custom --file={} {place}",
                    to.display()
                ),
            }
        }
        Db::Check { state, store } => {
            let place = place(&state, &store)?;
            coop_fleet::store::check(&place)?;
            if place.file().is_none() {
                writeln!(io::stdout(), "every row of {place} can be read; pg_amcheck looks at how they are kept")?;
            }
        }
    }
    Ok(0)
}
