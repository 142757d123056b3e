//! `AppDataService`: the data that the leader stores for all units. No log, metric or error
//! contains a value.

use std::collections::BTreeSet;

use futures_util::future::OptionFuture;
use futures_util::stream::{self, BoxStream};
use tonic::{Request, Response, Status};

use crate::domain::data::etag;
use crate::proto::v1;
use crate::proto::v1::app_data_service_server::AppDataService;
use crate::proto::v1::watch_app_data_response as wire;
use crate::service::call::Deadline;
use crate::service::caller::Caller;
use crate::service::code::ApiError;
use crate::service::convert;
use crate::service::grpc::handlers::{Applied, Handlers};
use crate::service::grpc::read_path::Reads;
use crate::service::grpc::watch::{StreamPlace, Watches, drain, past_deadline};
use crate::watch::{Event, Filter, Scope, Start, WatchError, Watcher};

/// Response stream of a watch of the data.
type DataStream = BoxStream<'static, Result<v1::WatchAppDataResponse, Status>>;

#[tonic::async_trait]
impl AppDataService for Handlers {
    type WatchAppDataStream = DataStream;

    async fn get_app_data(
        &self,
        request: Request<v1::GetAppDataRequest>,
    ) -> Result<Response<v1::GetAppDataResponse>, Status> {
        let (app, wire) = convert::app(request)?;
        let app_data = self.reads.read_or_empty(&app, wire.min_revision, convert::app_data).await?;
        Ok(Response::new(v1::GetAppDataResponse { app_data: Some(app_data) }))
    }

    async fn update_app_data(
        &self,
        request: Request<v1::UpdateAppDataRequest>,
    ) -> Result<Response<v1::UpdateAppDataResponse>, Status> {
        let applied = self.handle(request, convert::update_app_data).await?;
        let etag = etag(applied.outcome.data_version);
        let Applied { revision, changed, removed: deleted_count, .. } = applied;
        Ok(Response::new(v1::UpdateAppDataResponse { etag, changed, deleted_count, revision }))
    }

    async fn watch_app_data(
        &self,
        request: Request<v1::WatchAppDataRequest>,
    ) -> Result<Response<DataStream>, Status> {
        let deadline = request.extensions().get::<Deadline>().copied();
        let caller = request.extensions().get::<Caller>().cloned();
        let (app, _) = convert::app(request)?;
        let place = self.watches.place(caller.as_ref())?;
        let filter = Filter::of(Scope::Applications(BTreeSet::from([app])));
        let watcher = self.parts.hub.watch(filter, Start::Snapshot).map_err(ApiError::from)?;
        let reader = Reader {
            watcher,
            reads: self.reads.clone(),
            watches: self.watches.clone(),
            deadline,
            sent: None,
            drained: false,
            _place: place,
        };
        let next = async |mut reader: Reader| Ok(Some((reader.next().await?, reader)));
        Ok(Response::new(Box::pin(stream::try_unfold(reader, next))))
    }
}

/// One reader, and the etag that it received last.
struct Reader {
    watcher: Watcher,
    reads: Reads,
    watches: Watches,
    deadline: Option<Deadline>,
    sent: Option<Box<str>>,
    drained: bool,
    _place: StreamPlace,
}

impl Reader {
    /// Returns the next message; the stream ends with an error.
    async fn next(&mut self) -> Result<v1::WatchAppDataResponse, Status> {
        let watches = self.watches.clone();
        let deadline = self.deadline.map(|Deadline(at)| tokio::time::sleep_until(at));
        let event = tokio::select! {
            biased;
            () = watches.draining() => {
                if std::mem::replace(&mut self.drained, true) {
                    return Err(ApiError::draining().into());
                }
                wire::Event::Drain(drain())
            }
            Some(()) = OptionFuture::from(deadline) => return Err(past_deadline()),
            changed = self.changed() => wire::Event::AppData(changed?),
        };
        Ok(v1::WatchAppDataResponse { event: Some(event) })
    }

    /// Returns the next data with another etag than the reader has; the first call returns
    /// immediately.
    async fn changed(&mut self) -> Result<v1::AppData, ApiError> {
        loop {
            let item = self.watcher.next().await;
            let item = item.map_err(|expired| ApiError::from(WatchError::from(expired)))?;
            let app_data = match item.event {
                Event::SnapshotComplete { .. } if self.sent.is_some() => continue,
                Event::Upserted(entry) => {
                    let etag = entry.head().data.etag();
                    if self.sent.as_deref() == Some(&*etag) {
                        continue;
                    }
                    let (app, revision) = (&entry.app, entry.revision());
                    self.reads.if_there(app, revision, convert::app_data).await?
                }
                Event::SnapshotComplete { .. } | Event::Removed(_) => None,
                Event::Bookmark { .. } => continue,
            };
            let app_data =
                app_data.unwrap_or_else(|| v1::AppData { etag: etag(0), ..v1::AppData::default() });
            if self.sent.as_deref() != Some(&*app_data.etag) {
                self.sent = Some(app_data.etag.clone().into());
                return Ok(app_data);
            }
        }
    }
}
