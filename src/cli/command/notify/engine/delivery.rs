//! What the engine asks for, and how it ends.

use std::sync::Arc;

use crate::cli::command::notify::engine::fact::{AppRef, Fact};
use crate::cli::command::notify::engine::pair::{Kind, Told};
use crate::cli::command::notify::engine::room::RecordName;

/// What is to be done: everything in `store` is committed before anything in `send` begins.
#[derive(Debug, Default)]
pub struct Orders {
    /// Records that have changed; `None`: the record ends.
    pub store: Vec<(RecordName, Option<Told>)>,
    /// Messages to deliver.
    pub send: Vec<Delivery>,
}

/// A message to deliver. Its end is given to [`Engine::ended`](super::Engine::ended).
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The place of the route.
    pub route: usize,
    /// The application.
    pub subject: AppRef,
    /// What kind of message.
    pub kind: Kind,
    /// The state that it is about; `None` if the application is deleted, and for a problem that is
    /// over.
    pub fact: Option<Arc<Fact>>,
    /// What was sent before; of a problem, what its first attempt says.
    pub told: Told,
    /// The applications that get well with this cause alone, as far as the route is about them.
    pub frees: Vec<AppRef>,
}

/// The end of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it.
    Delivered,
    /// The receiver may not have it; it is tried again.
    Failed,
    /// The receiver wants nothing any more.
    TurnedOff,
}
