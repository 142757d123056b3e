//! Every method that the server serves, one row each: who may call it, how it counts, how large its
//! messages are. `docs/security.md` shows the rights. A method without a row keeps the server from
//! starting.

use std::collections::HashMap;

use crate::security::role::right::Right;
use crate::service::caller::Class;
use crate::service::caller::outgoing::size;

/// The size of a message of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSize {
    /// At most `small_bytes_max`, 64 KiB unless it is set.
    Small,
    /// At most `large_bytes_max`: long sets, payloads, lists of names.
    Large,
}

/// The room that an answer takes before it is rendered, besides that for any answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSize {
    /// None. Each message of a stream waits for room of its own.
    Short,
    /// One application, or an operation without its payload.
    One,
    /// A list, or an operation with its payload.
    List,
}

impl AnswerSize {
    /// Returns the bytes of the room; `None` for a short answer.
    pub fn bytes(self) -> Option<usize> {
        match self {
            AnswerSize::Short => None,
            AnswerSize::One => Some(size::ONE),
            AnswerSize::List => Some(size::LIST),
        }
    }

    /// Returns the bytes of the room for an answer in JSON; `None` for a short answer.
    pub fn bytes_as_json(self) -> Option<usize> {
        match self {
            AnswerSize::Short => None,
            AnswerSize::One => Some(size::ONE_AS_JSON),
            AnswerSize::List => Some(size::LIST_AS_JSON),
        }
    }
}

/// What a relay does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtRelay {
    /// Answers it from its copy.
    Serves,
    /// Passes it to its upstream, with the credentials of the caller.
    Passes,
    /// Refuses it with the address of the upstream.
    Refuses,
}

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    /// The service with its package.
    pub service: &'static str,
    /// The method without its service.
    pub name: &'static str,
    /// What it asks of its caller. [`Right::Unit`] and [`Right::UnitOrOperator`] name the field
    /// `unit` of the request as the unit that acts.
    pub right: Right,
    /// The rate that it counts against.
    pub class: Class,
    /// The size of its request.
    pub request: RequestSize,
    /// The size of its answer.
    pub answer: AnswerSize,
    /// What a relay does with it.
    pub relay: AtRelay,
    /// A remark on the right, for the documentation.
    pub note: &'static str,
}

impl Method {
    /// Returns the path of a call: `/package.Service/Method`.
    pub fn path(&self) -> String {
        format!("/{}/{}", self.service, self.name)
    }

    /// Returns whether machines call it all the time: its span has level debug.
    pub fn is_quiet(&self) -> bool {
        self.service.starts_with("grpc.")
    }
}

const REPORT: &str = "bellwether.v1.ReportService";
const WORKER: &str = "bellwether.v1.WorkerService";
const LEADER: &str = "bellwether.v1.LeaderService";
const DATA: &str = "bellwether.v1.AppDataService";
const OPERATION: &str = "bellwether.v1.OperationService";
const APPLICATION: &str = "bellwether.v1.ApplicationService";
const SERVER: &str = "bellwether.v1.ServerService";
const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
const REFLECTION_ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

macro_rules! table {
    ($($service:ident {
        $($name:ident $right:ident $class:ident $request:ident $answer:ident $relay:ident
            $note:literal;)*
    })*) => {
        &[$($(Method {
            service: $service,
            name: stringify!($name),
            right: Right::$right,
            class: Class::$class,
            request: RequestSize::$request,
            answer: AnswerSize::$answer,
            relay: AtRelay::$relay,
            note: $note,
        },)*)*]
    };
}

