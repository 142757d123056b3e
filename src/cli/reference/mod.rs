//! The pages of docs/reference, written from the definitions of commands and settings.
//!
//! `UPDATE=1 cargo test --lib reference` writes them; without it the test compares.

mod api;
mod commands;
mod configuration;

use std::fs;
use std::path::Path;

/// Columns of a line of a document.
const COLUMNS_MAX: usize = 120;

/// Compares a page with the file, or writes it.
fn test_page(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let page = fs::read_to_string(path).unwrap_or_default();
    let update = "run UPDATE=1 cargo test --lib reference";
    for (number, (have, want)) in (1..).zip(page.lines().zip(text.lines())) {
        assert_eq!(have, want, "docs/reference/{name}:{number} is not up to date; {update}");
    }
    assert!(page == text, "docs/reference/{name} is not up to date; {update}");
}

/// Returns paragraphs in lines of at most [`COLUMNS_MAX`] columns, with an empty line after each.
fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|paragraph| wrapped(paragraph, "") + "\n").collect()
}

/// Returns a text in lines of at most [`COLUMNS_MAX`] columns; all but the first are indented.
/// Code in backticks stays on one line.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in words(text) {
        let last = lines.last_mut().unwrap();
        let is_empty = last.trim().is_empty();
        if !is_empty && COLUMNS_MAX < last.chars().count() + 1 + word.chars().count() {
            lines.push(format!("{indent}{word}"));
            continue;
        }
        let gap = if is_empty { "" } else { " " };
        last.push_str(&format!("{gap}{word}"));
    }
    lines.join("\n") + "\n"
}

/// Returns the words of a text; code in backticks belongs to one word.
fn words(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match found.last_mut().filter(|last| last.matches('`').count() % 2 == 1) {
            Some(last) => last.push_str(&format!(" {word}")),
            None => found.push(word.to_string()),
        }
    }
    found
}

/// Returns a help text as sentences: with a final period, and with names of flags as code.
fn sentences(help: &str) -> String {
    let marked = |word: &str| {
        let start = word.find(|c| c != '(').unwrap_or(0);
        let (before, rest) = word.split_at(start);
        let name = rest.trim_end_matches([',', '.', ';', ':', ')', ']']);
        let is_name = name.starts_with("--") && 2 < name.len() || name.starts_with("BELLWETHER_");
        match is_name {
            true => format!("{before}`{name}`{}", &rest[name.len()..]),
            false => word.to_string(),
        }
    };
    let (help, default) = match help.split_once(" [default: ") {
        Some((help, default)) => (help, Some(default.trim_end_matches(']'))),
        None => (help, None),
    };
    let text = [Some(help), default].into_iter().flatten().map(|help| {
        let parts = help.split('`').enumerate().map(|(i, part)| match i % 2 {
            0 => part.split(' ').map(marked).collect::<Vec<_>>().join(" ").replace('<', "\\<"),
            _ => part.replace('\n', " "),
        });
        let text = parts.collect::<Vec<_>>().join("`");
        let end = if text.ends_with(['.', '?']) { "" } else { "." };
        format!("{text}{end}")
    });
    text.collect::<Vec<_>>().join(" Default: ")
}

#[test]
fn code_is_not_broken() {
    let text = format!("{} `a b` c", "x".repeat(115));
    assert_eq!(wrapped(&text, "  "), format!("{}\n  `a b` c\n", "x".repeat(115)));
    let help = "see --store, or `a --b` (--c) [default: BELLWETHER_X]";
    assert_eq!(sentences(help), "see `--store`, or `a --b` (`--c`). Default: `BELLWETHER_X`.");
}
