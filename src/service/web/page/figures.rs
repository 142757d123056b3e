//! How long an application was well, for its panel. Each answer reads the history of 30 days, so it
//! is used for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::Status;

use super::moment::DAY_SECONDS;
use super::now;
use crate::proto::v1;
use crate::service::web::GrpcService;
use crate::service::web::inner::Inner;
use crate::sync::lock;

const UPTIME: &str = "/bellwether.v1.ApplicationService/GetUptime";
const PAST: &str = "/bellwether.v1.ApplicationService/ListPast";
/// Slots of the strip of 30 days.
const SLOTS: i32 = 60;
/// Length of one.
pub const SLOT_SECONDS: i64 = DAY_SECONDS / 2;
/// How old the figures of a panel may be.
const AGE_MAX: Duration = Duration::from_secs(30);
/// Applications whose figures are kept.
const KEPT_MAX: usize = 256;

/// The figures of one application.
pub struct Figures {
    /// Of the last 24 hours, 7 days and 30 days.
    pub answers: [Result<v1::GetUptimeResponse, Status>; 3],
    /// The last 30 days, one byte for each slot of `ListPast`; empty if they cannot be read.
    pub slots: Bytes,
}

/// Figures with their time, by namespace and application.
type FiguresByName = HashMap<(String, String), (Instant, Arc<Figures>)>;

/// The figures that were asked for last.
#[derive(Default)]
pub struct KeptFigures(Mutex<FiguresByName>);

impl KeptFigures {
    /// Returns the figures of an application. The caller may read it.
    pub async fn get<S: GrpcService>(
        &self,
        inner: &Inner<S>,
        (namespace, application): (&str, &str),
    ) -> Arc<Figures> {
        let name = (namespace.to_string(), application.to_string());
        if let Some(found) = self.fresh(&name) {
            return found;
        }
        let ask = |days: i64| {
            let start = prost_types::Timestamp { seconds: now() - days * DAY_SECONDS, nanos: 0 };
            let request = v1::GetUptimeRequest {
                namespace: name.0.clone(),
                application: name.1.clone(),
                start: Some(start),
                end: None,
            };
            async move { inner.call::<v1::GetUptimeResponse>(UPTIME, &request).await }
        };
        let past = v1::ListPastRequest {
            namespace: name.0.clone(),
            applications: vec![name.1.clone()],
            start_time: Some(prost_types::Timestamp {
                seconds: now() - SLOT_SECONDS * i64::from(SLOTS),
                nanos: 0,
            }),
            slot: Some(prost_types::Duration { seconds: SLOT_SECONDS, nanos: 0 }),
            slot_count: SLOTS,
            ..v1::ListPastRequest::default()
        };
        let past = inner.call::<v1::ListPastResponse>(PAST, &past);
        let (day, week, month, past) = tokio::join!(ask(1), ask(7), ask(30), past);
        // A reader of one application may not list its namespace, and has no strip.
        let slots = past.ok().and_then(|page| page.applications.into_iter().next());
        let slots = slots.map(|past| past.slots).unwrap_or_default();
        let figures = Arc::new(Figures { answers: [day, week, month], slots });
        if figures.answers.iter().all(Result::is_ok) {
            self.keep(name, figures.clone());
        }
        figures
    }

    fn fresh(&self, name: &(String, String)) -> Option<Arc<Figures>> {
        let kept = lock(&self.0);
        kept.get(name).filter(|(at, _)| at.elapsed() < AGE_MAX).map(|(_, found)| found.clone())
    }

    /// Keeps figures. Drops old ones, and all if there are too many.
    fn keep(&self, name: (String, String), figures: Arc<Figures>) {
        let mut kept = lock(&self.0);
        kept.retain(|_, (at, _)| at.elapsed() < AGE_MAX);
        if KEPT_MAX <= kept.len() {
            kept.clear();
        }
        kept.insert(name, (Instant::now(), figures));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn figures_are_used_for_a_while_and_few_are_kept() {
        let kept = KeptFigures::default();
        let name = |n: usize| ("default".to_string(), n.to_string());
        let answer = || Ok(v1::GetUptimeResponse::default());
        let figures =
            Arc::new(Figures { answers: [answer(), answer(), answer()], slots: Bytes::new() });
        kept.keep(name(0), figures.clone());
        tokio::time::advance(AGE_MAX - Duration::from_millis(1)).await;
        assert!(kept.fresh(&name(0)).is_some() && kept.fresh(&name(1)).is_none());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(kept.fresh(&name(0)).is_none());
        for n in 0..2 * KEPT_MAX {
            kept.keep(name(n), figures.clone());
        }
        assert!(lock(&kept.0).len() <= KEPT_MAX);
    }
}
