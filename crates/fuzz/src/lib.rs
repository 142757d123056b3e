//! Any bytes for what reads bytes: the parts that do not know the server.
//!
//! ```text
//!  corpus/TARGET --mutate--> bytes --Choices--> a message, a file, a record --> the server's code
//!                               ^                                                  |
//!       libFuzzer, by coverage -'            panic, hang, memory: a failure <------'
//! ```

pub mod choices;
pub mod memory;
pub mod mutate;
