//! Explanations of the upstream, each kept while its application has the same revision.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;
use tonic::Status;

use super::Relay;
use super::pass::PassedCall;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::proto::v1;
use crate::sync::lock;

/// Explanations that are kept, and the bytes of one: 64 MiB in all.
const KEPT_MAX: usize = 512;
const BYTES_MAX: usize = 128 << 10;

/// The longest use of an explanation: its causes are those of other applications, which have
/// revisions of their own.
const AGE_MAX: Duration = Duration::from_secs(1);

/// What was asked, and by whom: causes depend on the rights of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ExplainKey {
    upstream: usize,
    app: AppName,
    page_size: i32,
    authorization: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
struct Kept {
    answer: Bytes,
    revision: Revision,
    at: Instant,
}

/// Held while the upstream is asked, so that callers with one question share one call.
type Slot = Arc<tokio::sync::Mutex<Option<Kept>>>;

/// The explanations, the oldest question first.
#[derive(Debug, Default)]
pub(super) struct Explanations(Mutex<(HashMap<ExplainKey, Slot>, VecDeque<ExplainKey>)>);

impl Explanations {
    fn slot(&self, key: ExplainKey) -> Slot {
        let (slots, order) = &mut *lock(&self.0);
        if let Some(slot) = slots.get(&key) {
            return slot.clone();
        }
        if KEPT_MAX <= order.len()
            && let Some(oldest) = order.pop_front()
        {
            slots.remove(&oldest);
        }
        let slot = Slot::default();
        slots.insert(key.clone(), slot.clone());
        order.push_back(key);
        slot
    }
}

impl Relay {
    /// Answers from what is kept, or asks the upstream.
    pub(super) async fn explain(&self, call: PassedCall) -> Result<tonic::Response<Bytes>, Status> {
        let wire = v1::ExplainApplicationRequest::decode(call.message.clone());
        let wire = wire.unwrap_or_default();
        let Ok(app) = AppName::new(&wire.namespace, &wire.application) else {
            return self.send(call).await;
        };
        let authorization = call.authorization.as_ref().map(|value| value.as_bytes().to_vec());
        let key = ExplainKey {
            upstream: call.upstream,
            app: app.clone(),
            page_size: wire.page_size,
            authorization,
        };
        let slot = self.explanations.slot(key);
        let asked = tokio::time::timeout(call.timeout, slot.lock()).await;
        let Ok(mut kept) = asked else { return self.send(call).await };
        let newest = self.hub.get(&app).map(|entry| entry.revision());
        let is_valid = |kept: &&Kept| {
            Some(kept.revision) == newest
                && wire.min_revision <= kept.revision.0
                && kept.at.elapsed() < AGE_MAX
        };
        if let Some(kept) = kept.as_ref().filter(is_valid) {
            return Ok(tonic::Response::new(kept.answer.clone()));
        }
        *kept = None;
        let response = self.send(call).await?;
        let answer = response.get_ref().clone();
        let decoded = v1::ExplainApplicationResponse::decode(answer.clone()).ok();
        let revision = decoded.and_then(|decoded| decoded.application).map(|app| app.revision);
        // An answer that is older than its call is not for others.
        let is_of_now = response.metadata().is_empty() && answer.len() <= BYTES_MAX;
        if let Some(revision) = revision.filter(|_| is_of_now) {
            *kept = Some(Kept { answer, revision: Revision(revision), at: Instant::now() });
        }
        Ok(response)
    }
}
