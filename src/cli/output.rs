//! The formats in which a command prints data.

use clap::ValueEnum;

/// The format of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Tables for people.
    Table,
    /// Tables for people with wide terminals.
    Wide,
    /// Canonical proto JSON.
    Json,
    /// The same value as YAML.
    Yaml,
    /// The items of a list, each as JSON on a line of its own.
    Jsonl,
    /// The names of the items of a list, one on a line.
    Name,
}

impl Output {
    /// Whether the format is for programs.
    pub fn is_structured(self) -> bool {
        !matches!(self, Output::Table | Output::Wide)
    }
}
