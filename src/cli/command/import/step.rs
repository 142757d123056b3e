//! The calls of an import.

use crate::proto::v1::{
    BeginOperationRequest, CancelOperationRequest, ClearApplicationStatusRequest,
    CompleteOperationRequest, ConfigureApplicationRequest, DeleteApplicationRequest,
    RemoveUnitRequest, ReplaceApplicationStatusesRequest, ReplaceStatusesRequest,
};

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportStep {
    /// Reports the statuses of a unit.
    Replace(ReplaceStatusesRequest),
    /// Removes a unit that is not in the document.
    RemoveUnit(RemoveUnitRequest),
    /// Sets the leader.
    Lead(Box<ConfigureApplicationRequest>),
    /// Reports the statuses of the application itself.
    ReplaceOwn(ReplaceApplicationStatusesRequest),
    /// Withdraws the status of the application as a whole, of an import of an earlier version.
    ClearStatus(ClearApplicationStatusRequest),
    /// Deletes an application that is not in the document.
    Delete(DeleteApplicationRequest),
    /// Records or ends the work on a unit.
    Work(Box<WorkStep>),
}

/// A call about the work on a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkStep {
    /// The unit.
    pub unit: String,
    /// The operation.
    pub operation: WorkCall,
}

/// What is done with an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkCall {
    /// Begins it, says how far the work came, and releases it: it is interrupted from then on.
    Record(Box<BeginOperationRequest>, String),
    /// Completes it.
    Complete(CompleteOperationRequest),
    /// Gives it up.
    Cancel(CancelOperationRequest),
}

impl ImportStep {
    /// Returns the application or the unit that the call changes.
    pub fn name(&self) -> String {
        match self {
            ImportStep::Replace(request) => unit_of(&request.application, &request.unit),
            ImportStep::RemoveUnit(request) => unit_of(&request.application, &request.unit),
            ImportStep::Lead(request) => request.application.clone(),
            ImportStep::ReplaceOwn(request) => request.application.clone(),
            ImportStep::ClearStatus(request) => request.application.clone(),
            ImportStep::Delete(request) => request.application.clone(),
            ImportStep::Work(step) => unit_of(step.operation.application(), &step.unit),
        }
    }
}

impl WorkCall {
    /// Returns the application.
    fn application(&self) -> &str {
        match self {
            WorkCall::Record(request, _) => &request.application,
            WorkCall::Complete(request) => &request.application,
            WorkCall::Cancel(request) => &request.application,
        }
    }
}

/// Returns the name of a unit among those of all applications: `web/0`, or `db-1 of web` if it does
/// not contain the application.
pub fn unit_of(application: &str, unit: &str) -> String {
    let rest = unit.strip_prefix(application);
    match rest.is_some_and(|rest| rest.starts_with('/')) {
        true => unit.to_string(),
        false => format!("{unit} of {application}"),
    }
}
