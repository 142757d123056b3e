//! HTTP beside gRPC on one port: the Connect protocol, for `curl` and for programs without gRPC,
//! and gRPC-Web for browsers. A layer in front of the gRPC services.
//!
//! ```text
//!  application/grpc ---------------------------------------> observe --> intake --> services
//!  application/json, ... --> connect ---> gRPC request --'
//!  text/event-stream ------> events ----------'
//!  application/grpc-web ---> tonic-web -------'
//!  /health/... ------------> health ----------'
//!  /, /page.css, ... ------> page ------------'
//!  /session ---------------> session ---------'   a cookie becomes the token of its session
//!  /descriptor.binpb ------> the descriptor set
//! ```
//!
//! Each translated call is a gRPC call for the layers below, so that their checks, limits and
//! metrics apply to it. The translation of a call has no code for single methods: it reads the
//! descriptors.

mod answer;
mod body;
mod codec;
mod connect;
mod discard;
mod events;
mod grpc_web;
pub(super) mod gzip;
mod health;
mod host;
mod inner;
mod metadata;
mod method;
mod origin;
mod page;
mod plain_json;
mod query;
mod session;
mod spelling;
mod unique;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::TryFutureExt;
use futures_util::future::{BoxFuture, Either, MapOk};
use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, STRICT_TRANSPORT_SECURITY,
};
use http::{Method as Verb, Request, Response, StatusCode, Version};
use prost_reflect::DescriptorPool;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_web::GrpcWebLayer;
use tower::{Layer, Service};

pub use body::WebBody;
pub use method::pool;
pub use origin::{Hosts, Origins, Refused};

use discard::DiscardedRest;
use inner::Inner;
use method::Methods;
use session::BrowserSessions;

use crate::security::Protection;
use crate::service::call::intake::Intake;
use crate::service::caller::Caller;
use crate::service::caller::outgoing::{self, Reserved};
use crate::service::edge::GrpcService;
use crate::watch::Hub;

/// Serves the descriptor set.
const DESCRIPTORS: &str = "/descriptor.binpb";
/// Tells browsers to use TLS for this host, for a year.
const ONLY_TLS: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// Serves the health of the server, and below it that of each application.
const HEALTH: &str = "/health";

/// What the layer needs.
pub struct Options {
    /// The limits of requests, the same as below the layer.
    pub intake: Intake,
    /// Has what the page lists.
    pub hub: Arc<Hub>,
    /// Every method and type.
    pub pool: DescriptorPool,
    /// The descriptor set to serve, if it is served.
    pub descriptors: Option<&'static [u8]>,
    /// Which web pages may call.
    pub origins: Origins,
    /// Name of the installation on the page; empty: the host of the request.
    pub page_name: Box<str>,
    /// Knows the callers; if it does, a browser needs a session.
    pub protection: Arc<Protection>,
    /// Whether its connections have TLS.
    pub is_tls: bool,
}

/// Adds the other protocols to a gRPC service.
#[derive(Clone)]
pub struct Web<S> {
    inner: S,
    shared: Arc<Shared>,
}

/// What the calls of the layer share.
struct Shared {
    options: Options,
    methods: Methods,
    lists: page::Lists,
    /// `None`: the server does not know its callers.
    sessions: Option<BrowserSessions>,
}

impl<S> Web<S> {
    /// Puts the layer in front of `inner`.
    pub fn new(options: Options, inner: S) -> Web<S> {
        let methods = method::methods(&options.pool, &options.intake);
        let (protection, is_tls) = (options.protection.clone(), options.is_tls);
        let sessions = protection.is_on().then(|| BrowserSessions::new(protection, is_tls));
        let lists = page::Lists::new(options.hub.clone(), options.intake.offload().clone());
        Web { inner, shared: Arc::new(Shared { options, methods, lists, sessions }) }
    }

    /// Returns the gRPC service behind the layer.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

/// The answer of the layer in front of `S`.
pub type WebAnswer<S> = Response<WebBody<<S as GrpcService>::Body>>;

impl<S: GrpcService> Service<Request<Body>> for Web<S> {
    type Response = WebAnswer<S>;
    type Error = Infallible;
    type Future = Either<
        MapOk<S::Future, fn(Response<S::Body>) -> WebAnswer<S>>,
        BoxFuture<'static, Result<WebAnswer<S>, Infallible>>,
    >;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_grpc(&request) {
            return Either::Left(
                self.inner.call(request).map_ok(|answer| answer.map(WebBody::Grpc)),
            );
        }
        let (inner, shared) = (self.inner.clone(), self.shared.clone());
        Either::Right(Box::pin(async move { Ok(shared.answer(inner, request).await) }))
    }
}

