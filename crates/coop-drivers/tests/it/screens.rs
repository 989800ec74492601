//! Screens made of text.

use std::sync::Arc;

use coop_api::{Cursor, CursorShape, Line, Memo, Modes, Offset, Run, Screen, Seq, Size, Style};

/// Returns a screen with these rows, of a terminal that takes pastes. A recording has no cursor: Codex has it in its input, and
/// none while it asks.
pub(crate) fn screen<'a>(rows: impl IntoIterator<Item = &'a str>) -> Screen {
    let rows: Vec<_> = rows.into_iter().collect();
    let lines = rows.iter().map(|row| line(&[(row, Style::default())])).collect();
    let mut screen = of_lines(lines, Modes { bracketed_paste: true, ..Modes::default() });
    if let Some(at) = rows.iter().rposition(|row| row.starts_with('›')) {
        screen.cursor.row = u16::try_from(at).expect("small");
        screen.cursor.visible = !rows[at].starts_with("› 1.");
    }
    screen
}

/// Returns a row of stretches, each in its style.
pub(crate) fn line(parts: &[(&str, Style)]) -> Line {
    let run = |text: &str, style: &Style| Run {
        bytes: text.len() as u32,
        cells: text.chars().count() as u16,
        style: style.clone(),
    };
    Line {
        text: parts.iter().map(|(text, _)| *text).collect(),
        runs: parts.iter().map(|(text, style)| run(text, style)).collect(),
        wrapped: false,
        seq: Seq(1),
    }
}

pub(crate) fn of_lines(lines: Vec<Line>, modes: Modes) -> Screen {
    Screen {
        seq: Seq(1),
        offset: Offset(0),
        size: Size::DEFAULT,
        lines: lines.into_iter().map(Arc::new).collect(),
        cursor: Cursor {
            row: 0,
            col: 0,
            visible: true,
            shape: CursorShape::Block,
            blinking: false,
            pending_wrap: false,
        },
        modes,
        title: "".into(),
        title_count: 0,
        cwd: None,
        scrollback: 0,
        plain: Memo::default(),
        ansi: Memo::default(),
        styled: Memo::default(),
        message: Memo::default(),
    }
}
