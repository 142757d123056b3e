//! The page of the book with the tables of errors.

use std::fmt::Write as _;
use std::path::Path;

use crate::domain::classify::rule::Rule;
use crate::domain::classify::table::tables;

/// Codes or texts of a row that the page shows; `--list` has all.
const SHOWN_MAX: usize = 8;
/// Columns of a line of a document.
const COLUMNS_MAX: usize = 118;

/// What stands above the tables.
const HEAD: &str = "\
# Tables of errors

Every row by which the server, the command line and the Python package classify an error, with its
source. [Errors of workers](faults.md) explains the classes. The rows are data, in the format of
your own rules ([0073](adr/0073-tables-of-errors-are-data.md)). `bellwether explain-error --list`
prints all codes. `UPDATE=1 cargo test --lib the_page_has` writes this page.

*held*: the component stops until a person acts.
";

/// Compares docs/error-tables.md with the tables, or writes it.
#[test]
fn the_page_has_every_row_of_the_tables() {
    let mut text = HEAD.to_string();
    for table in tables() {
        let head = &table.head;
        let _ = write!(text, "\n## {}\n\n{}.\n\n", head.system, capital(&head.about));
        table.rows.iter().for_each(|row| text.push_str(&item(row)));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/error-tables.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == text, "docs/error-tables.md is not up to date; run it with UPDATE=1");
}

/// Returns the item of a row: name, class, cause, codes or parts of the message, and source.
fn item(row: &Rule) -> String {
    let mut what: Vec<String> = row.codes.iter().map(|code| format!("`{code}`")).collect();
    what.extend(row.messages.iter().map(|part| format!("\"{}\"", escaped(part))));
    let more = what.len().saturating_sub(SHOWN_MAX);
    what.truncate(SHOWN_MAX);
    if 0 < more {
        what.push(format!("and {more} more"));
    }
    let held = if row.class.holds() && !row.unheld { ", held" } else { "" };
    let origin =
        row.origin.map(|origin| format!("origin {}", format!("{origin:?}").to_uppercase()));
    let when = row.when.map(|when| when.word().to_string());
    let reasons = row.reasons.iter().map(|reason| format!("reason `{reason}`"));
    let conditions: Vec<String> = origin.into_iter().chain(when).chain(reasons).collect();
    let conditions = match conditions.is_empty() {
        true => String::new(),
        false => format!(" if {}", conditions.join(" and ")),
    };
    let (name, class, cause) = (&row.name, row.class.word(), &row.explanation);
    let text = format!("- `{name}`, **{class}{held}**{conditions}: {cause}.");
    let source = format!("*{}*", escaped(&row.source));
    [text, what.join(", "), source].iter().map(|part| wrapped(part)).collect()
}

fn escaped(text: &str) -> String {
    text.replace('*', "\\*").replace('<', "\\<").replace('_', "\\_")
}

/// Returns a text in lines of at most [`COLUMNS_MAX`] columns. Code stays on one line.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut is_code = false;
    for word in text.split(' ') {
        let width = |line: &String| line.chars().count() + 1 + word.chars().count();
        let begins_item = word == "-";
        match lines.last_mut() {
            Some(line) if is_code || width(line) <= COLUMNS_MAX => {
                line.push_str(&format!(" {word}"))
            }
            _ if begins_item => lines.push(word.to_string()),
            _ => lines.push(format!("  {word}")),
        }
        is_code ^= word.matches('`').count() % 2 == 1;
    }
    lines.join("\n") + "\n"
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
