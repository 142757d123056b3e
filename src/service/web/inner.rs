//! Calls of the gRPC services on behalf of a request that is no call itself.

use http::{Extensions, HeaderMap, Method as Verb, Request, Uri, Version};
use prost::Message;
use tonic::body::Body;
use tonic::{Code, Status};

use super::answer::GrpcAnswer;
use super::body::WebBody;
use super::codec::framed;
use super::{GrpcService, metadata};
use crate::service::memory_age::{AS_OF, AS_OF_UPSTREAM};

/// Since when an answer is from memory; both are empty if it is not.
#[derive(Debug, Clone, Default)]
pub struct MemoryAge {
    /// The time, as RFC 3339.
    pub since: String,
    /// Of a relay: the upstreams with which it has no contact.
    pub upstream: String,
}

/// The gRPC services, called with the identity of one request.
pub struct Inner<S> {
    service: S,
    headers: HeaderMap,
    extensions: Extensions,
}

impl<S: GrpcService> Inner<S> {
    /// Creates calls with the headers and the connection of `request`.
    pub fn new(service: S, request: &Request<Body>) -> Inner<S> {
        let headers = metadata::of_request(request.headers());
        Inner { service, headers, extensions: request.extensions().clone() }
    }

    /// Calls a method with one request and one answer.
    pub async fn call<T>(&self, path: &'static str, message: &impl Message) -> Result<T, Status>
    where
        T: Message + Default,
    {
        self.dated(path, message).await.map(|(answer, _)| answer)
    }

    /// Calls a method of which an answer says how old it is.
    pub async fn dated<T>(
        &self,
        path: &'static str,
        message: &impl Message,
    ) -> Result<(T, MemoryAge), Status>
    where
        T: Message + Default,
    {
        let body = WebBody::<Body>::whole(framed(0, &message.encode_to_vec()));
        let mut request = Request::new(Body::new(body));
        *request.method_mut() = Verb::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::from_static(path);
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        let response = super::call(self.service.clone(), request).await;
        let (parts, body) = response.into_parts();
        let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let text = |name| text(name).unwrap_or_default().to_string();
        let age = MemoryAge { since: text(AS_OF), upstream: text(AS_OF_UPSTREAM) };
        let mut answer = GrpcAnswer::new(&parts.headers, body);
        let mut decoded = Err(Status::internal("the answer has no message"));
        loop {
            match answer.next().await {
                Ok(message) => decoded = Ok(T::decode(message)),
                Err(end) if end.code() != Code::Ok => return Err(end),
                Err(_) => break,
            }
        }
        let decoded = decoded?;
        let decoded = decoded
            .map_err(|error| Status::internal(format!("the answer does not decode: {error}")));
        Ok((decoded?, age))
    }
}
