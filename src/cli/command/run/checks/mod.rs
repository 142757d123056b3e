//! Monitoring plugins, by the guidelines of the monitoring-plugins project.
//!
//! ```text
//!  file, definition --> schedule --> process --> output --> outcome --> once: two calls
//!                                               (perfdata)         '--> repeated: a session
//! ```

pub mod definition;
pub mod file;
pub mod once;
mod outcome;
mod output;
mod perfdata;
pub mod repeated;
mod schedule;
mod unit;
