//! What a relay does with a call: it serves it from its copy, passes it on with the credentials of
//! its caller, or refuses it with the address of the upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, Response};
use prost::Message;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};
use tower::service_fn;

use super::Relay;
use super::raw::RawCodec;
use crate::domain::name::{AppName, namespace_name};
use crate::proto::v1;
use crate::service::call::{Access, Deadline};
use crate::service::code::{ApiError, Reason};
use crate::service::method::{AtRelay, Method};

/// Metadata of an answer that is older than the call.
const AS_OF: &str = "bellwether-as-of";

/// How long a call without a deadline may take at the upstream.
const CALL_MAX: Duration = Duration::from_secs(30);

/// The largest answer: lists end at 3 MiB, and the data of a leader at 16 MiB.
const ANSWER_BYTES_MAX: usize = 20 << 20;

/// How long a caller waits before another try at an upstream that is away.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The application of a request, or the applications: the first two fields of every request that
/// is passed on.
#[derive(Clone, PartialEq, Message)]
struct Subject {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, repeated, tag = "2")]
    applications: Vec<String>,
}

impl Relay {
    /// Returns why a call is refused before its handler.
    pub fn refusal(&self, row: &Method) -> Option<ApiError> {
        let is_about_itself = row.is_quiet() || row.service == "bellwether.v1.ServerService";
        match row.relay {
            AtRelay::Refuses => Some(self.read_only(row)),
            AtRelay::Serves if !is_about_itself && !self.is_ready() => Some(self.unavailable()),
            AtRelay::Serves | AtRelay::Passes => None,
        }
    }

    /// Passes a call on.
    pub async fn pass_on(
        self: Arc<Self>,
        row: &'static Method,
        request: http::Request<Body>,
    ) -> Response<Body> {
        let pass = service_fn(move |request| self.clone().pass(row, request));
        tonic::server::Grpc::new(RawCodec).unary(pass, request).await
    }

    /// Returns the refusal of a call that changes something, or opens a session.
    fn read_only(&self, row: &Method) -> ApiError {
        let upstream = self.upstream();
        let text = format!("a relay serves reads only; call {} at {upstream}", row.name);
        ApiError::new(Reason::RelayReadOnly, text).with("upstream", upstream)
    }

    /// Returns the refusal of a watch with units.
    pub fn without_units(&self) -> ApiError {
        let upstream = self.upstream();
        let text =
            format!("a relay does not follow units; watch without include_units, or at {upstream}");
        ApiError::new(Reason::RelayReadOnly, text).with("upstream", upstream)
    }

    /// Returns the refusal of a read before there is a copy, or while the upstream is away.
    fn unavailable(&self) -> ApiError {
        let (upstream, why) = (self.upstream(), self.health());
        let why = why.unwrap_or_else(|why| why);
        let text = format!("the upstream of this relay does not answer, try again; {why}");
        ApiError::new(Reason::UpstreamUnavailable, text)
            .with("upstream", upstream)
            .retry_after(RETRY_AFTER)
    }

    async fn pass(
        self: Arc<Self>,
        row: &'static Method,
        request: Request<Bytes>,
    ) -> Result<tonic::Response<Bytes>, Status> {
        let (metadata, extensions, message) = request.into_parts();
        let access = Access::of(&extensions);
        check(&access, row, &message)?;
        let left = extensions.get::<Deadline>().map(|Deadline(at)| at.duration_since(now()));
        let call = PassedCall {
            path: PathAndQuery::try_from(row.path())
                .map_err(|_| Status::internal("a method has a path that is none"))?,
            message,
            authorization: self.authorization(&metadata.into_headers()),
            // The caller has a tenth of its time left to learn that the upstream is away.
            timeout: left.map_or(CALL_MAX, |left| left.mul_f64(0.9).min(CALL_MAX)),
        };
        match row.name {
            "ExplainApplication" => self.explain(call).await,
            _ => self.send(call).await,
        }
    }

    /// Returns the token of the caller, if the network to the upstream does not show it.
    fn authorization(&self, headers: &HeaderMap) -> Option<http::HeaderValue> {
        headers.get(AUTHORIZATION).filter(|_| self.passes_tokens).cloned()
    }

    /// Makes a call at the upstream.
    pub(super) async fn send(&self, call: PassedCall) -> Result<tonic::Response<Bytes>, Status> {
        let PassedCall { path, message, authorization, timeout } = call;
        let mut headers = HeaderMap::new();
        headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
        let metadata = MetadataMap::from_headers(headers);
        let mut request = Request::from_parts(metadata, tonic::Extensions::default(), message);
        request.set_timeout(timeout);
        let grpc = tonic::client::Grpc::new(self.plain.transport());
        let mut grpc = grpc.max_decoding_message_size(ANSWER_BYTES_MAX);
        let answered = async {
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            grpc.unary(request, path, RawCodec).await
        };
        let answered = match tokio::time::timeout(timeout, answered).await {
            Ok(answered) => answered,
            Err(_elapsed) => return Err(self.unavailable().into()),
        };
        match answered {
            Ok(response) => Ok(dated(response)),
            // The transport has no details; a refusal of the upstream does.
            Err(status)
                if status.details().is_empty()
                    && [Code::Unavailable, Code::Unknown, Code::Cancelled]
                        .contains(&status.code()) =>
            {
                Err(self.unavailable().into())
            }
            Err(status) => Err(status),
        }
    }
}

/// A call for the upstream.
#[derive(Debug, Clone)]
pub(super) struct PassedCall {
    pub(super) path: PathAndQuery,
    pub(super) message: Bytes,
    /// The token of the caller.
    pub(super) authorization: Option<http::HeaderValue>,
    pub(super) timeout: Duration,
}

/// Keeps of the metadata only as of when the answer is.
fn dated(response: tonic::Response<Bytes>) -> tonic::Response<Bytes> {
    let as_of = response.metadata().get(AS_OF).cloned();
    let mut passed = tonic::Response::new(response.into_inner());
    if let Some(as_of) = as_of {
        passed.metadata_mut().insert(AS_OF, as_of);
    }
    passed
}

/// Checks the rights that the relay itself grants, as the handler of the method does.
fn check(access: &Access, row: &Method, message: &Bytes) -> Result<(), ApiError> {
    let malformed = |_| ApiError::new(Reason::MalformedRequest, "the request does not decode");
    let Subject { namespace, applications } =
        Subject::decode(message.clone()).map_err(malformed)?;
    let operates = row.name == "ListFaults"
        && v1::ListFaultsRequest::decode(message.clone())
            .map_err(malformed)?
            .include_internal_detail;
    let named = applications.iter().filter(|name| !name.is_empty());
    let mut is_any = false;
    for name in named {
        is_any = true;
        let (namespace, name) = match (namespace.as_str(), name.split_once('/')) {
            ("-", Some((namespace, name))) => (namespace, name),
            (namespace, _) => (namespace, name.as_str()),
        };
        // The upstream says what is wrong with a name that none can have.
        if let Ok(app) = AppName::new(namespace, name) {
            access.check(&app, "", operates)?;
        }
    }
    if is_any {
        return Ok(());
    }
    match namespace.as_str() {
        "-" => access.check_list(None),
        given => match namespace_name(given) {
            Ok(namespace) => access.check_list(Some(&namespace)),
            Err(_) => Ok(()),
        },
    }
}

fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
