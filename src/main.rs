//! The `bellwether` binary.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // mimalloc asks for huge pages. With them the first byte of a large buffer takes 2 MiB, so that
    // memory which is reserved is memory which is used. Where the system has none of them, there is
    // nothing to turn off.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    bellwether::cli::run()
}
