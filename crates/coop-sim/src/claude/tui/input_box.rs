//! The input box: typed text, and pastes that are shown short but kept whole.

/// Longer pastes are shown as a label.
const LONG_PASTE: usize = 800;
/// Pastes with more line ends than this are shown as a label too.
const TALL_PASTE: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct InputBox {
    pieces: Vec<Piece>,
    pastes: u32,
}

#[derive(Debug)]
enum Piece {
    Typed(String),
    Pasted { label: String, text: String },
}

impl InputBox {
    pub(crate) fn push(&mut self, c: char) {
        match self.pieces.last_mut() {
            Some(Piece::Typed(text)) => text.push(c),
            Some(Piece::Pasted { .. }) | None => self.pieces.push(Piece::Typed(c.to_string())),
        }
    }

    pub(crate) fn paste(&mut self, text: String) {
        let ends = text.matches('\n').count();
        if ends <= TALL_PASTE && text.len() <= LONG_PASTE {
            text.chars().for_each(|c| self.push(c));
            return;
        }
        self.pastes += 1;
        let label = match ends {
            0 => format!("[Pasted text #{}]", self.pastes),
            ends => format!("[Pasted text #{} +{ends} lines]", self.pastes),
        };
        self.pieces.push(Piece::Pasted { label, text });
    }

    /// Takes away the last character, or the last paste as a whole.
    pub(crate) fn backspace(&mut self) {
        if let Some(Piece::Typed(text)) = self.pieces.last_mut() {
            text.pop();
            if !text.is_empty() {
                return;
            }
        }
        self.pieces.pop();
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// What the screen shows.
    pub(crate) fn shown(&self) -> String {
        let shown = |piece: &Piece| match piece {
            Piece::Typed(text) => text.clone(),
            Piece::Pasted { label, .. } => label.clone(),
        };
        self.pieces.iter().map(shown).collect()
    }

    /// What is submitted; the box is empty afterwards.
    pub(crate) fn take(&mut self) -> String {
        let whole = |piece: Piece| match piece {
            Piece::Typed(text) | Piece::Pasted { text, .. } => text,
        };
        self.pieces.drain(..).map(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tall_paste_is_shown_short_and_submitted_whole() {
        let mut input = InputBox::default();
        let rows: Vec<String> = (0..40).map(|row| format!("row {row}")).collect();
        "see ".chars().for_each(|c| input.push(c));
        input.paste(rows.join("\n"));
        input.push('!');
        assert_eq!(input.shown(), "see [Pasted text #1 +39 lines]!");
        assert_eq!(input.take(), format!("see {}!", rows.join("\n")));
        assert!(input.is_empty());
    }

    #[test]
    fn backspace_takes_a_character_or_a_whole_paste() {
        let mut input = InputBox::default();
        input.paste("x".repeat(LONG_PASTE + 1));
        input.push('a');
        input.backspace();
        assert_eq!(input.shown(), "[Pasted text #1]");
        input.backspace();
        assert!(input.is_empty());
    }
}
