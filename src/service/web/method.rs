//! The methods that the layer translates, from the descriptors of the services.

use std::collections::HashMap;

use prost_reflect::prost_types::method_options::IdempotencyLevel;
use prost_reflect::{DescriptorError, DescriptorPool, MessageDescriptor, MethodDescriptor};

use crate::service::call::intake::{Intake, Takes};
use crate::service::method::{TABLE, by_path};

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

/// A method that the layer translates.
pub struct WebMethod {
    /// Its types.
    pub descriptor: MethodDescriptor,
    /// The limits of its request.
    pub takes: Takes,
    /// The bytes of room that its answer takes before it is rendered; `None` for a short answer.
    pub answer_bytes: Option<usize>,
}

impl WebMethod {
    /// Returns whether a call has one request and one answer.
    pub fn is_unary(&self) -> bool {
        !self.descriptor.is_client_streaming() && !self.descriptor.is_server_streaming()
    }

    /// Returns whether it changes nothing, so that GET may call it.
    pub fn is_safe(&self) -> bool {
        let options = self.descriptor.method_descriptor_proto().options.as_ref();
        options.is_some_and(|given| given.idempotency_level() == IdempotencyLevel::NoSideEffects)
    }
}

/// Methods by their paths.
pub type Methods = HashMap<String, WebMethod, foldhash::fast::RandomState>;

/// Returns the methods of a descriptor pool.
pub fn methods(pool: &DescriptorPool, intake: &Intake) -> Methods {
    let rows = by_path(TABLE);
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let method = |descriptor: MethodDescriptor| {
        let path = format!("/{}/{}", descriptor.parent_service().full_name(), descriptor.name());
        let answer_bytes = rows.get(&path).and_then(|row| row.answer.bytes_as_json());
        let takes = intake.takes(&path);
        (path, WebMethod { descriptor, takes, answer_bytes })
    };
    methods.map(method).collect()
}
