//! Which browsers have brought the token.
//!
//! What is kept of each is a hash of the token and of the value in its cookie, in memory and, if there is a file, there. So
//! whoever reads the file can log in with nothing of it, and another token makes all of it void.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coop_api::Token;
use ring::digest::{Context, SHA256};
use uuid::Uuid;

/// A browser that has not been here for so long has to bring the token again.
pub(super) const KEPT: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Browsers at a time; the one that was here longest ago goes first.
const MOST: usize = 1000;
/// How much later a browser is seen again before that is written down: not with every request.
const WRITTEN_AFTER: Duration = Duration::from_secs(60 * 60);

/// Which browsers have brought the token.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// When each was last here, in seconds since 1970, by its hash.
    known: Mutex<HashMap<String, u64>>,
    file: Option<PathBuf>,
    attempts: Mutex<Attempts>,
}

/// Wrong tokens at the login that are forgiven before each further one costs time.
const ATTEMPTS: u32 = 10;
/// How long it takes until one more attempt is free.
const ATTEMPT_AFTER: Duration = Duration::from_secs(1);

/// Logins that failed, as a bucket that empties with time.
#[derive(Debug, Default)]
struct Attempts {
    failed: u32,
    /// When the bucket was last emptied by one.
    since: Option<Instant>,
}

impl Attempts {
    fn is_free(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let over = now.saturating_duration_since(since).as_secs() / ATTEMPT_AFTER.as_secs();
        if over > 0 {
            self.failed = self.failed.saturating_sub(u32::try_from(over).unwrap_or(u32::MAX));
            self.since = Some(now);
        }
        self.failed < ATTEMPTS
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

impl Sessions {
    /// Returns those that a file has, which is kept up to date. One that cannot be read is an empty one.
    pub fn kept_in(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let read = |line: &str| {
            let (hash, seen) = line.split_once(' ')?;
            (hash.len() == 64).then_some(())?;
            Some((hash.to_owned(), seen.parse().ok()?))
        };
        let known = text.lines().filter_map(read).collect();
        Self(Arc::new(Inner { known: Mutex::new(known), file: Some(file.to_owned()), attempts: Mutex::default() }))
    }

    /// Tells whether a token may be tried now. Until then it is not looked at, so that guessing takes time.
    pub(super) fn may_try(&self) -> bool {
        self.attempts().is_free(Instant::now())
    }

    pub(super) fn count_failure(&self) {
        self.attempts().failed += 1;
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.0.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session and returns the value of its cookie.
    pub(super) fn begin(&self, token: &Token, now: SystemTime) -> String {
        let value = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let now = seconds(now);
        let mut known = self.lock();
        known.retain(|_, seen| now.saturating_sub(*seen) < KEPT.as_secs());
        if known.len() >= MOST
            && let Some(oldest) = known.iter().min_by_key(|(_, seen)| **seen).map(|(hash, _)| hash.clone())
        {
            known.remove(&oldest);
        }
        known.insert(hash(token, &value), now);
        self.keep(&known);
        value
    }

    pub(super) fn is_known(&self, token: &Token, value: &str, now: SystemTime) -> bool {
        let now = seconds(now);
        let mut known = self.lock();
        let Some(seen) = known.get_mut(&hash(token, value)).filter(|seen| now.saturating_sub(**seen) < KEPT.as_secs())
        else {
            return false;
        };
        // A clock that was set back makes nobody younger.
        let is_worth_it = now.saturating_sub(*seen) > WRITTEN_AFTER.as_secs();
        if is_worth_it {
            *seen = now;
            self.keep(&known);
        }
        true
    }

    pub(super) fn end(&self, token: &Token, value: &str) {
        let mut known = self.lock();
        if known.remove(&hash(token, value)).is_some() {
            self.keep(&known);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        // The map is whole between any two statements that hold the lock.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all of them down. Without that they last as long as this process.
    fn keep(&self, known: &HashMap<String, u64>) {
        let Some(file) = &self.0.file else { return };
        let lines: String = known.iter().fold(String::new(), |mut lines, (hash, seen)| {
            let _ = writeln!(lines, "{hash} {seen}");
            lines
        });
        if let Err(error) = replace(file, &lines) {
            tracing::warn!(file = %file.display(), %error, "who is logged in is not written down");
        }
    }
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?.write_all(text.as_bytes())?;
    fs::rename(new, file)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn hash(token: &Token, value: &str) -> String {
    let mut context = Context::new(&SHA256);
    // Neither has a NUL, so that no two pairs are the same bytes.
    for part in [token.expose(), "\0", value] {
        context.update(part.as_bytes());
    }
    context.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    #[test]
    fn wrong_tokens_cost_time_after_the_first_ten() {
        let begin = Instant::now();
        let after = |secs| begin + Duration::from_secs(secs);
        let mut attempts = Attempts::default();
        for _ in 0..ATTEMPTS {
            assert!(attempts.is_free(begin));
            attempts.failed += 1;
        }
        assert!(!attempts.is_free(begin) && !attempts.is_free(begin + ATTEMPT_AFTER / 2));
        assert!(attempts.is_free(after(1)));
        attempts.failed += 1;
        assert!(!attempts.is_free(after(1)) && attempts.is_free(after(60)));
        assert_eq!(attempts.failed, 0);
    }

    #[test]
    fn a_session_ends_by_itself_and_by_request() {
        let (sessions, token) = (Sessions::default(), token("t"));
        let now = SystemTime::now();
        let (one, other) = (sessions.begin(&token, now), sessions.begin(&token, now));
        assert!(one != other && one.len() == 64);
        assert!(sessions.is_known(&token, &one, now + KEPT / 2), "and from here on for as long again");
        assert!(sessions.is_known(&token, &one, now + KEPT));
        assert!(!sessions.is_known(&token, &other, now + KEPT));
        sessions.end(&token, &one);
        assert!(!sessions.is_known(&token, &one, now + KEPT));
        assert!(!sessions.is_known(&token, "", now));
    }

    #[test]
    fn the_oldest_browser_makes_room() {
        let (sessions, token) = (Sessions::default(), token("t"));
        let now = SystemTime::now();
        let first = sessions.begin(&token, now);
        let later = now + Duration::from_secs(1);
        for _ in 0..MOST {
            sessions.begin(&token, later);
        }
        assert!(!sessions.is_known(&token, &first, later));
        assert_eq!(sessions.lock().len(), MOST);
    }

    /// The file opens nothing, and not for another token.
    #[test]
    fn sessions_outlive_the_process_and_not_the_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("logins");
        let (mine, now) = (token("mine"), SystemTime::now());
        let sessions = Sessions::kept_in(&file);
        let value = sessions.begin(&mine, now);
        let ended = sessions.begin(&mine, now);
        sessions.end(&mine, &ended);
        let text = fs::read_to_string(&file).expect("it is written down");
        assert!(!text.contains(&value) && !text.contains("mine"), "{text}");
        assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
        let again = Sessions::kept_in(&file);
        assert!(again.is_known(&mine, &value, now));
        assert!(!again.is_known(&mine, &ended, now) && !again.is_known(&token("other"), &value, now));
        for line in text.lines() {
            let hash = line.split(' ').next().expect("a word");
            assert!(!again.is_known(&mine, hash, now), "what is in the file is no cookie");
        }
        fs::write(&file, "nonsense\n\u{0}").expect("written");
        assert!(!Sessions::kept_in(&file).is_known(&mine, &value, now));
    }
}
