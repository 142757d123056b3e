//! The filter of a watcher: the applications and levels that it receives.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use fnv::FnvHasher;

use super::entry::Entry;
use crate::domain::app::Head;
use crate::domain::level::Level;
use crate::domain::name::AppName;

/// The applications that a filter covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every application.
    All,
    /// The applications of one namespace.
    Namespace(Arc<str>),
    /// The named applications, whether they exist yet or not.
    Applications(BTreeSet<AppName>),
}

impl Scope {
    /// Returns whether an application is in scope.
    pub(super) fn has(&self, app: &AppName) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespace(namespace) => app.namespace() == &**namespace,
            Scope::Applications(apps) => apps.contains(app),
        }
    }
}

/// The seconds to which a `stable_for` is rounded up: common values, and few, so that watchers with
/// otherwise equal filters share groups. The wire allows nothing above the last.
const STABLE_FOR_STEPS: [u64; 19] =
    [1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 120, 180, 300, 600, 900, 1200, 1800, 2700, 3600];

/// The filter of a watcher. Watchers with equal filters share one group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter {
    /// The applications to watch.
    pub scope: Scope,
    /// Shows an application only while its level is at least this severe by its own policy.
    pub min_level: Option<Level>,
    /// Shows an application only while its level is one of these; empty: all levels.
    pub levels: BTreeSet<Level>,
    /// A change of level is sent only after the level has held this long.
    pub stable_for: Option<Duration>,
}

impl Filter {
    /// Returns the filter that shows everything in a scope.
    pub fn of(scope: Scope) -> Filter {
        Filter { scope, min_level: None, levels: BTreeSet::new(), stable_for: None }
    }

    /// Returns whether an application that is in scope is shown in its present state.
    pub fn shows(&self, head: &Head) -> bool {
        let level = head.summary.level;
        let (passes, policy) = (self.passes(head.deleted, level), &head.config.policy);
        let is_severe = |min| policy.severity(level) <= policy.severity(min);
        passes && self.min_level.is_none_or(is_severe)
    }

    /// Returns the same for an entry, whose head is read only if the filter has a `min_level`.
    pub(super) fn shows_entry(&self, entry: &Entry) -> bool {
        match self.min_level {
            Some(_) => self.shows(&entry.head()),
            None => self.passes(entry.is_deleted(), entry.level()),
        }
    }

    fn passes(&self, is_deleted: bool, level: Level) -> bool {
        !is_deleted && (self.levels.is_empty() || self.levels.contains(&level))
    }

    /// Returns the filter of the group that a watcher joins: `stable_for` is rounded up to a step.
    #[must_use]
    pub(super) fn of_group(self) -> Filter {
        let step = |wanted: Duration| {
            let mut steps = STABLE_FOR_STEPS.into_iter().map(Duration::from_secs);
            steps.find(|step| wanted <= *step).unwrap_or(wanted)
        };
        Filter { stable_for: self.stable_for.map(step), ..self }
    }

    /// Returns a hash that distinguishes filters in resume tokens. Tokens outlive the process, so
    /// the hashed bytes must not change.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = FnvHasher::default();
        // No name contains a zero byte, so it separates the parts.
        let mut part = |tag: u8, text: &[u8]| {
            hash.write(&[0, tag]);
            hash.write(text);
        };
        match &self.scope {
            Scope::All => part(b'a', b""),
            Scope::Namespace(namespace) => part(b'n', namespace.as_bytes()),
            Scope::Applications(apps) => {
                for app in apps {
                    part(b'n', app.namespace().as_bytes());
                    part(b'/', app.application().as_bytes());
                }
            }
        }
        if let Some(level) = self.min_level {
            part(b'm', level.word().as_bytes());
        }
        for level in &self.levels {
            part(b'l', level.word().as_bytes());
        }
        if let Some(stable_for) = self.stable_for {
            part(b's', &stable_for.as_nanos().to_be_bytes());
        }
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::policy::Policy;
    use crate::domain::revision::Revision;

    fn head(level: Level) -> Head {
        let mut head = Head::empty(Revision(1));
        head.deleted = false;
        Arc::make_mut(&mut head.summary).level = level;
        head
    }

    #[test]
    fn the_policy_of_the_application_judges_severity() {
        let filter = Filter { min_level: Some(Level::Maintenance), ..Filter::of(Scope::All) };
        let mut waiting = head(Level::Waiting);
        assert!(!filter.shows(&waiting));
        Arc::make_mut(&mut waiting.config).policy = Policy::OpenStack;
        assert!(filter.shows(&waiting));
        waiting.deleted = true;
        assert!(!filter.shows(&waiting));
    }

    #[test]
    fn levels_and_min_level_both_hold() {
        let filter = Filter {
            min_level: Some(Level::Waiting),
            levels: [Level::Blocked, Level::Active].into(),
            ..Filter::of(Scope::All)
        };
        let shown = Level::ALL.map(|level| filter.shows(&head(level)));
        assert_eq!(shown, [false, false, false, false, false, true, false]);
    }

    #[test]
    fn stable_for_is_rounded_up_to_a_step() {
        let of_group = |millis| {
            let stable_for = Some(Duration::from_millis(millis));
            Filter { stable_for, ..Filter::of(Scope::All) }.of_group().stable_for.unwrap()
        };
        let cases = [(1, 1), (1000, 1), (1001, 2), (30_000, 30), (31_000, 45), (3_600_000, 3600)];
        for (millis, seconds) in cases {
            assert_eq!(of_group(millis), Duration::from_secs(seconds), "{millis} ms");
        }
    }

    #[test]
    fn different_filters_have_different_fingerprints() {
        let web = AppName::new("prod", "web").unwrap();
        let mut filters = vec![
            Filter::of(Scope::All),
            Filter::of(Scope::Namespace("prod".into())),
            Filter::of(Scope::Applications([web].into())),
        ];
        for at in 0..filters.len() {
            let plain = filters[at].clone();
            filters.push(Filter { min_level: Some(Level::Blocked), ..plain.clone() });
            filters.push(Filter { levels: [Level::Blocked].into(), ..plain.clone() });
            filters.push(Filter { stable_for: Some(Duration::from_secs(1)), ..plain });
        }
        let prints: BTreeSet<u64> = filters.iter().map(Filter::fingerprint).collect();
        assert_eq!(prints.len(), filters.len());
    }
}
