//! The two ways of decoding a worker's message, for tests that give them any bytes.

use prost::Message;

use super::PlainReport;
use crate::domain::classify::Rules;
use crate::domain::command::Command;
use crate::domain::name::{AppName, UnitName};
use crate::domain::unit::Reporter;
use crate::proto::v1;
use crate::service::convert;
use crate::service::convert::rules::ErrorRules;
use crate::session::Inbound;
use crate::telemetry::Metrics;

/// Decodes bytes as a message of a worker in both ways. Returns whether one pass was enough.
///
/// # Panics
/// If one pass reads a report that prost and the conversion read differently, or refuse.
pub fn both_ways(bytes: &[u8]) -> bool {
    let Some(PlainReport { seq, kind, status }) = PlainReport::read(bytes) else {
        return false;
    };
    let reporter = Reporter::new(UnitName::application(), None);
    let rules = ErrorRules::new(Rules::default(), Metrics::disabled());
    let app = AppName::new("", "web").expect("is a name");
    let request = v1::ConnectRequest::decode(bytes).map(|request| request.message);
    let other = request.map(|message| convert::inbound((&app, &reporter), &rules, message));
    match other {
        Ok(Inbound::Command { seq: other_seq, command, answers: None }) => {
            assert_eq!((seq, Command::Report(reporter, kind, status)), (other_seq, command));
        }
        other => panic!("one pass reads {seq}, {status:?}; prost reads {other:?}"),
    }
    true
}
