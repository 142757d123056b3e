//! Answers the server's questions, each in a task of its own, so that a slow one holds up nothing.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use tokio::task::JoinSet;

use crate::proto::v1::StatusReport;

/// Questions about one component that one look answers together; a server merges them itself.
const TOGETHER_MAX: usize = 16;

/// The server wants to know the pull set.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CollectRequest {
    /// Given: only this component's set is asked for. Else the set of the whole unit.
    pub component: Option<String>,
    /// Look anew instead of answering from what was remembered.
    pub recompute: bool,
    /// An answer after this is late: it still replaces the set, but whoever asked has gone.
    pub deadline: Option<Instant>,
}

/// What the user of the library gave to answer with.
pub(super) type Answer = Arc<
    dyn Fn(CollectRequest) -> Pin<Box<dyn Future<Output = Vec<StatusReport>> + Send>> + Send + Sync,
>;

/// One question, or several about the same component.
struct Question {
    request: CollectRequest,
    ids: Vec<String>,
}

/// An answer.
pub(super) struct Answered {
    pub(super) component: Option<String>,
    /// The questions of this session that it answers.
    pub(super) ids: Vec<String>,
    /// The set, or what the closure panicked with.
    pub(super) statuses: Result<Vec<StatusReport>, String>,
    session: u64,
}

/// Runs one look a component at a time: what is asked meanwhile is answered by the next one.
pub(super) struct Collector {
    answer: Answer,
    session: u64,
    looks: JoinSet<Answered>,
    /// By component: what waits for the look that is under way.
    busy: BTreeMap<Option<String>, Option<Question>>,
}

impl Collector {
    pub(super) fn new(answer: Answer) -> Collector {
        Collector { answer, session: 0, looks: JoinSet::new(), busy: BTreeMap::new() }
    }

    /// Starts to answer.
    pub(super) fn ask(&mut self, id: String, request: CollectRequest) {
        let question = Question { request, ids: vec![id] };
        match self.busy.get_mut(&question.request.component) {
            Some(Some(waiting)) => waiting.join(question),
            Some(waiting) => *waiting = Some(question),
            None => self.look(question),
        }
    }

    /// The next answer; waits for ever while there is nothing to answer. Cancel safe.
    pub(super) async fn answered(&mut self) -> Answered {
        while let Some(joined) = self.looks.join_next().await {
            // A look catches its own panics.
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

    /// Nobody waits for the answers any more. What is under way goes on: it is still news.
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
            // The closure itself may panic as well as what it returns.
            let look = AssertUnwindSafe(async move { answer(request).await }).catch_unwind();
            let statuses = look.await.map_err(|panic| words(panic.as_ref()));
            Answered { component, ids, statuses, session }
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
        .unwrap_or_else(|| "a panic without words".to_string())
}
