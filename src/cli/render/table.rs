//! Tables without borders, as `juju status` prints them: two spaces between columns. On a narrow
//! terminal names are cut in their middle first, then one column is cut at its end or broken into
//! lines; a note is never cut.

use unicode_width::UnicodeWidthStr;

use crate::cli::render::paint::Paint;
use crate::cli::render::text::{fit, middle, wrap};
use crate::cli::render::{Screen, one_line};

const GAP: usize = 2;

/// A name is not cut shorter than this.
const NAME_MIN: usize = 12;

/// Names are cut before the elastic column becomes narrower than this.
const ELASTIC_MIN: usize = 28;

/// One text in a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// Returns a coloured text.
    pub fn painted(text: impl AsRef<str>, paint: Paint) -> Cell {
        Cell { text: one_line(text.as_ref()), paint }
    }

    /// Returns a text; `-` for an empty one.
    pub fn or_dash(text: &str) -> Cell {
        if text.is_empty() { "-".into() } else { text.into() }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::painted(text, Paint::None)
    }
}

enum Row {
    Cells(Vec<Cell>),
    /// A line that belongs to the row before it; indented, not in columns.
    Note(String),
}

/// Rows under a header.
#[derive(Default)]
pub struct Table {
    header: Vec<Cell>,
    right_aligned: Vec<usize>,
    /// The columns that are left out.
    hidden: Vec<usize>,
    /// The columns with names.
    names: Vec<usize>,
    /// The column that takes the remaining width.
    elastic: usize,
    /// Whether the elastic column is broken into lines instead of cut.
    wraps: bool,
    rows: Vec<Row>,
}

impl Table {
    /// Returns an empty table. Its last column is the elastic one.
    pub fn new(header: &[&str]) -> Table {
        let elastic = header.len().saturating_sub(1);
        Table { header: header.iter().map(Cell::from).collect(), elastic, ..Table::default() }
    }

    /// Aligns the columns of these titles to the right.
    pub fn right(mut self, titles: &[&str]) -> Table {
        self.right_aligned = self.columns(titles);
        self
    }

    /// Marks the columns of these titles as names, which may be cut in the middle.
    pub fn names(mut self, titles: &[&str]) -> Table {
        self.names = self.columns(titles);
        self
    }

    /// Makes the column of this title the elastic one, and breaks it into lines.
    pub fn wrap(mut self, title: &str) -> Table {
        self.elastic = self.columns(&[title]).pop().unwrap_or(self.elastic);
        self.wraps = true;
        self
    }

    /// Shows the columns of these titles only if `shown`; every row has their cells.
    pub fn only_if(mut self, shown: bool, titles: &[&str]) -> Table {
        if !shown {
            self.hidden.extend(self.columns(titles));
        }
        self
    }

