use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cell's colour as the child chose it; the viewer's theme decides what the first two look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// The theme's foreground or background.
    #[default]
    Default,
    /// One of the 256 palette colours.
    Indexed(u8),
    /// An exact colour: red, green, blue.
    Rgb([u8; 3]),
}

impl Color {
    fn is_default(&self) -> bool {
        *self == Self::Default
    }
}

/// How a run of text is underlined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Underline {
    #[default]
    None,
    Single,
    Double,
    Curly,
    Dotted,
    Dashed,
}

impl Underline {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// How a run of cells looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Style {
    #[serde(skip_serializing_if = "Color::is_default")]
    pub fg: Color,
    #[serde(skip_serializing_if = "Color::is_default")]
    pub bg: Color,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bold: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dim: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub italic: bool,
    #[serde(skip_serializing_if = "Underline::is_none")]
    pub underline: Underline,
    #[serde(skip_serializing_if = "Color::is_default")]
    pub underline_color: Color,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inverse: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strike: bool,
    /// The target of an OSC 8 hyperlink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Arc<str>>,
}

impl Style {
    /// Returns the control sequence that turns this style on, from whatever was on before.
    pub fn sgr(&self) -> String {
        let mut codes = String::from("\x1b[0");
        let flags = [
            (self.bold, ";1"),
            (self.dim, ";2"),
            (self.italic, ";3"),
            (self.inverse, ";7"),
            (self.hidden, ";8"),
            (self.strike, ";9"),
        ];
        for (on, code) in flags {
            if on {
                codes.push_str(code);
            }
        }
        codes.push_str(match self.underline {
            Underline::None => "",
            Underline::Single => ";4",
            Underline::Double => ";4:2",
            Underline::Curly => ";4:3",
            Underline::Dotted => ";4:4",
            Underline::Dashed => ";4:5",
        });
        self.fg.push_sgr(&mut codes, 38);
        self.bg.push_sgr(&mut codes, 48);
        self.underline_color.push_sgr(&mut codes, 58);
        codes.push('m');
        codes
    }
}

impl Color {
    /// Appends the codes that select this colour; `base` is 38 for the text, 48 behind it, 58 for the underline.
    fn push_sgr(self, codes: &mut String, base: u8) {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Default => Ok(()),
            Self::Indexed(n) if n < 8 && base != 58 => write!(codes, ";{}", base - 8 + n),
            Self::Indexed(n) if n < 16 && base != 58 => write!(codes, ";{}", base + 52 + n - 8),
            Self::Indexed(n) if base == 58 => write!(codes, ";58:5:{n}"),
            Self::Indexed(n) => write!(codes, ";{base};5;{n}"),
            Self::Rgb([r, g, b]) if base == 58 => write!(codes, ";58:2::{r}:{g}:{b}"),
            Self::Rgb([r, g, b]) => write!(codes, ";{base};2;{r};{g};{b}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sgr_names_every_attribute() {
        let style = Style { bold: true, fg: Color::Indexed(1), bg: Color::Indexed(12), ..Style::default() };
        assert_eq!(style.sgr(), "\x1b[0;1;31;104m");
        let style = Style { underline: Underline::Curly, underline_color: Color::Rgb([1, 2, 3]), ..Style::default() };
        assert_eq!(style.sgr(), "\x1b[0;4:3;58:2::1:2:3m");
        let style = Style { fg: Color::Indexed(200), bg: Color::Rgb([9, 8, 7]), ..Style::default() };
        assert_eq!(style.sgr(), "\x1b[0;38;5;200;48;2;9;8;7m");
        assert_eq!(Style::default().sgr(), "\x1b[0m");
    }
}
