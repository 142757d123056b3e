//! The commands that run a server, print its settings, examine it, or write its files.

pub mod backup;
pub mod config;
pub mod doctor;
mod notify;
pub mod relay;
mod run;
pub mod token;

pub use run::{Args, run};
