//! OpenAPI 3.1 for the methods as requests of HTTP with JSON.

use prost_reflect::{DescriptorPool, MethodDescriptor};
use serde_json::{Map, Value, json};

use super::comment::{Commented, reasons};
use super::schema::{Schemas, reference};
use super::{is_read, row_of};
use crate::service::method::TABLE;

const ABOUT: &str = "\
Bellwether answers how an application is, and why. Each method of its gRPC services is a request \
of HTTP with JSON here, by the Connect protocol. A method with one request and one answer takes \
and returns `application/json`. A method that streams takes and returns \
`application/connect+json`: each message has a prefix of five bytes, one of flags (0 for a \
message, 2 for the end of the answers) and four of its length, the most significant byte first; \
`x-request` and `x-response` name the messages. A method that streams answers and changes \
nothing is also read as Server-Sent Events. A field with its default value is left out of an \
answer.";

/// What every error is, by the Connect protocol.
const ERROR_CODES: &[&str] = &[
    "canceled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

/// Returns the document.
pub fn document(pool: &DescriptorPool) -> Value {
    let mut schemas = Schemas::default();
    for row in TABLE {
        schemas.note_answer(&method_of(pool, &row.path()).output());
    }
    let mut paths = Map::new();
    let mut tags = Vec::new();
    for row in TABLE {
        let method = method_of(pool, &row.path());
        let service = method.parent_service();
        if paths.keys().all(|path: &String| !path.starts_with(&format!("/{}/", row.service))) {
            tags.push(json!({"name": tag(&method), "description": service.comment()}));
        }
        paths.insert(row.path(), item(&method, &mut schemas));
    }
    let mut schemas = schemas.finish();
    schemas.insert("ConnectError".into(), error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bellwether",
            "version": "v1",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:50051"}],
        "security": [{}, {"token": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "parameters": {
                "Timeout": {
                    "name": "Connect-Timeout-Ms",
                    "in": "header",
                    "description": "Deadline of the call in milliseconds; not given: none.",
                    "schema": {"type": "integer", "minimum": 0},
                },
            },
            "responses": {
                "Error": {
                    "description": "The call failed. `message` is for people; programs decide by \
                                    the reason in the detail `google.rpc.ErrorInfo`.",
                    "content": {"application/json": {"schema": reference("ConnectError")}},
                },
            },
            "schemas": schemas,
        },
    })
}

fn method_of(pool: &DescriptorPool, path: &str) -> MethodDescriptor {
    let (service, name) = path.trim_start_matches('/').split_once('/').unwrap();
    let service = pool.get_service_by_name(service).unwrap();
    service.methods().find(|method| method.name() == name).unwrap()
}

/// Returns the name of a service, with its package if that is of another project.
fn tag(method: &MethodDescriptor) -> String {
    let service = method.parent_service();
    service.full_name().trim_start_matches("bellwether.v1.").to_string()
}

/// Returns what can be sent to the path of a method.
fn item(method: &MethodDescriptor, schemas: &mut Schemas) -> Value {
    let is_stream = method.is_client_streaming() || method.is_server_streaming();
    let (input, output) = (method.input(), method.output());
    let (request, response) = (schemas.message(&input), schemas.message(&output));
    let id = format!("{}_{}", tag(method), method.name());
    let mut post = operation(method, &id);
    let (kind, sent, received) = match is_stream {
        false => ("application/json", request.clone(), response.clone()),
        true => {
            let frames = json!({"type": "string", "format": "binary"});
            ("application/connect+json", frames.clone(), frames)
        }
    };
    post["parameters"] = json!([timeout()]);
    post["requestBody"] = json!({"required": true, "content": {kind: {"schema": sent}}});
    post["responses"] = json!({
        "200": {"description": output.comment(), "content": {kind: {"schema": received}}},
        "default": {"$ref": "#/components/responses/Error"},
    });
    if is_stream {
        post["x-request"] = request.clone();
        post["x-response"] = response.clone();
    }
    let mut item = json!({"post": post});
    if is_read(method) && !method.is_client_streaming() {
        let mut get = operation(method, &format!("{id}_get"));
        let message = json!({
            "name": "message",
            "in": "query",
            "description": "The request in JSON, as text; not given: without fields.",
            "schema": {"type": "string", "contentMediaType": "application/json",
                "contentSchema": request},
        });
        get["parameters"] = json!([message, timeout()]);
        let (kind, received) = match is_stream {
            false => ("application/json", response.clone()),
            true => ("text/event-stream", json!({"type": "string"})),
        };
        get["responses"] = json!({
            "200": {"description": output.comment(), "content": {kind: {"schema": received}}},
            "default": {"$ref": "#/components/responses/Error"},
        });
        if is_stream {
            get["x-response"] = response;
        }
        item["get"] = get;
    }
    item
}

/// Returns what the requests for a method have in common.
fn operation(method: &MethodDescriptor, id: &str) -> Value {
    let row = row_of(method);
    json!({
        "operationId": id,
        "tags": [tag(method)],
        "summary": method.name(),
        "description": method.comment(),
        "x-right": row.right.words(),
        "x-reasons": reasons(method),
    })
}

fn timeout() -> Value {
    json!({"$ref": "#/components/parameters/Timeout"})
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "An error of a call.",
        "required": ["code"],
        "properties": {
            "code": {"type": "string", "enum": ERROR_CODES},
            "message": {"type": "string", "description": "What is wrong and what to do."},
            "details": {"type": "array", "items": {
                "type": "object",
                "required": ["type", "value"],
                "properties": {
                    "type": {"type": "string", "examples": ["google.rpc.ErrorInfo"]},
                    "value": {"type": "string", "contentEncoding": "base64"},
                    "debug": {
                        "type": "object",
                        "additionalProperties": true,
                        "description": "The detail in JSON.",
                    },
                },
            }},
        },
    })
}
