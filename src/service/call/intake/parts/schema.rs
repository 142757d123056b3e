//! The types of messages, as far as parts need them: the fields that are lists, maps or messages.

use std::collections::HashMap;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use super::{PARTS_LIMIT, PARTS_MAX, TooMany};
use crate::domain::limits::DATA_KEYS_MAX;

/// Maximum entries of a list or a map without a limit of its own. No method accepts more names, and
/// the others have fewer kinds of values.
pub const LIST_MAX: usize = 4096;

/// The name of that limit.
const LIST_LIMIT: &str = "request_list_max";

/// The maps and lists with keys of an application's data.
const DATA_KEYS: [&str; 2] =
    [".bellwether.v1.UpdateAppDataRequest.set", ".bellwether.v1.UpdateAppDataRequest.delete"];

/// The lists of a session. Its handler refuses a message that is too long and keeps the session
/// open, so they have the limit of all parts alone.
const OF_SESSION: [&str; 2] =
    [".bellwether.v1.ConnectReport.statuses", ".bellwether.v1.ConnectReplace.statuses"];

/// The type of an entry of a set.
const STATUS: &str = ".bellwether.v1.StatusReport";

/// Lists of one type that are counted separately; more share the last count.
pub(super) const LISTS_MAX: usize = 8;

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::service::call::intake) struct TypeId(usize);

/// A field that has parts.
pub(super) struct Field {
    name: Box<str>,
    /// The type of a message; for a map, that of its entries.
    pub(super) message: Option<TypeId>,
    /// `None`: one message.
    pub(super) list: Option<List>,
}

/// A list or a map.
pub(super) struct List {
    /// Where the list is counted.
    pub(super) slot: usize,
    pub(super) packing: Packing,
    /// The name of the limit, and the maximum of entries.
    limit: (&'static str, usize),
}

/// How numbers lie in one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Each entry has a field.
    None,
    /// With a variable length.
    Variable,
    /// With this many bytes.
    Fixed(usize),
}

impl Field {
    /// Checks the number of entries.
    pub(super) fn check(&self, count: usize) -> Result<(), TooMany> {
        let Some(List { limit: (limit, max), .. }) = self.list else { return Ok(()) };
        match count <= max {
            true => Ok(()),
            false => Err(TooMany { limit, max, field: Some(self.name.clone()) }),
        }
    }
}

#[derive(Default)]
struct OneType {
    fields: HashMap<u32, Field, foldhash::fast::RandomState>,
    /// The names of JSON, and those of the protos.
    numbers: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    lists: usize,
}

/// The fields of all types that have parts.
pub struct Types {
    ids: HashMap<String, TypeId>,
    all: Vec<OneType>,
    statuses_max: usize,
}

impl Default for Types {
    fn default() -> Types {
        Types::new(0)
    }
}

impl Types {
    /// Creates an empty collection. A set may have `statuses_max` statuses, if that is more than
    /// any other list may have.
    pub(in crate::service::call::intake) fn new(statuses_max: usize) -> Types {
        Types { ids: HashMap::new(), all: Vec::new(), statuses_max }
    }

    /// Adds the types of some files.
    pub(in crate::service::call::intake) fn add(&mut self, set: &FileDescriptorSet) {
        for file in &set.file {
            for message in &file.message_type {
                self.add_type(&format!(".{}", file.package()), message);
            }
        }
    }

    /// Returns the id of a type, by its full name with a dot before it.
    pub(in crate::service::call::intake) fn id(&mut self, name: &str) -> TypeId {
        if let Some(known) = self.ids.get(name) {
            return *known;
        }
        let id = TypeId(self.all.len());
        self.all.push(OneType::default());
        self.ids.insert(name.to_string(), id);
        id
    }

    /// Returns the field with this number.
    pub(super) fn field(&self, of: TypeId, number: u32) -> Option<&Field> {
        self.all.get(of.0)?.fields.get(&number)
    }

    /// Returns the number of the field with this name in JSON.
    pub(super) fn number(&self, of: TypeId, name: &str) -> Option<u32> {
        self.all.get(of.0)?.numbers.get(name).copied()
    }

    /// Returns the type of the values of a map, if they are messages.
    pub(super) fn map_value(&self, entry: TypeId) -> Option<TypeId> {
        self.field(entry, 2)?.message
    }

    fn add_type(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        let id = self.id(&name);
        for field in &message.field {
            self.add_field(id, &name, field);
        }
        for inner in &message.nested_type {
            self.add_type(&name, inner);
        }
    }

    fn add_field(&mut self, id: TypeId, of: &str, field: &FieldDescriptorProto) {
        let number = field.number().unsigned_abs();
        for name in [field.name().to_string(), camel(field.name())] {
            self.all[id.0].numbers.insert(name.into(), number);
        }
        let is_message = field.r#type() == Type::Message;
        let message = is_message.then(|| self.id(field.type_name()));
        let is_list = field.label() == Label::Repeated;
        if message.is_none() && !is_list {
            return;
        }
        let limit = self.limit(&format!("{of}.{}", field.name()), field.type_name());
        let of = &mut self.all[id.0];
        let list = is_list.then(|| {
            of.lists += 1;
            let slot = of.lists.min(LISTS_MAX) - 1;
            List { slot, packing: packing(field.r#type()), limit }
        });
        of.fields.insert(number, Field { name: field.name().into(), message, list });
    }

    /// Returns the limit of a list: its own one, or that of all lists.
    fn limit(&self, field: &str, of: &str) -> (&'static str, usize) {
        match () {
            () if OF_SESSION.contains(&field) => (PARTS_LIMIT, PARTS_MAX),
            () if DATA_KEYS.contains(&field) => ("data_keys_max", DATA_KEYS_MAX),
            () if of == STATUS && LIST_MAX < self.statuses_max => {
                ("statuses_per_unit_max", self.statuses_max)
            }
            () => (LIST_LIMIT, LIST_MAX),
        }
    }
}

fn packing(kind: Type) -> Packing {
    match kind {
        Type::String | Type::Bytes | Type::Message | Type::Group => Packing::None,
        Type::Fixed32 | Type::Sfixed32 | Type::Float => Packing::Fixed(4),
        Type::Fixed64 | Type::Sfixed64 | Type::Double => Packing::Fixed(8),
        _ => Packing::Variable,
    }
}

/// Returns the name of a field in JSON.
fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |name, part| {
        let mut chars = part.chars();
        let head = chars.next().map(|head| head.to_ascii_uppercase());
        name + &head.into_iter().chain(chars).collect::<String>()
    })
}