/// Every method: its name, right, class of rate, size of the request, size of the answer, what a
/// relay does with it, a note on the right.
pub const TABLE: &[Method] = table! {
    REPORT {
        ReportStatus               Unit           Report    Small Short Refuses "";
        ReplaceStatuses            Unit           Report    Large Short Refuses "";
        ClearStatus                Unit           Report    Small Short Refuses "";
        ReportError                Unit           Report    Large Short Refuses "";
        ResolveError               Unit           Report    Small Short Refuses "";
    }
    WORKER {
        Connect                    Unit           Watch     Large Short Refuses
            "`hello` names the unit";
        RegisterUnit               Unit           Report    Small List  Refuses "";
        AnnounceStop               Unit           Report    Small Short Refuses "";
        RequestCallback            Unit           Report    Small Short Refuses "";
    }
    LEADER {
        ClaimLeadership            Unit           Report    Small Short Refuses "";
        RenewLeadership            Unit           Heartbeat Small Short Refuses
            "its lease epoch counts";
        ReleaseLeadership          Unit           Report    Small Short Refuses
            "its lease epoch counts";
        GetLeader                  Read           Read      Small Short Passes  "";
        TransferLeadership         Operate        Report    Small Short Refuses "";
    }
    DATA {
        GetAppData                 Data           Read      Small List  Passes  "";
        WatchAppData               Data           Watch     Small Short Refuses "";
        UpdateAppData              UnitOrOperator Report    Large Short Refuses
            "its lease epoch counts";
    }
    OPERATION {
        BeginOperation             UnitOrOperator Report    Large List  Refuses
            "`supersede`: operator";
        AcquireOperation           Unit           Report    Small List  Refuses "";
        HeartbeatOperation         Unit           Heartbeat Large One   Refuses
            "no unit: worker of `*`";
        ReleaseOperation           Unit           Report    Small Short Refuses
            "no unit: worker of `*`";
        CompleteOperation          Unit           Report    Small List  Refuses
            "no unit: worker of `*`";
        FailOperation              Unit           Report    Large List  Refuses
            "no unit: worker of `*`";
        VerifyOperation            Unit           Report    Small List  Refuses
            "no unit: worker of `*`";
        CancelOperation            Operate        Report    Small List  Refuses "";
        RetryOperation             Operate        Report    Small List  Refuses "";
        GetOperation               Data           Read      Small List  Passes
            "has payload and checkpoint";
        ListOperations             Read           Read      Small List  Passes  "";
    }
    APPLICATION {
        GetApplication             Read           Read      Small One   Serves  "";
        ExplainApplication         Read           Read      Small List  Passes  "";
        ListStatuses               List           Read      Small List  Passes
            "of one application: `Read`";
        ListUnits                  Read           Read      Small List  Passes  "";
        ListFaults                 Read           Read      Small List  Passes
            "`include_internal_detail`: operator";
        ListStatusEvents           Read           Read      Small List  Passes  "";
        ListPast                   List           Read      Small List  Passes  "";
        GetUptime                  Read           Read      Small Short Passes  "";
        ListBlockers               List           Read      Small List  Serves
            "causes that it may not read have a name only";
        ListApplications           List           Read      Small List  Serves
            "`-`: of all namespaces";
        ListNamespaces             List           Read      Small List  Serves
            "only namespaces that it may list";
        WatchApplications          List           Watch     Large Short Serves
            "with names: `Read` for each";
        MultiplexWatches           List           Watch     Large Short Serves
            "each `create` as WatchApplications";
        CollectApplication         Operate        Report    Small List  Refuses
            "makes every worker work";
        ResolveHold                Operate        Report    Small Short Refuses "";
        SetMark                    Operate        Report    Small Short Refuses "";
        RemoveMark                 Operate        Report    Small Short Refuses "";
        ListMarks                  List           Read      Small List  Passes
            "of one application: `Read`";
        RemoveUnit                 Operate        Report    Small Short Refuses
            "a worker removes itself by `goodbye`";
        DeleteApplication          Operate        Report    Small Short Refuses "";
        ConfigureApplication       Operate        Report    Small Short Refuses "";
        SetApplicationStatus       UnitOrOperator Report    Small Short Refuses
            "its lease epoch counts";
        ReplaceApplicationStatuses UnitOrOperator Report    Large Short Refuses
            "its lease epoch counts";
        ClearApplicationStatus     UnitOrOperator Report    Small Short Refuses
            "its lease epoch counts";
    }
    SERVER {
        GetServerInfo              Known          Read      Small Short Serves  "";
    }
    HEALTH {
        Check                      Anyone         Heartbeat Small Short Serves
            "of an application: `Read`; of a namespace: to list it";
        Watch                      Anyone         Watch     Small Short Serves
            "of an application: `Read`; of a namespace: to list it";
        List                       List           Heartbeat Small Short Serves  "of all namespaces";
    }
    REFLECTION {
        ServerReflectionInfo       Known          Read      Small Short Serves  "";
    }
    REFLECTION_ALPHA {
        ServerReflectionInfo       Known          Read      Small Short Serves  "";
    }
};

/// Returns the rows by their paths. A call is looked up in what is built of them at the start.
pub fn by_path(rows: &[Method]) -> HashMap<String, &Method> {
    rows.iter().map(|row| (row.path(), row)).collect()
}

/// Returns the rights as Markdown, for the documentation.
pub fn rights_as_markdown() -> String {
    let mut text = String::from("| Service | Method | Who | Note |\n|---|---|---|---|\n");
    for Method { service, name, right, note, .. } in TABLE {
        let service = service.trim_start_matches("bellwether.v1.");
        let line = format!("| `{service}` | `{name}` | {} | {note} |\n", right.words());
        text.push_str(&line.replace("|  |", "| |"));
    }
    text
}

