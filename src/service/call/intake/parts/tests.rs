//! Messages at the limits and beyond them, in binary proto and in JSON.

use bytes::Bytes;
use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::{Value, json};

use super::*;
use crate::domain::limits::DATA_KEYS_MAX;
use crate::proto::{self, v1};

const REPLACE: &str = ".bellwether.v1.ReplaceStatusesRequest";
const WATCH: &str = ".bellwether.v1.WatchApplicationsRequest";
const MULTIPLEX: &str = ".bellwether.v1.MultiplexWatchesRequest";
const LIST: &str = ".bellwether.v1.ListApplicationsRequest";
const DATA: &str = ".bellwether.v1.UpdateAppDataRequest";

fn types(statuses_max: usize) -> Types {
    let mut types = Types::new(statuses_max);
    types.add(&FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET).unwrap());
    types
}

fn refused(name: &str, message: &impl Message) -> Option<&'static str> {
    let mut types = types(0);
    let id = types.id(name);
    types.check(id, &message.encode_to_vec()).err().map(|found| found.limit)
}

fn refused_json(name: &str, message: &Value) -> Option<TooMany> {
    let mut types = types(0);
    let id = types.id(name);
    types.check_json(id, message.to_string().as_bytes()).err()
}

fn mk_set(status: v1::StatusReport, count: usize) -> v1::ReplaceStatusesRequest {
    let statuses = vec![status; count];
    v1::ReplaceStatusesRequest { statuses, ..v1::ReplaceStatusesRequest::default() }
}

fn mk_watch(count: usize) -> v1::WatchApplicationsRequest {
    let applications = vec![String::new(); count];
    v1::WatchApplicationsRequest { applications, ..v1::WatchApplicationsRequest::default() }
}

#[test]
fn a_list_of_any_entries_has_a_limit() {
    let levels = |count| v1::ListApplicationsRequest {
        levels: vec![0; count],
        ..v1::ListApplicationsRequest::default()
    };
    let multiplexed = |count| v1::MultiplexWatchesRequest {
        request: Some(v1::multiplex_watches_request::Request::Create(v1::CreateWatch {
            watch_id: 1,
            watch: Some(mk_watch(count)),
        })),
    };
    let data = |count| v1::UpdateAppDataRequest {
        delete: vec![String::new(); count],
        ..v1::UpdateAppDataRequest::default()
    };
    let set = |count: usize| v1::UpdateAppDataRequest {
        set: (0..count).map(|n| (n.to_string(), Bytes::new())).collect(),
        ..v1::UpdateAppDataRequest::default()
    };
    let over = Some("request_list_max");
    for (count, expected) in [(LIST_MAX, None), (LIST_MAX + 1, over), (1_400_000, over)] {
        assert_eq!(refused(WATCH, &mk_watch(count)), expected, "{count} texts");
        assert_eq!(refused(LIST, &levels(count)), expected, "{count} numbers");
        assert_eq!(refused(MULTIPLEX, &multiplexed(count)), expected, "{count} texts inside");
        let status = v1::StatusReport::default();
        assert_eq!(refused(REPLACE, &mk_set(status, count)), expected, "{count} messages");
    }
    let over = Some("data_keys_max");
    for (count, expected) in [(DATA_KEYS_MAX, None), (DATA_KEYS_MAX + 1, over)] {
        assert_eq!(refused(DATA, &data(count)), expected, "{count} keys");
        assert_eq!(refused(DATA, &set(count)), expected, "{count} entries");
    }
}

#[test]
fn a_list_of_json_has_the_same_limits() {
    let texts = |count| json!({"namespace": "a", "applications": vec![""; count]});
    let levels = |count| json!({"levels": vec![1; count]});
    let multiplexed = |count| json!({"create": {"watchId": "1", "watch": texts(count)}});
    let statuses = |count| json!({"statuses": vec![json!({"ttl": "9s"}); count]});
    for count in [LIST_MAX, LIST_MAX + 1, 100_000] {
        let expected = (LIST_MAX < count).then_some(("request_list_max", LIST_MAX));
        for (name, message) in [
            (WATCH, texts(count)),
            (LIST, levels(count)),
            (MULTIPLEX, multiplexed(count)),
            (REPLACE, statuses(count)),
        ] {
            let found = refused_json(name, &message);
            assert_eq!(found.map(|found| (found.limit, found.max)), expected, "{name} {count}");
        }
    }
    let labels: Value = (0..=LIST_MAX).map(|n| (n.to_string(), json!(""))).collect();
    let found = refused_json(REPLACE, &json!({"statuses": [{"labels": labels}]}));
    assert_eq!(found.unwrap().field.as_deref(), Some("labels"));
    let keys: Value = (0..=DATA_KEYS_MAX).map(|n| (n.to_string(), json!(""))).collect();
    assert_eq!(refused_json(DATA, &json!({"set": keys})).unwrap().limit, "data_keys_max");
    let keys = vec!["aaaa"; DATA_KEYS_MAX];
    assert_eq!(refused_json(DATA, &json!({ "delete": keys })), None);
}

