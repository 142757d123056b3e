//! Abandoned applications: without a unit, and without anything else to keep.

use crate::domain::draft::Draft;
use crate::domain::model::operation::Operation;
use crate::domain::model::policy::Config;
use crate::domain::model::time::Timestamp;

impl Draft<'_> {
    /// Returns when the application is deleted unless something is reported before; `None` if it
    /// has something to keep, or if abandoned applications are kept.
    pub(in crate::domain) fn abandoned_until(&self) -> Option<Timestamp> {
        let after = self.limits.abandoned_after?;
        self.is_abandoned().then(|| self.now.after(after))
    }

    /// The configuration counts as something to keep, except the external leader: the units
    /// themselves report that.
    fn is_abandoned(&self) -> bool {
        if self.units.count() != 0 {
            return false;
        }
        let head = &*self.head;
        let is_configured =
            || Config { external_leader: None, ..(*head.config).clone() } != Config::default();
        self.usage.counts().statuses == 0
            && head.application_status.is_none()
            // An operation that failed stays in sight until the next one.
            && head.operation.is_none()
            && head.lease.is_none()
            && self.marks.iter().next().is_none()
            && head.data.bytes == 0
            && !self.operations.iter().any(|(_, operation)| Operation::is_open(operation))
            && !is_configured()
    }
}
