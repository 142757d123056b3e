//! The right of every method: the only table, which `docs/security.md` shows. A method without a
//! row keeps the server from starting.

use super::Role;

/// What a method asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Nothing, for the server as a whole; `Read` for an application.
    Anyone,
    /// To be known.
    Known,
    /// To act as the unit of the request; an empty unit needs a worker of all units.
    Unit,
    /// To act as the unit of the request; without a unit it needs an operator.
    UnitOrOperator,
    /// To read the application.
    Read,
    /// To read the data of the application.
    Data,
    /// To read every application that is asked for.
    List,
    /// To be an operator of the application.
    Operate,
}

impl Right {
    /// Returns the roles of which a caller needs one at least; `None` if it needs no role. A caller
    /// without any is refused before its request is read.
    pub fn roles(self) -> Option<&'static [Role]> {
        use Role::{Operator, Reader, Worker};
        match self {
            Right::Anyone | Right::Known => None,
            Right::Unit => Some(&[Worker]),
            Right::UnitOrOperator => Some(&[Worker, Operator]),
            Right::Read | Right::Data | Right::List => Some(&[Worker, Reader, Operator]),
            Right::Operate => Some(&[Operator]),
        }
    }

    /// Returns who has the right, for the documentation.
    pub fn words(self) -> &'static str {
        match self {
            Right::Anyone => "any caller",
            Right::Known => "any known caller",
            Right::Unit => "worker of the unit",
            Right::UnitOrOperator => "worker of the unit; operator if empty",
            Right::Read => "worker, reader, operator",
            Right::Data => "worker, reader with `data`, operator",
            Right::List => "reader, operator of all of it",
            Right::Operate => "operator",
        }
    }
}

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct MethodRight {
    /// The service with its package.
    pub service: &'static str,
    /// The method.
    pub method: &'static str,
    /// What it asks of its caller.
    pub right: Right,
    /// A remark for the documentation.
    pub note: &'static str,
}

const fn row(
    service: &'static str,
    method: &'static str,
    right: Right,
    note: &'static str,
) -> MethodRight {
    MethodRight { service, method, right, note }
}

const REPORT: &str = "bellwether.v1.ReportService";
const WORKER: &str = "bellwether.v1.WorkerService";
const LEADER: &str = "bellwether.v1.LeaderService";
const DATA: &str = "bellwether.v1.AppDataService";
const OPERATION: &str = "bellwether.v1.OperationService";
const APPLICATION: &str = "bellwether.v1.ApplicationService";
const SERVER: &str = "bellwether.v1.ServerService";
const HEALTH: &str = "grpc.health.v1.Health";

/// The right of every method.
pub const TABLE: &[MethodRight] = &[
    row(REPORT, "ReportStatus", Right::Unit, ""),
    row(REPORT, "ReplaceStatuses", Right::Unit, ""),
    row(REPORT, "ClearStatus", Right::Unit, ""),
    row(REPORT, "ReportError", Right::Unit, ""),
    row(REPORT, "ResolveError", Right::Unit, ""),
    row(WORKER, "Connect", Right::Unit, "`hello` names the unit"),
    row(WORKER, "RegisterUnit", Right::Unit, ""),
    row(WORKER, "AnnounceStop", Right::Unit, ""),
    row(LEADER, "ClaimLeadership", Right::Unit, ""),
    row(LEADER, "RenewLeadership", Right::Unit, "its lease epoch counts"),
    row(LEADER, "ReleaseLeadership", Right::Unit, "its lease epoch counts"),
    row(LEADER, "GetLeader", Right::Read, ""),
    row(LEADER, "TransferLeadership", Right::Operate, ""),
    row(DATA, "GetAppData", Right::Data, ""),
    row(DATA, "WatchAppData", Right::Data, ""),
    row(DATA, "UpdateAppData", Right::UnitOrOperator, "its lease epoch counts"),
    row(OPERATION, "BeginOperation", Right::UnitOrOperator, "`supersede`: operator"),
    row(OPERATION, "AcquireOperation", Right::Unit, ""),
    row(OPERATION, "HeartbeatOperation", Right::Unit, "empty unit: worker of `*`"),
    row(OPERATION, "ReleaseOperation", Right::Unit, "empty unit: worker of `*`"),
    row(OPERATION, "CompleteOperation", Right::Unit, "empty unit: worker of `*`"),
    row(OPERATION, "FailOperation", Right::Unit, "empty unit: worker of `*`"),
    row(OPERATION, "VerifyOperation", Right::Unit, "empty unit: worker of `*`"),
    row(OPERATION, "CancelOperation", Right::Operate, ""),
    row(OPERATION, "RetryOperation", Right::Operate, ""),
    row(OPERATION, "GetOperation", Right::Data, "has payload and checkpoint"),
    row(OPERATION, "ListOperations", Right::Read, ""),
    row(APPLICATION, "GetApplication", Right::Read, ""),
    row(APPLICATION, "ExplainApplication", Right::Read, ""),
    row(APPLICATION, "ListStatuses", Right::Read, ""),
    row(APPLICATION, "ListUnits", Right::Read, ""),
    row(APPLICATION, "ListFaults", Right::Read, "`include_internal_detail`: operator"),
    row(APPLICATION, "ListStatusEvents", Right::Read, ""),
    row(APPLICATION, "ListApplications", Right::List, "`-`: of all namespaces"),
    row(APPLICATION, "WatchApplications", Right::List, "with names: `Read` for each"),
    row(APPLICATION, "MultiplexWatches", Right::List, "each `create` as WatchApplications"),
    row(APPLICATION, "CollectApplication", Right::Operate, "makes every worker work"),
    row(APPLICATION, "ResolveHold", Right::Operate, ""),
    row(APPLICATION, "RemoveUnit", Right::Operate, "a worker removes itself by `goodbye`"),
    row(APPLICATION, "DeleteApplication", Right::Operate, ""),
    row(APPLICATION, "ConfigureApplication", Right::Operate, ""),
    row(APPLICATION, "SetApplicationStatus", Right::UnitOrOperator, "its lease epoch counts"),
    row(APPLICATION, "ReplaceApplicationStatuses", Right::UnitOrOperator, "its lease epoch counts"),
    row(APPLICATION, "ClearApplicationStatus", Right::UnitOrOperator, "its lease epoch counts"),
    row(SERVER, "GetServerInfo", Right::Known, ""),
    row(HEALTH, "Check", Right::Anyone, "of an application: `Read`"),
    row(HEALTH, "Watch", Right::Anyone, "of an application: `Read`"),
    row(HEALTH, "List", Right::List, "of all namespaces"),
    row("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", Right::Known, ""),
    row("grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo", Right::Known, ""),
];

/// Returns the table as Markdown, for the documentation.
pub fn markdown() -> String {
    let mut text = String::from("| Service | Method | Who | Note |\n|---|---|---|---|\n");
    for MethodRight { service, method, right, note } in TABLE {
        let service = service.trim_start_matches("bellwether.v1.");
        let line = format!("| `{service}` | `{method}` | {} | {note} |\n", right.words());
        text.push_str(&line.replace("|  |", "| |"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines around the table in the documentation.
    const BEGIN: &str = "<!-- rights: begin -->\n";
    const END: &str = "<!-- rights: end -->\n";

    /// With `UPDATE=1` it writes the table instead.
    #[test]
    fn the_documentation_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("docs/security.md has the begin");
        let (written, after) = rest.split_once(END).expect("docs/security.md has the end");
        let table = format!("\n{}\n", markdown());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
            return;
        }
        assert_eq!(written, table, "run the test with UPDATE=1");
    }
}
