//! The kitty keyboard protocol's flags, kept per screen, and xterm's modifyOtherKeys.

use std::mem;

/// The protocol asks for a bound; a program that pushes more loses its oldest.
const MAX_STACK: usize = 16;
/// The flags that exist.
const KNOWN: u8 = 0b1_1111;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keyboard {
    flags: u8,
    stack: Vec<u8>,
    other_flags: u8,
    other_stack: Vec<u8>,
    pub(super) modify_other_keys: u8,
}

impl Keyboard {
    pub(super) fn flags(&self) -> u8 {
        self.flags
    }

    pub(super) fn set(&mut self, flags: u8, how: u16) {
        let flags = flags & KNOWN;
        match how {
            1 => self.flags = flags,
            2 => self.flags |= flags,
            3 => self.flags &= !flags,
            _ => {}
        }
    }

    pub(super) fn push(&mut self, flags: u8) {
        if self.stack.len() == MAX_STACK {
            self.stack.remove(0);
        }
        self.stack.push(self.flags);
        self.flags = flags & KNOWN;
    }

    pub(super) fn pop(&mut self, count: u16) {
        for _ in 0..count.min(MAX_STACK as u16 + 1) {
            self.flags = self.stack.pop().unwrap_or(0);
        }
    }

    pub(super) fn swap(&mut self) {
        mem::swap(&mut self.flags, &mut self.other_flags);
        mem::swap(&mut self.stack, &mut self.other_stack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_pushes_keeps_the_newest() {
        let mut keyboard = Keyboard::default();
        for n in 0..5000_u16 {
            keyboard.push((n % 32) as u8);
        }
        assert_eq!(keyboard.stack.len(), MAX_STACK);
        assert_eq!(keyboard.flags(), (4999 % 32) as u8);
        keyboard.pop(u16::MAX);
        assert_eq!(keyboard.flags(), 0);
    }

    #[test]
    fn each_screen_has_its_own_flags() {
        let mut keyboard = Keyboard::default();
        keyboard.push(1);
        keyboard.swap();
        assert_eq!(keyboard.flags(), 0);
        keyboard.set(5, 1);
        keyboard.swap();
        assert_eq!(keyboard.flags(), 1);
    }
}
