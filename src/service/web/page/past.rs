//! How the applications of a list were in the last 24 hours: one byte for each slot, kept for a
//! while, because a slot is half an hour.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::moment::DAY_SECONDS;
use super::{now, scope};
use crate::proto::v1;
use crate::service::web::GrpcService;
use crate::service::web::inner::Inner;
use crate::sync::lock;

const PAST: &str = "/bellwether.v1.ApplicationService/ListPast";
/// Slots of a row.
pub const SLOTS: i32 = 48;
/// How old the past of a row may be. Its last slot has the present level too.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Applications whose past is kept: a byte for each slot, and their names.
const KEPT_MAX: usize = 20_000;
/// Applications of one request.
const REQUEST_MAX: usize = 1000;
/// Namespaces that are asked for one by one.
pub const NAMESPACES_MAX: usize = 16;

/// A namespace and an application.
pub type AppKey = (String, String);

/// The past of applications, the oldest slot first.
pub type Pasts = HashMap<AppKey, Bytes>;

/// Pasts with their time.
type DatedPasts = HashMap<AppKey, (Instant, Bytes)>;

/// The pasts that were asked for last.
#[derive(Default)]
pub struct KeptPasts(Mutex<DatedPasts>);

/// Names an application in a request for a namespace, or for all.
fn asked(namespace: &str, (own, name): &AppKey) -> String {
    if namespace.is_empty() { format!("{own}/{name}") } else { name.clone() }
}

/// Reads the past of applications of a namespace, or of all.
async fn read<S: GrpcService>(
    inner: &Inner<S>,
    namespace: &str,
    names: &[AppKey],
) -> Result<Vec<(AppKey, Bytes)>, Status> {
    let slot = DAY_SECONDS / i64::from(SLOTS);
    let request = v1::ListPastRequest {
        namespace: scope(namespace).into(),
        applications: names.iter().map(|name| asked(namespace, name)).collect(),
        start_time: Some(prost_types::Timestamp { seconds: now() - DAY_SECONDS, nanos: 0 }),
        slot: Some(prost_types::Duration { seconds: slot, nanos: 0 }),
        slot_count: SLOTS,
        page_size: REQUEST_MAX as i32,
        ..v1::ListPastRequest::default()
    };
    let page = inner.call::<v1::ListPastResponse>(PAST, &request).await?;
    let pasts = page.applications.into_iter();
    Ok(pasts.map(|past| ((past.namespace, past.application), past.slots)).collect())
}

/// Reads the same with a call for each namespace, of a few.
async fn read_by_namespace<S: GrpcService>(
    inner: &Inner<S>,
    names: &[AppKey],
) -> Vec<(AppKey, Bytes)> {
    let mut by_namespace: BTreeMap<&str, Vec<AppKey>> = BTreeMap::new();
    for name in names {
        by_namespace.entry(&name.0).or_default().push(name.clone());
    }
    let mut found = Vec::new();
    for (namespace, names) in by_namespace.into_iter().take(NAMESPACES_MAX) {
        found.extend(read(inner, namespace, &names).await.unwrap_or_default());
    }
    found
}

impl KeptPasts {
    /// Returns the past of applications that the caller may list. One that cannot be read is left
    /// out.
    pub async fn get<S: GrpcService>(
        &self,
        inner: &Inner<S>,
        namespace: &str,
        names: &[AppKey],
    ) -> Pasts {
        let (mut found, missing) = self.fresh(names);
        for names in missing.chunks(REQUEST_MAX) {
            let pasts = match read(inner, namespace, names).await {
                Ok(pasts) => pasts,
                // A relay passes a call on to the upstream that has its namespace.
                Err(status) if status.code() == Code::FailedPrecondition => {
                    read_by_namespace(inner, names).await
                }
                Err(_) => break,
            };
            self.keep(&pasts);
            found.extend(pasts);
        }
        found
    }

    /// Returns what is kept, and what has to be asked for.
    fn fresh(&self, names: &[AppKey]) -> (Pasts, Vec<AppKey>) {
        let kept = lock(&self.0);
        let (mut found, mut missing) = (Pasts::new(), Vec::new());
        for name in names {
            match kept.get(name).filter(|(at, _)| at.elapsed() < AGE_MAX) {
                Some((_, slots)) => drop(found.insert(name.clone(), slots.clone())),
                None => missing.push(name.clone()),
            }
        }
        (found, missing)
    }

    /// Keeps pasts. Drops old ones, and all if there are too many.
    fn keep(&self, pasts: &[(AppKey, Bytes)]) {
        let mut kept = lock(&self.0);
        if KEPT_MAX < kept.len() + pasts.len() {
            kept.retain(|_, (at, _)| at.elapsed() < AGE_MAX);
        }
        if KEPT_MAX < kept.len() + pasts.len() {
            kept.clear();
        }
        let at = Instant::now();
        kept.extend(pasts.iter().map(|(name, slots)| (name.clone(), (at, slots.clone()))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pasts_are_used_for_a_while_and_few_are_kept() {
        let kept = KeptPasts::default();
        let name = |n: usize| ("default".to_string(), n.to_string());
        kept.keep(&[(name(0), Bytes::from(vec![1; 48]))]);
        let (found, missing) = kept.fresh(&[name(0), name(1)]);
        assert!(found.contains_key(&name(0)) && missing == [name(1)]);
        tokio::time::advance(AGE_MAX).await;
        assert_eq!(kept.fresh(&[name(0)]).1, [name(0)]);
        for n in 0..3 * KEPT_MAX / 100 {
            let some: Vec<_> =
                (0..100).map(|m| (name(100 * n + m), Bytes::from(vec![1]))).collect();
            kept.keep(&some);
        }
        assert!(lock(&kept.0).len() <= KEPT_MAX);
        assert_eq!(asked("", &name(7)), "default/7");
        assert_eq!(asked("default", &name(7)), "7");
    }
}
