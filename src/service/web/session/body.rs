//! The body of a stream that was opened in a session.

use futures_util::FutureExt;
use http::Response;

use super::BrowserSession;
use crate::service::guard::Guarded;
use crate::service::web::body::WebBody;

/// Ends the stream of an answer with its session.
pub fn until_end<B>(
    response: Response<WebBody<B>>,
    session: BrowserSession,
) -> Response<WebBody<B>> {
    response.map(|body| match body {
        WebBody::Stream(inner) => {
            WebBody::Stream(Guarded::until(inner, session.end().map(|()| None)))
        }
        other => other,
    })
}
