//! Namespaces: those whose applications a caller may list, and how these are.

use tonic::{Request, Status};

use crate::proto::v1;
use crate::service::call::Access;
use crate::service::convert::{self, Page};
use crate::service::grpc::handlers::Handlers;
use crate::telemetry::OffloadedWork;

impl Handlers {
    /// Answers a `ListNamespaces`.
    pub(super) async fn namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<v1::ListNamespacesResponse, Status> {
        let (access, wire) = Access::open(request);
        let reader = access.reader();
        self.parts.relay.as_ref().map_or(Ok(()), |relay| relay.whole(&reader))?;
        let page = Page::<String>::open("ListNamespaces", &[], wire.page_size, &wire.page_token)?;
        let (hub, after, count_max) = (self.parts.hub.clone(), page.after.clone(), page.size + 1);
        // A page may count every application of the server.
        let count = move || {
            let found = hub.namespaces(after.as_deref(), count_max, &|name| reader.may_list(name));
            found.iter().map(convert::namespace).collect::<Vec<_>>()
        };
        let found = self.offload.run(OffloadedWork::Namespaces, count).await;
        let found = found.into_iter().map(|namespace| (namespace.name.clone(), namespace));
        let (namespaces, next_page_token) = page.fill(found);
        Ok(v1::ListNamespacesResponse { namespaces, next_page_token })
    }
}

#[cfg(test)]
mod tests;
