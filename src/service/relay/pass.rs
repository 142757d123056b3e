//! What a relay does with a call: it serves it from its copy, passes it on with the credentials of
//! its caller, or refuses it with the address of the upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, Response};
use prost::Message;
use tokio_stream::Empty;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};
use tower::service_fn;

use super::Relay;
use super::contact::UpstreamSet;
use super::extent::CallSubject;
use super::raw::RawCodec;
use crate::domain::name::{AppName, namespace_name};
use crate::proto::v1;
use crate::service::call::{Access, Deadline};
use crate::service::code::{ApiError, Reason};
use crate::service::memory_age::{AS_OF, AS_OF_UPSTREAM};
use crate::service::method::{AtRelay, Method};

/// How long a call without a deadline may take at the upstream.
const CALL_MAX: Duration = Duration::from_secs(30);

/// The largest answer: lists end at 3 MiB, and the data of a leader at 16 MiB.
const ANSWER_BYTES_MAX: usize = 20 << 20;

/// How long the first message of a stream may take, from which its refusal names the upstream.
const FIRST_MAX: Duration = Duration::from_secs(1);

/// The application of a request, or the applications: the first two fields of every request about
/// one.
#[derive(Clone, PartialEq, Message)]
struct SubjectFields {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, repeated, tag = "2")]
    applications: Vec<String>,
}

/// The first message of a session: the identity of its worker.
#[derive(Clone, PartialEq, Message)]
struct SessionOpening {
    #[prost(message, optional, tag = "1")]
    hello: Option<SubjectFields>,
}

