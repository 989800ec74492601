//! Which tools an agent uses without asking: each agent kind's own names for the modes of [`PermissionMode`], and the words of
//! its command line that start it in one.

use coop_api::PermissionMode;

/// A permission mode of one agent kind.
#[derive(Clone, Copy, Debug)]
pub struct OwnMode {
    /// The mode.
    pub mode: PermissionMode,
    /// What the agent calls it where it reports it.
    pub names: &'static [&'static str],
    /// What starts the agent in it. An option and its value are one word: `--mode=value`.
    pub words: &'static [&'static str],
}

/// Returns the mode that an agent reports by this name.
pub(crate) fn by_name(modes: &[OwnMode], name: &str) -> Option<PermissionMode> {
    modes.iter().find(|own| own.names.contains(&name)).map(|own| own.mode)
}

/// Returns the mode that these arguments start an agent in, if they say so.
pub(crate) fn of_args(modes: &[OwnMode], args: &[String]) -> Option<PermissionMode> {
    let args: Vec<&str> = args.iter().map(String::as_str).take_while(|arg| *arg != "--").collect();
    let has = |word: &&str| {
        let apart =
            word.split_once('=').is_some_and(|(option, value)| args.windows(2).any(|pair| pair == [option, value]));
        apart || args.contains(word)
    };
    let fits = modes.iter().filter(|own| !own.words.is_empty() && own.words.iter().all(has));
    // Of two that fit, the one that more words ask for.
    fits.max_by_key(|own| own.words.len()).map(|own| own.mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::KNOWN;

    #[test]
    fn the_words_of_a_mode_start_the_agent_in_it_and_its_names_are_its_own() {
        for known in KNOWN {
            for own in known.modes {
                let args: Vec<_> = own.words.iter().map(|word| (*word).to_owned()).collect();
                let expected = Some(own.mode).filter(|_| !args.is_empty());
                assert_eq!(of_args(known.modes, &args), expected, "{}: {args:?}", known.name);
                let apart: Vec<_> = args.iter().flat_map(|word| word.split('=').map(str::to_owned)).collect();
                assert_eq!(of_args(known.modes, &apart), expected, "{}: {apart:?}", known.name);
                assert!(own.names.iter().all(|name| by_name(known.modes, name) == Some(own.mode)), "{}", known.name);
            }
        }
        assert_eq!(of_args(KNOWN[0].modes, &["--".to_owned(), "--permission-mode=plan".to_owned()]), None);
    }
}
