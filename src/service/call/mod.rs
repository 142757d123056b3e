//! The path of one call, from its headers to the end of its answer.

pub mod account;
pub mod guard;
pub mod held;
pub mod intake;
pub mod observe;

use std::convert::Infallible;

use futures_util::future::BoxFuture;
use http::Response;
use tonic::body::Body;

/// The answer to a call, as generated code returns it.
pub type Answering = BoxFuture<'static, Result<Response<Body>, Infallible>>;
