//! Sessions of browsers, on a server that knows its callers: a form takes a token, and a cookie
//! stands for it from then on.
//!
//! ```text
//!  POST /session      token --> GetServerInfo: known? --> session table --> Set-Cookie, 303
//!  GET with cookie    session table --> authorization: Bearer ... --> the layers of gRPC
//!  POST /session/end  session table: gone; its streams end
//! ```
//!
//! The cookie is a random number, and the token stays in the memory of this process. A cookie only
//! counts for GET and HEAD, which change nothing; the token is verified for each of them, as for
//! any caller.

mod cookie;
mod form;
mod sameness;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use futures_util::FutureExt;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method as Verb, Request, Response};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

pub use form::{END, START, answer, known};

use super::body::WebBody;
use super::origin::Origins;
use crate::security::Protection;
use crate::service::call::Guarded;
use crate::service::caller::Presented;
use crate::sync::lock;

/// Longest life of a session: a working day.
const LIFE: Duration = Duration::from_secs(12 * 3600);
/// Sessions of this process. Each is a few hundred bytes with its token.
const SESSIONS_MAX: usize = 10_000;
/// Sessions of one principal, by all of its tokens: the browsers of one person, and some that never
/// log out.
const PER_PRINCIPAL_MAX: usize = 16;
/// Random bytes of a cookie.
const KEY_BYTES: usize = 32;

type Digest = [u8; 32];

/// A session of a browser.
#[derive(Clone)]
pub struct BrowserSession {
    principal: Arc<str>,
    token: Arc<str>,
    started: Instant,
    ended: CancellationToken,
}

impl BrowserSession {
    fn is_over(&self) -> bool {
        LIFE <= self.started.elapsed()
    }

    /// Resolves at the end of the session.
    async fn end(self) {
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = tokio::time::sleep_until(self.started + LIFE) => {}
        }
    }
}

/// The sessions of this process, by the digests of their cookies: the time of a search says nothing
/// about a cookie.
#[derive(Default)]
pub struct BrowserSessions {
    by_cookie: Mutex<HashMap<Digest, BrowserSession>>,
    protection: Arc<Protection>,
    /// Whether the connections of this server have TLS.
    is_tls: bool,
}

impl BrowserSessions {
    /// Creates the sessions of a server.
    pub fn new(protection: Arc<Protection>, is_tls: bool) -> BrowserSessions {
        BrowserSessions { by_cookie: Mutex::default(), protection, is_tls }
    }

    /// Returns the principal of a request. Its tokens change, as those of an issuer do; it does
    /// not.
    fn principal<T>(&self, request: &Request<T>) -> Result<String, Status> {
        let unknown = Presented::default();
        let presented = request.extensions().get::<Presented>().unwrap_or(&unknown);
        let credentials = presented.credentials(request.headers());
        let identity = presented.identify(&self.protection, &credentials);
        let identity = identity.map_err(|_| Status::unauthenticated("this is no token"))?;
        Ok(identity.principal.to_string())
    }

    /// Starts a session; returns its key for the cookie. `None`: there is no randomness. Where
    /// there are too many, the oldest of the principal that has most ends.
    fn start(&self, principal: &str, token: &str) -> Option<String> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).ok()?;
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut all = lock(&self.by_cookie);
        all.retain(|_, session| !session.is_over());
        let is_own = |session: &BrowserSession| &*session.principal == principal;
        if PER_PRINCIPAL_MAX <= all.values().filter(|session| is_own(session)).count() {
            end_oldest(&mut all, is_own);
        }
        if SESSIONS_MAX <= all.len()
            && let Some(most) = principal_with_most(&all)
        {
            end_oldest(&mut all, |session| session.principal == most);
        }
        let (started, ended) = (Instant::now(), CancellationToken::new());
        let (principal, token) = (principal.into(), token.into());
        all.insert(digest_of(&key), BrowserSession { principal, token, started, ended });
        Some(key)
    }

    /// Ends the session of a request, and the streams that were opened in it.
    fn end<T>(&self, request: &Request<T>) {
        for key in cookie::keys(request, self.is_tls) {
            if let Some(session) = lock(&self.by_cookie).remove(&digest_of(key)) {
                session.ended.cancel();
            }
        }
    }

    fn find<T>(&self, request: &Request<T>) -> Option<BrowserSession> {
        let all = lock(&self.by_cookie);
        let mut keys = cookie::keys(request, self.is_tls);
        keys.find_map(|key| all.get(&digest_of(key)).filter(|session| !session.is_over()).cloned())
    }

    /// Gives a request that reads the token of its session. A header `authorization` counts before
    /// the cookie. Another web page cannot use the session, not even that of another port.
    pub fn apply<T>(&self, request: &mut Request<T>, origins: &Origins) -> Option<BrowserSession> {
        let reads = [Verb::GET, Verb::HEAD].contains(request.method());
        if !reads
            || request.headers().contains_key(AUTHORIZATION)
            || sameness::is_foreign(request, origins, self.is_tls)
        {
            return None;
        }
        let session = self.find(request)?;
        let mut value = HeaderValue::try_from(format!("Bearer {}", session.token)).ok()?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        Some(session)
    }
}

