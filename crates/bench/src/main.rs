//! The `bellwether-bench` binary.

use std::io;
use std::process::ExitCode;

use bellwether_bench::Args;
use clap::Parser;

// As in the server, so that both ends of a connection allocate alike.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Ended by Ctrl-C, as shells count it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    // For the same reason as in the server: memory that is reserved is not memory that is used.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    match run(Args::parse()) {
        Ok(exit) => exit,
        // The reader of the report has closed its end, as `| head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = bellwether_bench::run(args) => ended.map(|()| ExitCode::SUCCESS),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED)),
        }
    });
    // The echo reads stdin, and such a read cannot be cancelled.
    runtime.shutdown_background();
    ended
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
