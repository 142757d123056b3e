//! Makes text from outside safe for a terminal, and fits it: cuts it at the end or in the middle,
//! or breaks it into lines.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub use crate::domain::shown::{is_unsafe, one_line};

/// The mark of a cut.
const ELLIPSIS: &str = "…";

/// The least columns of a text that are shown, on a terminal of any width.
const COLUMNS_MIN: usize = 12;

/// Does what [`one_line`] does for a text of several lines, and keeps line ends and indentation.
pub fn lines(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' => Some('\n'),
        '\t' => Some(' '),
        c if is_unsafe(c) => None,
        c => Some(c),
    };
    text.chars().filter_map(safe).collect()
}

/// Formats a count: `1 status`, `3 statuses`.
pub fn counted(count: impl std::fmt::Display, one: &str, many: &str) -> String {
    let count = count.to_string();
    format!("{count} {}", if count == "1" { one } else { many })
}

/// Puts a mark before a text; nothing for an empty text.
pub fn marked(mark: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{mark}{text}") }
}

/// Adds notes in parentheses, unless they are empty.
pub fn with_notes(text: &str, notes: &str) -> String {
    let notes = if notes.is_empty() { String::new() } else { format!(" ({notes})") };
    format!("{text}{notes}").trim_start().to_string()
}

/// Cuts a text that starts at `column` so that the line fits the terminal.
pub fn fit(text: &str, width: Option<usize>, column: usize) -> String {
    let Some(width) = width else { return text.to_string() };
    let room = width.saturating_sub(column).max(COLUMNS_MIN);
    if text.width() <= room {
        return text.to_string();
    }
    format!("{}{ELLIPSIS}", head(text, room - 1).trim_end())
}

/// Cuts a text in the middle, so that its start and its end stay: `very-long…parts/10`.
pub fn middle(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_string();
    }
    let end = room.saturating_sub(1) / 2;
    let start = room.saturating_sub(1 + end);
    format!("{}{ELLIPSIS}{}", head(text, start), tail(text, end))
}

/// Breaks a text into lines of at most `room` columns: between words, and within a word that is
/// longer than a line.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(COLUMNS_MIN);
    if text.width() <= room {
        return vec![text.to_string()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let space = usize::from(!line.is_empty());
        if room < line.width() + space + word.width() && word.width() <= room {
            lines.push(std::mem::take(&mut line));
        } else if space == 1 {
            line.push(' ');
        }
        let mut rest = word;
        while room < line.width() + rest.width() {
            let part = head(rest, room.saturating_sub(line.width()));
            line.push_str(part);
            lines.push(std::mem::take(&mut line).trim_end().to_string());
            rest = &rest[part.len()..];
        }
        line.push_str(rest);
    }
    lines.push(line);
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// Formats a label, and a text that starts at `column` and continues beneath itself where it does
/// not fit.
pub fn labelled(label: &str, column: usize, text: &str, width: Option<usize>) -> String {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(column));
    let line = |(nth, line): (usize, String)| {
        let label = if nth == 0 { format!("  {label}") } else { String::new() };
        format!("{label:<column$}{line}").trim_end().to_string() + "\n"
    };
    wrap(&one_line(text), room).into_iter().enumerate().map(line).collect()
}

/// Returns the rows of a terminal that a painted line takes: a line that is too long continues in
/// the next row.
pub fn rows(line: &str, width: Option<usize>) -> usize {
    let mut parts = line.split("\x1b[");
    let start = parts.next().unwrap_or_default();
    // A colour sequence ends with its first letter.
    let painted = parts.filter_map(|part| part.split_once(|c: char| c.is_ascii_alphabetic()));
    let columns = start.width() + painted.map(|(_, text)| text.width()).sum::<usize>();
    width.map_or(1, |width| columns.div_ceil(width.max(1)).max(1))
}

/// Returns the start of a text that fits into `room` columns.
fn head(text: &str, room: usize) -> &str {
    first_beyond(text.char_indices(), room).map_or(text, |(at, _)| &text[..at])
}

/// Returns the end of a text that fits into `room` columns.
fn tail(text: &str, room: usize) -> &str {
    let cut = first_beyond(text.char_indices().rev(), room);
    cut.map_or(text, |(at, character)| &text[at + character.len_utf8()..])
}

fn first_beyond(
    mut characters: impl Iterator<Item = (usize, char)>,
    room: usize,
) -> Option<(usize, char)> {
    let mut used = 0;
    characters.find(|(_, character)| {
        used += character.width().unwrap_or(0);
        room < used
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines() {
        assert_eq!(lines("  a\u{2066}b\n\u{1b}[31mc\td\n"), "  ab\n[31mc d\n");
    }

    #[test]
    fn lines_are_cut_only_on_a_terminal_and_by_columns() {
        assert_eq!(fit("日本語の文字です", Some(22), 8), "日本語の文字…");
        assert_eq!(fit("日本語の文字です", Some(24), 8), "日本語の文字です");
        assert_eq!(fit("a much longer text", Some(10), 8), "a much long…");
        assert_eq!(fit("a much longer text", None, 8), "a much longer text");
    }

    #[test]
    fn a_long_line_takes_several_rows() {
        assert_eq!(rows("", Some(10)), 1);
        assert_eq!(rows("\x1b[31mblocked\x1b[0m  x", Some(10)), 1);
        assert_eq!(rows("\x1b[31mblocked\x1b[0m  日本", Some(10)), 2);
        assert_eq!(rows("as long as it gets", None), 1);
    }

    #[test]
    fn a_name_is_cut_in_its_middle() {
        assert_eq!(middle("very-long-application-of-parts/10", 18), "very-long…parts/10");
        assert_eq!(middle("web/0", 18), "web/0");
        assert_eq!(middle("日本語の文字です", 9), "日本…です");
    }

    #[test]
    fn nothing_is_lost_when_lines_are_broken() {
        let text = "the database refuses the password of user web, since yesterday";
        let broken = wrap(text, 20);
        assert!(broken.iter().all(|line| line.width() <= 20), "{broken:?}");
        assert_eq!(broken.join(" "), text);
        assert_eq!(wrap("short", 20), ["short"]);
        assert_eq!(wrap("日本語の文字です", 12), ["日本語の文字", "です"]);
        let word = "https://example.com/a/very/long/address/without/a/space";
        assert_eq!(
            wrap(&format!("see {word}"), 20).concat().replace(' ', ""),
            format!("see{word}")
        );
    }
}