/// Ends the stream of an answer with its session.
pub fn until_end<B>(
    response: Response<WebBody<B>>,
    session: BrowserSession,
) -> Response<WebBody<B>> {
    let guarded = |inner| Guarded::until(inner, session.end().map(|()| None));
    response.map(|body| match body {
        WebBody::Call(inner) => WebBody::Call(guarded(inner)),
        WebBody::Stream(inner) => WebBody::Stream(guarded(inner)),
        other => other,
    })
}

/// Returns the principal with the most sessions; of these, one whose oldest session is the oldest.
fn principal_with_most(all: &HashMap<Digest, BrowserSession>) -> Option<Arc<str>> {
    let mut counts: HashMap<&Arc<str>, (usize, Reverse<Instant>)> = HashMap::new();
    for session in all.values() {
        let (count, oldest) =
            counts.entry(&session.principal).or_insert((0, Reverse(session.started)));
        *count += 1;
        oldest.0 = oldest.0.min(session.started);
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(principal, _)| principal.clone())
}

fn end_oldest(
    all: &mut HashMap<Digest, BrowserSession>,
    is_meant: impl Fn(&BrowserSession) -> bool,
) {
    let meant = all.iter().filter(|(_, session)| is_meant(session));
    let oldest = meant.min_by_key(|(_, session)| session.started).map(|(key, _)| *key);
    if let Some(session) = oldest.and_then(|key| all.remove(&key)) {
        session.ended.cancel();
    }
}

fn digest_of(key: &str) -> Digest {
    digest(&SHA256, key.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: Verb, key: &str) -> Request<()> {
        let request = Request::builder().method(verb).uri("/").header("host", "a:1");
        request.header("cookie", format!("other=1; bellwether={key}")).body(()).unwrap()
    }

    fn is_known(sessions: &BrowserSessions, key: &str) -> bool {
        sessions.apply(&mut request(Verb::GET, key), &Origins::default()).is_some()
    }

    #[tokio::test]
    async fn one_principal_has_few_sessions_and_its_oldest_ends() {
        let sessions = BrowserSessions::default();
        let other = sessions.start("jwt:ci:other", "other").unwrap();
        // Each token of an issuer is a new one.
        let start = |n: usize| sessions.start("jwt:ci:same", &format!("token {n}")).unwrap();
        let keys: Vec<_> = (0..=PER_PRINCIPAL_MAX).map(start).collect();
        let known: Vec<_> = keys.iter().map(|key| is_known(&sessions, key)).collect();
        assert!(!known[0] && known[1..].iter().all(|is_known| *is_known), "{known:?}");
        assert!(is_known(&sessions, &other));
    }

    #[tokio::test(start_paused = true)]
    async fn the_principal_with_most_sessions_makes_room() {
        let sessions = BrowserSessions::default();
        let first = sessions.start("token:first", "t").unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let many: Vec<_> = (0..3).map(|_| sessions.start("token:many", "t").unwrap()).collect();
        for n in 4..SESSIONS_MAX {
            sessions.start(&format!("token:{n}"), "t").unwrap();
        }
        assert_eq!(lock(&sessions.by_cookie).len(), SESSIONS_MAX);
        sessions.start("token:last", "t").unwrap();
        assert!(is_known(&sessions, &first));
        assert_eq!(many.iter().filter(|key| is_known(&sessions, key)).count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_with_its_life_and_so_do_its_streams() {
        let sessions = BrowserSessions::default();
        let key = sessions.start("token:a", "token").unwrap();
        let session = sessions.find(&request(Verb::GET, &key)).unwrap();
        tokio::time::advance(LIFE - Duration::from_secs(1)).await;
        assert!(is_known(&sessions, &key));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!is_known(&sessions, &key));
        session.end().await;
    }

    #[tokio::test]
    async fn a_cookie_counts_for_reading_alone() {
        let sessions = BrowserSessions::default();
        let key = sessions.start("token:a", "token").unwrap();
        for (verb, expected) in [(Verb::GET, true), (Verb::HEAD, true), (Verb::POST, false)] {
            let mut asked = request(verb.clone(), &key);
            assert_eq!(
                sessions.apply(&mut asked, &Origins::default()).is_some(),
                expected,
                "{verb}"
            );
            assert_eq!(asked.headers().contains_key(AUTHORIZATION), expected, "{verb}");
        }
        let mut own = request(Verb::GET, &key);
        own.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer own"));
        assert!(sessions.apply(&mut own, &Origins::default()).is_none());
        assert_eq!(own.headers()[AUTHORIZATION], "Bearer own");
    }
}
