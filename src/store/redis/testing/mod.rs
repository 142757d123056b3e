//! Real Redis servers for tests, each with its own directory and free loopback ports, killed when
//! dropped.
//!
//! Without `redis-server` the start functions return `None` and print that; with `CI` set they
//! panic. They wait until the server answers, and panic after [`DEADLINE`].

use std::time::Duration;

pub mod cluster;
pub mod proxy;
pub mod sentinel;
pub mod server;
pub mod tls;

pub use cluster::Cluster;
pub use proxy::Proxy;
pub use sentinel::Sentinels;
pub use server::RedisServer;
pub use tls::{Certificates, TlsServer};

/// The deadline of any wait. It is generous, because a test waits this long only when something is
/// broken.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// The interval between checks of a condition.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until `condition` holds; panics with `what` when [`DEADLINE`] has passed.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !condition().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    assert!(waited.await.is_ok(), "waited {DEADLINE:?} until {what}");
}

/// Returns a command. A program of `tools/install` takes precedence over one of the machine.
pub fn command(program: &str) -> std::process::Command {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/bin").join(program);
    match own.is_file() {
        true => std::process::Command::new(own),
        false => std::process::Command::new(program),
    }
}

/// Returns whether a program exists. If not, it prints that the test is skipped; with `CI` set it
/// panics.
pub fn available(program: &str, version: &str) -> bool {
    let version = command(program).arg(version).output();
    if version.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "{program} is missing; run tools/install");
    eprintln!("!!! SKIPPED: {program} is missing; run tools/install");
    false
}
