//! `/health/NAMESPACE/APPLICATION` and `/health/NAMESPACE`: a status of HTTP for load balancers and
//! probes that cannot send gRPC, with the reason as a line of text. The answers are those of
//! `grpc.health.v1`.

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use tonic::{Code, Status};

use super::connect;
use super::inner::Inner;
use super::query::decoded;
use super::{GrpcService, WebAnswer, plain};
use crate::domain::shown::one_line;
use crate::proto::health::health_check_response::ServingStatus;
use crate::proto::health::{HealthCheckRequest, HealthCheckResponse};
use crate::proto::v1;
use crate::service::convert::{level_word, severity};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const GET: &str = "/bellwether.v1.ApplicationService/GetApplication";

/// Answers for the rest of a path after `/health`; an empty rest is the server.
pub async fn answer<S: GrpcService>(inner: Inner<S>, rest: &str) -> WebAnswer<S> {
    let name = rest.trim_matches('/').split('/').map(decoded);
    let name: Vec<_> = name.map(|part| String::from_utf8_lossy(&part).into_owned()).collect();
    let found = match name.as_slice() {
        [server] if server.is_empty() => checked(&inner, "").await,
        [namespace] => checked(&inner, &format!("{namespace}/")).await,
        [namespace, application] => health(&inner, namespace, application).await,
        _ => Err(Status::not_found("give /health/NAMESPACE/APPLICATION or /health/NAMESPACE")),
    };
    let mut response = match found {
        Ok((true, text)) => plain(StatusCode::OK, &text),
        Ok((false, text)) => plain(StatusCode::SERVICE_UNAVAILABLE, &text),
        Err(status) => plain(connect::named(status.code()).0, &one_line(status.message())),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns whether an application serves, and its status in a line.
async fn health<S: GrpcService>(
    inner: &Inner<S>,
    namespace: &str,
    application: &str,
) -> Result<(bool, String), Status> {
    let request = v1::GetApplicationRequest {
        namespace: namespace.into(),
        application: application.into(),
        ..v1::GetApplicationRequest::default()
    };
    match inner.dated::<v1::GetApplicationResponse>(GET, &request).await {
        Ok((v1::GetApplicationResponse { application: Some(application) }, as_of)) => {
            let (serves, text) = described(&application);
            if as_of.since.is_empty() {
                return Ok((serves, text));
            }
            let name = format!("{}/{}", application.namespace, application.name);
            let (is_known, _) = checked(inner, &name).await?;
            Ok((serves && is_known, format!("{text} (as of {})", as_of.since)))
        }
        // The health is the same for callers that may not read the status.
        Err(status) if [Code::PermissionDenied, Code::Unauthenticated].contains(&status.code()) => {
            checked(inner, &format!("{namespace}/{application}")).await
        }
        // A name that no application can have.
        Err(status) if status.code() == Code::InvalidArgument => {
            Err(Status::not_found(status.message()))
        }
        Err(status) => Err(status),
        Ok(_) => Err(Status::internal("the answer has no application")),
    }
}

async fn checked<S: GrpcService>(
    inner: &Inner<S>,
    service: &str,
) -> Result<(bool, String), Status> {
    let request = HealthCheckRequest { service: service.into() };
    let health: HealthCheckResponse = inner.call(CHECK, &request).await?;
    let name = if service.is_empty() { "the server" } else { service };
    Ok(match health.status() {
        ServingStatus::Serving => (true, format!("{name} is serving")),
        _ => (false, format!("{name} is not serving")),
    })
}

fn described(application: &v1::Application) -> (bool, String) {
    let status = application.status.clone().unwrap_or_default();
    let serving = application.config.iter().flat_map(|config| &config.serving_levels);
    let is_wanted = serving.copied().any(|level| level == status.level);
    let is_certain = !severity::hides(application);
    let doubt = if is_certain { "" } else { ", but units are silent" };
    let level = format!("{}{doubt}", level_word(status.level()));
    let v1::Application { namespace, name, .. } = application;
    let winner = status.winner.unwrap_or_default();
    let parts = [winner.unit.as_str(), winner.component.as_str()];
    let place = parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let text = match (status.message.as_str(), place.as_str()) {
        ("", _) => format!("{namespace}/{name} is {level}"),
        (message, "") => format!("{namespace}/{name} is {level}: {message}"),
        (message, place) => format!("{namespace}/{name} is {level}: {place}: {message}"),
    };
    (is_wanted && is_certain, one_line(&text))
}
