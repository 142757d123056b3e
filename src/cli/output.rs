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
}

impl Output {
    /// Whether the format is for programs.
    pub fn is_structured(self) -> bool {
        matches!(self, Output::Json | Output::Yaml)
    }
}
