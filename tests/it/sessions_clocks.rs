//! Wall clocks that jump by an hour do not change the detection of silence or the end of a ttl.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::Freshness;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;

use crate::peer::{Peer, hello};
use crate::redis::Redis;
use crate::server::{Server, command, eventually};
use crate::sessions::unit;
use crate::sessions_replicas::TIMES;

/// Returns the library at its Debian path, for this machine.
fn library() -> Option<String> {
    let found = Command::new("sh")
        .args(["-c", "ls /usr/lib/*/faketime/libfaketimeMT.so.1 2>/dev/null | head -n 1"])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap().trim().to_string();
    assert!(
        !found.is_empty() || std::env::var_os("CI").is_none(),
        "faketime is missing, and in CI nothing is skipped"
    );
    if found.is_empty() {
        eprintln!("SKIPPED: faketime is missing; run tools/install");
        return None;
    }
    Some(found)
}

/// Starts a server whose wall clock differs from ours by the offset in the file `clock`.
fn start(library: &str, clock: &Path, redis: &Redis, config: &Path) -> Server {
    let config = config.to_str().unwrap();
    let mut command = command(&["--store", &redis.url(), "--config", config]);
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", clock)
        .env("FAKETIME_CACHE_DURATION", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Server::spawn(command)
}

async fn register(server: &Server) {
    let request = v1::RegisterUnitRequest {
        application: "web".into(),
        unit: "web/9".into(),
        ttl: Some(prost_types::Duration { seconds: 4, nanos: 0 }),
        ..Default::default()
    };
    let mut client = WorkerServiceClient::new(server.channel().await);
    client.register_unit(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_jumps_moves_no_deadline() {
    let Some(library) = library() else { return };
    let Some(redis) = Redis::start(&[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let [config, first, second] = ["config", "first", "second"].map(|f| directory.path().join(f));
    std::fs::write(&config, TIMES).unwrap();
    std::fs::write(&first, "+3600").unwrap();
    std::fs::write(&second, "-3600").unwrap();
    let ahead = start(&library, &first, &redis, &config);
    let behind = start(&library, &second, &redis, &config);
    let peers = [
        Peer::connect(&ahead, hello("web", "web/0")).await,
        Peer::connect(&behind, hello("web", "web/1")).await,
    ];
    peers.iter().for_each(Peer::keep_alive);
    let times = peers.each_ref().map(|peer| peer.welcome.server_time.unwrap().seconds);
    assert!(times[0].abs_diff(times[1]) < 60, "one clock, that of the store: {times:?}");
    for (clock, step) in [(&first, "-3600"), (&second, "+3600"), (&first, "+7200")] {
        register(&ahead).await;
        let registered = Instant::now();
        std::fs::write(clock, step).unwrap();
        let stale = async || {
            for server in [&ahead, &behind] {
                for name in ["web/0", "web/1"] {
                    let found = unit(server, "web", name).await?;
                    assert!(found.connected && found.freshness() == Freshness::Fresh, "{found:?}");
                }
            }
            let seen = [unit(&ahead, "web", "web/9").await?, unit(&behind, "web", "web/9").await?];
            seen.iter().all(|unit| unit.freshness() == Freshness::Stale).then_some(())
        };
        eventually("its promise is broken", stale).await;
        let took = registered.elapsed();
        assert!(Duration::from_secs(3) < took && took < Duration::from_secs(9), "{took:?}");
    }
}
