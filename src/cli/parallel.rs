//! Calls about many objects: several under way at once, and an object may be deleted meanwhile.

use bellwether_client::Error;
use futures_util::{StreamExt, TryStreamExt, stream};

/// Calls under way at once: enough to hide the round trip, few enough to leave capacity for others.
const CALLS_MAX: usize = 16;

/// Makes the calls for each of these items; returns the results that there are, in order.
///
/// # Errors
/// The first error of a call.
pub async fn each<T, R, A>(items: Vec<T>, calls: impl FnMut(T) -> A) -> Result<Vec<R>, Error>
where
    A: Future<Output = Result<Option<R>, Error>>,
{
    let calls = stream::iter(items).map(calls).buffered(CALLS_MAX);
    let results: Vec<Option<R>> = calls.try_collect().await?;
    Ok(results.into_iter().flatten().collect())
}

/// Returns the answer, or `None` for an object that is deleted.
///
/// # Errors
/// Any other refusal.
pub fn unless_gone<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}
