//! The `bellwether` binary.

fn main() {}
