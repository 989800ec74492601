//! The byte path: any bytes, in any pieces, with resizes between.

use coop_api::Size;
use coop_term::Screen;

/// Draws bytes on a screen, and checks the screen and its dump.
pub fn fuzz_screen(data: &[u8]) {
    let Ok(size) = Size::new(20, 6) else { return };
    let mut screen = Screen::new(size);
    for piece in data.split_inclusive(|byte| *byte == 0xfe) {
        // What ends a piece would be no UTF-8; what comes before it says how to resize.
        if let [rest @ .., cols, rows, 0xfe] = piece {
            screen.feed(rest);
            if let Ok(size) = Size::new(u32::from(*cols), u32::from(*rows)) {
                screen.resize(size);
            }
        } else {
            screen.feed(piece);
        }
        screen.take_replies();
    }
    let shown = screen.snapshot();
    assert_eq!(shown.lines.len(), usize::from(shown.size.rows()));
    assert!(shown.lines.iter().all(|line| line.cells() <= usize::from(shown.size.cols())));
    assert!(shown.cursor.row < shown.size.rows() && shown.cursor.col < shown.size.cols());
    screen.end_frame();
    let mut copy = Screen::new(screen.size());
    copy.feed(&screen.dump());
    let (before, after) = (screen.snapshot(), copy.snapshot());
    let text = |screen: &coop_api::Screen| screen.lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
    assert_eq!(text(&before), text(&after), "a dump reloads equal");
    assert_eq!((before.cursor, before.modes), (after.cursor, after.modes));
}
