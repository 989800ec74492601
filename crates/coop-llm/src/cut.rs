//! Long texts made short.

/// Leaves out the middle of a text that is longer than `most` bytes, and says how much that was. Characters stay whole.
pub(crate) fn cut_middle(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let head = floor(&text, most / 2);
    let tail = text.len() - most.div_ceil(2);
    let tail = (tail..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

/// Returns the last place at or before `at` where a character begins.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay() {
        assert_eq!(cut_middle("abc".into(), 3), "abc");
    }

    #[test]
    fn the_middle_of_long_ones_goes() {
        assert_eq!(cut_middle("abcdefghij".into(), 4), "ab\n[… 6 bytes left out …]\nij");
        assert_eq!(cut_middle("ääääää".into(), 5), "ä\n[… 8 bytes left out …]\nä");
        assert_eq!(cut_middle("ä".into(), 0), "\n[… 2 bytes left out …]\n");
    }
}
