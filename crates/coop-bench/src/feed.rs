//! Feeds a recording to a terminal core and does nothing else, for callgrind.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::{Processor, StdSyncHandler};
use clap::ValueEnum;

/// What turns bytes into a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Core {
    Coop,
    Alacritty,
    #[cfg(feature = "rio")]
    Rio,
}

/// What the kernel gives at once, and so what a screen is fed with while a child floods.
const PIECE: usize = 4 * 1024;
const COLS: usize = 200;
const ROWS: usize = 50;
/// As many lines as coop keeps.
const SCROLLBACK: usize = 1000;

pub(crate) fn feed(core: Core, file: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(file)?;
    match core {
        Core::Coop => feed_coop(&bytes),
        Core::Alacritty => feed_alacritty(&bytes),
        #[cfg(feature = "rio")]
        Core::Rio => feed_rio(&bytes),
    }
    Ok(())
}

fn feed_coop(bytes: &[u8]) {
    let mut screen = coop_term::Screen::new(coop_api::Size::DEFAULT);
    for piece in bytes.chunks(PIECE) {
        screen.feed(black_box(piece));
    }
    black_box(&screen);
}

struct Size;

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        ROWS
    }

    fn screen_lines(&self) -> usize {
        ROWS
    }

    fn columns(&self) -> usize {
        COLS
    }
}

fn feed_alacritty(bytes: &[u8]) {
    let config = Config { scrolling_history: SCROLLBACK, ..Config::default() };
    let mut term = Term::new(config, &Size, VoidListener);
    let mut parser = Processor::<StdSyncHandler>::new();
    for piece in bytes.chunks(PIECE) {
        parser.advance(&mut term, black_box(piece));
    }
    black_box(&term);
}

#[cfg(feature = "rio")]
fn feed_rio(bytes: &[u8]) {
    use rio_vt::ansi::CursorShape;
    use rio_vt::crosswords::{Crosswords, CrosswordsSize};
    use rio_vt::event::{VoidListener, WindowId};
    use rio_vt::performer::handler::Processor;

    let size = CrosswordsSize::new(COLS, ROWS);
    let mut term = Crosswords::new(size, CursorShape::Block, VoidListener, WindowId::from(0), 0, SCROLLBACK);
    let mut parser = Processor::default();
    for piece in bytes.chunks(PIECE) {
        parser.advance(&mut term, black_box(piece));
    }
    black_box(&term);
}
