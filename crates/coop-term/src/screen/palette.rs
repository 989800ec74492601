//! The colours we answer with when a program asks; what a person sees is the viewer's theme.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Palette {
    changed: BTreeMap<Slot, [u8; 3]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
    Indexed(u8),
    Foreground,
    Background,
    Cursor,
}

impl Palette {
    pub(super) fn get(&self, slot: Slot) -> [u8; 3] {
        self.changed.get(&slot).copied().unwrap_or_else(|| default_color(slot))
    }

    pub(super) fn set(&mut self, slot: Slot, color: [u8; 3]) {
        self.changed.insert(slot, color);
    }

    pub(super) fn reset(&mut self, slot: Slot) {
        self.changed.remove(&slot);
    }

    pub(super) fn reset_indexed(&mut self) {
        self.changed.retain(|slot, _| !matches!(slot, Slot::Indexed(_)));
    }
}

/// Reads `#rgb`, `#rrggbb`, `rgb:r/g/b` with one to four digits each.
pub(super) fn parse_color(text: &str) -> Option<[u8; 3]> {
    let parts: Vec<&str> = if let Some(hex) = text.strip_prefix('#') {
        if !hex.is_ascii() || hex.is_empty() || hex.len() % 3 != 0 {
            return None;
        }
        let each = hex.len() / 3;
        (0..3).map(|n| &hex[n * each..(n + 1) * each]).collect()
    } else {
        text.strip_prefix("rgb:")?.split('/').collect()
    };
    let [r, g, b] = parts.as_slice() else { return None };
    Some([channel(r)?, channel(g)?, channel(b)?])
}

fn channel(digits: &str) -> Option<u8> {
    if digits.is_empty() || digits.len() > 4 {
        return None;
    }
    let value = u32::from_str_radix(digits, 16).ok()?;
    let most = (1 << (4 * digits.len() as u32)) - 1;
    Some((value * 255 / most) as u8)
}

fn default_color(slot: Slot) -> [u8; 3] {
    const SIXTEEN: [[u8; 3]; 16] = [
        [0, 0, 0],
        [205, 0, 0],
        [0, 205, 0],
        [205, 205, 0],
        [0, 0, 238],
        [205, 0, 205],
        [0, 205, 205],
        [229, 229, 229],
        [127, 127, 127],
        [255, 0, 0],
        [0, 255, 0],
        [255, 255, 0],
        [92, 92, 255],
        [255, 0, 255],
        [0, 255, 255],
        [255, 255, 255],
    ];
    match slot {
        Slot::Foreground | Slot::Cursor => [229, 229, 229],
        Slot::Background => [0, 0, 0],
        Slot::Indexed(n @ 0..=15) => SIXTEEN[usize::from(n)],
        Slot::Indexed(n @ 16..=231) => {
            let step = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
            let n = n - 16;
            [step(n / 36), step(n / 6 % 6), step(n % 6)]
        }
        Slot::Indexed(n) => [8 + 10 * (n - 232); 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_read_in_every_spelling() {
        for spelling in ["#f80", "#ff8800", "rgb:f/8/0", "rgb:ff/88/00", "rgb:ffff/8888/0000"] {
            assert_eq!(parse_color(spelling), Some([255, 136, 0]), "{spelling}");
        }
        for wrong in ["", "#", "#ff", "#zzz", "rgb:", "rgb:1/2", "rgb:1/2/3/4", "rgb:12345/0/0", "red", "#é0"] {
            assert_eq!(parse_color(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_cube_and_the_greys_are_xterms() {
        let palette = Palette::default();
        assert_eq!(palette.get(Slot::Indexed(16)), [0, 0, 0]);
        assert_eq!(palette.get(Slot::Indexed(196)), [255, 0, 0]);
        assert_eq!(palette.get(Slot::Indexed(232)), [8, 8, 8]);
        assert_eq!(palette.get(Slot::Indexed(255)), [238, 238, 238]);
    }
}
