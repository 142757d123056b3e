//! A command as an operation: recorded before it exists, held while it runs, resumed after its
//! runner has died.
//!
//! ```text
//!  begin --begun----------------------------> checkpoint --> command --0--> done? --> Complete
//!    '----resumed--> verify, detect, unlock -------^            '--else--> Fail
//!                                                               '--SIGTERM--> Release
//!  heartbeats: the whole time, each with the time at which it was sent, for the keeper
//! ```

pub mod args;
mod begin;
pub mod carry;
mod failure;
mod held;
mod kept;
mod lines;
mod payload;
mod recipe;
mod result;
pub mod resume;
mod runner;
mod settle;
mod signals;
pub mod work;
