//! Room that one request takes for a long answer, before it is rendered.

use std::sync::{Arc, Mutex};

use super::budget::Full;
use super::room::{Room, Share};
use crate::sync::lock;

/// Room for the answer to a request of the layers above gRPC, which may make several calls for it:
/// an extension of those calls. They count for their principal here instead of each on its own.
#[derive(Clone)]
pub struct Reserved(Arc<Mutex<Held>>);

struct Held {
    bytes: usize,
    shares: Shares,
    /// The count of the open call.
    open: Option<Box<dyn Send + Sync>>,
}

/// What one long answer counts against.
#[derive(Default)]
pub struct Shares {
    of_connection: Option<Share>,
    of_principal: Option<Share>,
}

impl Shares {
    /// Takes room for an answer of `bytes` as soon as there is some. That of the principal first: a
    /// wait for it takes nothing from others.
    ///
    /// # Errors
    /// The budget that has none.
    pub async fn wait(
        of_connection: &Arc<Room>,
        of_principal: Option<&Arc<Room>>,
        bytes: usize,
    ) -> Result<Shares, Full> {
        let of_principal = match of_principal {
            Some(room) => Some(Share::wait(room, bytes).await?),
            None => None,
        };
        let of_connection = Some(Share::wait(of_connection, bytes).await?);
        Ok(Shares { of_connection, of_principal })
    }

    /// Counts the bytes of the rendered answer from now on. The connection counts them itself.
    pub fn rendered(&mut self, bytes: usize) {
        self.of_connection = None;
        self.of_principal.iter_mut().for_each(|share| share.resize(bytes));
    }
}

impl Reserved {
    /// Takes room for an answer of `bytes` as soon as there is some.
    ///
    /// # Errors
    /// The budget that has none.
    pub async fn wait(room: &Arc<Room>, bytes: usize) -> Result<Reserved, Full> {
        let shares = Shares::wait(room, None, bytes).await?;
        Ok(Reserved(Arc::new(Mutex::new(Held { bytes, shares, open: None }))))
    }

    /// Returns whether an earlier call for the same request counts as open.
    pub fn is_open(&self) -> bool {
        lock(&self.0).open.is_some()
    }

    /// Counts the answer for a principal too, and keeps the count of its call: once, by its first
    /// call.
    ///
    /// # Errors
    /// If the principal has no room.
    pub async fn of_principal(
        &self,
        room: Option<&Arc<Room>>,
        open: Option<impl Send + Sync + 'static>,
    ) -> Result<(), Full> {
        let (bytes, is_known) = {
            let mut held = lock(&self.0);
            if let Some(open) = open.filter(|_| held.open.is_none()) {
                held.open = Some(Box::new(open));
            }
            (held.bytes, held.shares.of_principal.is_some())
        };
        if let (Some(room), false) = (room, is_known) {
            let share = Share::wait(room, bytes).await?;
            lock(&self.0).shares.of_principal = Some(share);
        }
        Ok(())
    }

    /// Counts the bytes of the rendered answer from now on. The connection counts them itself.
    pub fn rendered(&self, bytes: usize) {
        lock(&self.0).shares.rendered(bytes);
    }
}
