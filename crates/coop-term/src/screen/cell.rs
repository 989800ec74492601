//! One cell of the grid: sixteen bytes without a pointer, so that clearing and copying rows is what memory can do.

use std::collections::HashMap;
use std::sync::Arc;

use alacritty_terminal::grid::{Grid, GridCell};
use alacritty_terminal::term::cell::{Flags, ResetDiscriminant};
use coop_api::Color;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) c: char,
    pub(super) fg: Ink,
    pub(super) bg: Ink,
    pub(super) flags: Flags,
    /// What few cells have: see [`Extras`].
    pub(super) extra: ExtraId,
}

pub(super) const BLANK: Cell =
    Cell { c: ' ', fg: Ink::DEFAULT, bg: Ink::DEFAULT, flags: Flags::empty(), extra: ExtraId::NONE };

impl Default for Cell {
    fn default() -> Self {
        BLANK
    }
}

impl Cell {
    /// A blank in this background.
    pub(super) fn blank(bg: Ink) -> Self {
        Self { bg, ..BLANK }
    }
}

impl GridCell for Cell {
    fn is_empty(&self) -> bool {
        const SHOWN: Flags = Flags::INVERSE
            .union(Flags::ALL_UNDERLINES)
            .union(Flags::STRIKEOUT)
            .union(Flags::WRAPLINE)
            .union(Flags::WIDE_CHAR_SPACER)
            .union(Flags::LEADING_WIDE_CHAR_SPACER);
        self.c == ' '
            && self.bg == Ink::DEFAULT
            && self.fg == Ink::DEFAULT
            && !self.flags.intersects(SHOWN)
            && self.extra == ExtraId::NONE
    }

    fn reset(&mut self, template: &Self) {
        // One store. Callers hand over what is to be there: see `with_blank`.
        *self = *template;
    }

    fn flags(&self) -> &Flags {
        &self.flags
    }

    fn flags_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}

impl ResetDiscriminant<Ink> for Cell {
    fn discriminant(&self) -> Ink {
        self.bg
    }
}

/// A colour in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ink(u32);

impl Ink {
    pub(super) const DEFAULT: Self = Self(0);
    const INDEXED: u32 = 1 << 24;
    const RGB: u32 = 2 << 24;

    pub(super) fn indexed(n: u8) -> Self {
        Self(Self::INDEXED | u32::from(n))
    }

    pub(super) fn rgb(r: u8, g: u8, b: u8) -> Self {
        Self(Self::RGB | u32::from_be_bytes([0, r, g, b]))
    }

    pub(super) fn color(self) -> Color {
        let [_, r, g, b] = self.0.to_be_bytes();
        match self.0 & (0xff << 24) {
            Self::INDEXED => Color::Indexed(b),
            Self::RGB => Color::Rgb([r, g, b]),
            _ => Color::Default,
        }
    }
}

/// Names an [`Extra`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExtraId(u16);

impl ExtraId {
    pub(super) const NONE: Self = Self(0);
}

/// What few cells have beside a character and colours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Extra {
    /// Characters without a width of their own that go with the cell's.
    pub(super) marks: String,
    pub(super) link: Option<Arc<str>>,
    pub(super) underline: Option<UnderlineInk>,
}

/// The colour of an underline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct UnderlineInk(pub(super) Ink);

/// What all extras together may take, about.
const MAX_EXTRA_BYTES: usize = 16 * 1024 * 1024;
/// So many new extras, or bytes of them, are worth looking through all cells for those that are no longer used.
const MIN_GROWTH: Amount = Amount { count: 4096, bytes: 1024 * 1024 };

/// Every extra that some cell has, once, and some that none has any more.
#[derive(Debug, Default)]
pub(super) struct Extras {
    ids: HashMap<Extra, ExtraId>,
    known: HashMap<ExtraId, Extra>,
    next: u16,
    free: Vec<ExtraId>,
    /// How much was in use when that was last looked for.
    kept: Amount,
    /// How much was asked for since, also in vain.
    new: Amount,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    count: usize,
    bytes: usize,
}

impl Amount {
    fn add(&mut self, extra: &Extra) {
        self.count += 1;
        self.bytes += size_of::<Extra>() + extra.marks.len() + extra.link.as_ref().map_or(0, |link| link.len());
    }
}

impl Extras {
    pub(super) fn get(&self, id: ExtraId) -> Option<&Extra> {
        if id == ExtraId::NONE { None } else { self.known.get(&id) }
    }

    /// Tells whether it is time for `keep_only`: when there may be twice as much as is in use, or there is no room. After
    /// a look in vain the next is not soon.
    pub(super) fn are_many(&self) -> bool {
        let full = self.known.len() >= usize::from(u16::MAX) || self.kept.bytes + self.new.bytes > MAX_EXTRA_BYTES;
        let in_use = if full { Amount::default() } else { self.kept };
        self.new.count >= in_use.count.max(MIN_GROWTH.count) || self.new.bytes >= in_use.bytes.max(MIN_GROWTH.bytes)
    }

    /// Returns the id of an extra, or nothing when there is no room.
    pub(super) fn intern(&mut self, extra: Extra) -> Option<ExtraId> {
        if extra == Extra::default() {
            return Some(ExtraId::NONE);
        }
        if let Some(id) = self.ids.get(&extra) {
            return Some(*id);
        }
        self.new.add(&extra);
        if self.kept.bytes + self.new.bytes > MAX_EXTRA_BYTES {
            return None;
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.next = self.next.checked_add(1)?;
                ExtraId(self.next)
            }
        };
        self.ids.insert(extra.clone(), id);
        self.known.insert(id, extra);
        Some(id)
    }

    /// Forgets all but these.
    pub(super) fn keep_only(&mut self, used: &[bool]) {
        let free = &mut self.free;
        self.known.retain(|id, _| {
            let keep = used.get(usize::from(id.0)).copied().unwrap_or(false);
            if !keep {
                free.push(*id);
            }
            keep
        });
        self.ids.retain(|_, id| used.get(usize::from(id.0)).copied().unwrap_or(false));
        self.new = Amount::default();
        self.kept = Amount::default();
        self.known.values().for_each(|extra| self.kept.add(extra));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns a place for every id, to mark those in use.
    pub(super) fn unmarked(&self) -> Vec<bool> {
        vec![false; usize::from(self.next) + 1]
    }
}

/// Marks the extra of a cell as in use.
pub(super) fn mark(used: &mut [bool], cell: &Cell) {
    if let Some(place) = used.get_mut(usize::from(cell.extra.0)) {
        *place = true;
    }
}

/// Does something that clears rows: in the cursor's background, without the rest of its looks.
pub(super) fn with_blank(grid: &mut Grid<Cell>, clear: impl FnOnce(&mut Grid<Cell>)) {
    let template = grid.cursor.template;
    grid.cursor.template = Cell::blank(template.bg);
    clear(grid);
    grid.cursor.template = template;
}
