//! A panic in the task of an application ends that task alone. Its callers get an error, and the
//! next request starts another task, which reads the application from the store.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::application::Application;
use super::committed::Progress;
use super::{Error, Inner};
use crate::sync::panic_text;
use crate::telemetry::PanicPlace;

/// Runs the task of an application to its end.
pub(super) async fn run(inner: Arc<Inner>, mut application: Box<Application>) {
    let (app, shared) = (application.name.clone(), application.shared.clone());
    // A panic can leave only the state of this task inconsistent. The next task loads a new state.
    let Err(panic) = AssertUnwindSafe(application.run()).catch_unwind().await else { return };
    inner.metrics.panic(PanicPlace::Application);
    tracing::error!(
        namespace = app.namespace(),
        application = app.application(),
        panic = panic_text(panic.as_ref()),
        "the task of an application panicked; the next request starts another from the store"
    );
    shared.progress(Progress::Failed(Error::Failed));
    inner.forget(&app, &shared);
}
