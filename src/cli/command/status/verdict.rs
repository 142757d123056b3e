//! `status --exit-status`: one exit code for everything shown.

use crate::cli::exit::Exit;
use crate::cli::render::status::View;
use crate::domain::severity::Severity;
use crate::proto::v1::Application;
use crate::service::severity;

/// Returns the exit code of the worst of all, in the order of severity. Without applications the
/// result is unknown.
pub fn of(view: &View) -> Exit {
    let severities = view.applications.iter().map(|shown| severity::of(&shown.application));
    severities.min().map_or(Exit::Unknown, of_severity)
}

/// Returns the exit code for one application.
pub fn of_application(application: &Application) -> Exit {
    of_severity(severity::of(application))
}

fn of_severity(severity: Severity) -> Exit {
    match severity {
        Severity::Error => Exit::Error,
        Severity::Blocked => Exit::Blocked,
        Severity::Silent => Exit::Unknown,
        Severity::Maintenance | Severity::Waiting => Exit::Busy,
        // Terminated is an intended end and no problem.
        Severity::Marked | Severity::Active | Severity::Terminated => Exit::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::render::status::ApplicationView;
    use crate::proto::v1::{AggregatedStatus, Level};

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
