//! Errors as the Connect protocol sends them: a code, a message and details in JSON, under the
//! status of HTTP that fits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::{HeaderMap, StatusCode};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Map, Value, json};
use tonic::{Code, Status};

use crate::service::web::metadata;

/// Returns the status of HTTP and the name of a code.
pub fn named(code: Code) -> (StatusCode, &'static str) {
    let (status, name) = match code {
        Code::Ok => (200, "ok"),
        Code::Cancelled => (499, "canceled"),
        Code::Unknown => (500, "unknown"),
        Code::InvalidArgument => (400, "invalid_argument"),
        Code::DeadlineExceeded => (504, "deadline_exceeded"),
        Code::NotFound => (404, "not_found"),
        Code::AlreadyExists => (409, "already_exists"),
        Code::PermissionDenied => (403, "permission_denied"),
        Code::ResourceExhausted => (429, "resource_exhausted"),
        Code::FailedPrecondition => (400, "failed_precondition"),
        Code::Aborted => (409, "aborted"),
        Code::OutOfRange => (400, "out_of_range"),
        Code::Unimplemented => (501, "unimplemented"),
        Code::Internal => (500, "internal"),
        Code::Unavailable => (503, "unavailable"),
        Code::DataLoss => (500, "data_loss"),
        Code::Unauthenticated => (401, "unauthenticated"),
    };
    (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), name)
}

/// Returns an error as JSON. Each detail is shown for people if `pool` knows its type.
pub fn json(status: &Status, pool: &DescriptorPool) -> Value {
    let mut error = Map::new();
    error.insert("code".into(), named(status.code()).1.into());
    if !status.message().is_empty() {
        error.insert("message".into(), status.message().into());
    }
    let details = tonic_types::pb::Status::decode(status.details()).unwrap_or_default().details;
    let details: Vec<Value> = details.iter().map(|any| detail(any, pool)).collect();
    if !details.is_empty() {
        error.insert("details".into(), details.into());
    }
    Value::Object(error)
}

fn detail(any: &prost_types::Any, pool: &DescriptorPool) -> Value {
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let mut detail = json!({"type": name, "value": STANDARD_NO_PAD.encode(&any.value)});
    let shown = pool
        .get_message_by_name(name)
        .and_then(|message| DynamicMessage::decode(message, any.value.as_slice()).ok())
        .and_then(|message| serde_json::to_value(&message).ok());
    if let Some(shown) = shown {
        detail["debug"] = shown;
    }
    detail
}

/// Returns the last message of a stream: the error, if there is one, and the trailers.
pub fn end_of_stream(status: &Status, pool: &DescriptorPool) -> Vec<u8> {
    let mut end = Map::new();
    if status.code() != Code::Ok {
        end.insert("error".into(), json(status, pool));
    }
    let trailers = metadata::only_metadata(&status.metadata().clone().into_headers());
    if !trailers.is_empty() {
        end.insert("metadata".into(), Value::Object(listed(&trailers)));
    }
    Value::Object(end).to_string().into_bytes()
}

fn listed(headers: &HeaderMap) -> Map<String, Value> {
    let values = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    headers.keys().map(|name| (name.to_string(), values(name).collect::<Vec<_>>().into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::code::ApiError;

    #[test]
    fn an_error_has_its_code_its_message_and_readable_details() {
        let pool = crate::service::web::pool(&[tonic_types::pb::FILE_DESCRIPTOR_SET]).unwrap();
        let status = ApiError::draining().into();
        let error = json(&status, &pool);
        assert_eq!(error["code"], "unavailable");
        assert_eq!(error["message"], status.message());
        let details = error["details"].as_array().unwrap();
        let info = details.iter().find(|d| d["type"] == "google.rpc.ErrorInfo").unwrap();
        assert_eq!(info["debug"]["reason"], "DRAINING");
        assert!(STANDARD_NO_PAD.decode(info["value"].as_str().unwrap()).is_ok());
        let end: Value = serde_json::from_slice(&end_of_stream(&status, &pool)).unwrap();
        assert_eq!(end, json!({ "error": error }));
        assert_eq!(end_of_stream(&Status::ok(""), &pool), b"{}");
    }

    #[test]
    fn every_code_has_a_status_of_http() {
        for code in (0..=16).map(Code::from_i32) {
            let (status, name) = named(code);
            assert_eq!(status.is_success(), code == Code::Ok, "{name}");
        }
    }
}
