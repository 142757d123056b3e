//! The `bellwether` binary: sets the allocator and runs the command line.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // mimalloc asks for huge pages. With them the first byte of a large buffer takes 2 MiB, so
    // memory that is only reserved counts as used. The call fails on a system without huge pages,
    // where there is nothing to turn off.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    bellwether::cli::run()
}
