//! The trace of a run: one line for each event, and a hash of all lines.

use std::fmt::Write as _;
use std::hash::Hasher;
use std::io::Write as _;

use fnv::FnvHasher;

/// The trace of a run.
#[derive(Default)]
pub struct Trace {
    hash: FnvHasher,
    lines: u64,
    prints: bool,
    line: String,
}

impl Trace {
    /// Returns an empty trace, which prints each line if asked.
    pub fn new(prints: bool) -> Trace {
        Trace { prints, ..Trace::default() }
    }

    /// Adds a line.
    pub fn note(&mut self, now: u64, text: std::fmt::Arguments<'_>) {
        self.line.clear();
        // A `String` takes every text.
        let _ = write!(self.line, "{:>7}.{:03} {text}", now / 1000, now % 1000);
        self.hash.write(self.line.as_bytes());
        self.lines += 1;
        // A reader that has closed the pipe, as `head` does, ends the printing, not the run.
        self.prints = self.prints && writeln!(std::io::stdout(), "{}", self.line).is_ok();
    }

    /// Returns the number of lines and their hash.
    pub fn sum(&self) -> (u64, u64) {
        (self.lines, self.hash.finish())
    }
}
