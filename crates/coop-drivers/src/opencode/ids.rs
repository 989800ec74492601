//! Names as OpenCode's server makes them: a prefix, twelve digits of time, and fourteen characters of chance.
//!
//! Messages are in the order of their names, and a turn runs only if the newest message is the user's. So a message that
//! we name has the newest time that was heard of, which is after everything there is and before the answer to it. A
//! message that comes twice under one name is one message: it can be sent again without harm.

/// What shows that we have made a name; it sorts behind all that is made at the same time.
const MARK: &str = "zzCOOP";
/// How many digits of time a name has.
const DIGITS: usize = 12;

/// Returns the time in a name, if it has one.
pub(super) fn time(id: &str) -> Option<&str> {
    let (_, rest) = id.split_once('_')?;
    let digits = rest.get(..DIGITS)?;
    digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(digits)
}

/// Returns a name for something new; equal things have equal names.
pub(super) fn name(prefix: &str, time: &str, content: &str) -> String {
    format!("{prefix}_{time}{MARK}{:08x}", hash(content))
}

/// Returns a name for a conversation. Those sort the other way round, the newest first.
pub(super) fn session(time: &str, run: &str) -> String {
    let digits: String = time.chars().filter_map(|c| char::from_digit(15 - c.to_digit(16)?, 16)).collect();
    name("ses", &digits, run)
}

/// Tells whether we have made a name.
pub(super) fn is_ours(id: &str) -> bool {
    id.contains(MARK)
}

/// Returns a number for a text, by FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_after_what_there_is_and_before_what_will_be() {
        let newest = time("evt_1dfc9811c001QRAjG1G7e8rNBX").unwrap();
        let ours = name("msg", newest, "hello");
        assert_eq!(ours, "msg_1dfc9811c001zzCOOP4f9f2cab");
        assert!("msg_1dfc9811c001yHk0ZZZZZZZZZZ" < ours.as_str() && ours.as_str() < "msg_1dfc9811c002000000000");
        assert!(is_ours(&ours) && !is_ours("msg_1dfc9811c001yHk0ZZZZZZZZZZ"));
        assert_eq!(session(newest, "run")[..16], *"ses_e20367ee3ffe");
        assert_eq!(time("hello"), None);
    }
}
