//! How many bytes an answer takes before it is rendered, by its method.

/// Bytes of an answer for itself: its stream, its task and its headers, measured at about 5 KiB. A
/// short answer, such as that to a report, has no more.
pub const CALL: usize = 6 << 10;

/// Bytes of an answer with one application. A read of one may wait for a revision, and thousands
/// may do so.
const MEDIUM: usize = 16 << 10;

/// Bytes of an answer with a list: a page of `PAGE_BYTES_MAX`. One operation may have as much.
const LONG: usize = 1 << 20;

/// Bytes of the status page with what it reads.
pub const PAGE: usize = 8 << 20;

/// What a list in JSON takes while it is rendered, in lists of binary proto: the records, their
/// binary proto, the message between the two formats, and the text with the room that it grew into.
const JSON_FACTOR_LONG: usize = 8;

/// The same for an answer with one application. It is small, and thousands of calls may wait for
/// one.
const JSON_FACTOR_MEDIUM: usize = 2;

/// Methods with a list or an operation in their answer.
const LONG_ANSWERS: [&str; 18] = [
    "/bellwether.v1.AppDataService/GetAppData",
    "/bellwether.v1.ApplicationService/CollectApplication",
    "/bellwether.v1.ApplicationService/ExplainApplication",
    "/bellwether.v1.ApplicationService/ListApplications",
    "/bellwether.v1.ApplicationService/ListFaults",
    "/bellwether.v1.ApplicationService/ListStatusEvents",
    "/bellwether.v1.ApplicationService/ListStatuses",
    "/bellwether.v1.ApplicationService/ListUnits",
    "/bellwether.v1.OperationService/AcquireOperation",
    "/bellwether.v1.OperationService/BeginOperation",
    "/bellwether.v1.OperationService/CancelOperation",
    "/bellwether.v1.OperationService/CompleteOperation",
    "/bellwether.v1.OperationService/FailOperation",
    "/bellwether.v1.OperationService/GetOperation",
    "/bellwether.v1.OperationService/ListOperations",
    "/bellwether.v1.OperationService/RetryOperation",
    "/bellwether.v1.OperationService/VerifyOperation",
    "/bellwether.v1.WorkerService/RegisterUnit",
];

/// Methods with one application in their answer, or an operation without its payload.
const MEDIUM_ANSWERS: [&str; 2] = [
    "/bellwether.v1.ApplicationService/GetApplication",
    "/bellwether.v1.OperationService/HeartbeatOperation",
];

/// Returns the bytes that an answer of a method takes besides [`CALL`]; `None` for a short one.
pub fn of_method(path: &str) -> Option<usize> {
    sized(path, LONG, MEDIUM)
}

/// Returns the same for an answer in JSON.
pub fn of_json(path: &str) -> Option<usize> {
    sized(path, LONG * JSON_FACTOR_LONG, MEDIUM * JSON_FACTOR_MEDIUM)
}

fn sized(path: &str, long: usize, medium: usize) -> Option<usize> {
    match path {
        _ if LONG_ANSWERS.contains(&path) => Some(long),
        _ if MEDIUM_ANSWERS.contains(&path) => Some(medium),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::descriptor;

    #[test]
    fn every_long_answer_is_one_of_a_unary_method() {
        let served: Vec<_> = descriptor::methods(descriptor::served()).collect();
        for path in LONG_ANSWERS.iter().chain(&MEDIUM_ANSWERS) {
            let method = served.iter().find(|(served, _)| served == path);
            assert!(method.is_some_and(|(_, method)| !method.server_streaming()), "{path}");
        }
        let lists = served.iter().filter(|(path, _)| path.contains("Service/List"));
        for (path, _) in lists {
            assert_eq!(of_method(path), Some(LONG), "{path}");
        }
        assert_eq!(of_method("/bellwether.v1.ReportService/ReportStatus"), None);
        let json = |method| of_json(&format!("/bellwether.v1.{method}"));
        assert_eq!(json("ApplicationService/ListStatuses"), Some(PAGE));
        // Hundreds of reads of one connection may wait for a revision at once.
        let read = json("ApplicationService/GetApplication").unwrap();
        assert!(
            read * 256 < crate::service::caller::outgoing::Limits::default().per_connection_max
        );
    }
}
