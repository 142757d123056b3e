//! The row of every method that this server has.

use std::collections::HashMap;

use prost::Message;
use prost_types::FileDescriptorSet;

use crate::proto;
use crate::security::role::right::{MethodRight, TABLE};

/// Returns the row of each method by its path.
///
/// # Panics
/// If a method of the descriptors has no row.
pub(super) fn rows() -> HashMap<String, &'static MethodRight, foldhash::fast::RandomState> {
    let path = |row: &MethodRight| format!("/{}/{}", row.service, row.method);
    let rows: HashMap<_, _, _> = TABLE.iter().map(|row| (path(row), row)).collect();
    for path in served() {
        assert!(rows.contains_key(&path), "{path} has no row in the table of rights");
    }
    rows
}

/// Returns the paths of all methods of the descriptors.
fn served() -> Vec<String> {
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
        service.method.iter().map(|method| path(method.name())).collect::<Vec<_>>()
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_one_row_and_every_row_a_method() {
        let mut served = served();
        let mut rows: Vec<String> = rows().into_keys().collect();
        served.sort();
        served.dedup();
        rows.sort();
        assert_eq!(rows, served);
        assert_eq!(TABLE.len(), served.len(), "a method has two rows");
    }
}
