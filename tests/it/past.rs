//! The past of applications in slots, and the units of one with the worst first.

use std::time::SystemTime;

use bellwether::proto::v1::{
    Level, ListPastRequest, ListPastResponse, ListUnitsRequest, UnitOrder,
};
use prost_types::{Duration, Timestamp};

use crate::server::{Server, eventually, mk_report, reason};

const SLOT: i64 = 600;
const SILENT: u8 = 128;

/// Returns a request for 4 slots of ten minutes, of which the third one has begun.
fn mk_request(names: &[&str]) -> ListPastRequest {
    let now = Timestamp::from(SystemTime::now());
    ListPastRequest {
        namespace: if names.iter().any(|name| name.contains('/')) { "-" } else { "" }.into(),
        applications: names.iter().map(|name| name.to_string()).collect(),
        start_time: Some(Timestamp { seconds: now.seconds - 2 * SLOT - 1, nanos: 0 }),
        slot: Some(Duration { seconds: SLOT, nanos: 0 }),
        slot_count: 4,
        ..ListPastRequest::default()
    }
}

async fn ask(server: &Server, request: ListPastRequest) -> ListPastResponse {
    server.applications().await.list_past(request).await.unwrap().into_inner()
}

/// Returns the slots of the only application of an answer.
fn only(answer: ListPastResponse) -> Vec<u8> {
    let [past] = &answer.applications[..] else { panic!("{answer:?}") };
    past.slots.to_vec()
}

async fn report(server: &Server, application: &str, level: Level) {
    let unit = format!("{application}/0");
    let report = mk_report(application, &unit, level, "");
    server.reports().await.report_status(report).await.unwrap();
}

#[tokio::test]
async fn a_slot_has_the_worst_level_in_it_and_one_before_the_application_nothing() {
    let server = Server::ephemeral();
    for level in [Level::Waiting, Level::Error, Level::Active] {
        report(&server, "web", level).await;
    }
    report(&server, "api", Level::Terminated).await;
    let error = Level::Error as u8;
    // Waiting and error were shorter than the resolution of the clock, or not: the error counts.
    let slots = only(ask(&server, mk_request(&["web"])).await);
    assert_eq!((slots.len(), &slots[..2], slots[3]), (4, &[0, 0][..], 0), "{slots:?}");
    assert!([error, Level::Active as u8].contains(&slots[2]), "{slots:?}");
    eventually("the newest slot follows a change", async || {
        report(&server, "web", Level::Blocked).await;
        let slots = only(ask(&server, mk_request(&["web"])).await);
        [error, Level::Blocked as u8].contains(&slots[2]).then_some(())
    })
    .await;
    let found = ask(&server, mk_request(&["default/web", "default/none", "default/api"])).await;
    let names: Vec<&str> = found.applications.iter().map(|past| &*past.application).collect();
    assert_eq!((names, &*found.next_page_token), (vec!["api", "web"], ""));
    let request = mk_request(&[]);
    let page = |token: &str| ListPastRequest {
        page_size: 1,
        page_token: token.into(),
        start_time: Some(Timestamp {
            seconds: 60 * (request.start_time.unwrap().seconds / 60),
            nanos: 0,
        }),
        ..request.clone()
    };
    let first = ask(&server, page("")).await;
    assert_eq!(&*first.applications[0].application, "api");
    let second = ask(&server, page(&first.next_page_token)).await;
    assert_eq!((&*second.applications[0].application, &*second.next_page_token), ("web", ""));
}

