//! Cuts the overview to the rows of a terminal, the worst first: what cannot be seen is not
//! rendered.

use crate::cli::render::status::ApplicationView;
use crate::proto::v1::Unit;
use crate::service::severity;

/// A part of an overview.
pub struct Part {
    /// The applications and units that may be seen.
    pub applications: Vec<ApplicationView>,
    /// Rows of the whole overview that the part does not have.
    pub left_out: usize,
}

/// Returns the part of an overview that fits into so many rows. A whole overview keeps its order;
/// of one that is too high, the worst applications and units come first.
pub fn to_height(all: &[&ApplicationView], height: usize) -> Part {
    let lines: usize = all.iter().map(|shown| lines_of(shown)).sum();
    if lines <= height {
        return Part { applications: all.iter().copied().cloned().collect(), left_out: 0 };
    }
    let mut order = all.to_vec();
    order.sort_by(|a, b| severity::compare(&a.application, &b.application));
    let mut room = height;
    let shown = order.into_iter().take(height).map(|shown| shortened(shown, &mut room));
    let applications: Vec<ApplicationView> = shown.collect();
    let shown: usize = applications.iter().map(lines_of).sum();
    Part { applications, left_out: lines - shown }
}

/// The rows of an application and of what it has, without those for actions.
fn lines_of(shown: &ApplicationView) -> usize {
    1 + shown.units.len() + shown.operations.len()
}

/// Returns an application with as many units as there is room for, the worst first.
fn shortened(shown: &ApplicationView, room: &mut usize) -> ApplicationView {
    let mut units: Vec<&Unit> = shown.units.iter().collect();
    units.sort_by_key(|unit| severity::of_unit(unit));
    units.truncate(*room);
    let operations = shown.operations.iter().take(*room - units.len()).cloned().collect();
    *room -= units.len();
    let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
    let is_shown = |unit: &str| unit.is_empty() || names.contains(&unit);
    ApplicationView {
        application: shown.application.clone(),
        statuses: shown.statuses.iter().filter(|one| is_shown(&one.unit)).cloned().collect(),
        contributions: shown.contributions.clone(),
        operations,
        units: units.into_iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{AggregatedStatus, Application, Level};

    fn application(number: usize, level: Level, units: usize) -> ApplicationView {
        let unit = |unit| Unit {
            name: format!("app-{number:04}/{unit}"),
            level: i32::from(level),
            ..Unit::default()
        };
        let status = AggregatedStatus { level: i32::from(level), ..AggregatedStatus::default() };
        ApplicationView {
            application: Application {
                name: format!("app-{number:04}"),
                status: Some(status),
                ..Application::default()
            },
            units: (0..units).map(unit).collect(),
            ..ApplicationView::default()
        }
    }

    #[test]
    fn an_overview_that_fits_stays_as_it_is() {
        let applications = vec![application(2, Level::Active, 1), application(1, Level::Error, 1)];
        let part = to_height(&applications.iter().collect::<Vec<_>>(), 4);
        assert_eq!((part.applications, part.left_out), (applications, 0));
    }

    #[test]
    fn a_large_fleet_is_cut_to_what_fits_the_worst_first() {
        let level = |number| if number == 1_999 { Level::Error } else { Level::Active };
        let all: Vec<_> = (0..2_000).map(|n| application(n, level(n), 10)).collect();
        let part = to_height(&all.iter().collect::<Vec<_>>(), 24);
        let units: usize = part.applications.iter().map(|shown| shown.units.len()).sum();
        assert_eq!((part.applications.len(), units), (24, 24));
        assert_eq!(part.applications[0].application.name, "app-1999");
        assert_eq!(part.left_out, 22_000 - 48);
    }

    #[test]
    fn the_worst_units_of_an_application_are_kept() {
        let mut shown = application(1, Level::Active, 100);
        shown.units[70].level = i32::from(Level::Blocked);
        shown.units[80].set_freshness(crate::proto::v1::Freshness::Lost);
        let part = to_height(&[&shown], 3);
        let names: Vec<&str> =
            part.applications[0].units.iter().map(|unit| unit.name.as_str()).collect();
        assert_eq!(names, ["app-0001/70", "app-0001/80", "app-0001/0"]);
    }
}
