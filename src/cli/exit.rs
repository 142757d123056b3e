//! The exit codes of the process. Scripts rely on these numbers.

use std::io;
use std::process::ExitCode;

use bellwether_client::{Error, Refusal};
use tonic::Code;

/// The table of codes that `--help` shows.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    ok; status --exit-status: all active or terminated
  1    failed, or refused; health: not serving
  2    wrong usage
  3    not found; resolve: no such error is open, but others are
  4    not authenticated, or denied
  5    the server cannot be reached, or does not answer
  6    wait: the condition can no longer be met (--fail-on)
  7    not this unit: another one leads, holds the operation, or has replaced it
  8    not yet: server busy, stopping or without store; no unit leads; unit holds the work already
  10   status --exit-status: something waits or is in maintenance
  11   status --exit-status: something is blocked; blockers: something needs help
  12   status --exit-status: something is in error
  13   status --exit-status: something is unknown, stale or lost
  124  timed out
  130  interrupted by Ctrl-C
run --operation: the code of its command, once that has run
check --nagios: 0 active, 1 waiting or maintenance, 2 blocked or error, 3 unknown";

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command did what was asked.
    Ok,
    /// The command failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The object does not exist.
    NotFound,
    /// Not authenticated, or denied.
    Denied,
    /// The server did not answer.
    Unreachable,
    /// The condition of a wait can no longer be met.
    Unmet,
    /// Another unit leads, holds the operation, or has replaced this one.
    NotThisUnit,
    /// The same command may succeed later.
    NotYet,
    /// `status --exit-status`: waiting or maintenance.
    Busy,
    /// `status --exit-status`: blocked. `blockers`: something needs help.
    Blocked,
    /// `status --exit-status`: error.
    Error,
    /// `status --exit-status`: unknown, stale or lost.
    Unknown,
    /// The time given is over, as with timeout(1).
    TimedOut,
    /// Ctrl-C.
    Interrupted,
    /// The exit code of the command of an operation.
    OfCommand(u8),
}

impl From<()> for Exit {
    fn from((): ()) -> Exit {
        Exit::Ok
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A command line that parses but makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The object does not exist.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotFoundError(pub String);

/// Another unit holds what the command needs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotThisUnitError(pub String);

/// The same command may succeed later.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotYetError(pub String);

impl Exit {
    /// Returns the number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Denied => 4,
            Exit::Unreachable => 5,
            Exit::Unmet => 6,
            Exit::NotThisUnit => 7,
            Exit::NotYet => 8,
            Exit::Busy => 10,
            Exit::Blocked => 11,
            Exit::Error => 12,
            Exit::Unknown => 13,
            Exit::TimedOut => 124,
            Exit::Interrupted => 130,
            Exit::OfCommand(code) => code,
        }
    }

    /// Returns the exit code for an error.
    pub fn of(error: &anyhow::Error) -> Exit {
        match error.downcast_ref::<Error>() {
            _ if error.is::<UsageError>() => Exit::Usage,
            _ if error.is::<NotFoundError>() => Exit::NotFound,
            _ if error.is::<NotThisUnitError>() => Exit::NotThisUnit,
            _ if error.is::<NotYetError>() => Exit::NotYet,
            Some(Error::InvalidServer { .. } | Error::Unusable { .. }) => Exit::Usage,
            Some(Error::Unreachable { .. } | Error::Handshake { .. } | Error::Silent { .. }) => {
                Exit::Unreachable
            }
            Some(Error::Refused(refusal)) => of_refusal(refusal),
            None => Exit::Failed,
        }
    }

    /// Whether the reader of our output is gone (`| head`).
    pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
        error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    }
}

fn of_refusal(refusal: &Refusal) -> Exit {
    match (refusal.reason.as_str(), refusal.code) {
        ("NOT_LEADER" | "LEASE_HELD" | "OPERATION_HELD", _) => Exit::NotThisUnit,
        ("STALE_FENCE" | "STALE_INCARNATION", _) => Exit::NotThisUnit,
        ("RATE_LIMITED" | "TOO_MANY_STREAMS", _) | (_, Code::Unavailable) => Exit::NotYet,
        (_, Code::NotFound) => Exit::NotFound,
        (_, Code::Unauthenticated | Code::PermissionDenied) => Exit::Denied,
        (_, Code::DeadlineExceeded) => Exit::TimedOut,
        // A value that the server refuses is as wrong as one that the command line refuses.
        (_, Code::InvalidArgument) => Exit::Usage,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_code(code: Code) -> Exit {
        let refusal = Refusal::from(tonic::Status::new(code, "no"));
        Exit::of(&Error::Refused(Box::new(refusal)).into())
    }

    #[test]
    fn each_error_has_its_number() {
        assert_eq!(of_code(Code::NotFound), Exit::NotFound);
        assert_eq!(of_code(Code::Unauthenticated), Exit::Denied);
        assert_eq!(of_code(Code::PermissionDenied), Exit::Denied);
        assert_eq!(of_code(Code::DeadlineExceeded), Exit::TimedOut);
        assert_eq!(of_code(Code::InvalidArgument), Exit::Usage);
        assert_eq!(Exit::of(&UsageError("no".into()).into()), Exit::Usage);
        assert_eq!(Exit::of(&NotFoundError("no".into()).into()), Exit::NotFound);
        assert_eq!(Exit::of(&NotThisUnitError("no".into()).into()), Exit::NotThisUnit);
        assert_eq!(Exit::of(&NotYetError("no".into()).into()), Exit::NotYet);
        assert_eq!(Exit::of(&anyhow::anyhow!("no")), Exit::Failed);
    }

    #[test]
    fn exit_codes_separate_another_unit_and_a_later_time_from_a_failure() {
        let of_reason = |code, reason: &str| {
            let status = tonic::Status::new(code, "no");
            let refusal = Refusal { reason: reason.into(), ..Refusal::from(status) };
            Exit::of(&Error::Refused(Box::new(refusal)).into())
        };
        assert_eq!(of_reason(Code::FailedPrecondition, "NOT_LEADER"), Exit::NotThisUnit);
        assert_eq!(of_reason(Code::FailedPrecondition, "LEASE_HELD"), Exit::NotThisUnit);
        assert_eq!(of_reason(Code::Aborted, "STALE_FENCE"), Exit::NotThisUnit);
        assert_eq!(of_reason(Code::Unavailable, "STORE_UNAVAILABLE"), Exit::NotYet);
        assert_eq!(of_reason(Code::ResourceExhausted, "RATE_LIMITED"), Exit::NotYet);
        assert_eq!(of_reason(Code::ResourceExhausted, "LIMIT_EXCEEDED"), Exit::Failed);
    }

    #[test]
    fn the_help_names_every_number() {
        for exit in [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 124, 130] {
            assert!(EXIT_CODES.contains(&format!("\n  {exit} ")), "{exit}");
            let document = include_str!("../../docs/cli.md");
            assert!(document.contains(&format!("\n| {exit} | ")), "{exit}");
        }
    }
}
