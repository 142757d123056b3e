//! Formats answers as text: pure functions of messages, the time and the screen.

pub mod blockers;
pub mod causes;
pub mod doctor;
pub mod fault_list;
pub mod faults;
pub mod log;
pub mod mark;
pub mod namespaces;
pub mod need;
pub mod operation;
pub mod origin;
pub mod paint;
pub mod status;
pub mod table;
pub mod text;
pub mod time;
pub mod uptime;
pub mod why;

pub use text::{counted, one_line};

/// The output that the text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns of the terminal; absent for a file or a pipe, where nothing is cut.
    pub width: Option<usize>,
    /// Whether to use colours.
    pub color: bool,
}

impl Screen {
    /// A file or a pipe.
    pub const PLAIN: Screen = Screen { width: None, color: false };
}
