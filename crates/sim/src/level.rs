//! What marks and a quorum make of the level of an application, from its records alone: a naive
//! model that the head must agree with.

use bellwether::domain::app::AppState;
use bellwether::domain::level::Level;
use bellwether::domain::mark::{Cover, Mark, MarkKind};
use bellwether::domain::rank::Rank;
use bellwether::domain::status::Freshness;

/// Returns what is wrong with what the head says of the marks, or nothing.
pub fn wrong(state: &AppState) -> Option<String> {
    let (head, marks) = (state.head(), state.marks());
    let Some(says) = &head.marks else {
        return marks.iter().next().map(|(id, _)| format!("has mark {id}, and its head has none"));
    };
    let count = |is: fn(&Mark) -> bool| marks.iter().filter(|(_, mark)| is(mark)).count() as u32;
    let counts = [count(|_| true), count(Mark::is_acknowledged), count(Mark::is_planned)];
    if counts != [says.count, says.acknowledged_count, says.planned_count] {
        return Some(format!("has {counts:?} marks, and its head says {says:?}"));
    }
    if head.summary.winner.is_none() && &*head.summary.reason == "Uncertain" {
        // After a loss, until its units are marked.
        return None;
    }
    let planned: Vec<&Cover> =
        marks.iter().filter(|(_, mark)| mark.is_planned()).map(|(_, mark)| &mark.cover).collect();
    let levels = (level(state, &planned), level(state, &[]));
    let shown = (head.summary.level, says.level_without.unwrap_or(head.summary.level));
    if levels != shown {
        return Some(format!("is {shown:?} with and without marks, not {levels:?}"));
    }
    let begun = marks.iter().filter(|(_, mark)| mark.begun && mark.ends_when_well);
    let mut wrong = begun.filter(|(_, mark)| {
        is_worse(state, mark) || is_well(state, &mark.cover) != mark.well_since.is_some()
    });
    wrong.next().map(|(id, mark)| format!("keeps mark {id} as it is: {mark:?}"))
}

/// Returns the level of an application while planned work covers this.
fn level(state: &AppState, planned: &[&Cover]) -> Level {
    let policy = &state.head().config.policy;
    let counts_as = |rank: &Rank| {
        let is_covered = planned.iter().any(|cover| cover.has(&rank.key));
        let maintenance = policy.severity(Level::Maintenance);
        match is_covered && policy.severity(rank.level) < maintenance {
            true => Level::Maintenance,
            false => rank.level,
        }
    };
    let all = state.contributions_from_scratch();
    let place = |rank: &&Rank| (-i64::from(rank.precedence), policy.severity(counts_as(rank)));
    let first = all.iter().min_by_key(place);
    let level = first.map_or(Level::Unknown, counts_as);
    let (Some(turnout), Some(first)) = (state.head().turnout(), first) else { return level };
    let waits = policy.severity(Level::Waiting) < policy.severity(level);
    if !turnout.is_met() {
        return if waits { Level::Waiting } else { level };
    }
    let within = all.iter().filter(|rank| {
        rank.precedence == first.precedence
            && (rank.key.unit.is_application() || is_active(state, &all, rank))
    });
    within.min_by_key(place).map_or(level, counts_as)
}

/// Returns whether the unit of a contribution is fresh and active, whatever covers it.
fn is_active<'r>(state: &AppState, all: impl IntoIterator<Item = &'r Rank>, one: &Rank) -> bool {
    let policy = &state.head().config.policy;
    let of_unit = all.into_iter().filter(|rank| rank.key.unit == one.key.unit);
    let own = of_unit.min_by_key(|rank| (-i64::from(rank.precedence), policy.severity(rank.level)));
    let is_fresh = state.unit(&one.key.unit).is_some_and(|u| u.freshness() == Freshness::Fresh);
    is_fresh && own.is_some_and(|own| own.level == Level::Active)
}

/// Returns whether something that an acknowledgement covers is worse than it says.
pub fn is_worse(state: &AppState, mark: &Mark) -> bool {
    let severity = |level| state.head().config.policy.severity(level);
    let worst = worst(state, &mark.cover);
    mark.kind == MarkKind::Acknowledged && severity(worst) < severity(mark.acknowledged_level)
}

/// Returns the worst level of what a cover has, at least active.
fn worst(state: &AppState, cover: &Cover) -> Level {
    let policy = &state.head().config.policy;
    let all = state.contributions_from_scratch();
    let levels = all.iter().filter(|rank| cover.has(&rank.key)).map(|rank| rank.level);
    let worst = levels.chain([Level::Active]).min_by_key(|level| policy.severity(*level));
    worst.unwrap_or(Level::Active)
}

/// Returns whether everything that a cover has is fresh, and active or terminated.
fn is_well(state: &AppState, cover: &Cover) -> bool {
    let all = state.contributions_from_scratch();
    let mut covered = all.iter().filter(|rank| cover.has(&rank.key));
    let is_bad = |rank: &Rank| {
        let unit = state.unit(&rank.key.unit);
        let is_stale = state.status(&rank.key).is_some_and(|status| {
            status.stale || unit.is_some_and(|unit| unit.has_outlived(&rank.key, status))
        });
        is_stale || !matches!(rank.level, Level::Active | Level::Terminated)
    };
    let mut units = state.units_after(None);
    let is_of_cover = |name: &_| cover.is_all() || cover.unit == *name;
    let is_silent = units.any(|(name, unit)| {
        let is_there = match cover.component {
            None => unit.freshness() == Freshness::Fresh,
            Some(_) => unit.is_believed(),
        };
        is_of_cover(name) && !is_there
    });
    !is_silent && !covered.any(is_bad)
}
