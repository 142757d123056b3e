//! Tests: both ways agree on every message, and the common one takes one pass.

use proptest::prelude::*;
use prost::Message;

use super::probe::both_ways;
use crate::proto::v1;
use crate::proto::v1::connect_request::Message as Payload;

fn mk_status() -> v1::StatusReport {
    v1::StatusReport {
        component: "db".into(),
        key: "primary".into(),
        kind: v1::StatusKind::Pull.into(),
        level: v1::Level::Waiting.into(),
        message: "waits for größe 3".into(),
        ..v1::StatusReport::default()
    }
}

fn mk_message(seq: u64, statuses: Vec<v1::StatusReport>) -> Vec<u8> {
    let report = v1::ConnectReport { seq, statuses };
    v1::ConnectRequest { message: Some(Payload::Report(report)) }.encode_to_vec()
}

#[test]
fn the_common_report_takes_one_pass() {
    let duration = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    for status in [
        mk_status(),
        v1::StatusReport { kind: 0, ..mk_status() },
        v1::StatusReport { component: String::new(), key: String::new(), ..mk_status() },
        v1::StatusReport { short_message: "ä".repeat(40), ..mk_status() },
        v1::StatusReport { message: "x".repeat(4096), ..mk_status() },
        v1::StatusReport { priority: -1_000_000, precedence: 7, ..mk_status() },
        v1::StatusReport { ttl: duration(60, 500_000_000), ..mk_status() },
        v1::StatusReport {
            reason: "NoDatabase".into(),
            check: "can_connect".into(),
            action: "integrate it".into(),
            ..mk_status()
        },
    ] {
        for seq in [1, u64::MAX] {
            assert!(both_ways(&mk_message(seq, vec![status.clone()])), "{status:?}");
        }
    }
}

#[test]
fn anything_else_is_left_to_prost() {
    let labels = [("a".to_string(), "b".to_string())].into_iter().collect();
    let observe_time = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
    let ttl = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    for status in [
        v1::StatusReport { labels, ..mk_status() },
        v1::StatusReport { observe_time, ..mk_status() },
        v1::StatusReport { level: 0, ..mk_status() },
        v1::StatusReport { level: 99, ..mk_status() },
        v1::StatusReport { level: -1, ..mk_status() },
        v1::StatusReport { kind: 3, ..mk_status() },
        v1::StatusReport { component: "-db".into(), ..mk_status() },
        v1::StatusReport { key: "x".repeat(254), ..mk_status() },
        v1::StatusReport { message: "x".repeat(4097), ..mk_status() },
        v1::StatusReport { short_message: "x".repeat(41), ..mk_status() },
        v1::StatusReport { reason: "x".repeat(254), ..mk_status() },
        v1::StatusReport { priority: 1_000_001, ..mk_status() },
        v1::StatusReport { ttl: ttl(0), ..mk_status() },
        v1::StatusReport { ttl: ttl(-1), ..mk_status() },
        v1::StatusReport { ttl: ttl(i64::MAX), ..mk_status() },
    ] {
        assert!(!both_ways(&mk_message(1, vec![status.clone()])), "{status:?}");
    }
    let common = mk_message(1, vec![mk_status()]);
    for message in [
        mk_message(0, vec![mk_status()]),
        mk_message(1, vec![]),
        mk_message(1, vec![mk_status(), mk_status()]),
        [&common[..], &common].concat(),
        [&common[..], &[0x78, 1]].concat(),
        common[..common.len() - 1].to_vec(),
        Vec::new(),
        vec![0x12, 0],
        vec![0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    ] {
        assert!(!both_ways(&message), "{message:?}");
    }
}

fn mk_text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z]{1,8}", ".{0,50}", "[a-z]{250,260}", "x{4090,4100}"]
}

fn mk_any_status() -> impl Strategy<Value = v1::StatusReport> {
    let names = ("[a-z/.-]{0,6}", "[a-z0-9]{0,30}");
    let numbers = (-1..4, -1..9, -2_000_000..2_000_000, any::<i32>());
    let texts = (mk_text(), mk_text(), mk_text(), mk_text());
    let times = proptest::option::of((-2..3_000_000_i64, -1..2_000_000_000_i32));
    (names, numbers, texts, times, 0..20).prop_map(|(names, numbers, texts, ttl, rare)| {
        let labels = (rare == 1).then(|| ("a".to_string(), "b".to_string()));
        v1::StatusReport {
            component: names.0,
            key: names.1,
            kind: numbers.0,
            level: numbers.1,
            message: texts.0,
            short_message: texts.1,
            reason: texts.2,
            check: if rare < 5 { texts.3 } else { String::new() },
            priority: if rare < 10 { numbers.2 } else { 0 },
            precedence: if rare == 2 { numbers.3 } else { 0 },
            labels: labels.into_iter().collect(),
            ttl: ttl.map(|(seconds, nanos)| prost_types::Duration { seconds, nanos }),
            ..v1::StatusReport::default()
        }
    })
}

proptest! {
    #[test]
    fn both_ways_agree_on_reports(
        seq in prop_oneof![0..3_u64, any::<u64>()],
        statuses in proptest::collection::vec(mk_any_status(), 0..3),
    ) {
        both_ways(&mk_message(seq, statuses));
    }

    #[test]
    fn both_ways_agree_on_damaged_reports(
        status in mk_any_status(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut message = mk_message(1, vec![status]);
        for (at, byte) in changes {
            let at = at.index(message.len());
            message[at] = byte;
        }
        both_ways(&message);
        message.truncate(cut.index(message.len()));
        both_ways(&message);
    }

    #[test]
    fn both_ways_agree_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        both_ways(&bytes);
        both_ways(&[&[0x12, bytes.len() as u8][..], &bytes].concat());
    }
}
