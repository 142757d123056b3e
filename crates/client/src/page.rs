//! Reads all pages of a list.

use std::future::Future;

use crate::connection::Client;
use crate::error::Error;
use crate::proto::v1::{
    Application, Fault, FaultTarget, ListApplicationsRequest, ListBlockersRequest,
    ListBlockersResponse, ListFaultsRequest, ListMarksRequest, ListNamespacesRequest,
    ListOperationsRequest, ListStatusEventsRequest, ListStatusesRequest, ListUnitsRequest, Mark,
    Namespace, Operation, StatusEvent, StatusRecord, Unit,
};
use crate::proto::{OfApplication, OfUnit};

/// The largest page of a server.
const PAGE_SIZE: i32 = 1_000;

impl Client {
    /// Returns every application of a namespace (`-` for all), by namespace and name.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_applications(&self, namespace: &str) -> Result<Vec<Application>, Error> {
        pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let request = ListApplicationsRequest {
                namespace: namespace.to_string(),
                page_size,
                page_token,
                ..ListApplicationsRequest::default()
            };
            let page = self.call(request).await?;
            Ok((page.applications, page.next_page_token))
        })
        .await
    }

    /// Returns every namespace whose applications the caller may list, by name, with its counts and
    /// its worst application.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_namespaces(&self) -> Result<Vec<Namespace>, Error> {
        pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let page = self.call(ListNamespacesRequest { page_size, page_token }).await?;
            Ok((page.namespaces, page.next_page_token))
        })
        .await
    }

    /// Returns every unit of an application, in natural order, not older than `min_revision`.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_units(
        &self,
        namespace: &str,
        application: &str,
        min_revision: u64,
    ) -> Result<Vec<Unit>, Error> {
        pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let request = ListUnitsRequest {
                page_size,
                page_token,
                min_revision,
                ..OfApplication::of_application(namespace, application)
            };
            let page = self.call(request).await?;
            Ok((page.units, page.next_page_token))
        })
        .await
    }

    /// Returns every operation of an application, the latest first, without payloads and
    /// checkpoints.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_operations(
        &self,
        namespace: &str,
        application: &str,
    ) -> Result<Vec<Operation>, Error> {
        pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let request = ListOperationsRequest {
                page_size,
                page_token,
                ..OfApplication::of_application(namespace, application)
            };
            let page = self.call(request).await?;
            Ok((page.operations, page.next_page_token))
        })
        .await
    }

    /// Returns what keeps the applications of a namespace (`-` for all) from getting well: all
    /// pages of one evaluation as one.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_blockers(&self, namespace: &str) -> Result<ListBlockersResponse, Error> {
        let listed = pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let namespace = namespace.to_string();
            let request = ListBlockersRequest { namespace, page_size, page_token };
            let mut page = self.call(request).await?;
            let next = std::mem::take(&mut page.next_page_token);
            Ok((vec![page], next))
        })
        .await?;
        let mut whole = ListBlockersResponse::default();
        for page in listed {
            whole.self_healing_count = page.self_healing_count;
            whole.blockers.extend(page.blockers);
        }
        Ok(whole)
    }

    /// Returns every open error of an application; with an empty name, of all applications of a
    /// namespace (`-` for all) that the caller may read.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_faults(
        &self,
        namespace: &str,
        application: &str,
    ) -> Result<Vec<Fault>, Error> {
        pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let request = ListFaultsRequest {
                page_size,
                page_token,
                ..OfApplication::of_application(namespace, application)
            };
            let page = self.call(request).await?;
            Ok((page.faults, page.next_page_token))
        })
        .await
    }

    /// Returns the targets of the same errors, with who has them: those that most units meet first.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_fault_targets(
        &self,
        namespace: &str,
        application: &str,
    ) -> Result<Vec<FaultTarget>, Error> {
        pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let request = ListFaultsRequest {
                page_size,
                page_token,
                group_by_target: true,
                ..OfApplication::of_application(namespace, application)
            };
            let page = self.call(request).await?;
            Ok((page.targets, page.next_page_token))
        })
        .await
    }

    /// Returns the marks of an application, or with `""` those of all applications of a namespace;
    /// `-` means all namespaces.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_marks(&self, namespace: &str, application: &str) -> Result<Vec<Mark>, Error> {
        pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let (namespace, application) = (namespace.to_string(), application.to_string());
            let request = ListMarksRequest { namespace, application, page_size, page_token };
            let page = self.call(request).await?;
            Ok((page.marks, page.next_page_token))
        })
        .await
    }

    /// Returns every status of an application, by unit, not older than `min_revision`; with an
    /// empty name and `min_revision` 0, those of all applications of a namespace (`-` for all).
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_statuses(
        &self,
        namespace: &str,
        application: &str,
        min_revision: u64,
    ) -> Result<Vec<StatusRecord>, Error> {
        let query = ListStatusesRequest {
            min_revision,
            ..OfApplication::of_application(namespace, application)
        };
        self.statuses_of(query).await
    }

    /// Returns every status of one unit, by component, key and kind.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_unit_statuses(
        &self,
        namespace: &str,
        application: &str,
        unit: &str,
    ) -> Result<Vec<StatusRecord>, Error> {
        self.statuses_of(OfUnit::of_unit(namespace, application, unit)).await
    }

    async fn statuses_of(&self, query: ListStatusesRequest) -> Result<Vec<StatusRecord>, Error> {
        pages(usize::MAX, PAGE_SIZE, async |page_size, page_token| {
            let request = ListStatusesRequest { page_size, page_token, ..query.clone() };
            let page = self.call(request).await?;
            Ok((page.statuses, page.next_page_token))
        })
        .await
    }

    /// Returns the newest `count_max` transitions that match `query`, newest first. The page fields
    /// of `query` are set here.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn list_events(
        &self,
        query: ListStatusEventsRequest,
        count_max: usize,
    ) -> Result<Vec<StatusEvent>, Error> {
        let page_size = i32::try_from(count_max).map_or(PAGE_SIZE, |n| n.clamp(1, PAGE_SIZE));
        pages(count_max, page_size, async |page_size, page_token| {
            let request = ListStatusEventsRequest { page_size, page_token, ..query.clone() };
            let page = self.call(request).await?;
            Ok((page.events, page.next_page_token))
        })
        .await
    }
}

