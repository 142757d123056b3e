//! How applications were in slots of time.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tonic::{Request, Status};

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::uptime::Timeline;
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::convert::{self, Page, PastOf};
use crate::service::grpc::handlers::Handlers;
use crate::watch::Entry;

/// Applications of one call whose events are read at the same time.
const READS_AT_ONCE: usize = 16;

impl Handlers {
    /// Answers a `ListPast`.
    pub(in crate::service::grpc) async fn past(
        &self,
        request: Request<v1::ListPastRequest>,
    ) -> Result<v1::ListPastResponse, Status> {
        let (access, wire) = Access::open(request);
        let now = self.parts.store.now();
        let PastOf { namespace, names, slots } = convert::list_past(&access, &wire, now)?;
        let namespace = namespace.as_deref();
        let asked = [namespace.unwrap_or("-"), &format!("{names:?} {slots:?}")];
        let page = Page::<AppName>::open("ListPast", &asked, wire.page_size, &wire.page_token)?;
        let entries = match names.is_empty() {
            true => {
                let every = |_: &Entry| true;
                self.parts.hub.list_where(namespace, page.after.as_ref(), &every, page.size + 1)
            }
            false => {
                let is_next = |app: &&AppName| page.after.as_ref().is_none_or(|last| last < *app);
                let known = names.iter().filter(is_next).filter_map(|app| self.parts.hub.get(app));
                known.filter(|entry| !entry.is_deleted()).take(page.size + 1).collect()
            }
        };
        let first = entries.iter().take(page.size);
        let heads: Vec<(&AppName, Arc<Head>)> =
            first.map(|entry| (&entry.app, entry.head())).collect();
        let reads: Vec<_> = heads.iter().map(|(app, head)| self.timeline(app, head, now)).collect();
        let reads = stream::iter(reads).buffered(READS_AT_ONCE).try_collect();
        let timelines: Vec<Arc<Timeline>> = reads.await?;
        let mut timelines = timelines.into_iter();
        // One more than fits shows that there is a next page.
        let pasts = entries.iter().map(|entry| {
            let timeline = timelines.next().unwrap_or_default();
            (&entry.app, convert::past(&entry.app, &timeline.past(slots, now)))
        });
        let (applications, next_page_token) = page.fill(pasts);
        Ok(v1::ListPastResponse { applications, next_page_token })
    }
}