/// Returns what a relay does with each call as Markdown, for the documentation.
pub fn relays_as_markdown() -> String {
    let named = |relay: AtRelay| {
        let rows = TABLE.iter().filter(|row| row.relay == relay);
        let rows = rows.filter(|row| !row.service.starts_with("grpc."));
        rows.map(|row| format!("`{}`", row.name)).collect::<Vec<_>>()
    };
    let mut text = String::new();
    for (what, names) in [
        ("It answers from its copy:", named(AtRelay::Serves)),
        ("It passes to its upstream:", named(AtRelay::Passes)),
        ("It refuses:", named(AtRelay::Refuses)),
    ] {
        let mut line = format!("- {what}");
        for (at, name) in names.iter().enumerate() {
            let end = if at + 1 < names.len() { "," } else { "." };
            if 120 < line.len() + name.len() + 2 {
                text += &format!("{line}\n");
                line = " ".to_string();
            }
            line += &format!(" {name}{end}");
        }
        text += &format!("{line}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use prost_types::method_options::IdempotencyLevel;

    use super::*;
    use crate::service::descriptor;

    /// Returns the name of a field of a message.
    fn field(message: &str, number: i32) -> String {
        let files = descriptor::served().iter().flat_map(|set| &set.file);
        let mut messages = files.flat_map(|file| &file.message_type);
        let message = messages.find(|each| each.name() == message).unwrap();
        let found = message.field.iter().find(|field| field.number() == number);
        found.map_or("", |field| field.name()).to_string()
    }

    /// A relay reads these two fields of a call that it passes on or refuses: to check the rights
    /// of the caller, and for the upstream that has the application.
    #[test]
    fn a_call_for_the_upstream_names_its_application_in_its_first_two_fields() {
        let is_for_it =
            |path: &str| TABLE.iter().any(|row| row.relay != AtRelay::Serves && row.path() == path);
        let mut count = 0;
        for (path, method) in descriptor::methods(descriptor::served()) {
            let input = match path.as_str() {
                _ if !is_for_it(&path) => continue,
                // The first message of a session has one field.
                "/bellwether.v1.WorkerService/Connect" => {
                    assert_eq!(field("ConnectRequest", 1), "hello");
                    "Hello"
                }
                _ => method.input_type().rsplit('.').next().unwrap(),
            };
            assert_eq!(field(input, 1), "namespace", "{path}");
            assert!(["application", "applications"].contains(&&*field(input, 2)), "{path}");
            count += 1;
        }
        assert!(40 < count, "{count}");
    }

    /// Lines around the table in the documentation.
    const BEGIN: &str = "<!-- rights: begin -->\n";
    const END: &str = "<!-- rights: end -->\n";

    /// With `UPDATE=1` it writes the tables instead.
    #[test]
    fn the_documentation_has_the_tables() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let pages = [("security.md", rights_as_markdown()), ("relay.md", relays_as_markdown())];
        for (page, table) in pages {
            let path = root.join(page);
            let text = std::fs::read_to_string(&path).unwrap();
            let (before, rest) = text.split_once(BEGIN).expect("the page has the begin");
            let (written, after) = rest.split_once(END).expect("the page has the end");
            let table = format!("\n{table}\n");
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
                continue;
            }
            assert_eq!(written, table, "{page}: run the test with UPDATE=1");
        }
    }

    #[test]
    fn a_relay_changes_nothing() {
        for row in TABLE.iter().filter(|row| row.class == Class::Report) {
            assert_eq!(row.relay, AtRelay::Refuses, "{}", row.name);
        }
    }

    #[test]
    fn every_method_has_one_row_and_every_row_a_method() {
        let served = descriptor::methods(descriptor::served());
        let mut served: Vec<String> = served.map(|(path, _)| path).collect();
        let mut rows: Vec<String> = TABLE.iter().map(Method::path).collect();
        served.sort();
        served.dedup();
        rows.sort();
        assert_eq!(rows, served);
    }

    #[test]
    fn a_row_agrees_with_the_descriptor_of_its_method() {
        for (path, method) in descriptor::methods(descriptor::served()) {
            let row = TABLE.iter().find(|row| row.path() == path).unwrap();
            let level = method.options.as_ref().map(|options| options.idempotency_level());
            let is_read = level == Some(IdempotencyLevel::NoSideEffects);
            let is_stream = method.client_streaming() || method.server_streaming();
            let classes = match (is_stream, is_read) {
                _ if path.starts_with("/grpc.reflection.") => vec![Class::Read],
                (true, _) => vec![Class::Watch],
                (false, true) => vec![Class::Read, Class::Heartbeat],
                (false, false) => vec![Class::Report, Class::Heartbeat],
            };
            assert!(classes.contains(&row.class), "{path}: {:?}", row.class);
            assert!(!is_stream || row.answer == AnswerSize::Short, "{path}");
            let is_list = row.name.starts_with("List") && !row.is_quiet();
            assert!(!is_list || row.answer == AnswerSize::List, "{path}");
        }
    }

    #[test]
    fn hundreds_of_reads_of_a_connection_may_wait_for_a_revision_at_once() {
        let max = crate::service::caller::outgoing::Limits::default().per_connection_max;
        assert!(size::ONE_AS_JSON * 256 < max);
    }
}