#[test]
fn a_server_with_more_statuses_takes_longer_sets() {
    let mut types = types(LIST_MAX + 1);
    let id = types.id(REPLACE);
    let check = |count| {
        let set = mk_set(v1::StatusReport::default(), count).encode_to_vec();
        types.check(id, &set).map_err(|found| (found.limit, found.field))
    };
    assert_eq!(check(LIST_MAX + 1), Ok(()));
    assert_eq!(check(LIST_MAX + 2), Err(("statuses_per_unit_max", Some("statuses".into()))));
}

/// Parts are counted at any depth, and a text is no part.
#[test]
fn all_parts_together_have_a_limit_and_texts_have_none() {
    let labels = |count: usize| (0..count).map(|n| (format!("{n}"), String::new())).collect();
    let status = |count| v1::StatusReport { labels: labels(count), ..Default::default() };
    assert_eq!(refused(REPLACE, &mk_set(status(31), LIST_MAX)), None);
    assert_eq!(refused(REPLACE, &mk_set(status(32), LIST_MAX)), Some("request_parts_max"));
    let one = json!({"labels": (0..32).map(|n| (n.to_string(), json!(""))).collect::<Value>()});
    let found = refused_json(REPLACE, &json!({"statuses": vec![one; LIST_MAX]})).unwrap();
    assert_eq!((found.limit, found.field), ("request_parts_max", None));
    let message = "\u{a}\u{0}".repeat(2 << 20);
    let status = v1::StatusReport { message, ..v1::StatusReport::default() };
    assert_eq!(refused(REPLACE, &mk_set(status.clone(), 1)), None);
    let text = format!("\"{}\\\"{}", "[{".repeat(PARTS_MAX), ",".repeat(PARTS_MAX));
    assert_eq!(refused_json(REPLACE, &json!({"statuses": [{"message": text}]})), None);
}

/// What the decoder refuses is counted too: another reader may come first.
#[test]
fn keys_that_do_not_exist_count() {
    let keys = |count: usize| (0..count).map(|n| (n.to_string(), json!(0))).collect::<Value>();
    for message in [
        keys(PARTS_MAX + 1),
        json!({"unknown": keys(PARTS_MAX)}),
        json!({"namespace": keys(PARTS_MAX + 1)}),
        json!({"statuses": [{"message": vec![0; PARTS_MAX]}]}),
    ] {
        assert_eq!(refused_json(REPLACE, &message).map(|found| found.max), Some(PARTS_MAX));
    }
}

/// Decoders skip groups, which proto3 does not have, and read what follows.
#[test]
fn a_group_hides_no_part() {
    let mut types = types(0);
    let id = types.id(WATCH);
    let (open, inner, close) = (99 << 3 | 3_u64, 2 << 3 | 2_u64, 99 << 3 | 4_u64);
    let mut bytes = Vec::new();
    for tag in [open, inner, 0, close] {
        prost::encoding::encode_varint(tag, &mut bytes);
    }
    bytes.extend(mk_watch(LIST_MAX + 1).encode_to_vec());
    let decoded = v1::WatchApplicationsRequest::decode(&*bytes).unwrap();
    assert_eq!(decoded.applications.len(), LIST_MAX + 1);
    assert_eq!(types.check(id, &bytes).unwrap_err().limit, "request_list_max");
}

proptest::proptest! {
    #[test]
    fn bytes_that_are_no_message_are_left_to_the_decoder(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)
    ) {
        let mut types = types(0);
        let (id, mut left) = (types.id(REPLACE), Left(PARTS_MAX));
        proptest::prop_assert!(types.count(id, &bytes, &mut left, DEPTH_MAX).is_ok());
    }
}