impl Relay {
    /// Returns why a call is refused before its handler.
    pub fn refusal(&self, row: &Method) -> Option<ApiError> {
        let is_about_itself = row.is_quiet() || row.service == "bellwether.v1.ServerService";
        match row.relay {
            AtRelay::Refuses if !self.is_union() => Some(self.refuses(row, None)),
            AtRelay::Serves if !is_about_itself && !self.is_ready() => Some(self.not_ready()),
            AtRelay::Serves | AtRelay::Passes | AtRelay::Refuses => None,
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

    /// Refuses a call that changes something, or opens a session, with the address of the upstream
    /// that has the application.
    pub async fn refuse(
        self: Arc<Self>,
        row: &'static Method,
        request: http::Request<Body>,
    ) -> Response<Body> {
        let mut grpc = tonic::server::Grpc::new(RawCodec);
        if row.name == "Connect" {
            let refuse = service_fn(move |request: Request<tonic::Streaming<Bytes>>| {
                let relay = self.clone();
                async move {
                    let (_, extensions, mut messages) = request.into_parts();
                    let first = tokio::time::timeout(FIRST_MAX, messages.message()).await;
                    let first = first.ok().and_then(Result::ok).flatten().unwrap_or_default();
                    let hello =
                        SessionOpening::decode(first).ok().and_then(|opening| opening.hello);
                    let home = hello.and_then(|hello| relay.home_of(&extensions, &hello));
                    Err::<tonic::Response<Empty<_>>, _>(Status::from(relay.refuses(row, home)))
                }
            });
            return grpc.streaming(refuse, request).await;
        }
        let refuse = service_fn(move |request: Request<Bytes>| {
            let (_, extensions, message) = request.into_parts();
            let subject = SubjectFields::decode(message).ok();
            let home = subject.and_then(|subject| self.home_of(&extensions, &subject));
            let refused = Status::from(self.refuses(row, home));
            std::future::ready(Err::<tonic::Response<Bytes>, _>(refused))
        });
        grpc.unary(refuse, request).await
    }

    /// Returns the upstream of an application, for a caller with any right for it: others do not
    /// learn where a namespace is.
    fn home_of(&self, extensions: &http::Extensions, subject: &SubjectFields) -> Option<usize> {
        let app = AppName::new(&subject.namespace, subject.applications.first()?).ok()?;
        let may_know = Access::of(extensions).reader().may_read(&app);
        self.home(&app).filter(|_| may_know)
    }

    fn refuses(&self, row: &Method, home: Option<usize>) -> ApiError {
        let set = home.map_or_else(|| self.all(), UpstreamSet::of);
        let upstream = self.urls(set, " or ");
        let text = format!("a relay serves reads only; call {} at {upstream}", row.name);
        self.read_only(text, set)
    }

    async fn pass(
        self: Arc<Self>,
        row: &'static Method,
        request: Request<Bytes>,
    ) -> Result<tonic::Response<Bytes>, Status> {
        let (metadata, extensions, message) = request.into_parts();
        let named = named(&message)?;
        check(&Access::of(&extensions), row, &named, &message)?;
        let upstream = self.route(&named)?;
        let left = extensions.get::<Deadline>().map(|Deadline(at)| at.duration_since(now()));
        let call = PassedCall {
            path: PathAndQuery::try_from(row.path())
                .map_err(|_| Status::internal("a method has a path that is none"))?,
            message,
            upstream,
            authorization: self.authorization(upstream, &metadata.into_headers()),
            // The caller has a tenth of its time left to learn that the upstream is away.
            timeout: left.map_or(CALL_MAX, |left| left.mul_f64(0.9).min(CALL_MAX)),
        };
        match row.name {
            "ExplainApplication" => self.explain(call).await,
            _ => self.send(call).await,
        }
    }

    /// Returns the token of the caller, if the network to the upstream does not show it.
    fn authorization(&self, upstream: usize, headers: &HeaderMap) -> Option<http::HeaderValue> {
        let passes = self.upstream(upstream).is_some_and(|upstream| upstream.passes_tokens);
        headers.get(AUTHORIZATION).filter(|_| passes).cloned()
    }

    /// Makes a call at the upstream.
    pub(super) async fn send(&self, call: PassedCall) -> Result<tonic::Response<Bytes>, Status> {
        let PassedCall { upstream, path, message, authorization, timeout } = call;
        let away = || Status::from(self.unavailable(UpstreamSet::of(upstream)));
        let Some(plain) = self.upstream(upstream).map(|upstream| &upstream.plain) else {
            return Err(away());
        };
        let mut headers = HeaderMap::new();
        headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
        let metadata = MetadataMap::from_headers(headers);
        let mut request = Request::from_parts(metadata, tonic::Extensions::default(), message);
        request.set_timeout(timeout);
        let grpc = tonic::client::Grpc::new(plain.transport());
        let mut grpc = grpc.max_decoding_message_size(ANSWER_BYTES_MAX);
        let answered = async {
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            grpc.unary(request, path, RawCodec).await
        };
        let answered = match tokio::time::timeout(timeout, answered).await {
            Ok(answered) => answered,
            Err(_elapsed) => return Err(away()),
        };
        match answered {
            Ok(response) => Ok(dated(response)),
            // The transport has no details; a refusal of the upstream does.
            Err(status)
                if status.details().is_empty()
                    && [Code::Unavailable, Code::Unknown, Code::Cancelled]
                        .contains(&status.code()) =>
            {
                Err(away())
            }
            Err(status) => Err(status),
        }
    }
}

/// A call for the upstream.
#[derive(Debug, Clone)]
pub(super) struct PassedCall {
    pub(super) upstream: usize,
    pub(super) path: PathAndQuery,
    pub(super) message: Bytes,
    /// The token of the caller.
    pub(super) authorization: Option<http::HeaderValue>,
    pub(super) timeout: Duration,
}

/// Keeps of the metadata only as of when the answer is.
fn dated(response: tonic::Response<Bytes>) -> tonic::Response<Bytes> {
    let kept = [AS_OF, AS_OF_UPSTREAM].map(|name| (name, response.metadata().get(name).cloned()));
    let mut passed = tonic::Response::new(response.into_inner());
    for (name, value) in kept {
        value.and_then(|value| passed.metadata_mut().insert(name, value));
    }
    passed
}

/// Returns what a call is about.
fn named(message: &Bytes) -> Result<CallSubject, ApiError> {
    let malformed = |_| ApiError::new(Reason::MalformedRequest, "the request does not decode");
    let SubjectFields { namespace, applications } =
        SubjectFields::decode(message.clone()).map_err(malformed)?;
    let given = applications.iter().filter(|name| !name.is_empty());
    let apps = given.map(|name| match (namespace.as_str(), name.split_once('/')) {
        ("-", Some((namespace, name))) => AppName::new(namespace, name),
        (namespace, _) => AppName::new(namespace, name),
    });
    let (apps, wrong): (Vec<_>, Vec<_>) = apps.partition(Result::is_ok);
    let wrong = wrong.into_iter().find_map(Result::err);
    let wrong = wrong.map(|(field, wrong)| format!("{field}: {wrong}"));
    let apps: Vec<AppName> = apps.into_iter().flatten().collect();
    Ok(match (namespace.as_str(), wrong) {
        _ if !apps.is_empty() => CallSubject::Applications(apps),
        (_, Some(wrong)) => CallSubject::Invalid(wrong),
        ("-", None) => CallSubject::Namespace(None),
        (given, None) => match namespace_name(given) {
            Ok(namespace) => CallSubject::Namespace(Some(namespace)),
            Err(wrong) => CallSubject::Invalid(format!("namespace: {wrong}")),
        },
    })
}

/// Checks the rights that the relay itself grants, as the handler of the method does.
fn check(
    access: &Access,
    row: &Method,
    named: &CallSubject,
    message: &Bytes,
) -> Result<(), ApiError> {
    let operates = row.name == "ListFaults"
        && v1::ListFaultsRequest::decode(message.clone())
            .map_err(|_| ApiError::new(Reason::MalformedRequest, "the request does not decode"))?
            .include_internal_detail;
    match named {
        CallSubject::Applications(apps) => {
            apps.iter().try_for_each(|app| access.check(app, "", operates))
        }
        CallSubject::Namespace(namespace) => access.check_list(namespace.as_deref()),
        // The upstream says what is wrong with a name that none can have.
        CallSubject::Invalid(_) => Ok(()),
    }
}

fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
