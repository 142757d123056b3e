//! `bellwether explain REASON`: the meaning of an error's reason and what to do, without a server.
//! `bellwether explain concepts`: the words of all pages. The texts are docs/errors.md and
//! docs/concepts.md of the same source.

use std::ffi::OsStr;

use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;

use crate::cli::context::{Context, print_plain, screen};
use crate::cli::exit::NotFoundError;
use crate::cli::render::text::{marked, wrap};

const ERRORS: &str = include_str!("../../../docs/errors.md");

/// What is asked for the page of concepts, and the page.
const CONCEPTS: (&str, &str) = ("concepts", include_str!("../../../docs/concepts.md"));

/// Columns of a text that is written to a file or a pipe.
const WIDTH: usize = 80;

/// Say what a reason of an error means, without asking a server; without a reason, list them
#[derive(clap::Args)]
pub struct Args {
    /// The reason, as shown in brackets behind an error: LEASE_HELD; or `concepts`, what the words
    /// mean and when to use which level
    #[arg(value_name = "REASON", add = reasons())]
    reason: Option<String>,
}

/// A reason with its paragraph.
#[derive(Serialize)]
struct ReasonEntry {
    reason: &'static str,
    code: String,
    meaning: String,
    to_do: String,
}

/// The page of concepts, for programs.
#[derive(Serialize)]
struct ConceptsPage {
    text: &'static str,
}

/// Looks up the reason and prints its paragraph.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<()> {
    let entries = entries();
    let Some(given) = &args.reason else {
        let line =
            |entry: &ReasonEntry| format!("{:<24}  {}\n", entry.reason, first(&entry.meaning));
        return Ok(print_plain(&entries.iter().map(line).collect::<String>())?);
    };
    if given.eq_ignore_ascii_case(CONCEPTS.0) {
        let page = ConceptsPage { text: CONCEPTS.1 };
        return context.print_value(&page, || print_plain(page.text));
    }
    let wanted = given.trim_matches(['[', ']']).to_ascii_uppercase().replace('-', "_");
    let Some(entry) = entries.iter().find(|entry| entry.reason == wanted) else {
        return Err(NotFoundError(unknown(given, &wanted, &entries)).into());
    };
    context.print_value(entry, || print_plain(&entry.text(screen().width.unwrap_or(WIDTH))))
}

impl ReasonEntry {
    fn text(&self, width: usize) -> String {
        let mut text = format!("{} ({})\n", self.reason, self.code);
        let to_do = marked("To do: ", &self.to_do);
        for paragraph in [&self.meaning, &to_do].into_iter().filter(|text| !text.is_empty()) {
            for line in wrap(paragraph, width.saturating_sub(2)) {
                text.push_str(&format!("  {line}\n"));
            }
        }
        text
    }
}

/// Completes reasons, and the page.
fn reasons() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let typed = current.to_string_lossy().to_ascii_uppercase();
        let known = entries().into_iter().map(|entry| entry.reason).chain([CONCEPTS.0]);
        let fits = known.filter(|word| word.to_ascii_uppercase().starts_with(&typed));
        fits.map(CompletionCandidate::new).collect()
    })
}

fn entries() -> Vec<ReasonEntry> {
    let sections = ERRORS.split("\n### ").skip(1);
    sections
        .map(|section| {
            let (reason, rest) = section.split_once('\n').unwrap_or((section, ""));
            // The next heading of a group ends the last entry of this one.
            let body = plain(paragraph(rest.split("\n## ").next().unwrap_or_default()));
            let (code, rest) = body.split_once(". ").unwrap_or(("", &body));
            let (meaning, to_do) = rest.split_once("**To do:**").unwrap_or((rest, ""));
            ReasonEntry {
                reason: reason.trim(),
                code: code.trim_matches('`').to_string(),
                meaning: meaning.trim().to_string(),
                to_do: to_do.trim().to_string(),
            }
        })
        .collect()
}

/// Returns the text up to the end of the paragraph that says what to do; the rest is detail.
fn paragraph(text: &str) -> &str {
    let end = text.find("**To do:**").and_then(|at| Some(at + text[at..].find("\n\n")?));
    &text[..end.unwrap_or(text.len())]
}

/// Puts a paragraph on one line; of a link, text and target remain.
fn plain(markdown: &str) -> String {
    let line = markdown.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = String::new();
    let mut rest = line.as_str();
    while let Some((before, link)) = rest.split_once('[')
        && let Some((name, after)) = link.split_once("](")
        && let Some((target, after)) = after.split_once(')')
    {
        text.push_str(&format!("{before}{name} (docs/{target})"));
        rest = after;
    }
    text + rest
}

fn first(meaning: &str) -> &str {
    let sentence = meaning.split(". ").next().unwrap_or_default();
    sentence.split("; metadata").next().unwrap_or_default().trim_end_matches('.')
}

/// Returns a sentence for an unknown reason, with known reasons that share a word with it.
fn unknown(given: &str, wanted: &str, entries: &[ReasonEntry]) -> String {
    let is_near = |entry: &&ReasonEntry| {
        let has_word = |word: &str| entry.reason.split('_').any(|own| own == word);
        wanted.len() > 2 && wanted.split('_').any(has_word)
    };
    let near: Vec<&str> = entries.iter().filter(is_near).map(|entry| entry.reason).collect();
    let hint = match near.as_slice() {
        [] => "`bellwether explain` lists them".to_string(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    format!("{given} is no reason of an error; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_code_a_meaning_and_something_to_do() {
        let entries = entries();
        assert!(20 < entries.len());
        for entry in &entries {
            let code = entry.code.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            assert!(code && !entry.code.is_empty(), "{}: {}", entry.reason, entry.code);
            assert!(!entry.meaning.is_empty() && !entry.to_do.is_empty(), "{}", entry.reason);
            assert!(!entry.to_do.contains("](") && !entry.to_do.contains('#'), "{}", entry.to_do);
        }
    }

    #[test]
    fn a_reason_reads_as_in_the_document() {
        let entries = entries();
        let found = entries.iter().find(|entry| entry.reason == "ETAG_MISMATCH");
        let expected = "ETAG_MISMATCH (ABORTED)\n  The data changed after the caller read it; \
                        metadata: `etag` of the current\n  data.\n  To do: Read, merge, and \
                        write with the new etag.\n";
        assert_eq!(found.map(|entry| entry.text(80)).as_deref(), Some(expected));
        let text = unknown("LEASE", "LEASE", &entries);
        assert_eq!(text, "LEASE is no reason of an error; did you mean LEASE_HELD?");
    }
}
