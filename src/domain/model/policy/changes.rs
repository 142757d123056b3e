//! The changes of a configuration, as text for the history.

use std::time::Duration;

use crate::domain::level::Level;
use crate::domain::model::history::Change;
use crate::domain::model::policy::{Config, Damping, Latch, Policy, Scope};
use crate::domain::model::quorum::Quorum;

/// Returns a setting as text.
type Show = fn(&Config) -> String;

impl Config {
    /// Returns the settings that differ in `after`, by their path in an update mask.
    pub(in crate::domain) fn changes_to(&self, after: &Config) -> Vec<Change> {
        let fields: [(&str, Show); 14] = [
            ("policy", |config| policy(&config.policy)),
            ("lost_units", |config| config.lost_units.word().to_string()),
            ("ttls.default_ttl", |config| config.default_ttl.map_or_else(String::new, seconds)),
            ("ttls.lost_after", |config| seconds(config.lost_after)),
            ("ttls.replaced_after", |config| seconds(config.replaced_after)),
            ("serving_levels", |config| levels(&config.serving_levels)),
            ("external_leader", external_leader),
            ("collect_interval", |config| seconds(config.collect_interval)),
            ("hand_over", hand_over),
            ("latches", |config| joined(config.latches.iter().map(latch))),
            ("damping", |config| damping(&config.damping)),
            ("lease_duration", |config| seconds(config.lease_duration)),
            ("drop_leader_status", |config| config.drop_leader_status.to_string()),
            ("quorum", |config| config.quorum.map_or_else(String::new, Quorum::words)),
        ];
        let moved = fields.into_iter().filter_map(|(field, show)| {
            let (from, to) = (show(self), show(after));
            (from != to).then(|| Change::new(field, &from, &to))
        });
        moved.collect()
    }
}

fn policy(policy: &Policy) -> String {
    match policy {
        Policy::Custom(order) => format!("custom: {}", levels(order)),
        known => known.name().to_string(),
    }
}

fn levels(levels: &[Level]) -> String {
    let words: Vec<&str> = levels.iter().map(|level| level.word()).collect();
    words.join(" ")
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

fn external_leader(config: &Config) -> String {
    match &config.external_leader {
        Some(unit) if unit.is_application() => "nobody".to_string(),
        unit => unit.as_ref().map_or_else(String::new, ToString::to_string),
    }
}

fn hand_over(config: &Config) -> String {
    match config.hand_over.as_deref() {
        Some("") => "any".to_string(),
        label => label.unwrap_or_default().to_string(),
    }
}

fn scope(scope: &Scope) -> &str {
    match scope {
        Scope::All => "*",
        Scope::Component(component) if component.as_str().is_empty() => "unit",
        Scope::Component(component) => component.as_str(),
    }
}

fn latch(latch: &Latch) -> String {
    format!("{} after {}", scope(&latch.scope), latch.good_count)
}

fn damping(damping: &Damping) -> String {
    if damping.scopes.is_empty() {
        return String::new();
    }
    let scopes = joined(damping.scopes.iter().map(|s| scope(s).to_string()));
    let Damping { start_percent, stop_percent, calm_after, .. } = damping;
    format!("{start_percent}% to {stop_percent}%, calm after {}: {scopes}", seconds(*calm_after))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::limits::CHANGE_BYTES_MAX;
    use crate::domain::model::name::{PartName, UnitName};
    use crate::domain::model::policy::LostUnits;

    fn changed(change: impl FnOnce(&mut Config)) -> Vec<(String, String, String)> {
        let mut after = Config::default();
        change(&mut after);
        let changes = Config::default().changes_to(&after).into_iter();
        changes.map(|c| (c.field.into(), c.from.into(), c.to.into())).collect()
    }

    fn check(change: impl FnOnce(&mut Config), expected: (&str, &str, &str)) {
        let (field, from, to) = expected;
        assert_eq!(changed(change), [(field.to_string(), from.to_string(), to.to_string())]);
    }

    #[test]
    fn each_setting_names_its_value_before_and_after() {
        assert_eq!(changed(|_| ()), []);
        check(|c| c.policy = Policy::OpenStack, ("policy", "juju", "openstack"));
        check(|c| c.lost_units = LostUnits::Ignore, ("lost_units", "waiting", "ignore"));
        check(|c| c.default_ttl = Some(Duration::from_secs(90)), ("ttls.default_ttl", "", "90s"));
        check(|c| c.lost_after = Duration::from_millis(1500), ("ttls.lost_after", "120s", "1.5s"));
        let never = Duration::ZERO;
        check(|c| c.replaced_after = never, ("ttls.replaced_after", "600s", "0s"));
        check(
            |c| c.serving_levels.push(Level::Waiting),
            ("serving_levels", "active", "active waiting"),
        );
        let nobody = UnitName::application();
        check(|c| c.external_leader = Some(nobody), ("external_leader", "", "nobody"));
        check(|c| c.hand_over = Some("".into()), ("hand_over", "", "any"));
        check(
            |c| c.latches = vec![Latch { scope: Scope::All, good_count: 3 }],
            ("latches", "", "* after 3"),
        );
        let db = Scope::Component(PartName::new("db").unwrap());
        check(|c| c.damping.scopes = vec![db], ("damping", "", "30% to 25%, calm after 300s: db"));
        check(|c| c.drop_leader_status = true, ("drop_leader_status", "false", "true"));
        check(|c| c.quorum = Some(Quorum::Units(5)), ("quorum", "", "5"));
        check(|c| c.quorum = Some(Quorum::Percent(60)), ("quorum", "", "60%"));
    }

    #[test]
    fn a_long_value_is_cut() {
        let latch = |n| Latch {
            scope: Scope::Component(PartName::new(&format!("{n}{}", "c".repeat(200))).unwrap()),
            good_count: 3,
        };
        let changes = changed(|c| c.latches = (0..64).map(latch).collect());
        assert_eq!(changes[0].2.len(), CHANGE_BYTES_MAX);
    }
}
