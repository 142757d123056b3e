//! Keys of an issuer behind a URL: fetched at the start, every few minutes, and early for a token
//! whose key is not known.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Issuer, KeySource, key_url};
use crate::security::Error;
use crate::security::get::Get;
use crate::security::reload::{self, Reload, Reloaded};

/// How often the keys are fetched.
const REFRESH: Duration = Duration::from_secs(300);

/// The least time between two fetches: a stranger can cause them with tokens of unknown keys.
const PAUSE: Duration = Duration::from_secs(5);

/// How long a fetch may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Fetches the keys.
///
/// # Errors
/// If they cannot be fetched in time. The error names the URL.
pub async fn fetch(issuer: &Issuer) -> Result<Bytes, Error> {
    let KeySource::Url(url) = &issuer.keys else { return Ok(Bytes::new()) };
    let failed = |problem: String| Error::Fetch(url.clone(), problem);
    let target = key_url(url).map_err(|problem| failed(problem.to_string()))?;
    // The kubelet replaces this file, so it is read each time.
    let token = match issuer.keys_token_file.clone() {
        Some(path) => Some(read(path).await?),
        None => None,
    };
    let token = token.as_deref().map(str::trim);
    let get = Get { url: &target, ca: issuer.keys_ca.as_deref(), token };
    let answer = tokio::time::timeout(DEADLINE, get.send()).await;
    let answer = answer.map_err(|_| failed(format!("no answer within {DEADLINE:?}")))?;
    answer.map_err(|error| failed(error.to_string()))
}

/// Reads a file of text. While it does not answer, only the fetches of this issuer wait.
async fn read(path: PathBuf) -> Result<String, Error> {
    let reading = tokio::task::spawn_blocking(move || {
        let content = reload::content(&path)?;
        reload::text(&path, &[content]).map(str::to_string)
    });
    reading.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
}

/// Fetches the keys once; the previous ones stay in force after a failure. Returns whether new keys
/// are in force.
pub async fn refresh(issuer: &Reloaded<Issuer>) -> bool {
    let contents = fetch(issuer.source()).await.map(|content| vec![content.to_vec()]);
    issuer.replace(contents)
}

/// Fetches the keys again and again; calls `after` for new ones. Runs until it is dropped.
pub async fn follow(issuer: Arc<Reloaded<Issuer>>, after: impl Fn()) {
    loop {
        tokio::time::sleep(PAUSE).await;
        if !issuer.is_stale() {
            let missed = issuer.get().missed.clone();
            tokio::select! {
                () = tokio::time::sleep(REFRESH - PAUSE) => {}
                () = missed.notified() => {}
            }
        }
        if refresh(&issuer).await {
            after();
        }
    }
}
