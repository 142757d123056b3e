//! Real Redis servers for tests: each with a directory and free loopback ports of its own, killed
//! when dropped.
//!
//! Without `redis-server` the starters answer `None` and say so; with `CI` set they panic. All of
//! them wait for conditions, with a deadline, and panic when it passes.

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

/// How long anything may take. Generous: it is only waited out when something is broken.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How often a condition is looked at.
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

/// A command whose program may be one of `tools/install`: these come before those of the machine.
pub fn command(program: &str) -> std::process::Command {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/bin").join(program);
    match own.is_file() {
        true => std::process::Command::new(own),
        false => std::process::Command::new(program),
    }
}

/// Whether a program is there; if not, says that the test is skipped, and with `CI` panics.
pub fn available(program: &str, version: &str) -> bool {
    let version = command(program).arg(version).output();
    if version.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "{program} is missing; run tools/install");
    eprintln!("!!! SKIPPED: {program} is missing; run tools/install");
    false
}
