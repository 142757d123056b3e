//! Uptime over the wire and on the command line.

use std::process::Command;
use std::time::SystemTime;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::server::{BINARY, Server, eventually, mk_report, reason};

/// Returns the time so many seconds ago.
fn ago(seconds: i64) -> Option<prost_types::Timestamp> {
    let now = prost_types::Timestamp::from(SystemTime::now());
    Some(prost_types::Timestamp { seconds: now.seconds - seconds, ..now })
}

fn mk_request(start: i64, end: Option<i64>) -> v1::GetUptimeRequest {
    v1::GetUptimeRequest {
        application: "web".into(),
        start: ago(start),
        end: end.and_then(ago),
        ..v1::GetUptimeRequest::default()
    }
}

async fn report(server: &Server, level: Level) {
    let report = mk_report("web", "web/0", level, "");
    server.reports().await.report_status(report).await.unwrap();
}

async fn ask(server: &Server, request: v1::GetUptimeRequest) -> v1::GetUptimeResponse {
    server.applications().await.get_uptime(request).await.unwrap().into_inner()
}

fn millis(length: Option<prost_types::Duration>) -> i64 {
    let length = length.unwrap();
    length.seconds * 1000 + i64::from(length.nanos) / 1_000_000
}

#[tokio::test]
async fn the_times_of_a_range_are_its_whole_and_before_the_application_nothing_is_known() {
    let server = Server::ephemeral();
    report(&server, Level::Error).await;
    eventually("the error lasts", async || {
        (0 < millis(ask(&server, mk_request(3600, None)).await.not_well)).then_some(())
    })
    .await;
    report(&server, Level::Active).await;
    eventually("it is well", async || {
        (0 < millis(ask(&server, mk_request(3600, None)).await.well)).then_some(())
    })
    .await;
    let found = ask(&server, mk_request(3600, None)).await;
    let (start, end) = (found.start.unwrap(), found.end.unwrap());
    let range =
        (end.seconds - start.seconds) * 1000 + i64::from(end.nanos - start.nanos) / 1_000_000;
    let parts = [found.well, found.not_well, found.planned, found.unknown].map(millis);
    assert!((parts.iter().sum::<i64>() - range).abs() <= 1, "{found:?}");
    assert!(3_500_000 < parts[3], "{found:?}");
    let percent = found.percent.unwrap();
    assert!(0.0 < percent && percent < 100.0, "{found:?}");
    assert_eq!((found.episode_count, millis(found.longest_episode)), (1, parts[1]));
    let levels: Vec<Level> = found.levels.iter().map(v1::LevelDuration::level).collect();
    assert_eq!(levels.len(), 3, "{levels:?}");
    let before = ask(&server, mk_request(3600, Some(1800))).await;
    assert_eq!((before.percent, millis(before.unknown)), (None, 1_800_000));
    let output = Command::new(BINARY)
        .args(["uptime", "web", "--since", "1h", "--server", &server.url()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("episodes   1, the longest "), "{text}");
}

#[tokio::test]
async fn planned_work_on_the_application_leaves_the_range_and_that_on_a_unit_stays() {
    let server = Server::ephemeral();
    report(&server, Level::Error).await;
    let plan = |place: &str| {
        let given = ["plan", place, "-m", "a new disk", "--during", "1h", "--server"];
        let output = Command::new(BINARY).args(given).arg(server.url()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    plan("web/0");
    eventually("time passes", async || {
        (0 < millis(ask(&server, mk_request(3600, None)).await.not_well)).then_some(())
    })
    .await;
    assert_eq!(millis(ask(&server, mk_request(3600, None)).await.planned), 0);
    plan("web");
    eventually("planned time grows, and the other does not", async || {
        let first = ask(&server, mk_request(3600, None)).await;
        let second = ask(&server, mk_request(3600, None)).await;
        let grew = millis(first.planned) < millis(second.planned);
        (grew && first.not_well == second.not_well).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_range_that_has_no_time_or_too_much_is_refused() {
    let server = Server::ephemeral();
    report(&server, Level::Active).await;
    let day = 86_400;
    for (request, text) in [
        (mk_request(60, Some(60)), "end"),
        (mk_request(60, Some(120)), "end"),
        (mk_request(-60, None), "start"),
        (mk_request(401 * day, None), "start begins a range of more than 400 days"),
        (v1::GetUptimeRequest { application: "web".into(), ..Default::default() }, "start"),
    ] {
        let request = v1::GetUptimeRequest {
            end: request.end.zip(request.start).map(|(end, start)| match start.seconds {
                // Both at one moment.
                seconds if seconds == end.seconds => start,
                _ => end,
            }),
            ..request
        };
        let status = server.applications().await.get_uptime(request).await.unwrap_err();
        let expected =
            if status.message().contains("required") { "MISSING_FIELD" } else { "INVALID_VALUE" };
        assert_eq!(reason(&status), expected, "{status:?}");
        assert!(status.message().contains(text), "{status:?}");
    }
    let other = v1::GetUptimeRequest { application: "other".into(), ..mk_request(60, None) };
    let status = server.applications().await.get_uptime(other).await.unwrap_err();
    assert_eq!(reason(&status), "APPLICATION_NOT_FOUND");
}
