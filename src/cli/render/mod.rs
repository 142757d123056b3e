//! Answers as text: pure functions of messages, the moment and the screen.

pub mod doctor;
pub mod faults;
pub mod log;
pub mod operation;
pub mod paint;
pub mod status;
pub mod table;
pub mod time;
pub mod why;

/// Where the text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns of the terminal; absent when it is none, and nothing is cut.
    pub width: Option<usize>,
    /// Whether to colour.
    pub color: bool,
}

impl Screen {
    /// A file or a pipe.
    pub const PLAIN: Screen = Screen { width: None, color: false };
}

/// Puts a text from outside on one line: what a worker reports must not move the cursor.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}')
        .filter(|part| !part.is_empty())
        .collect();
    words.join(" ").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_cannot_move_the_cursor() {
        assert_eq!(one_line("a\r\nb\x1b[2Jc\u{9b}31m "), "a b [2Jc 31m");
    }
}
