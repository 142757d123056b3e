//! The pages of services and messages, as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use prost_reflect::{
    EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    ServiceDescriptor,
};

use super::comment::{Commented, paragraphs_of, reasons};
use super::{is_read, path_of, row_of};
use crate::cli::reference::{paragraphs, wrapped};
use crate::service::method::RequestSize;

/// The page of the messages that several services have.
const SHARED: &str = "messages.md";

const SHARED_OPENING: &str = "\
# API: messages of several services

This page lists the statuses, errors, operations and marks that more than one service sends or
receives. A test writes it from the protos and compares it. The [overview](../api.md) has the
rules for all messages.";

/// Returns the file of a page, in the folder of the pages.
pub fn name_of(file: &FileDescriptor) -> String {
    match file.services().next() {
        Some(service) => format!("{}.md", dashed(service.name())),
        None => SHARED.to_string(),
    }
}

/// Returns `report-service` for `ReportService`.
fn dashed(name: &str) -> String {
    let mut dashed = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !dashed.is_empty() {
            dashed.push('-');
        }
        dashed.push(c.to_ascii_lowercase());
    }
    dashed
}

/// Returns the page of a service with the messages of its file.
pub fn of_service(service: &ServiceDescriptor) -> String {
    let file = service.parent_file();
    let mut page = format!("# API: {}\n\n", service.name());
    let opening = "A test writes this page from the protos and compares it. The \
                   [overview](../api.md) has the rules for all methods.";
    page.push_str(&paragraphs(opening));
    page.push_str(&prose(&service.comment()));
    for method in service.methods() {
        page.push_str(&of_method(&method));
    }
    page.push_str("\n## Messages\n");
    page.push_str(&of_types(&file));
    checked(page)
}

/// Returns the page of files without a service.
pub fn of_shared(files: &[FileDescriptor]) -> String {
    let mut page = paragraphs(SHARED_OPENING).trim_end().to_string() + "\n";
    files.iter().for_each(|file| page.push_str(&of_types(file)));
    checked(page)
}

/// Checks that each heading of a page has an anchor of its own.
fn checked(page: String) -> String {
    let mut seen = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with('#')) {
        assert!(seen.insert(line.trim_start_matches('#').to_string()), "twice: {line}");
    }
    page.trim_end().to_string() + "\n"
}

/// Returns a comment in lines; entries of a list follow one another.
fn prose(comment: &str) -> String {
    let mut text = String::new();
    let mut is_list = false;
    for paragraph in paragraphs_of(comment) {
        let is_entry = paragraph.starts_with("- ");
        let continues = is_list && is_entry;
        if !text.is_empty() && !continues {
            text.push('\n');
        }
        text.push_str(&wrapped(&paragraph, if is_entry { "  " } else { "" }));
        is_list = is_entry;
    }
    text
}

fn of_method(method: &MethodDescriptor) -> String {
    let row = row_of(method);
    let own = name_of(&method.parent_file());
    let path = path_of(method);
    let mut text = format!("\n## {}\n\n{}\n", method.name(), prose(&method.comment()));
    let form = match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) if is_read(method) => format!("`POST {path}`, or GET with `message`"),
        (false, false) => format!("`POST {path}`"),
        (false, true) if is_read(method) => {
            format!("`POST {path}` with frames, or GET with `Accept: text/event-stream`")
        }
        (false, true) => format!("`POST {path}` with frames"),
        (true, _) => format!("`POST {path}` with frames, over HTTP/2"),
    };
    let stream = |is_stream| if is_stream { "a stream of " } else { "" };
    let size = match row.request {
        RequestSize::Small => "64 KiB (`small_request_bytes_max`)",
        RequestSize::Large => "4 MiB (`request_bytes_max`)",
    };
    let note = Some(row.note).filter(|note| !note.is_empty());
    let note = note.map_or(String::new(), |note| format!("; {note}"));
    let (rate, calls) = row.class.words();
    let entries = [
        format!("- JSON: {form}"),
        format!(
            "- Request: {}{}, at most {size}",
            stream(method.is_client_streaming()),
            link(&own, &method.input())
        ),
        format!(
            "- Response: {}{}",
            stream(method.is_server_streaming()),
            link(&own, &method.output())
        ),
        format!("- Right: {}{note}", row.right.words()),
        format!("- Counts as: {calls} (`{rate}`)"),
    ];
    entries.iter().for_each(|entry| text.push_str(&wrapped(entry, "  ")));
    let reasons = reasons(method);
    if !reasons.is_empty() {
        let links = reasons
            .iter()
            .map(|reason| format!("[{reason}](../../errors.md#{})", reason.to_ascii_lowercase()));
        let links = links.collect::<Vec<_>>().join(", ");
        text.push_str(&wrapped(&format!("- Reasons: {links}"), "  "));
    }
    text
}

