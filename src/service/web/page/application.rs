//! What the page reads about one application.

use std::sync::Arc;

use tonic::Status;

use super::figures::{Figures, KeptFigures};
use super::moment::DAY_SECONDS;
use super::now;
use crate::proto::v1;
use crate::service::web::GrpcService;
use crate::service::web::inner::Inner;

const EXPLAIN: &str = "/bellwether.v1.ApplicationService/ExplainApplication";
const UNITS: &str = "/bellwether.v1.ApplicationService/ListUnits";
const EVENTS: &str = "/bellwether.v1.ApplicationService/ListStatusEvents";
const OPERATIONS: &str = "/bellwether.v1.OperationService/ListOperations";

/// Units that the page reads, to show the worst first.
const UNITS_MAX: usize = 1000;
const OPERATIONS_MAX: i32 = 10;
/// The strip reads this many pages of history at most, because each change renders it again.
const EVENT_PAGES_MAX: usize = 10;
const EVENT_PAGE_SIZE: i32 = 200;

/// An application with its reason and its parts. A part may fail alone.
pub struct Details {
    /// The status and its reason.
    pub answer: v1::ExplainApplicationResponse,
    /// The units, the worst first.
    pub units: Result<Vec<v1::Unit>, Status>,
    /// The latest operations, and whether there are more.
    pub operations: Result<(Vec<v1::Operation>, bool), Status>,
    /// The events of the strip, newest first.
    pub events: Result<Vec<v1::StatusEvent>, Status>,
    /// How long it was well.
    pub figures: Arc<Figures>,
}

/// Reads an application.
///
/// # Errors
/// If the caller may not read the application, or there is none.
pub async fn read<S: GrpcService>(
    inner: &Inner<S>,
    figures: &KeptFigures,
    name: (&str, &str),
) -> Result<Details, Status> {
    let (namespace, application) = (name.0.to_string(), name.1.to_string());
    let explain = v1::ExplainApplicationRequest {
        namespace: namespace.clone(),
        application: application.clone(),
        ..v1::ExplainApplicationRequest::default()
    };
    let answer = inner.call::<v1::ExplainApplicationResponse>(EXPLAIN, &explain).await?;
    let operations = v1::ListOperationsRequest {
        namespace: namespace.clone(),
        application: application.clone(),
        page_size: OPERATIONS_MAX,
        ..v1::ListOperationsRequest::default()
    };
    let (units, operations, events, figures) = tokio::join!(
        units(inner, namespace.clone(), application.clone()),
        inner.call::<v1::ListOperationsResponse>(OPERATIONS, &operations),
        events(inner, namespace, application),
        figures.get(inner, name),
    );
    let operations = operations.map(|page| (page.operations, !page.next_page_token.is_empty()));
    Ok(Details { answer, units, operations, events, figures })
}

/// Returns the units, up to a number of them.
async fn units<S: GrpcService>(
    inner: &Inner<S>,
    namespace: String,
    application: String,
) -> Result<Vec<v1::Unit>, Status> {
    let mut request = v1::ListUnitsRequest {
        namespace,
        application,
        page_size: UNITS_MAX as i32,
        order: v1::UnitOrder::WorstFirst.into(),
        ..v1::ListUnitsRequest::default()
    };
    let mut all: Vec<v1::Unit> = Vec::new();
    while all.len() < UNITS_MAX {
        let page: v1::ListUnitsResponse = inner.call(UNITS, &request).await?;
        all.extend(page.units);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    all.truncate(UNITS_MAX);
    Ok(all)
}

/// Returns the events of the strip, and one from before it if there is one.
async fn events<S: GrpcService>(
    inner: &Inner<S>,
    namespace: String,
    application: String,
) -> Result<Vec<v1::StatusEvent>, Status> {
    let start = now() - DAY_SECONDS;
    let is_before =
        |event: &v1::StatusEvent| event.time.as_ref().is_some_and(|time| time.seconds < start);
    let mut request = v1::ListStatusEventsRequest {
        namespace,
        application,
        page_size: EVENT_PAGE_SIZE,
        ..v1::ListStatusEventsRequest::default()
    };
    let mut all: Vec<v1::StatusEvent> = Vec::new();
    for _ in 0..EVENT_PAGES_MAX {
        let page: v1::ListStatusEventsResponse = inner.call(EVENTS, &request).await?;
        all.extend(page.events);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() || all.last().is_some_and(is_before) {
            break;
        }
    }
    Ok(all)
}
