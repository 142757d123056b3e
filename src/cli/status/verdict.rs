//! `status --exit-status`: one exit code for everything shown.

use crate::cli::exit::Exit;
use crate::cli::render::status::View;
use crate::cli::silence;
use crate::cli::silence::level_of;
use crate::proto::v1::{Application, Level};

/// Returns the worst of all: error, blocked, unknown or stale, waiting or maintenance, ok. Without
/// applications the result is unknown.
pub fn of(view: &View) -> Exit {
    let worst = view.applications.iter().map(|a| &a.application).min_by_key(|a| severity(a));
    worst.map_or(Exit::Unknown, of_application)
}

/// Returns the rank of an application for sorting, the worst first.
pub fn severity(application: &Application) -> usize {
    let order = [Exit::Error, Exit::Blocked, Exit::Unknown, Exit::Busy];
    let exit = of_application(application);
    order.iter().position(|known| *known == exit).unwrap_or(order.len())
}

/// Returns the exit code for one application.
pub fn of_application(application: &Application) -> Exit {
    match level_of(application) {
        Level::Error => Exit::Error,
        Level::Blocked => Exit::Blocked,
        Level::Unknown | Level::Unspecified => Exit::Unknown,
        // An active level without confirmation in time counts as unknown.
        _ if silence::hides(application) => Exit::Unknown,
        Level::Waiting | Level::Maintenance => Exit::Busy,
        // Terminated is an intended end and no problem.
        Level::Active | Level::Terminated => Exit::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::render::status::ApplicationView;
    use crate::proto::v1::AggregatedStatus;

    fn exit(levels: &[Level], stale_units: i32) -> Exit {
        let mk = |level: &Level| ApplicationView {
            application: Application {
                status: Some(AggregatedStatus {
                    level: i32::from(*level),
                    stale_units,
                    ..AggregatedStatus::default()
                }),
                ..Application::default()
            },
            ..ApplicationView::default()
        };
        of(&View { applications: levels.iter().map(mk).collect(), ..View::default() })
    }

    #[test]
    fn the_worst_counts() {
        use Level::*;
        for (levels, stale, expected) in [
            (&[Active, Active][..], 0, Exit::Ok),
            (&[Active, Terminated], 0, Exit::Ok),
            (&[Active, Waiting], 0, Exit::Busy),
            (&[Maintenance], 0, Exit::Busy),
            (&[Active], 1, Exit::Unknown),
            (&[Waiting, Unknown], 0, Exit::Unknown),
            (&[Blocked, Unknown], 1, Exit::Blocked),
            (&[Blocked, Error, Active], 0, Exit::Error),
            (&[], 0, Exit::Unknown),
        ] {
            assert_eq!(exit(levels, stale), expected, "{levels:?} {stale}");
        }
    }
}
