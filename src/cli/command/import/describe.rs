//! The steps of a plan as lines, for a dry run.

use crate::cli::command::import::step::{ImportStep, WorkCall};
use crate::cli::level;
use crate::proto::v1::StatusReport;

/// Describes one step, a line for each status.
pub fn step(step: &ImportStep) -> String {
    match step {
        ImportStep::Replace(request) => set(&step.name(), &request.statuses),
        ImportStep::ReplaceOwn(request) => {
            set(&format!("application {}", request.application), &request.statuses)
        }
        ImportStep::RemoveUnit(_) => format!("remove {}\n", step.name()),
        ImportStep::Lead(request) => {
            let config = request.config.as_ref();
            let leader = config.and_then(|config| config.external_leader.as_ref());
            match leader.map(|leader| leader.unit.as_str()).filter(|unit| !unit.is_empty()) {
                Some(unit) => format!("leader of {}: {unit}\n", request.application),
                None => format!("leader of {}: none\n", request.application),
            }
        }
        ImportStep::ClearStatus(request) => format!("clear {}\n", request.application),
        ImportStep::Delete(request) => format!("delete {}\n", request.application),
        ImportStep::Work(work) => {
            let (verb, id) = match &work.operation {
                WorkCall::Record(request, _) => ("record", &request.operation_id),
                WorkCall::Complete(request) => ("complete", &request.operation_id),
                WorkCall::Cancel(request) => ("cancel", &request.operation_id),
            };
            format!("{verb} operation {id} of {}\n", step.name())
        }
    }
}

fn set(name: &str, statuses: &[StatusReport]) -> String {
    if statuses.is_empty() {
        return format!("report {name}: no status\n");
    }
    statuses.iter().map(|status| line(name, status)).collect()
}

fn line(name: &str, status: &StatusReport) -> String {
    let place = [status.component.as_str(), status.key.as_str()];
    let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
    let place = if place.is_empty() { String::new() } else { format!(" {}", place.join("/")) };
    let message = if status.message.is_empty() { "" } else { ": " };
    format!("report {name}{place} {}{message}{}\n", level::word(status.level), status.message)
}

#[cfg(test)]
mod tests {
    use bellwether_client::proto::{OfApplication, OfUnit};

    use super::*;
    use crate::proto::v1;

    #[test]
    fn a_step_is_a_line_for_each_status() {
        let status = |component: &str, level: v1::Level, message: &str| StatusReport {
            component: component.into(),
            level: level.into(),
            message: message.into(),
            ..StatusReport::default()
        };
        let statuses =
            vec![status("agent", v1::Level::Waiting, "lost"), status("", v1::Level::Active, "")];
        let of_unit = v1::ReplaceStatusesRequest::of_unit("m", "web", "web/0");
        let replace = v1::ReplaceStatusesRequest { statuses, ..of_unit };
        let expected = "report web/0 agent waiting: lost\nreport web/0 active\n";
        assert_eq!(step(&ImportStep::Replace(replace)), expected);
        let empty = v1::ReplaceStatusesRequest::of_unit("m", "web", "web/0");
        assert_eq!(step(&ImportStep::Replace(empty)), "report web/0: no status\n");
        let delete = v1::DeleteApplicationRequest::of_application("m", "web");
        assert_eq!(step(&ImportStep::Delete(delete)), "delete web\n");
    }
}
