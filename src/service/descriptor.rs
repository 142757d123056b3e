//! The descriptors of the methods that the server serves: those of `proto/` and of reflection.

use std::sync::LazyLock;

use prost::Message;
use prost_types::{FileDescriptorSet, MethodDescriptorProto};
use tonic_reflection::pb;

use crate::proto;

static SERVED: LazyLock<[FileDescriptorSet; 3]> = LazyLock::new(|| {
    let sets =
        [proto::FILE_DESCRIPTOR_SET, pb::v1::FILE_DESCRIPTOR_SET, pb::v1alpha::FILE_DESCRIPTOR_SET];
    sets.map(|set| FileDescriptorSet::decode(set).expect("ours decode, by a test"))
});

/// Returns the descriptors of everything that is served.
pub fn served() -> &'static [FileDescriptorSet] {
    &*SERVED
}

/// Returns the methods of some descriptors, each with its path: `/package.Service/Method`.
pub fn methods(
    sets: &[FileDescriptorSet],
) -> impl Iterator<Item = (String, &MethodDescriptorProto)> {
    let files = sets.iter().flat_map(|set| &set.file);
    files.flat_map(|file| {
        file.service.iter().flat_map(move |service| {
            service.method.iter().map(move |method| {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                (path, method)
            })
        })
    })
}
