//! The real load generator with the real server: every measurement runs once, as short as possible.

mod abuse;
mod all;
mod cold;
mod program;
mod rows;
mod site;
mod watch;
