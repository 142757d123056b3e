//! The refusal of one more stream of an owner.

use crate::service::code::ApiError;
use crate::service::edge::{Full, Owner};

impl Full {
    /// Returns the failure: what there are too many of, the names of the limits on an address and
    /// on a principal, and what to do.
    pub fn problem(
        self,
        what: &str,
        names: (&'static str, &'static str),
        advice: &str,
    ) -> ApiError {
        let Full { owner, max } = self;
        let (kind, limit) = match owner {
            Owner::Peer(_) => ("address", names.0),
            Owner::Principal(_) => ("principal", names.1),
        };
        let text = format!(
            "{max} {what} of {owner} are open already, which is the share of one {kind}; {advice}"
        );
        ApiError::too_many(text, limit, max)
    }
}
