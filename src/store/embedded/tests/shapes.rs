//! Every shape in which records were written has a fixture. A shape is a struct with its number of
//! fields: records are arrays, and fields are only added at the end. `tests/formats/shapes.txt`
//! lists the shapes with the fixtures that have them, so a fixture that is removed is missed, and
//! so is the one of a shape that is new.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use redb::{Database, ReadableDatabase, ReadableTable};
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::domain::app::Head;
use crate::domain::bytes::Bytes;
use crate::domain::classify::finding::{Class, ErrorOrigin, Evidence, Finding, Hints};
use crate::domain::classify::{Rules, classify};
use crate::domain::command::{Command, Request};
use crate::domain::data::{DataHead, DataPatch};
use crate::domain::fault::{Fault, InternalDetail, NewError};
use crate::domain::history::StatusEvent;
use crate::domain::leadership::{Claim, Lease};
use crate::domain::level::Level;
use crate::domain::mark::head::MarkSummary;
use crate::domain::mark::{Cover, Mark, MarkKind, NewMark, Until};
use crate::domain::name::{AppName, OperationId, PartName, UnitName};
use crate::domain::need::{Need, Needs};
use crate::domain::operation::command::{NewOperation, OperationAction, OperationCommand};
use crate::domain::operation::winning::WinningOperation;
use crate::domain::operation::{Failure, Kind, Operation, Payload};
use crate::domain::policy::{Config, ConfigPatch};
use crate::domain::quorum::Quorum;
use crate::domain::request::{Outcome, Remembered};
use crate::domain::status::Status;
use crate::domain::status::report::{Details, Report};
use crate::domain::summary::{Summary, Totals, Winner};
use crate::domain::time::Timestamp;
use crate::domain::unit::{Callback, CallbackRequest, Topic, Unit};
use crate::store::codec;
use crate::store::conformance::driver::{mk_app, mk_reporter};
use crate::store::conformance::full::mk_full;
use crate::store::key::{EVENTS, HEADS, RECORDS};

use super::*;

/// A struct: its name, its fields in order, and the struct and field that contain it, as
/// `field/key` or `field/value` in a map.
struct Struct {
    name: &'static str,
    fields: &'static [&'static str],
    of: Option<(&'static str, &'static str)>,
}

fn structs() -> Vec<Struct> {
    fn of<T: DeserializeOwned>(of: Option<(&'static str, &'static str)>) -> Struct {
        let (name, fields) = fields_of::<T>();
        Struct { name, fields, of }
    }
    vec![
        of::<Head>(None),
        of::<Config>(Some(("Head", "config"))),
        of::<Summary>(Some(("Head", "summary"))),
        of::<Totals>(Some(("Summary", "totals"))),
        of::<Winner>(Some(("Summary", "winner"))),
        of::<WinningOperation>(Some(("Winner", "operation"))),
        of::<Lease>(Some(("Head", "lease"))),
        of::<DataHead>(Some(("Head", "data"))),
        of::<Unit>(None),
        of::<Topic>(Some(("Unit", "callbacks/key"))),
        of::<Callback>(Some(("Unit", "callbacks/value"))),
        of::<CallbackRequest>(Some(("Callback", "request"))),
        of::<Status>(None),
        of::<Report>(Some(("Status", "report"))),
        of::<Fault>(None),
        of::<NewError>(Some(("Fault", "error"))),
        of::<Finding>(Some(("NewError", "finding"))),
        of::<Remembered>(None),
        of::<Outcome>(Some(("Remembered", "outcome"))),
        of::<MarkSummary>(Some(("Head", "marks"))),
        of::<Mark>(None),
        of::<Cover>(Some(("Mark", "cover"))),
        of::<Operation>(None),
        of::<Failure>(Some(("Operation", "last_error"))),
        of::<StatusEvent>(None),
    ]
}

