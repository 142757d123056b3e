//! Tables without borders, as `juju status` prints them: two spaces between columns, the last
//! column cut to the terminal.

use unicode_width::UnicodeWidthChar;
use unicode_width::UnicodeWidthStr;

use crate::cli::render::Screen;
use crate::cli::render::one_line;
use crate::cli::render::paint::Paint;

const GAP: usize = 2;

/// However narrow the terminal, so much of the last column is shown.
const LAST_COLUMN_MIN: usize = 12;

/// One text in a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// A coloured text.
    pub fn painted(text: impl AsRef<str>, paint: Paint) -> Cell {
        Cell { text: one_line(text.as_ref()), paint }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::painted(text, Paint::None)
    }
}

enum Row {
    Cells(Vec<Cell>),
    /// Belongs to the row before it; indented, not in columns.
    Note(String),
}

/// Rows under a header.
pub struct Table {
    header: Vec<Cell>,
    right_aligned: Vec<usize>,
    rows: Vec<Row>,
}

impl Table {
    /// An empty table.
    pub fn new(header: &[&str]) -> Table {
        Table {
            header: header.iter().map(Cell::from).collect(),
            right_aligned: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Aligns the column of this title to the right.
    pub fn right(mut self, title: &str) -> Table {
        let at = self.header.iter().position(|cell| cell.text == title);
        self.right_aligned.extend(at);
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a line that belongs to the last row.
    pub fn note(&mut self, text: &str) {
        self.rows.push(Row::Note(one_line(text)));
    }

    /// Whether there is a row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, each line ended.
    pub fn render(&self, screen: Screen) -> String {
        let widths = self.widths();
        let mut text = self.line(&self.header, &widths, screen);
        for row in &self.rows {
            text.push_str(&match row {
                Row::Cells(cells) => self.line(cells, &widths, screen),
                Row::Note(note) => {
                    // Two further in than the second column, so that it reads as part of the row.
                    let indent = widths.first().map_or(0, |first| first + GAP) + GAP;
                    format!("{}{}\n", " ".repeat(indent), fit(note, screen.width, indent))
                }
            });
        }
        text
    }

    /// Of every column but the last, which nothing follows.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|c| c.text.width()).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = (*width).max(cell.text.width());
                }
            }
        }
        widths
    }

    fn line(&self, cells: &[Cell], widths: &[usize], screen: Screen) -> String {
        let mut line = String::new();
        let mut column = 0;
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if at + 1 == widths.len() {
                let text = fit(&cell.text, screen.width, column);
                line.push_str(&cell.paint.apply(&text, screen.color));
                break;
            }
            let padding = " ".repeat(width - cell.text.width().min(*width));
            let painted = cell.paint.apply(&cell.text, screen.color);
            if self.right_aligned.contains(&at) {
                line.push_str(&padding);
                line.push_str(&painted);
            } else {
                line.push_str(&painted);
                line.push_str(&padding);
            }
            line.push_str(&" ".repeat(GAP));
            column += width + GAP;
        }
        format!("{}\n", line.trim_end())
    }
}

/// Cuts what starts at `column` so that the line fits the terminal.
pub fn fit(text: &str, width: Option<usize>, column: usize) -> String {
    let Some(width) = width else {
        return text.to_string();
    };
    let room = width.saturating_sub(column).max(LAST_COLUMN_MIN);
    if text.width() <= room {
        return text.to_string();
    }
    let mut cut = String::new();
    let mut used = 1; // of the ellipsis
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if room < used {
            break;
        }
        cut.push(character);
    }
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_table() -> Table {
        let mut table = Table::new(&["App", "Scale", "Message"]).right("Scale");
        table.row(vec![Cell::painted("web", Paint::Green), "10/10".into(), "".into()]);
        table.row(vec!["データベース".into(), "1/1".into(), "line one\nline two".into()]);
        table.note("-> action: look");
        table
    }

    #[test]
    fn columns_line_up_by_what_is_seen() {
        let expected = "\
App           Scale  Message
web           10/10
データベース    1/1  line one line two
                -> action: look
";
        assert_eq!(mk_table().render(Screen::PLAIN), expected);
    }

    #[test]
    fn colour_takes_no_room() {
        let screen = Screen { width: None, color: true };
        let text = mk_table().render(screen);
        assert_eq!(text.lines().nth(1), Some("\x1b[32mweb\x1b[0m           10/10"));
    }

    #[test]
    fn only_a_terminal_cuts_and_by_characters() {
        assert_eq!(fit("日本語の文字です", Some(22), 8), "日本語の文字…");
        assert_eq!(fit("日本語の文字です", Some(24), 8), "日本語の文字です");
        assert_eq!(fit("a much longer text", Some(10), 8), "a much long…");
        assert_eq!(fit("a much longer text", None, 8), "a much longer text");
    }
}
