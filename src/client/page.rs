//! Reads every page of a list.

use std::future::Future;

use crate::client::connection::Client;
use crate::client::error::Error;
use crate::proto::v1::Application;
use crate::proto::v1::ListApplicationsRequest;
use crate::proto::v1::ListStatusEventsRequest;
use crate::proto::v1::ListStatusesRequest;
use crate::proto::v1::ListUnitsRequest;
use crate::proto::v1::StatusEvent;
use crate::proto::v1::StatusRecord;
use crate::proto::v1::Unit;

/// The most a server gives at once.
const PAGE_SIZE: i32 = 1_000;

impl Client {
    /// Every application of a namespace (`-` for all), by namespace and name.
    ///
    /// # Errors
    /// What the server or the transport said.
    pub async fn list_applications(&self, namespace: &str) -> Result<Vec<Application>, Error> {
        pages(usize::MAX, async |page_token| {
            let request = self.request(ListApplicationsRequest {
                namespace: namespace.to_string(),
                page_size: PAGE_SIZE,
                page_token,
                ..ListApplicationsRequest::default()
            });
            let page = self.answer(self.applications().list_applications(request).await)?;
            Ok((page.applications, page.next_page_token))
        })
        .await
    }

    /// Every unit of an application, in natural order, not older than `min_revision`.
    ///
    /// # Errors
    /// What the server or the transport said.
    pub async fn list_units(
        &self,
        namespace: &str,
        application: &str,
        min_revision: u64,
    ) -> Result<Vec<Unit>, Error> {
        pages(usize::MAX, async |page_token| {
            let request = self.request(ListUnitsRequest {
                namespace: namespace.to_string(),
                application: application.to_string(),
                page_size: PAGE_SIZE,
                page_token,
                min_revision,
            });
            let page = self.answer(self.applications().list_units(request).await)?;
            Ok((page.units, page.next_page_token))
        })
        .await
    }

    /// Every status of an application, by unit, not older than `min_revision`.
    ///
    /// # Errors
    /// What the server or the transport said.
    pub async fn list_statuses(
        &self,
        namespace: &str,
        application: &str,
        min_revision: u64,
    ) -> Result<Vec<StatusRecord>, Error> {
        pages(usize::MAX, async |page_token| {
            let request = self.request(ListStatusesRequest {
                namespace: namespace.to_string(),
                application: application.to_string(),
                page_size: PAGE_SIZE,
                page_token,
                min_revision,
                ..ListStatusesRequest::default()
            });
            let page = self.answer(self.applications().list_statuses(request).await)?;
            Ok((page.statuses, page.next_page_token))
        })
        .await
    }

    /// The newest `count_max` transitions that `query` asks for, newest first. Its page fields
    /// are set here.
    ///
    /// # Errors
    /// What the server or the transport said.
    pub async fn list_events(
        &self,
        query: ListStatusEventsRequest,
        count_max: usize,
    ) -> Result<Vec<StatusEvent>, Error> {
        let page_size = i32::try_from(count_max).map_or(PAGE_SIZE, |n| n.clamp(1, PAGE_SIZE));
        pages(count_max, async |page_token| {
            let request =
                self.request(ListStatusEventsRequest { page_size, page_token, ..query.clone() });
            let page = self.answer(self.applications().list_status_events(request).await)?;
            Ok((page.events, page.next_page_token))
        })
        .await
    }
}

/// Asks for pages until there is none or `count_max` items are there.
async fn pages<T, F, A>(count_max: usize, mut fetch: F) -> Result<Vec<T>, Error>
where
    F: FnMut(String) -> A,
    A: Future<Output = Result<(Vec<T>, String), Error>>,
{
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let (page, next) = fetch(token).await?;
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
    use super::*;

    async fn read(count_max: usize) -> Vec<u32> {
        pages(count_max, |token| async move {
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
    async fn stops_when_there_is_enough() {
        assert_eq!(read(1).await, [1]);
    }
}
