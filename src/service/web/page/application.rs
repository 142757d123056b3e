//! What the page reads about one application.

use tonic::Status;

use super::{now, strip};
use crate::proto::v1;
use crate::service::web::GrpcService;
use crate::service::web::inner::Inner;

const EXPLAIN: &str = "/bellwether.v1.ApplicationService/ExplainApplication";
const UNITS: &str = "/bellwether.v1.ApplicationService/ListUnits";
const EVENTS: &str = "/bellwether.v1.ApplicationService/ListStatusEvents";
const OPERATIONS: &str = "/bellwether.v1.OperationService/ListOperations";

const UNITS_MAX: i32 = 100;
const OPERATIONS_MAX: i32 = 10;
/// The strip reads this many pages of history at most, because each change renders it again.
const EVENT_PAGES_MAX: usize = 10;
const EVENT_PAGE_SIZE: i32 = 200;

/// An application with its reason and its parts. A part may fail alone.
pub struct Details {
    /// The status and its reason.
    pub answer: v1::ExplainApplicationResponse,
    /// The first units.
    pub units: Result<Vec<v1::Unit>, Status>,
    /// The latest operations, and whether there are more.
    pub operations: Result<(Vec<v1::Operation>, bool), Status>,
    /// The events of the strip, newest first.
    pub events: Result<Vec<v1::StatusEvent>, Status>,
}

/// Reads an application.
///
/// # Errors
/// If the caller may not read the application, or there is none.
pub async fn read<S: GrpcService>(
    inner: &Inner<S>,
    (namespace, application): (&str, &str),
) -> Result<Details, Status> {
    let (namespace, application) = (namespace.to_string(), application.to_string());
    let explain = v1::ExplainApplicationRequest {
        namespace: namespace.clone(),
        application: application.clone(),
        ..v1::ExplainApplicationRequest::default()
    };
    let answer = inner.call::<v1::ExplainApplicationResponse>(EXPLAIN, &explain).await?;
    let units = v1::ListUnitsRequest {
        namespace: namespace.clone(),
        application: application.clone(),
        page_size: UNITS_MAX,
        ..v1::ListUnitsRequest::default()
    };
    let units = inner.call::<v1::ListUnitsResponse>(UNITS, &units).await;
    let operations = v1::ListOperationsRequest {
        namespace: namespace.clone(),
        application: application.clone(),
        page_size: OPERATIONS_MAX,
        ..v1::ListOperationsRequest::default()
    };
    let operations = inner.call::<v1::ListOperationsResponse>(OPERATIONS, &operations).await;
    Ok(Details {
        answer,
        units: units.map(|page| page.units),
        operations: operations.map(|page| (page.operations, !page.next_page_token.is_empty())),
        events: events(inner, namespace, application).await,
    })
}

/// Returns the events of the strip, and one from before it if there is one.
async fn events<S: GrpcService>(
    inner: &Inner<S>,
    namespace: String,
    application: String,
) -> Result<Vec<v1::StatusEvent>, Status> {
    let start = now() - strip::SECONDS;
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
