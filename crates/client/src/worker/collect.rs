//! Answers the server's questions, in one task for each component: a slow answer delays only later
//! questions about the same component.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use tokio::task::JoinSet;

use crate::proto::v1::StatusReport;

/// Maximum number of questions that share one call. Beyond it, the oldest question is dropped.
const TOGETHER_MAX: usize = 16;

/// A question of the server for the pull set.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CollectRequest {
    /// The component whose set is requested; `None`: the set of the whole unit.
    pub component: Option<String>,
    /// Whether to compute the statuses again instead of answering from a cache.
    pub recompute: bool,
    /// The time limit of the answer; `None`: not given. A later answer still replaces the set.
    pub deadline: Option<Instant>,
}

/// The answer to a question of the server for the pull set.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CollectAnswer {
    /// The pull set: it replaces the one that the server has.
    Set(Vec<StatusReport>),
    /// The set that the server has is the current one. For a worker whose set other processes
    /// report: a set from here could overwrite a newer one of theirs.
    Unchanged,
    /// No answer: the question stays open until its deadline.
    Nothing,
}

/// The closure of the library's user.
pub(super) type Answer = Arc<
    dyn Fn(CollectRequest) -> Pin<Box<dyn Future<Output = CollectAnswer> + Send>> + Send + Sync,
>;

/// One question, or several about the same component.
struct Question {
    request: CollectRequest,
    ids: Vec<String>,
}

/// The answer to one or several questions.
pub(super) struct Answered {
    pub(super) component: Option<String>,
    /// The questions of this session that it answers.
    pub(super) ids: Vec<String>,
    /// The answer, or the message of the closure's panic.
    pub(super) answer: Result<CollectAnswer, String>,
    session: u64,
}

/// Runs one call of the closure for each component at a time. Questions that arrive meanwhile share
/// the next call.
pub(super) struct Collector {
    answer: Answer,
    session: u64,
    looks: JoinSet<Answered>,
    /// By component: the question that waits for the running call.
    busy: BTreeMap<Option<String>, Option<Question>>,
}

impl Collector {
    pub(super) fn new(answer: Answer) -> Collector {
        Collector { answer, session: 0, looks: JoinSet::new(), busy: BTreeMap::new() }
    }

    /// Answers a question now, or after the running call.
    pub(super) fn ask(&mut self, id: String, request: CollectRequest) {
        let question = Question { request, ids: vec![id] };
        match self.busy.get_mut(&question.request.component) {
            Some(Some(waiting)) => waiting.join(question),
            Some(waiting) => *waiting = Some(question),
            None => self.look(question),
        }
    }

    /// Returns the next answer; waits forever while there is no question. Cancel safe.
    pub(super) async fn answered(&mut self) -> Answered {
        while let Some(joined) = self.looks.join_next().await {
            // A call catches its own panics.
            let Ok(mut answered) = joined else { continue };
            if let Some(Some(waiting)) = self.busy.remove(&answered.component) {
                self.look(waiting);
            }
            if answered.session != self.session {
                answered.ids.clear();
            }
            return answered;
        }
        pending().await
    }

    /// Ends a session: no question waits any more. Running calls continue, because their sets are
    /// still new.
    pub(super) fn end_session(&mut self) {
        self.session += 1;
        for waiting in self.busy.values_mut() {
            *waiting = None;
        }
    }

    fn look(&mut self, question: Question) {
        let Question { request, ids } = question;
        let component = request.component.clone();
        self.busy.insert(component.clone(), None);
        let (answer, session) = (self.answer.clone(), self.session);
        self.looks.spawn(async move {
            // Both the closure and the future that it returns may panic.
            let look = AssertUnwindSafe(async move { answer(request).await }).catch_unwind();
            let answer = look.await.map_err(|panic| words(panic.as_ref()));
            Answered { component, ids, answer, session }
        });
    }
}

impl Question {
    fn join(&mut self, other: Question) {
        self.request.recompute |= other.request.recompute;
        self.request.deadline = self.request.deadline.max(other.request.deadline);
        self.ids.extend(other.ids);
        if TOGETHER_MAX < self.ids.len() {
            self.ids.remove(0);
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_string())
}
