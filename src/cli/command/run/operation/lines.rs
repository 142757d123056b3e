//! The last lines that a command wrote, for progress and for the error of a failure.

use std::collections::VecDeque;

use crate::cli::render::one_line;

/// Lines that are kept.
const LINES_MAX: usize = 40;
/// Bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 1_024;

/// The last lines of a stream.
#[derive(Debug, Default)]
pub struct Lines {
    kept: VecDeque<String>,
    /// The beginning of a line.
    begun: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes. A line also ends with a carriage return, as those of a progress bar.
    pub fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(),
                byte if self.begun.len() < LINE_BYTES_MAX => self.begun.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = one_line(&String::from_utf8_lossy(&self.begun));
        self.begun.clear();
        if line.trim().is_empty() {
            return;
        }
        if LINES_MAX <= self.kept.len() {
            self.kept.pop_front();
        }
        self.kept.push_back(line.trim().to_string());
    }

    /// Takes the end of the stream.
    pub fn finish(&mut self) {
        self.end_line();
    }

    /// Returns the last line.
    pub fn last(&self) -> Option<&str> {
        self.kept.back().map(String::as_str)
    }

    /// Returns the lines, the oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }
}

/// Cuts a text at a character.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_last_with_words() {
        let mut lines = Lines::default();
        assert_eq!(lines.last(), None);
        lines.take(b"one\ntw");
        assert_eq!(lines.last(), Some("one"));
        lines.take(b"o\r\n\n  \nthree");
        assert_eq!(lines.last(), Some("two"));
        lines.finish();
        assert_eq!(lines.all().collect::<Vec<_>>(), ["one", "two", "three"]);
    }

    #[test]
    fn lines_without_an_end_are_bounded() {
        let mut lines = Lines::default();
        lines.take(&vec![b'x'; 100_000]);
        lines.finish();
        assert_eq!(lines.last().map(str::len), Some(LINE_BYTES_MAX));
        for number in 0..1_000 {
            lines.take(format!("{number}\n").as_bytes());
        }
        assert_eq!((lines.all().count(), lines.last()), (LINES_MAX, Some("999")));
    }

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!((cut("aé", 2), cut("aé", 3), cut("aé", 9)), ("a", "aé", "aé"));
    }
}