/// Returns whether a request is a gRPC call, which passes unchanged.
fn is_grpc(request: &Request<Body>) -> bool {
    is_grpc_type(request) && request.version() == Version::HTTP_2 && request.method() == Verb::POST
}

/// Returns whether a request says twice what its body is, so that two programs could read it in two
/// ways.
fn has_two_types(request: &Request<Body>) -> bool {
    request.headers().get_all(CONTENT_TYPE).iter().nth(1).is_some()
}

/// Returns whether the body of a request is gRPC with binary proto.
fn is_grpc_type(request: &Request<Body>) -> bool {
    if has_two_types(request) {
        return false;
    }
    let Some(kind) = request.headers().get(CONTENT_TYPE) else { return false };
    let Some(rest) = kind.as_bytes().strip_prefix(b"application/grpc") else { return false };
    let rest = rest.strip_prefix(b"+proto").unwrap_or(rest);
    rest.first().is_none_or(|byte| [b';', b' '].contains(byte))
}

/// Returns whether a request has one of the four media types of gRPC-Web with binary proto.
fn is_grpc_web(request: &Request<Body>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    let rest = kind.and_then(|kind| kind.as_bytes().strip_prefix(b"application/grpc-web"));
    rest.is_some_and(|rest| matches!(rest, b"" | b"+proto" | b"-text" | b"-text+proto"))
}

