//! Finding agents by what was said.

use std::collections::BTreeMap;

use coop_api::{AgentId, Event, EventBody, Turn};

use super::db::{Row, Value, parse};
use super::{Store, StoreError};

/// How many events are looked at, the newest: nobody else is served meanwhile.
const NEWEST: u64 = 200_000;
/// How many of them that may have it are read.
const READ: u32 = 5000;
/// How many characters of a message are shown on each side of what was looked for.
const AROUND: usize = 60;

/// What agents were told or said, with the number of each, the last first.
pub type Quotes = BTreeMap<AgentId, Vec<(u64, String)>>;

impl Store {
    /// Finds what agents were told or said with this text in it, whatever its case.
    pub fn search(&self, text: &str) -> Result<Quotes, StoreError> {
        // The patterns only spare reading the rest; what they find is looked at. Letters that JSON or Unicode may write in
        // more than one way stand for anything.
        let plain =
            |char: char| if char.is_ascii_alphanumeric() || char == ' ' { char.to_ascii_lowercase() } else { '%' };
        let pattern = format!("%{}%", text.chars().map(plain).collect::<String>());
        let sql = "SELECT agent, event, id FROM events WHERE id > ?1 AND lower(event) LIKE ?2 \
                   AND (event LIKE '%\"message\"%' OR event LIKE '%\"turn\"%') ORDER BY id DESC LIMIT ?3";
        let oldest = self.newest()?.saturating_sub(NEWEST);
        let read = |row: &mut Row| Ok((AgentId(row.text(0)?), parse(&row.text(1)?)?, row.number(2)?.unsigned_abs()));
        let found: Vec<(AgentId, Event, u64)> = self.read(|db| {
            let values = [oldest.into(), pattern.as_str().into(), Value::Number(READ.into())];
            db.rows(sql, &values)?.iter_mut().map(read).collect()
        })?;
        let mut parts = Quotes::new();
        for (agent, event, id) in found {
            let said = match event.body {
                EventBody::Message(message) => Some(message.text),
                EventBody::Turn(Turn::Began { prompt }) => prompt,
                _ => None,
            };
            if let Some(part) = said.and_then(|said| around(&said, &text.to_lowercase())) {
                parts.entry(agent).or_default().push((id, part));
            }
        }
        Ok(parts)
    }
}

/// Returns the part of a text that has this in it, on one line.
fn around(text: &str, wanted: &str) -> Option<String> {
    let line = text.lines().find(|line| line.to_lowercase().contains(wanted))?;
    let lower = line.to_lowercase();
    let before = lower[..lower.find(wanted)?].chars().count();
    let from = before.saturating_sub(AROUND);
    let part: String = line.chars().skip(from).take(before - from + wanted.chars().count() + AROUND).collect();
    Some(part.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_around_a_word_is_shown() {
        let long = format!("first line\n{} the Parser is {}", "a".repeat(200), "b".repeat(200));
        let part = around(&long, "parser").expect("it is there");
        assert!(part.contains("the Parser is") && part.chars().count() <= 2 * AROUND + 6, "{part}");
        assert_eq!(around("İstanbul and more", "and").as_deref(), Some("İstanbul and more"));
        assert_eq!(around("nothing", "else"), None);
    }
}