    fn columns(&self, titles: &[&str]) -> Vec<usize> {
        let place = |title: &&str| self.header.iter().position(|cell| cell.text == **title);
        titles.iter().filter_map(place).collect()
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a line that belongs to the last row. It stays one line, so that it can be copied.
    pub fn note(&mut self, text: &str) {
        self.rows.push(Row::Note(one_line(text)));
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table, with a line end after each line.
    pub fn render(&self, screen: Screen) -> String {
        let widths = self.widths(screen);
        let mut text = self.lines(&self.header, &widths, screen);
        for row in &self.rows {
            text.push_str(&match row {
                Row::Cells(cells) => self.lines(cells, &widths, screen),
                Row::Note(note) => {
                    // Two columns further in than the second column, so that the note reads as part
                    // of the row.
                    let first = widths.iter().find(|width| 0 < **width);
                    let indent = first.map_or(0, |first| first + GAP) + GAP;
                    format!("{}{note}\n", " ".repeat(indent))
                }
            });
        }
        text
    }

    /// Returns the width of every column: that of its widest text, unless the terminal is too
    /// narrow; 0 for a hidden one.
    fn widths(&self, screen: Screen) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|c| c.text.width()).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = (*width).max(cell.text.width());
                }
            }
        }
        self.hidden.iter().for_each(|at| widths[*at] = 0);
        let (Some(room), Some(natural)) = (screen.width, widths.get(self.elastic).copied()) else {
            return widths;
        };
        let gaps = GAP * (widths.len() - self.hidden.len()).saturating_sub(1);
        let used = |widths: &[usize]| gaps + widths.iter().sum::<usize>() - widths[self.elastic];
        let wanted = natural.min(ELASTIC_MIN);
        while room < used(&widths) + wanted {
            let longest = self.names.iter().copied().max_by_key(|at| widths[*at]);
            let Some(at) = longest.filter(|at| NAME_MIN < widths[*at]) else { break };
            widths[at] -= 1;
        }
        widths[self.elastic] = natural.min(room.saturating_sub(used(&widths)).max(NAME_MIN));
        widths
    }

    /// Formats one row in as many lines as its elastic column needs.
    fn lines(&self, cells: &[Cell], widths: &[usize], screen: Screen) -> String {
        let elastic = cells.get(self.elastic).map(|cell| cell.text.as_str()).unwrap_or_default();
        let width = widths.get(self.elastic).copied().unwrap_or(0);
        let parts = match self.wraps && screen.width.is_some() {
            true => wrap(elastic, width),
            false => vec![fit(elastic, screen.width.map(|_| width), 0)],
        };
        let mut text = String::new();
        for (nth, part) in parts.iter().enumerate() {
            let mut line = String::new();
            let columns = cells.iter().zip(widths).enumerate();
            for (at, (cell, width)) in columns.filter(|(at, _)| !self.hidden.contains(at)) {
                let shown = match (at == self.elastic, nth) {
                    (true, _) => part.clone(),
                    (false, 0) if self.names.contains(&at) => middle(&cell.text, *width),
                    (false, 0) => cell.text.clone(),
                    (false, _) => String::new(),
                };
                let padding = " ".repeat(width.saturating_sub(shown.width()));
                let painted = cell.paint.apply(&shown, screen.color);
                let (first, second) = match self.right_aligned.contains(&at) {
                    true => (padding, painted),
                    false => (painted, padding),
                };
                line.push_str(&format!("{first}{second}{}", " ".repeat(GAP)));
            }
            text.push_str(&format!("{}\n", line.trim_end()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_table() -> Table {
        let mut table = Table::new(&["App", "Scale", "Message"]).right(&["Scale"]);
        table.row(vec![Cell::painted("web", Paint::Green), "10/10".into(), "".into()]);
        table.row(vec!["データベース".into(), "1/1".into(), "line one\nline two".into()]);
        table.note("-> action: look");
        table
    }

    fn terminal(width: usize) -> Screen {
        Screen { width: Some(width), color: false }
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
    fn a_narrow_terminal_cuts_names_in_the_middle_and_then_messages() {
        let mut table = Table::new(&["Unit", "Level", "Message"]).names(&["Unit"]);
        let unit = "very-long-application-of-many-parts/10";
        table.row(vec![unit.into(), "blocked".into(), "the database refuses the password".into()]);
        table.note("-> action: kubectl -n prod create secret generic web-db --from-literal=p=x");
        let wide = table.render(terminal(100));
        assert!(wide.contains(unit) && wide.contains("the password\n"), "{wide}");
        let narrow = table.render(terminal(58));
        let expected = "very-long…-parts/10  blocked  the database refuses the pa…";
        assert_eq!(narrow.lines().nth(1), Some(expected), "{narrow}");
        assert!(narrow.ends_with("--from-literal=p=x\n"), "{narrow}");
        let narrowest = table.render(terminal(40));
        assert_eq!(narrowest.lines().nth(1), Some("very-l…ts/10  blocked  the database ref…"));
    }

    #[test]
    fn a_column_that_wraps_loses_nothing() {
        let mut table = Table::new(&["Time", "Event", "Who"]).wrap("Event");
        table.row(vec!["12:00".into(), "blocked: the database is away".into(), "web/0".into()]);
        let expected = "\
Time   Event               Who
12:00  blocked: the        web/0
       database is away
";
        assert_eq!(table.render(terminal(32)), expected);
        assert!(table.render(Screen::PLAIN).contains("the database is away  web/0"));
    }
}
