//! The comments of the protos.

use prost_reflect::{
    EnumDescriptor, EnumValueDescriptor, FieldDescriptor, FileDescriptor, MessageDescriptor,
    MethodDescriptor, ServiceDescriptor,
};

use crate::service::code::Reason;

/// What has a comment in a proto.
pub trait Commented {
    /// Returns the file that it is in, and its path there.
    fn place(&self) -> (FileDescriptor, &[i32]);

    /// Returns its comment, without the spaces at the begin of each line.
    fn comment(&self) -> String {
        let (file, path) = self.place();
        let info = file.file_descriptor_proto().source_code_info.as_ref();
        let found = info.and_then(|info| info.location.iter().find(|place| place.path == path));
        let text = found.map_or("", |place| place.leading_comments());
        let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
        lines.collect::<Vec<_>>().join("\n").trim().to_string()
    }
}

/// Implements [`Commented`] for descriptors.
macro_rules! commented {
    ($($descriptor:ident)*) => {$(
        impl Commented for $descriptor {
            fn place(&self) -> (FileDescriptor, &[i32]) {
                (self.parent_file(), self.path())
            }
        }
    )*};
}

commented! {
    EnumDescriptor EnumValueDescriptor FieldDescriptor MessageDescriptor MethodDescriptor
    ServiceDescriptor
}

/// Returns a comment as paragraphs of Markdown, each on one line. An entry of a list is a paragraph
/// of its own.
pub fn paragraphs_of(comment: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut begins = true;
    for line in comment.lines() {
        if line.is_empty() {
            begins = true;
            continue;
        }
        match found.last_mut().filter(|_| !begins && !line.starts_with("- ")) {
            Some(last) => last.push_str(&format!(" {}", line.trim())),
            None => found.push(line.to_string()),
        }
        begins = false;
    }
    found
}

/// Returns the reasons that a method and its service name, each once, in the order of the table.
pub fn reasons(method: &MethodDescriptor) -> Vec<&'static str> {
    let service = method.parent_service().comment();
    let of_all = paragraphs_of(&service);
    let of_all = of_all.iter().filter_map(|text| text.split_once("Errors of every call: "));
    let of_all = of_all.map(|(_, rest)| rest.split(". ").next().unwrap_or_default());
    let text = [of_all.collect::<String>(), method.comment()].join(" ");
    let named = |name: &&&str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.split(|c: char| !is_part(c)).any(|word| word == **name)
    };
    Reason::NAMES.iter().filter(named).copied().collect()
}

#[test]
fn a_comment_is_divided_into_paragraphs_and_entries() {
    let comment = "One\ntwo.\n\nThree:\n\n- `a`: four\n  five\n- `b`: six";
    assert_eq!(paragraphs_of(comment), ["One two.", "Three:", "- `a`: four five", "- `b`: six"]);
}