/// Returns the messages and enums of a file, in its order.
fn of_types(file: &FileDescriptor) -> String {
    let own = name_of(file);
    let mut text = String::new();
    for message in file.messages() {
        add_message(&mut text, &own, &message);
    }
    for of in file.enums() {
        add_enum(&mut text, &of);
    }
    text
}

fn add_message(text: &mut String, own: &str, message: &MessageDescriptor) {
    if message.is_map_entry() {
        return;
    }
    write!(text, "\n### {}\n\n{}", short(message), prose(&message.comment())).unwrap();
    let mut fields: Vec<FieldDescriptor> = message.fields().collect();
    fields.sort_by_key(|field| field.path().last().copied());
    if !fields.is_empty() {
        text.push('\n');
    }
    for field in fields {
        add_field(text, own, &field);
    }
    for of in message.child_enums() {
        add_enum(text, &of);
    }
    for child in message.child_messages() {
        add_message(text, own, &child);
    }
}

fn add_field(text: &mut String, own: &str, field: &FieldDescriptor) {
    let kind = kind_of(own, field);
    let choice = field.containing_oneof().filter(|of| !of.is_synthetic());
    let choice = choice.map_or(String::new(), |of| format!(", one of `{}`", of.name()));
    let mut parts = paragraphs_of(&field.comment()).into_iter();
    let first = parts.next().unwrap_or_default();
    let entry = format!("- `{}` ({kind}{choice}): {first}", field.name());
    text.push_str(&wrapped(&entry, "  "));
    for part in parts {
        let (lead, rest) = if part.starts_with("- ") { ("  ", "    ") } else { ("\n  ", "  ") };
        text.push_str(lead);
        text.push_str(&wrapped(&part, rest));
    }
}

fn add_enum(text: &mut String, of: &EnumDescriptor) {
    let name = of.full_name().trim_start_matches(of.package_name()).trim_start_matches('.');
    write!(text, "\n### {name}\n\n{}\n", prose(&of.comment())).unwrap();
    for value in of.values() {
        let comment = value.comment().replace('\n', " ");
        let entry = format!("- `{}` = {}: {comment}", value.name(), value.number());
        text.push_str(&wrapped(&entry, "  "));
    }
}

fn kind_of(own: &str, field: &FieldDescriptor) -> String {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { unreachable!("a map has entries") };
        let value = one(own, &entry.map_entry_value_field());
        return format!("map of {} to {value}", one(own, &entry.map_entry_key_field()));
    }
    let one = one(own, field);
    match field.is_list() {
        true => format!("list of {one}"),
        false => one,
    }
}

fn one(own: &str, field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(message) => link(own, &message),
        Kind::Enum(of) => {
            let name = of.full_name().trim_start_matches(of.package_name()).trim_start_matches('.');
            format!("[{name}]({})", anchor(own, &of.parent_file(), name))
        }
        Kind::String => "text".to_string(),
        Kind::Bool => "boolean".to_string(),
        kind => format!("{kind:?}").to_ascii_lowercase(),
    }
}

/// Returns a link to a message; the name of one that another project defines.
fn link(own: &str, message: &MessageDescriptor) -> String {
    let name = short(message);
    match message.package_name() {
        "bellwether.v1" | "grpc.health.v1" => {
            format!("[{name}]({})", anchor(own, &message.parent_file(), &name))
        }
        _ => format!("`{}`", message.full_name()),
    }
}

fn anchor(own: &str, file: &FileDescriptor, name: &str) -> String {
    let page = name_of(file);
    let page = if page == own { "" } else { page.as_str() };
    format!("{page}#{}", name.replace('.', "").to_ascii_lowercase())
}

/// Returns the name of a message without its package.
fn short(message: &MessageDescriptor) -> String {
    message.full_name().trim_start_matches(message.package_name()).trim_start_matches('.').into()
}
