//! The classes of the headline and the groups of the list: the answer to *is something wrong?*

use crate::domain::severity::Severity;
use crate::proto::v1;
use crate::service::convert::severity;

/// Which applications a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListGroup {
    /// In error, blocked or silent.
    Attention,
    /// Silent: no sure level.
    Silent,
    /// At work, waiting, or active with a mark.
    Way,
    /// Active without a mark, or terminated.
    Fine,
}

impl ListGroup {
    /// All groups that a URL can name.
    pub const ALL: [ListGroup; 4] =
        [ListGroup::Attention, ListGroup::Silent, ListGroup::Way, ListGroup::Fine];
    /// The groups of the list, in their order.
    pub const LISTED: [ListGroup; 3] = [ListGroup::Attention, ListGroup::Way, ListGroup::Fine];

    /// Returns the group of a severity in the list.
    pub fn of(severity: Severity) -> ListGroup {
        match severity {
            Severity::Error | Severity::Blocked | Severity::Silent => ListGroup::Attention,
            Severity::Maintenance | Severity::Waiting | Severity::Marked => ListGroup::Way,
            Severity::Active | Severity::Terminated => ListGroup::Fine,
        }
    }

    /// Returns whether an application of this severity is in the group.
    pub fn has(self, severity: Severity) -> bool {
        match self {
            ListGroup::Silent => severity == Severity::Silent,
            listed => ListGroup::of(severity) == listed,
        }
    }

    /// Returns the word in a URL, and the class in the style sheet.
    pub fn word(self) -> &'static str {
        match self {
            ListGroup::Attention => "attention",
            ListGroup::Silent => "silent",
            ListGroup::Way => "way",
            ListGroup::Fine => "fine",
        }
    }

    /// Returns the heading.
    pub fn heading(self) -> &'static str {
        match self {
            ListGroup::Attention => "Needs attention",
            ListGroup::Silent => "Silent",
            ListGroup::Way => "Under way",
            ListGroup::Fine => "Fine",
        }
    }
}

/// Counts of applications. The five classes add up to all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// In error.
    pub error: usize,
    /// Blocked: a person must act.
    pub blocked: usize,
    /// Silent or unknown.
    pub silent: usize,
    /// At work, waiting, or active with a mark.
    pub way: usize,
    /// Active or terminated.
    pub fine: usize,
}

impl Tally {
    /// Counts applications by their class.
    pub fn of<'a>(apps: impl Iterator<Item = &'a v1::Application>) -> Tally {
        let mut tally = Tally::default();
        for app in apps {
            *match severity::of(app) {
                Severity::Error => &mut tally.error,
                Severity::Blocked => &mut tally.blocked,
                Severity::Silent => &mut tally.silent,
                Severity::Maintenance | Severity::Waiting | Severity::Marked => &mut tally.way,
                Severity::Active | Severity::Terminated => &mut tally.fine,
            } += 1;
        }
        tally
    }

    /// Returns the number of those that need attention.
    pub fn attention(&self) -> usize {
        self.error + self.blocked + self.silent
    }

    /// Returns the number of all.
    pub fn all(&self) -> usize {
        self.attention() + self.way + self.fine
    }

    /// Returns the number in a group of the list.
    pub fn in_group(&self, group: ListGroup) -> usize {
        match group {
            ListGroup::Attention => self.attention(),
            ListGroup::Silent => self.silent,
            ListGroup::Way => self.way,
            ListGroup::Fine => self.fine,
        }
    }

    /// Returns the icon of the worst class. What is under way needs no action, as what is fine.
    pub fn icon(&self) -> &'static str {
        match (self.error, self.blocked, self.silent) {
            (0, 0, 0) => "fine",
            (0, 0, _) => "silent",
            (0, _, _) => "blocked",
            _ => "error",
        }
    }

    /// Returns what is under way and fine: `14 under way, 26 fine`; empty if neither is there.
    pub fn rest(&self) -> String {
        listed(&[(self.way, "under way"), (self.fine, "fine")])
    }

    /// Returns the counts for the title of the tab: what needs attention, otherwise the rest.
    pub fn title(&self) -> String {
        match self.attention() {
            0 => self.rest(),
            _ => {
                listed(&[(self.error, "error"), (self.blocked, "blocked"), (self.silent, "silent")])
            }
        }
    }
}

fn listed(counts: &[(usize, &str)]) -> String {
    let given = counts.iter().filter(|(count, _)| 0 < *count);
    given.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::Level::{Active, Blocked, Error, Maintenance, Terminated, Unknown, Waiting};

    fn app(level: v1::Level, stale_units: i32, fault_count: i32) -> v1::Application {
        let status = v1::AggregatedStatus {
            level: level.into(),
            stale_units,
            fault_count,
            ..v1::AggregatedStatus::default()
        };
        v1::Application { status: Some(status), ..v1::Application::default() }
    }

    #[test]
    fn five_counts_add_up_to_all_and_the_worst_gives_the_icon() {
        let apps = [
            app(Error, 1, 0),
            app(Blocked, 0, 0),
            app(Unknown, 0, 0),
            app(Waiting, 1, 0),
            app(Maintenance, 0, 0),
            app(Waiting, 0, 0),
            app(Active, 0, 2),
            app(Active, 0, 0),
            app(Terminated, 0, 0),
        ];
        let tally = Tally::of(apps.iter());
        assert_eq!(tally, Tally { error: 1, blocked: 1, silent: 2, way: 3, fine: 2 });
        assert_eq!(tally.all(), apps.len());
        let listed: usize = ListGroup::LISTED.into_iter().map(|group| tally.in_group(group)).sum();
        assert_eq!(listed, apps.len());
        assert_eq!(tally.title(), "1 error, 1 blocked, 2 silent");
        for (from, icon, title) in [
            (1, "blocked", "1 blocked, 2 silent"),
            (2, "silent", "2 silent"),
            (4, "fine", "3 under way, 2 fine"),
            (7, "fine", "2 fine"),
        ] {
            let tally = Tally::of(apps[from..].iter());
            assert_eq!((tally.icon(), tally.title().as_str()), (icon, title));
        }
    }

    #[test]
    fn silent_is_a_part_of_what_needs_attention() {
        assert!(
            ListGroup::Silent.has(Severity::Silent) && ListGroup::Attention.has(Severity::Silent)
        );
        assert!(
            !ListGroup::Silent.has(Severity::Error) && ListGroup::Attention.has(Severity::Error)
        );
    }
}