/// Returns the name and the fields of a struct, which it gives to a decoder.
fn fields_of<T: DeserializeOwned>() -> (&'static str, &'static [&'static str]) {
    struct Asked<'a>(&'a Cell<Option<(&'static str, &'static [&'static str])>>);

    impl<'de> Deserializer<'de> for Asked<'_> {
        type Error = de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("asked for the fields alone"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            name: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.set(Some((name, fields)));
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let asked = Cell::new(None);
    let _ = T::deserialize(Asked(&asked));
    asked.get().expect("a struct")
}

/// The arrays and maps of a record, whatever else it has.
enum Raw {
    Array(Vec<Raw>),
    Map(Vec<(Raw, Raw)>),
    Other,
}

impl<'de> serde::Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        struct Any;

        macro_rules! other {
            ($($method:ident: $type:ty),*) => {
                $(fn $method<E>(self, _: $type) -> Result<Raw, E> { Ok(Raw::Other) })*
            };
        }

        impl<'de> Visitor<'de> for Any {
            type Value = Raw;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("anything")
            }

            other! {
                visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str,
                visit_bytes: &[u8]
            }

            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                let mut array = Vec::new();
                while let Some(element) = seq.next_element()? {
                    array.push(element);
                }
                Ok(Raw::Array(array))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Raw::Map(entries))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// The shapes that were found, each as `Struct fields`.
#[derive(Default)]
struct Found(BTreeSet<(&'static str, usize)>);

impl Found {
    /// Adds the shapes of a record and of the structs in it.
    fn add(&mut self, name: &'static str, record: &Raw) {
        let Raw::Array(values) = record else { return };
        self.0.insert((name, values.len()));
        for inner in structs() {
            let Some((outer, field)) = inner.of else { continue };
            let fields = structs().into_iter().find(|s| s.name == outer).unwrap().fields;
            let (field, part) = field.split_once('/').unwrap_or((field, ""));
            let at = fields.iter().position(|name| *name == field).unwrap();
            match values.get(at).filter(|_| outer == name) {
                Some(Raw::Map(entries)) => entries.iter().for_each(|(key, value)| {
                    self.add(inner.name, if part == "key" { key } else { value });
                }),
                Some(value) => self.add(inner.name, value),
                None => {}
            }
        }
    }

    /// Adds the shapes of all records of a database.
    fn add_all(&mut self, path: &Path) {
        let database = Database::open(path).unwrap();
        let txn = database.begin_read().unwrap();
        for (table, name) in [(HEADS, "Head"), (RECORDS, ""), (EVENTS, "StatusEvent")] {
            for entry in txn.open_table(table).unwrap().iter().unwrap() {
                let (key, value) = entry.unwrap();
                let kind = key.value().split(|byte| *byte == 0).nth(2).unwrap()[..].first();
                let name = match (name, kind) {
                    ("", Some(b'u')) => "Unit",
                    ("", Some(b's')) => "Status",
                    ("", Some(b'f')) => "Fault",
                    ("", Some(b'r')) => "Remembered",
                    ("", Some(b'o')) => "Operation",
                    ("", Some(b'm')) => "Mark",
                    ("", _) => continue,
                    (name, _) => name,
                };
                let record: Raw = codec::decode(value.value()).unwrap();
                match record {
                    // The position and the head.
                    Raw::Array(mut pair) if name == "Head" => self.add(name, &pair.remove(1)),
                    record => self.add(name, &record),
                }
            }
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
}

/// Returns each shape with the fixtures that have it.
fn in_fixtures() -> BTreeMap<(&'static str, usize), Vec<String>> {
    let mut shapes: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "redb"));
    paths.sort();
    for path in paths {
        let dir = TempDir::new().unwrap();
        let copy = dir.path().join("copy.redb");
        std::fs::copy(&path, &copy).unwrap();
        let mut found = Found::default();
        found.add_all(&copy);
        let name = path.file_name().unwrap().to_str().unwrap();
        found.0.into_iter().for_each(|shape| shapes.entry(shape).or_default().push(name.into()));
    }
    shapes
}

#[test]
fn no_fixture_of_a_shape_is_missing() {
    let shapes = in_fixtures();
    for Struct { name, fields, .. } in structs() {
        let count = fields.len();
        assert!(
            shapes.contains_key(&(name, count)),
            "no fixture has a {name} with the {count} fields that are written now; add one: \
             cargo test --lib write_newest_fixture -- --ignored"
        );
    }
    let lines = shapes
        .iter()
        .map(|((name, count), fixtures)| format!("{name} {count}: {}\n", fixtures.join(" ")));
    let path = folder().join("shapes.txt");
    let text: String = lines.collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let listed = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, listed, "what was shipped stays; a new fixture is added with UPDATE=1");
}

fn mk_needs() -> Needs {
    let app = AppName::new("infra", "db").unwrap();
    let app = Need::application(app, vec![Level::Active, Level::Waiting]);
    Needs::from_iter([app, Need::Outside("quota cpu".into())])
}

fn mk_mark() -> NewMark {
    let unit = UnitName::new("web/0").unwrap();
    NewMark {
        id: "ticket".into(),
        kind: MarkKind::Planned,
        cover: Cover { unit, component: Some(PartName::default()), key: None },
        start: None,
        until: Until::After(Duration::from_secs(3600)),
        reason: "new disks".into(),
        author: "alice".into(),
        ends_when_well: true,
    }
}

fn mk_error(code: &str) -> NewError {
    let evidence = Evidence {
        system: "grpc".into(),
        code: code.into(),
        origin: ErrorOrigin::Peer,
        outcome: None,
        domain: "a.example".into(),
        reason: "AWAY".into(),
        message: "it is away".into(),
        retry_after: Some(Duration::from_secs(1)),
        hints: Hints::default(),
    };
    NewError {
        needs: mk_needs(),
        finding: classify(&Rules::default(), &evidence),
        evidence,
        internal_detail: InternalDetail("a trace".into()),
        action: "look".into(),
        operation_id: "up-v2".into(),
        attempt: 3,
        generation: "7".into(),
        shortest_wait: Some(Duration::from_secs(300)),
    }
}

/// Returns the report of an error of a target.
fn mk_report_error(code: &str, target: &str) -> Command {
    Command::ReportError {
        reporter: mk_reporter("web/0"),
        component: PartName::new("db").unwrap(),
        target: target.into(),
        error: Box::new(mk_error(code)),
    }
}

/// Returns the end of an attempt by an error that blocks and may end by itself.
fn mk_failed() -> OperationAction {
    let failure = Failure {
        class: Class::Blocked,
        component: "db".into(),
        target: "https://db:5432/".into(),
        system: "grpc".into(),
        code: "FAILED_PRECONDITION".into(),
        domain: "a.example".into(),
        reason: "".into(),
        message: "it is not ready".into(),
        tried_again: Some("make it ready".into()),
    };
    OperationAction::Fail { fence: 1, failure, touched: false, retry_after: None }
}

/// Returns an active unit and a quorum that is not met: without them, the quorum and the count of
/// its units are not written.
fn mk_quorum() -> [Command; 2] {
    let mut active = mk_report("web/1", "");
    let Command::Report(_, _, new) = &mut active else { unreachable!() };
    Arc::make_mut(&mut new.report).level = Level::Active;
    let quorum = Some(Some(Quorum::Units(2)));
    let config = ConfigPatch { quorum, ..ConfigPatch::default() };
    [active, Command::Configure(Box::new(config))]
}

/// Returns the begin of an operation of a unit, or with `""` of the application.
fn mk_begin(id: &str, of: &str) -> Command {
    let action = OperationAction::Begin(Box::new(NewOperation {
        unit: UnitName::new(of).unwrap_or_default(),
        kind: Kind::Upgrade,
        from_version: "v1".into(),
        target_version: "v2".into(),
        payload: Payload { uri: "".into(), digest: "sha256:0".into() },
        bytes: Some(Bytes::from(vec![0, 159, 146, 150])),
        deterministic: true,
        reversible: false,
        attempts_max: 3,
        interruptions_max: 100,
        deadline: None,
        lease_duration: Duration::from_secs(3600),
        supersede: false,
        note: "a note".into(),
    }));
    let (id, by) = (OperationId::new(id).unwrap(), UnitName::new("web/0").unwrap());
    Command::Operate(OperationCommand { id, by, action })
}

/// Returns commands that write records which [`mk_full`] does not have.
fn mk_commands() -> Vec<Command> {
    let unit = || UnitName::new("web/0").unwrap();
    let (whole, own) = (mk_begin("up-v2", ""), mk_begin("own-v2", "web/0"));
    let of_unit = OperationId::new("own-v2").unwrap();
    let set = BTreeMap::from([("key".into(), Bytes::from(b"value".to_vec()))]);
    let patch = DataPatch { set, delete: Vec::new(), etag: None };
    // The last fields of a summary and of an event are written only if they have a value.
    let report = |message| {
        let mut report = mk_report("web/0", message);
        let Command::Report(_, _, new) = &mut report else { unreachable!() };
        let said = Arc::make_mut(&mut new.report);
        // It wins over the operation.
        let end_after = Some(Duration::from_secs(86_400));
        let short_message = "up".into();
        let mut details = Details { short_message, end_after, ..Details::default() };
        (details.needs, details.since_unknown) = (mk_needs(), true);
        *said = Report { level: Level::Blocked, ..said.clone() }.with(details);
        report
    };
    let [active, quorum] = mk_quorum();
    vec![
        active,
        quorum,
        report("up"),
        Command::ClaimLeadership(mk_reporter("web/0"), None),
        Command::UpdateData(Claim { unit: unit(), lease_epoch: 1, decided_outside: false }, patch),
        whole,
        own,
        Command::Operate(OperationCommand { id: of_unit, by: unit(), action: mk_failed() }),
        // What follows is marked in its last field.
        Command::SetMark(Box::new(mk_mark())),
        Command::AnnounceStop(mk_reporter("web/0")),
        report("stopping"),
        mk_report_error("UNAVAILABLE", "https://db:5432/"),
        // It is not held, which is in the last field of its finding.
        mk_report_error("INVALID_ARGUMENT", "https://db:5433/"),
        // A retry has neither a key nor a request.
        Command::AddCallback {
            unit: unit(),
            topic: Topic::retry(PartName::default(), "https://db:5432/"),
            at: Timestamp::new(1),
            operation_id: "".into(),
        },
        Command::RequestCallback {
            reporter: mk_reporter("web/0"),
            topic: Topic::requested(PartName::default(), PartName::new("volume").unwrap()),
            after: Some(Duration::from_secs(30)),
            reason: "the volume attaches".into(),
        },
    ]
}

/// Writes a fixture with the shapes that are written now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes into the repository"]
async fn write_newest_fixture() {
    // Fields are only added, so the number of all fields is a version.
    let version: usize = structs().iter().map(|s| s.fields.len()).sum();
    let path = folder().join(format!("v{}-fields-{version}.redb", codec::FORMAT));
    assert!(!path.exists(), "what was shipped is not rewritten");
    let dir = TempDir::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
    for transition in mk_full() {
        store.commit(Arc::new(transition)).await.unwrap();
    }
    let mut driver = Driver::load(&store, mk_app("newest")).await.unwrap();
    for command in mk_commands() {
        driver.run(command).await;
    }
    // Its answer ends with the configuration.
    let patch = ConfigPatch { lost_after: Some(Duration::from_secs(7)), ..ConfigPatch::default() };
    let command = Command::Configure(Box::new(patch));
    let configure = Request { id: Some("configured".into()), command };
    let transition = driver.draft_requests([configure], store.now());
    driver.commit(transition).await.unwrap();
    // An operation wins where nothing else is reported.
    let mut driver = Driver::load(&store, mk_app("operating")).await.unwrap();
    driver.run(mk_begin("up-v2", "")).await;
    store.close().await;
    // The data of an application whose tombstone was pruned end with what its counts begin above.
    let mut options = mk_options();
    options.retention.tombstones_max = 0;
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path(), options).unwrap());
    for _ in 0..2 {
        let mut driver = Driver::load(&store, mk_app("again")).await.unwrap();
        driver.run(mk_report("web/0", "up")).await;
        if driver.state.head().data.counts_above == 0 {
            driver.delete().await;
        }
    }
    store.close().await;
    let file = dir.path().join("bellwether.redb");
    Database::open(&file).unwrap().compact().unwrap();
    std::fs::copy(file, path).unwrap();
}

/// The newest fixture is read: its records are those that the commands give now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixtures_of_later_fields_are_read() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_str().unwrap().contains("-fields-") {
            continue;
        }
        let dir = TempDir::new().unwrap();
        std::fs::copy(&path, dir.path().join("bellwether.redb")).unwrap();
        let store: Arc<dyn Store> =
            Arc::new(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
        let state = Driver::load(&store, mk_app("newest")).await.unwrap().state;
        let head = state.head();
        assert_eq!(head.lease_epoch, 1, "{}", path.display());
        assert_ne!(head.open_faults.count, 0, "{}", path.display());
        assert_eq!(head.lease.as_ref().unwrap().holder.as_str(), "web/0");
        assert_eq!(state.data().len(), 1);
        assert_ne!(head.usage().operations, 0);
        if path.ends_with("v1-fields-202.redb") {
            let callbacks = &state.unit(&UnitName::new("web/0").unwrap()).unwrap().callbacks;
            let requests: Vec<_> = callbacks.values().filter_map(|c| c.request.as_ref()).collect();
            // The others are retries: of a target, and of the operation.
            assert_eq!((callbacks.len(), requests.len()), (3, 1));
            assert_eq!(&*requests[0].reason, "the volume attaches");
        }
        store.close().await;
    }
}
