//! What was told lately, by name. An agent may run for weeks, so only the newest of it is remembered; what is told again is
//! never that old.

use std::collections::{HashMap, VecDeque};

/// How many are remembered: far more than any agent tells again at once.
const KEPT: usize = 4096;

/// The newest of what there was, each with something that is known of it.
#[derive(Debug)]
pub(crate) struct Recent<V = ()> {
    known: HashMap<String, V>,
    /// Their names, oldest first.
    order: VecDeque<String>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { known: HashMap::new(), order: VecDeque::new() }
    }
}

impl<V> Recent<V> {
    /// Notes something, in place of what was known of it.
    pub(crate) fn set(&mut self, name: &str, value: V) {
        if self.known.insert(name.to_owned(), value).is_some() {
            return;
        }
        self.order.push_back(name.to_owned());
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.known.get(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }
}

impl Recent {
    /// Notes something, and tells whether it is new.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        let is_new = !self.contains(name);
        self.set(name, ());
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_known_and_no_more_are_kept() {
        let mut recent = Recent::default();
        let all = || (0..3 * KEPT).map(|number| number.to_string());
        for name in all() {
            assert!(recent.insert(&name) && !recent.insert(&name));
        }
        assert_eq!((recent.known.len(), recent.order.len()), (KEPT, KEPT));
        assert!(all().skip(2 * KEPT).all(|name| recent.contains(&name)));
        assert!(!recent.contains("0"));
    }

    #[test]
    fn what_is_known_of_something_may_change() {
        let mut recent = Recent::default();
        for value in [1, 2] {
            recent.set("a", value);
        }
        assert_eq!((recent.get("a"), recent.order.len()), (Some(&2), 1));
    }
}
