//! A runtime for the load, so that it does not wait for tasks of the caller.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// Runs the future on two threads of its own, so that readers need not wait for writers. Dropping
/// the future ends the work without waiting; processes must therefore not be started in it.
pub async fn apart<T: Send + 'static>(
    work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> anyhow::Result<T> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.spawn(work);
    let _threads = Threads(Some(runtime));
    result.await.context("load thread")?
}

/// A runtime within another one may not wait for its tasks when it is dropped.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
