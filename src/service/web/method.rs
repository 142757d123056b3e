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

/// One method.
#[derive(Debug, Clone)]
pub struct Method {
    /// The type of its requests.
    pub input: MessageDescriptor,
    /// The type of its answers.
    pub output: MessageDescriptor,
    /// Whether a call has several requests.
    pub client_streaming: bool,
    /// Whether a call has several answers.
    pub server_streaming: bool,
    /// Whether the method changes nothing, so that GET may call it.
    pub is_safe: bool,
}

impl Method {
    fn of(method: &MethodDescriptor) -> Method {
        let options = method.method_descriptor_proto().options.clone().unwrap_or_default();
        Method {
            input: method.input(),
            output: method.output(),
            client_streaming: method.is_client_streaming(),
            server_streaming: method.is_server_streaming(),
            is_safe: options.idempotency_level() == IdempotencyLevel::NoSideEffects,
        }
    }

    /// Returns whether a call has one request and one answer.
    pub fn is_unary(&self) -> bool {
        !self.client_streaming && !self.server_streaming
    }
}

/// The methods of a descriptor pool, by path.
#[derive(Debug)]
pub struct Methods {
    by_path: HashMap<String, Method, foldhash::fast::RandomState>,
    pool: DescriptorPool,
}

impl Methods {
    /// Collects the methods.
    pub fn new(pool: DescriptorPool) -> Methods {
        let services = pool.services();
        let methods = services.flat_map(|service| service.methods().collect::<Vec<_>>());
        let path =
            |m: &MethodDescriptor| format!("/{}/{}", m.parent_service().full_name(), m.name());
        let by_path = methods.map(|method| (path(&method), Method::of(&method))).collect();
        Methods { by_path, pool }
    }

    /// Returns the method of a path.
    pub fn find(&self, path: &str) -> Option<&Method> {
        self.by_path.get(path)
    }

    /// Returns every type, to show the details of errors.
    pub fn pool(&self) -> &DescriptorPool {
        &self.pool
    }
}
