//! The flags that describe an error, shared by the commands that report one and that explain one.

use std::time::Duration;

use crate::cli::span;
use crate::domain::classify::finding::{ErrorOrigin, ErrorOutcome, Evidence, Hints};
use crate::proto::v1;

/// The origin of the answer, as typed; the number is that of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OriginWord {
    /// The owner of the target.
    Peer = v1::ErrorOrigin::Peer as isize,
    /// The network: the error was made on the way, and the peer did not answer.
    Transport = v1::ErrorOrigin::Transport as isize,
    /// This client: it could not send the request, or not read the answer.
    Local = v1::ErrorOrigin::Local as isize,
}

/// Whether the requested change happened, as typed; the number is that of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum OutcomeWord {
    /// It did not happen.
    NotApplied = v1::ErrorOutcome::NotApplied as isize,
    /// It may have happened.
    Unknown = v1::ErrorOutcome::Unknown as isize,
    /// The peer examined and refused it.
    Rejected = v1::ErrorOutcome::Rejected as isize,
}

/// The known facts of an error.
#[derive(Debug, Clone, clap::Args)]
pub struct EvidenceArgs {
    /// Which table of codes applies: grpc, http, python, postgresql, another one of
    /// `explain-error --list`, or a word of your rules
    #[arg(long)]
    system: String,
    /// The code in the words of that system: UNAVAILABLE, 503, pebble.ChangeError
    #[arg(long, default_value = "", hide_default_value = true)]
    code: String,
    /// The origin of the answer
    #[arg(long, value_enum, default_value_t = OriginWord::Peer, ignore_case = true)]
    origin: OriginWord,
    /// Whether the requested change happened
    #[arg(long, value_enum, ignore_case = true)]
    outcome: Option<OutcomeWord>,
    /// The issuer of the reason: aws, kubernetes, postgresql, or as in google.rpc.ErrorInfo
    #[arg(long, default_value = "", hide_default_value = true)]
    domain: String,
    /// The service's own code, which says more: ThrottlingException, AlreadyExists, 23505
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// One line that every reader may see
    #[arg(long, short, default_value = "", hide_default_value = true)]
    message: String,
    /// The delay that the peer asks for before a retry: 500ms, 30s
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    retry_after: Option<Duration>,
    #[command(flatten)]
    hints: HintArgs,
}

/// Facts that the tables do not decide. Each may be given alone, or with true or false.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Facts that the tables do not decide")]
pub struct HintArgs {
    /// The refused value came from a person's input
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    user_input: Option<bool>,
    /// The client itself made the request
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    own_request: Option<bool>,
    /// A quota that a person must raise was used up
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    quota: Option<bool>,
    /// The missing object will appear without a person
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    machine_resolvable: Option<bool>,
    /// The deadline of the work as a whole has passed
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    deadline_passed: Option<bool>,
    /// The client cancelled because it shuts down
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    own_shutdown: Option<bool>,
}

impl EvidenceArgs {
    /// Converts the flags to a report for the wire.
    pub fn report(self) -> v1::ErrorReport {
        v1::ErrorReport {
            system: self.system,
            code: self.code,
            origin: self.origin as i32,
            outcome: self.outcome.map_or(0, |word| word as i32),
            domain: self.domain,
            reason: self.reason,
            message: self.message,
            retry_after: self.retry_after.map(span::on_wire),
            user_input: self.hints.user_input,
            own_request: self.hints.own_request,
            quota: self.hints.quota,
            machine_resolvable: self.hints.machine_resolvable,
            deadline_passed: self.hints.deadline_passed,
            own_shutdown: self.hints.own_shutdown,
            ..v1::ErrorReport::default()
        }
    }

    /// Converts the flags to the evidence that the rules examine.
    pub fn evidence(self) -> Evidence {
        Evidence {
            system: self.system.into(),
            code: self.code.into(),
            origin: match self.origin {
                OriginWord::Peer => ErrorOrigin::Peer,
                OriginWord::Transport => ErrorOrigin::Transport,
                OriginWord::Local => ErrorOrigin::Local,
            },
            outcome: self.outcome.map(|word| match word {
                OutcomeWord::NotApplied => ErrorOutcome::NotApplied,
                OutcomeWord::Unknown => ErrorOutcome::Unknown,
                OutcomeWord::Rejected => ErrorOutcome::Rejected,
            }),
            domain: self.domain.into(),
            reason: self.reason.into(),
            message: self.message.into(),
            retry_after: self.retry_after,
            hints: Hints {
                user_input: self.hints.user_input,
                own_request: self.hints.own_request,
                quota: self.hints.quota,
                machine_resolvable: self.hints.machine_resolvable,
                deadline_passed: self.hints.deadline_passed,
                own_shutdown: self.hints.own_shutdown,
            },
        }
    }
}
