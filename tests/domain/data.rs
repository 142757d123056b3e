//! Single cases of the leader's data: what an update changes, what is counted, and the bounds.

use std::sync::Arc;

use bellwether::domain::apply::apply;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::data::DataPatch;
use bellwether::domain::data::refused::{EtagMismatch, ValueTooLarge};
use bellwether::domain::leadership::Claim;
use bellwether::domain::limits::{
    DATA_BYTES_MAX, DATA_KEY_BYTES_MAX, DATA_KEYS_MAX, DATA_VALUE_BYTES_MAX, LimitExceeded,
};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::Outcome;

use crate::case::{Case, reporter, unit};

/// Returns an application that `web/0` leads.
fn led() -> Case {
    let mut case = Case::new();
    case.run(Command::ClaimLeadership(reporter("web/0"), None));
    case
}

fn bytes(length: usize) -> Bytes {
    vec![b'v'; length].into()
}

/// Returns a patch that sets values of so many bytes.
fn set<'k>(values: impl IntoIterator<Item = (&'k str, usize)>) -> DataPatch {
    let values = values.into_iter().map(|(key, length)| (Arc::from(key), bytes(length)));
    DataPatch { set: values.collect(), ..DataPatch::default() }
}

fn delete(keys: &[&str]) -> DataPatch {
    let delete = keys.iter().map(|key| Arc::from(*key)).collect();
    DataPatch { delete, ..DataPatch::default() }
}

fn update(patch: DataPatch) -> Command {
    let claim = Claim { unit: unit("web/0"), lease_epoch: 1, decided_outside: false };
    Command::UpdateData(claim, patch)
}

fn run(case: &mut Case, patch: DataPatch) -> Outcome {
    case.run(update(patch))
}

/// Returns version, keys and bytes, and checks the counts against the values.
fn counted(case: &Case) -> (u64, u64, u64) {
    let (head, data) = (case.state.head().data, case.state.data());
    let size = data.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    assert_eq!((head.keys, head.bytes), (data.len() as u64, size as u64));
    (head.version, head.keys, head.bytes)
}

#[test]
fn an_update_counts_what_it_changes_and_nothing_else() {
    let mut case = led();
    let told = run(&mut case, set([("a", 10), ("bc", 20)]));
    assert_eq!((told.changed, told.removed, told.data_version), (true, 0, 1));
    assert_eq!(counted(&case), (1, 2, 33));
    // Longer, shorter, and one more.
    run(&mut case, set([("a", 13), ("bc", 12), ("d", 1)]));
    assert_eq!(counted(&case), (2, 3, 30));
    let revision = case.state.head().revision;
    for same in [set([("a", 13), ("d", 1)]), delete(&["e"]), set([("e", 0)])] {
        let told = run(&mut case, same.clone());
        assert_eq!((told.changed, told.removed, told.data_version), (false, 0, 2), "{same:?}");
    }
    assert_eq!((case.state.head().revision, counted(&case)), (revision, (2, 3, 30)));
    // An empty value deletes its key, as a deletion does.
    let patch = DataPatch { delete: delete(&["a", "e"]).delete, ..set([("d", 0), ("f", 4)]) };
    let told = run(&mut case, patch);
    assert_eq!((told.changed, told.removed, told.data_version), (true, 2, 3));
    assert_eq!(counted(&case), (3, 2, 19));
    let kept: Vec<&str> = case.state.data().keys().map(|key| &**key).collect();
    assert_eq!(kept, ["bc", "f"]);
}

#[test]
fn a_key_that_is_deleted_twice_counts_once() {
    let mut case = led();
    run(&mut case, set([("a", 10), ("b", 10)]));
    assert_eq!(run(&mut case, delete(&["a", "a"])).removed, 1);
    assert_eq!(counted(&case), (2, 1, 11));
    run(&mut case, delete(&["b", "b"]));
    assert_eq!(counted(&case), (3, 0, 0));
}

#[test]
fn an_update_with_an_etag_is_for_that_version_alone() {
    let mut case = led();
    for length in 1..=16 {
        run(&mut case, set([("a", length)]));
    }
    let at = |etag: &str| DataPatch { etag: Some(etag.into()), ..set([("a", 20)]) };
    for other in ["", "f", "16", "11"] {
        let refused = case.ask(update(at(other))).unwrap_err();
        let expected = EtagMismatch { current: "10".into() };
        assert_eq!(refused, Rejected::EtagMismatch(expected), "{other}");
    }
    assert_eq!(run(&mut case, at("10")).data_version, 17);
}