/// Requests pages until the last one or until `count_max` items are read. If a page is larger than
/// this client accepts, it and the following ones are requested with fewer entries, because older
/// servers limit a page by its count alone.
async fn pages<T, F, A>(count_max: usize, page_size: i32, mut fetch: F) -> Result<Vec<T>, Error>
where
    F: FnMut(i32, String) -> A,
    A: Future<Output = Result<(Vec<T>, String), Error>>,
{
    let (mut all, mut token, mut page_size) = (Vec::new(), String::new(), page_size);
    loop {
        let (page, next) = match fetch(page_size, token.clone()).await {
            Err(error) if error.is_too_large() && 1 < page_size => {
                page_size = (page_size / 8).max(1);
                continue;
            }
            answer => answer?,
        };
        all.extend(page);
        if next.is_empty() || count_max <= all.len() {
            all.truncate(count_max);
            return Ok(all);
        }
        token = next;
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use axum::routing::post;
    use tonic::server::{Grpc, UnaryService};
    use tonic::{Response, Status};
    use tonic_prost::ProstCodec;

    use super::*;
    use crate::proto::v1::Blocker;
    use crate::testing::serve;

    /// A server with three causes, two on a page.
    #[derive(Clone)]
    struct Causes;

    impl UnaryService<ListBlockersRequest> for Causes {
        type Response = ListBlockersResponse;
        type Future = std::future::Ready<Result<Response<ListBlockersResponse>, Status>>;

        fn call(&mut self, asked: tonic::Request<ListBlockersRequest>) -> Self::Future {
            let asked = asked.into_inner();
            let (actions, next): (&[&str], _) = match asked.page_token.as_str() {
                "" => (&["a", "b"], "second"),
                _ => (&["c"], ""),
            };
            let blocker =
                |action: &&str| Blocker { action: action.to_string(), ..Blocker::default() };
            std::future::ready(Ok(Response::new(ListBlockersResponse {
                blockers: actions.iter().map(blocker).collect(),
                next_page_token: next.to_string(),
                self_healing_count: i32::from(asked.namespace == "shop") * 14,
            })))
        }
    }

    #[tokio::test]
    async fn the_pages_of_causes_are_one_list() {
        let handler = |request: Request| async move {
            Grpc::new(ProstCodec::default()).unary(Causes, request).await
        };
        let path = "/bellwether.v1.ApplicationService/ListBlockers";
        let url = serve("127.0.0.1:0".parse().expect("an address"), path, post(handler));
        let client = Client::connect(&url).await.expect("it listens");
        let whole = client.list_blockers("shop").await.expect("listed");
        let actions: Vec<&str> = whole.blockers.iter().map(|one| one.action.as_str()).collect();
        assert_eq!(actions, ["a", "b", "c"]);
        assert_eq!((whole.self_healing_count, whole.next_page_token.as_str()), (14, ""));
    }

    async fn read(count_max: usize) -> Vec<u32> {
        pages(count_max, PAGE_SIZE, |_, token| async move {
            Ok(match token.as_str() {
                "" => (vec![1, 2], "a".to_string()),
                "a" => (vec![], "b".to_string()),
                _ => (vec![3], String::new()),
            })
        })
        .await
        .expect("no page fails")
    }

    #[tokio::test]
    async fn reads_to_the_end_also_over_an_empty_page() {
        assert_eq!(read(usize::MAX).await, [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_page_that_is_too_large_is_asked_for_in_smaller_ones() {
        let mut asked = Vec::new();
        let text = "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes";
        let too_large = || Error::from_status("here", tonic::Status::out_of_range(text));
        let all = pages(usize::MAX, PAGE_SIZE, |page_size, token: String| {
            asked.push(page_size);
            let answer = match (page_size, token.as_str()) {
                (125.., _) => Err(too_large()),
                (_, "") => Ok((vec![1], "a".to_string())),
                _ => Ok((vec![2], String::new())),
            };
            async move { answer }
        });
        assert_eq!(all.await.expect("small pages are read"), [1, 2]);
        assert_eq!(asked, [1000, 125, 15, 15]);
        let never = pages(usize::MAX, 8, |_, _| async { Err::<(Vec<u8>, _), _>(too_large()) });
        assert!(never.await.expect_err("one entry is too large").is_too_large());
    }

    #[tokio::test]
    async fn stops_when_there_is_enough() {
        assert_eq!(read(1).await, [1]);
    }
}
