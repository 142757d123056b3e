//! Applications whose last unit was removed.

use crate::cli::{ok, run};
use crate::redis::Redis;
use crate::server::{Server, eventually};

const SOON: &str = "[limits]\nabandoned_after_seconds = 1";

async fn is_deleted_after_its_last_unit(server: &Server) {
    for application in ["gone", "kept"] {
        ok(server, &["report", &format!("{application}/0"), "--level", "active"]);
    }
    ok(server, &["configure", "kept", "--policy", "strict"]);
    for application in ["gone", "kept"] {
        ok(server, &["remove", &format!("{application}/0")]);
    }
    eventually("the application is deleted", async || {
        (run(server, &["status", "gone"]).code == Some(3)).then_some(())
    })
    .await;
    let log = ok(server, &["log", "gone"]);
    assert!(log.contains("without units since"), "{log}");
    assert!(ok(server, &["status", "kept"]).contains("unknown"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_without_units_is_deleted_after_the_time_of_the_configuration() {
    is_deleted_after_its_last_unit(&Server::configured(&["--ephemeral"], SOON)).await;
    let Some(redis) = Redis::start(&[]) else { return };
    let over = || Server::configured(&["--store", &redis.url()], SOON);
    let (first, second) = (over(), over());
    is_deleted_after_its_last_unit(&first).await;
    assert!(ok(&second, &["log", "gone"]).contains("without units since"));
}