/// A batch of two updates has the same effect as one after the other.
#[test]
fn an_update_sees_those_before_it_in_the_same_commit() {
    let mut case = led();
    run(&mut case, set([("a", 10), ("b", 10)]));
    let both =
        [DataPatch { set: set([("c", 5)]).set, ..delete(&["a"]) }, set([("a", 1), ("c", 7)])];
    let told = case.commit(|draft| {
        both.map(|patch| apply(draft, &Request { id: None, command: update(patch) }).unwrap())
    });
    assert_eq!(told.map(|told| (told.removed, told.data_version)), [(1, 2), (0, 3)]);
    assert_eq!(counted(&case), (3, 3, 21));
}

#[test]
fn data_are_bounded_by_key_by_value_and_together() {
    let mut case = led();
    let too_large = |case: &mut Case, patch: DataPatch| match case.ask(update(patch)) {
        Err(Rejected::ValueTooLarge(ValueTooLarge { what, bytes, max })) => (what, bytes, max),
        other => panic!("{other:?}"),
    };
    let long = "k".repeat(DATA_KEY_BYTES_MAX + 1);
    assert_eq!(
        too_large(&mut case, set([(&*long, 1)])),
        (r#"key "kkkkkkkkkkkkkkkk"…"#.to_string(), 257, 256)
    );
    run(&mut case, set([(&long[1..], 1)]));
    run(&mut case, delete(&[&long[1..]]));
    let max = DATA_VALUE_BYTES_MAX;
    assert_eq!(
        too_large(&mut case, set([("a", max + 1)])),
        (r#"value of "a""#.to_string(), max as u64 + 1, max as u64)
    );
    // 31 values of 64 KiB, and one that fills what is left exactly.
    let keys: Vec<String> = (0..31).map(|n| format!("{n:02}")).collect();
    run(&mut case, set(keys.iter().map(|key| (&**key, max))));
    let left = DATA_BYTES_MAX as usize - 31 * (2 + max);
    let (first, rest) = (left / 2, left - left / 2);
    run(&mut case, set([("aa", first - 2)]));
    assert_eq!(
        too_large(&mut case, set([("bb", rest - 1)])),
        ("all keys and values together".to_string(), DATA_BYTES_MAX + 1, DATA_BYTES_MAX)
    );
    run(&mut case, set([("bb", rest - 2)]));
    assert_eq!(counted(&case).2, DATA_BYTES_MAX);
    // What is full may still change.
    run(&mut case, set([("aa", first - 1), ("bb", rest - 3)]));
}

#[test]
fn the_keys_of_the_data_are_bounded() {
    let mut case = led();
    let keys: Vec<String> = (0..=DATA_KEYS_MAX).map(|n| n.to_string()).collect();
    let of = |keys: &[String]| set(keys.iter().map(|key| (&**key, 1)).collect::<Vec<_>>());
    let refused = case.ask(update(of(&keys)));
    let what = "keys of the application's data".to_string();
    let expected = LimitExceeded { limit: "data_keys_max", what, max: DATA_KEYS_MAX };
    assert!(expected.to_string().ends_with("is fixed"), "{expected}");
    assert_eq!(refused, Err(Rejected::LimitExceeded(expected)));
    run(&mut case, of(&keys[1..]));
    assert_eq!(counted(&case).1, DATA_KEYS_MAX as u64);
}

/// As after the limit was lowered: what frees something, or takes no more, is accepted.
#[test]
fn data_over_the_limit_of_all_applications_are_replaced_but_do_not_grow() {
    let mut case = led();
    run(&mut case, set([("a", 10)]));
    case.limits.total.data_bytes = 5;
    let instead = |key, length| DataPatch { delete: delete(&["a"]).delete, ..set([(key, length)]) };
    let refused = case.ask(update(instead("b", 11))).unwrap_err();
    assert!(matches!(refused, Rejected::LimitExceeded(_)), "{refused}");
    run(&mut case, instead("b", 10));
    assert_eq!(counted(&case), (2, 1, 11));
}
