//! The methods that the layer translates, from the descriptors of the services.

use std::collections::HashMap;

use prost_reflect::prost_types::method_options::IdempotencyLevel;
use prost_reflect::{DescriptorError, DescriptorPool, MessageDescriptor, MethodDescriptor};

/// Collects the files of several descriptor sets. Two sets may contain the same type in files of
/// different names, as with `google.rpc.Status`. The file of the first set is used.
///
/// # Errors
/// If a set does not decode, or lacks a file that it imports.
pub fn pool(sets: &[&[u8]]) -> Result<DescriptorPool, DescriptorError> {
    let mut pool = DescriptorPool::new();
    for set in sets {
        let one = DescriptorPool::decode(*set)?;
        for file in one.files() {
            let name = |message: MessageDescriptor| message.full_name().to_string();
            let is_known =
                file.messages().map(name).any(|name| pool.get_message_by_name(&name).is_some());
            if !is_known {
                pool.add_file_descriptor_proto(file.file_descriptor_proto().clone())?;
            }
        }
    }
    Ok(pool)
}

/// Returns whether a call has one request and one answer.
pub fn is_unary(method: &MethodDescriptor) -> bool {
    !method.is_client_streaming() && !method.is_server_streaming()
}

/// Returns whether a method changes nothing, so that GET may call it.
pub fn is_safe(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    options.is_some_and(|options| options.idempotency_level() == IdempotencyLevel::NoSideEffects)
}

/// Methods by their paths.
pub type Methods = HashMap<String, MethodDescriptor, foldhash::fast::RandomState>;

/// Returns the methods of a descriptor pool.
pub fn methods(pool: &DescriptorPool) -> Methods {
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let path = |m: &MethodDescriptor| format!("/{}/{}", m.parent_service().full_name(), m.name());
    methods.map(|method| (path(&method), method)).collect()
}
