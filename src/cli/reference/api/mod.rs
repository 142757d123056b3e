//! The reference of the API, written from the protos: the pages of docs/reference/api, their
//! overview, and docs/reference/openapi.json.

mod comment;
mod openapi;
mod page;
mod schema;

use std::fmt::Write;

use prost_reflect::prost_types::method_options::IdempotencyLevel;
use prost_reflect::{DescriptorPool, FileDescriptor, MethodDescriptor, ServiceDescriptor};
use tonic_reflection::pb;

use super::{paragraphs, test_page, wrapped};
use crate::proto;
use crate::service::method::{Method, TABLE};
use crate::service::web;

const OPENING: &str = "\
# API reference

This page lists every method of the server. It is for authors of clients. A test writes it and the
pages behind it from the protos, and compares them.

A method can be called by gRPC, and by HTTP with JSON ([http.md](../http.md)) at the path
`/PACKAGE.SERVICE/METHOD`. [openapi.json](openapi.json) has the same for generators of clients:
OpenAPI 3.1. The client packages for [Rust](../../crates/client/README.md),
[Go](../../clients/go/README.md) and [Python](../python.md) are ready.

## Rules for all methods

- The names of fields are those of the protos. In JSON they are written `lowerCamelCase`:
`cut_long_texts` is `cutLongTexts`. Both are read.
- JSON writes 64-bit numbers as text, `bytes` as base64, a `google.protobuf.Duration` as `\"90s\"`,
a `google.protobuf.Timestamp` as RFC 3339, and the value of an enum by its name. A level
is read in other spellings too: `active`, `ACTIVE` and `Active` are `LEVEL_ACTIVE`.
- A field with its default value (0, false, empty) is left out of an answer.
- Fields and values of enums can be added; a client ignores what it does not know. A request with an
unknown field is refused in JSON.
- \"Right\" is what the caller needs on a server that
[knows its callers](../security.md#the-right-of-every-method).
Such a server also answers [CREDENTIALS_MISSING](../errors.md#credentials_missing),
[CREDENTIALS_INVALID](../errors.md#credentials_invalid) and
[SCOPE_DENIED](../errors.md#scope_denied).
- \"Counts as\" is the rate that the call counts against; beyond it the answer is
[RATE_LIMITED](../errors.md#rate_limited). [limits.md](../limits.md) has the limits of all requests.
- \"Reasons\" are the [reasons](../errors.md) that the protos name for the method.

## Methods
";

/// The services of this project, and that of health.
const SERVICES: &[&str] = &[
    "bellwether.v1.ReportService",
    "bellwether.v1.ApplicationService",
    "bellwether.v1.WorkerService",
    "bellwether.v1.OperationService",
    "bellwether.v1.LeaderService",
    "bellwether.v1.AppDataService",
    "bellwether.v1.ServerService",
    "grpc.health.v1.Health",
];

/// Returns every service that the server serves.
fn pool() -> DescriptorPool {
    let (reflection, alpha) = (pb::v1::FILE_DESCRIPTOR_SET, pb::v1alpha::FILE_DESCRIPTOR_SET);
    web::pool(&[proto::FILE_DESCRIPTOR_SET, reflection, alpha]).unwrap()
}

fn services(pool: &DescriptorPool) -> Vec<ServiceDescriptor> {
    SERVICES.iter().map(|name| pool.get_service_by_name(name).expect(name)).collect()
}

/// Returns the path of a method: that of its URL.
fn path_of(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

fn row_of(method: &MethodDescriptor) -> &'static Method {
    let path = path_of(method);
    TABLE.iter().find(|row| row.path() == path).expect("every method has a row, by a test")
}

/// Returns whether a method changes nothing, so that GET may call it.
fn is_read(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    options.is_some_and(|given| given.idempotency_level() == IdempotencyLevel::NoSideEffects)
}

#[test]
fn the_pages_list_every_method_and_message() {
    let pool = pool();
    let services = services(&pool);
    let mut shown = reflection();
    let mut overview: String = OPENING.split("\n\n").map(entries).collect();
    for service in &services {
        let name = page::name_of(&service.parent_file());
        write!(overview, "Path: `/{}/METHOD`. Rights:\n\n", service.full_name()).unwrap();
        for method in service.methods() {
            let (method_name, right) = (method.name(), row_of(&method).right.words());
            let link = format!("[{method_name}](api/{name}#{})", method_name.to_ascii_lowercase());
            overview.push_str(&wrapped(&format!("- {link}: {right}"), "  "));
        }
        overview.push('\n');
        let page = page::of_service(service);
        test_page(&format!("api/{name}"), &page);
        shown.push_str(&page);
    }
    overview.push_str(&reflection());
    test_page("api.md", &overview);
    let shared: Vec<FileDescriptor> = pool
        .files()
        .filter(|file| file.package_name() == "bellwether.v1" && file.services().len() == 0)
        .collect();
    test_page("api/messages.md", &page::of_shared(&shared));
    for row in TABLE {
        let path = format!("`POST {}`", row.path());
        assert!(shown.contains(&path), "{} is missing", row.path());
    }
}

/// Returns a paragraph, or the entries of a list, in lines.
fn entries(text: &str) -> String {
    match text.starts_with("- ") {
        false => paragraphs(text),
        true => {
            let entries = text.split("\n- ").map(|entry| entry.trim_start_matches("- "));
            let lines = entries.map(|entry| wrapped(&format!("- {entry}"), "  "));
            lines.collect::<String>() + "\n"
        }
    }
}

/// Returns the section of the methods that gRPC defines for the descriptions of services.
fn reflection() -> String {
    let text = "### Reflection\n\nThe protos of [gRPC reflection](https://grpc.io/docs/guides/\
                reflection/) define these; `grpcurl` and `buf curl` call them. A server may serve \
                none.\n\n";
    let rows = TABLE.iter().filter(|row| row.service.starts_with("grpc.reflection."));
    let rows = rows.map(|row| format!("- `POST {}`: {}\n", row.path(), row.right.words()));
    let text: String = text.split("\n\n").filter(|text| !text.is_empty()).map(entries).collect();
    text + &rows.collect::<String>()
}

#[test]
fn the_openapi_file_has_every_method() {
    let document = openapi::document(&pool());
    for row in TABLE {
        assert!(document["paths"][row.path()]["post"].is_object(), "{} is missing", row.path());
    }
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    test_page("openapi.json", &text);
}
