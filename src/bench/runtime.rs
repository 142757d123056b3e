//! Threads of a measurement's own: the load need not wait for whoever started it.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// Runs this on two threads, so that who watches need not wait for who writes. Dropping the future
/// ends it; processes must therefore not be started in it, for nobody waits until they are gone.
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
