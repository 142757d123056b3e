//! Whether a level may have begun before its time of start. The command line and the status page
//! show it by the same rule.

use crate::proto::v1::{AggregatedStatus, Contribution};

/// Returns whether the level of an application may have begun before its `since_time`: the winner
/// has an unknown start, and nothing worse is known to have ended after it.
pub fn may_be_earlier(status: &AggregatedStatus, winner: Option<&Contribution>) -> bool {
    let time = |time: &Option<prost_types::Timestamp>| time.map(|t| (t.seconds, t.nanos));
    winner.is_some_and(|winner| {
        winner.since_unknown && time(&status.since_time) <= time(&winner.since_time)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(application: i64, winner: i64, since_unknown: bool) -> bool {
        let since_time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 5 });
        let status =
            AggregatedStatus { since_time: since_time(application), ..AggregatedStatus::default() };
        let winner =
            Contribution { since_time: since_time(winner), since_unknown, ..Default::default() };
        may_be_earlier(&status, Some(&winner))
    }

    #[test]
    fn a_level_is_as_old_as_its_winner_unless_something_worse_ended() {
        assert!(check(10, 10, true));
        assert!(check(9, 10, true), "another status had the level before");
        assert!(!check(11, 10, true), "something worse ended at 11");
        assert!(!check(10, 10, false));
        assert!(!may_be_earlier(&AggregatedStatus::default(), None));
    }
}
