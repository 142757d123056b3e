//! The row of every method that this server has.

use std::collections::HashMap;

use prost::Message;
use prost_types::FileDescriptorSet;

use crate::proto;
use crate::security::role::right::{MethodRight, TABLE};

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
    let rows = served().into_iter().map(|(path, is_streaming)| {
        let Some(right) = rights.get(&path).copied() else {
            panic!("{path} has no row in the table of rights");
        };
        (path, GuardedMethod { right, is_streaming })
    });
    rows.collect()
}

/// Returns the paths of all methods of the descriptors, and whether they have a stream.
fn served() -> Vec<(String, bool)> {
    let sets = [
        proto::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let sets = sets.map(|set| FileDescriptorSet::decode(set).expect("ours decode, by a test"));
    let files = sets.into_iter().flat_map(|set| set.file);
    let services = files.flat_map(|file| {
        let package = file.package().to_string();
        file.service.into_iter().map(move |service| (package.clone(), service))
    });
    let paths = services.flat_map(|(package, service)| {
        let name = service.name().to_string();
        let path = move |method: &str| format!("/{package}.{name}/{method}");
        let methods = service.method.iter().map(|method| {
            (path(method.name()), method.client_streaming() || method.server_streaming())
        });
        methods.collect::<Vec<_>>()
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_one_row_and_every_row_a_method() {
        let mut served: Vec<String> = served().into_iter().map(|(path, _)| path).collect();
        let mut rows: Vec<String> = rows().into_keys().collect();
        served.sort();
        served.dedup();
        rows.sort();
        assert_eq!(rows, served);
        assert_eq!(TABLE.len(), served.len(), "a method has two rows");
    }
}