#[tokio::test]
async fn silence_has_a_value_of_its_own_until_the_unit_returns() {
    let server = Server::ephemeral();
    let mut report = mk_report("web", "web/0", Level::Active, "");
    report.status.as_mut().unwrap().ttl = Some(Duration { seconds: 1, nanos: 0 });
    server.reports().await.report_status(report.clone()).await.unwrap();
    let newest = async || {
        let now = Timestamp::from(SystemTime::now());
        let slot = Some(Duration { seconds: 10, nanos: 0 });
        let start = Some(Timestamp { seconds: now.seconds - 9, nanos: now.nanos });
        let request =
            ListPastRequest { start_time: start, slot, slot_count: 1, ..mk_request(&["web"]) };
        only(ask(&server, request).await)[0]
    };
    eventually("the unit is silent", async || (newest().await == SILENT).then_some(())).await;
    // Without a change, the silence goes on.
    assert_eq!(newest().await, SILENT);
    report.status.as_mut().unwrap().ttl = None;
    server.reports().await.report_status(report).await.unwrap();
    eventually("the silence is past", async || {
        (newest().await == Level::Active as u8).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_past_without_slots_or_of_names_without_a_namespace_is_refused() {
    let server = Server::ephemeral();
    report(&server, "web", Level::Active).await;
    let far = Some(Timestamp { seconds: 4_000_000_000, nanos: 0 });
    for (request, field, expected) in [
        (ListPastRequest { start_time: None, ..mk_request(&[]) }, "start_time", "MISSING_FIELD"),
        (ListPastRequest { start_time: far, ..mk_request(&[]) }, "start_time", "INVALID_VALUE"),
        (
            ListPastRequest { start_time: Some(Timestamp::default()), ..mk_request(&[]) },
            "start_time is more than 400 days",
            "INVALID_VALUE",
        ),
        (ListPastRequest { slot: None, ..mk_request(&[]) }, "slot", "MISSING_FIELD"),
        (
            ListPastRequest { slot: Some(Duration { seconds: 9, nanos: 0 }), ..mk_request(&[]) },
            "slot",
            "INVALID_VALUE",
        ),
        (
            ListPastRequest {
                slot: Some(Duration { seconds: i64::MIN, nanos: i32::MIN }),
                ..mk_request(&[])
            },
            "give 10 s to 86400 s",
            "INVALID_VALUE",
        ),
        (ListPastRequest { slot_count: 0, ..mk_request(&[]) }, "slot_count", "INVALID_VALUE"),
        (ListPastRequest { slot_count: 401, ..mk_request(&[]) }, "slot_count", "INVALID_VALUE"),
        (
            ListPastRequest { namespace: "-".into(), ..mk_request(&["web"]) },
            "applications names no namespace",
            "INVALID_VALUE",
        ),
        (mk_request(&["a", "web web\n"]), "applications", "INVALID_NAME"),
        (mk_request(&["web"; 1001]), "applications", "INVALID_VALUE"),
    ] {
        let status = server.applications().await.list_past(request).await.unwrap_err();
        assert_eq!(reason(&status), expected, "{status:?}");
        assert!(status.message().contains(field), "{status:?}");
    }
}

#[tokio::test]
async fn the_worst_units_are_first_and_each_is_on_one_page() {
    let server = Server::ephemeral();
    let levels = [
        ("web/0", Level::Terminated),
        ("web/1", Level::Active),
        ("web/2", Level::Error),
        ("web/3", Level::Maintenance),
        ("web/10", Level::Error),
        ("web/4", Level::Blocked),
        ("web/5", Level::Unknown),
        ("web/6", Level::Waiting),
    ];
    for (unit, level) in levels {
        server.reports().await.report_status(mk_report("web", unit, level, "")).await.unwrap();
    }
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let request = ListUnitsRequest {
            application: "web".into(),
            page_size: 3,
            page_token: token,
            order: UnitOrder::WorstFirst as i32,
            ..ListUnitsRequest::default()
        };
        let page = server.applications().await.list_units(request).await.unwrap().into_inner();
        names.extend(page.units.into_iter().map(|unit| unit.name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let expected = "web/2 web/10 web/4 web/5 web/3 web/6 web/1 web/0";
    assert_eq!(names.join(" "), expected);
    let request =
        ListUnitsRequest { application: "web".into(), order: 9, ..ListUnitsRequest::default() };
    let status = server.applications().await.list_units(request).await.unwrap_err();
    assert_eq!(reason(&status), "INVALID_VALUE");
}
