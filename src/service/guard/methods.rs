//! The row of every method that this server has.

use std::collections::HashMap;

use crate::security::role::right::{MethodRight, TABLE};
use crate::service::descriptor;

/// A method, as the guard sees it.
#[derive(Clone, Copy)]
pub(super) struct GuardedMethod {
    /// Its right.
    pub(super) right: &'static MethodRight,
    /// Whether one of its sides is a stream, which may be open for days.
    pub(super) is_streaming: bool,
}

/// The methods by their paths.
pub(super) type Methods = HashMap<String, GuardedMethod, foldhash::fast::RandomState>;

/// Returns every method.
///
/// # Panics
/// If a method of the descriptors has no row.
pub(super) fn rows() -> Methods {
    let path = |right: &MethodRight| format!("/{}/{}", right.service, right.method);
    let rights: HashMap<_, _> = TABLE.iter().map(|right| (path(right), right)).collect();
    let rows = descriptor::methods(descriptor::served()).map(|(path, method)| {
        let Some(right) = rights.get(&path).copied() else {
            panic!("{path} has no row in the table of rights");
        };
        let is_streaming = method.client_streaming() || method.server_streaming();
        (path, GuardedMethod { right, is_streaming })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_one_row_and_every_row_a_method() {
        let served = descriptor::methods(descriptor::served());
        let mut served: Vec<String> = served.map(|(path, _)| path).collect();
        let mut rows: Vec<String> = rows().into_keys().collect();
        served.sort();
        served.dedup();
        rows.sort();
        assert_eq!(rows, served);
        assert_eq!(TABLE.len(), served.len(), "a method has two rows");
    }
}