impl Shared {
    /// Answers a request that is not gRPC.
    async fn answer<S: GrpcService>(&self, inner: S, request: Request<Body>) -> WebAnswer<S> {
        // Browsers apply it to all ports of a host, so one that other servers share is left out.
        let host = host::named(&request).ok().flatten();
        let is_strict = self.options.is_tls && host.is_some_and(|host| !host::is_local_name(host));
        let mut response = self.checked(inner, request).await;
        if is_strict {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, ONLY_TLS);
        }
        response
    }

    /// Answers a request if it says clearly whom and what it is for.
    async fn checked<S: GrpcService>(&self, inner: S, request: Request<Body>) -> WebAnswer<S> {
        let origin = match self.options.origins.check(&request) {
            Ok(origin) => origin,
            Err((status, text)) => return plain(status, text),
        };
        if has_two_types(&request) {
            let text = "the request has two headers content-type; send one";
            return plain(StatusCode::BAD_REQUEST, text);
        }
        if let Some(response) = self.options.origins.preflight(&request, origin.as_ref()) {
            return response;
        }
        let request = request.map(|body| Body::new(DiscardedRest(body)));
        let is_head = request.method() == Verb::HEAD;
        let mut response = self.in_session(inner, request).await;
        if is_head {
            let bytes = http_body::Body::size_hint(response.body()).exact();
            *response.body_mut() = WebBody::whole("");
            response.headers_mut().extend(bytes.map(|bytes| (CONTENT_LENGTH, bytes.into())));
        }
        origin::allow(&mut response, origin.as_ref());
        let nosniff = HeaderValue::from_static("nosniff");
        response.headers_mut().insert("x-content-type-options", nosniff);
        response
    }

    /// Answers a request with the token of its session, if it has one.
    async fn in_session<S: GrpcService>(
        &self,
        inner: S,
        mut request: Request<Body>,
    ) -> WebAnswer<S> {
        let Some(sessions) = &self.sessions else { return self.route(inner, request, false).await };
        let path = request.uri().path();
        if [session::START, session::END].contains(&path) {
            let intake = &self.options.intake;
            let meter = intake.meter(intake.takes(path), request.extensions().get::<Caller>());
            return session::answer(sessions, &self.options.origins, inner, request, meter).await;
        }
        match sessions.apply(&mut request, &self.options.origins) {
            Some(session) => session::until_end(self.route(inner, request, true).await, session),
            None => self.route(inner, request, false).await,
        }
    }

    async fn route<S: GrpcService>(
        &self,
        inner: S,
        mut request: Request<Body>,
        has_session: bool,
    ) -> WebAnswer<S> {
        if is_grpc_type(&request) && request.version() < Version::HTTP_2 {
            let text = "gRPC needs HTTP/2; over HTTP/1.1 send application/json";
            return plain(StatusCode::HTTP_VERSION_NOT_SUPPORTED, text);
        }
        let path = request.uri().path().to_string();
        if is_grpc_web(&request) && request.method() == Verb::POST {
            let (request, inner) = grpc_web::blamed(request, inner);
            let Ok(response) = GrpcWebLayer::new().layer(inner).call(request).await;
            let method = self.methods.get(&path);
            return response.map(match method.is_some_and(|method| !method.is_unary()) {
                true => WebBody::Stream,
                false => WebBody::Call,
            });
        }
        if let Some(method) = self.methods.get(&path) {
            let intake = &self.options.intake;
            if events::is_asked(&request, method) {
                return events::call(inner, request, method, intake).await;
            }
            let reserved = match reserve(&mut request, method.answer_bytes).await {
                Ok(reserved) => reserved,
                Err(status) => return connect::failed(&status, &self.options.pool),
            };
            let answer = connect::call(inner, request, method, intake).await;
            return answer.map(|body| body.reserved(reserved));
        }
        match [Verb::GET, Verb::HEAD].contains(request.method()) {
            true => self.read(inner, request, has_session).await,
            false => self.unknown(inner, request).await,
        }
    }

    /// Answers a request for something that is no method.
    async fn read<S: GrpcService>(
        &self,
        inner: S,
        mut request: Request<Body>,
        has_session: bool,
    ) -> WebAnswer<S> {
        let path = request.uri().path();
        let of_health = path.strip_prefix(HEALTH);
        if let Some(rest) = of_health.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            return health::answer(Inner::new(inner, &request), rest).await;
        }
        let bytes = page::reserved_bytes(path);
        let reserved = reserve(&mut request, bytes).await;
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(status) => return page::failed(query, &status),
        };
        let inner = Inner::new(inner, &request);
        let is_gzip = request.headers().get(ACCEPT_ENCODING).is_some_and(gzip::is_accepted);
        let authority = host::authority(&request).to_string();
        let name = self.options.page_name.clone();
        let is_tls = self.options.is_tls;
        let asked = page::Asked { has_session, is_gzip, is_tls, authority, name };
        let asked = (&asked, request.headers());
        if let Some(response) = page::answer(&inner, &self.lists, (path, query), asked).await {
            return gzip::packed(response, is_gzip).map(|body| body.reserved(reserved));
        }
        match (path, self.options.descriptors) {
            (DESCRIPTORS, Some(set)) => match session::known(&inner).await {
                Ok(()) => typed("application/protobuf", set),
                Err(status) => connect::failed(&status, &self.options.pool),
            },
            _ => plain(StatusCode::NOT_FOUND, "there is nothing at this path"),
        }
    }

    /// Answers a request for a path that does not exist. A call of such a method reaches the layers
    /// below, which count it.
    async fn unknown<S: GrpcService>(&self, inner: S, request: Request<Body>) -> WebAnswer<S> {
        if request.method() != Verb::POST {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "send GET or POST");
        }
        let (mut parts, _) = request.into_parts();
        parts.headers = metadata::of_request(&parts.headers);
        parts.version = Version::HTTP_2;
        let response = call(inner, Request::from_parts(parts, Body::empty())).await;
        let status = Status::from_header_map(response.headers());
        let status = status.unwrap_or_else(|| Status::unimplemented("there is no such method"));
        match status.code() {
            Code::Unimplemented => plain(StatusCode::NOT_FOUND, status.message()),
            _ => connect::failed(&status, &self.options.pool),
        }
    }
}

/// Takes room for a long answer, and notes it in the request. Calls without a connection have no
/// limit.
async fn reserve(
    request: &mut Request<Body>,
    bytes: Option<usize>,
) -> Result<Option<Reserved>, Status> {
    let room = request.extensions().get::<Caller>().map(|caller| caller.room().clone());
    let (Some(bytes), Some(room)) = (bytes, room) else { return Ok(None) };
    let reserved = Reserved::wait(&room, bytes).await;
    let reserved = reserved.map_err(|full| outgoing::no_room(&full))?;
    request.extensions_mut().insert(reserved.clone());
    Ok(Some(reserved))
}

/// Calls the inner service, which never fails.
async fn call<S: GrpcService>(mut inner: S, request: Request<Body>) -> Response<S::Body> {
    let Ok(response) = inner.call(request).await;
    response
}

/// Returns an answer in plain text, with a line end.
fn plain<B>(status: StatusCode, text: &str) -> Response<WebBody<B>> {
    let mut response = typed("text/plain; charset=utf-8", format!("{text}\n"));
    *response.status_mut() = status;
    response
}

/// Returns content with its type.
fn typed<B>(kind: &'static str, content: impl Into<Bytes>) -> Response<WebBody<B>> {
    let mut response = Response::new(WebBody::whole(content));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
