//! Carries messages to receivers: one call for each, or one for several where the receiver takes
//! them together.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bellwether_client::Client;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::task::JoinSet;

use crate::cli::command::notify::config::{Config, Destination};
use crate::cli::command::notify::engine::fact::AppRef;
use crate::cli::command::notify::engine::pair::{Ending, Kind};
use crate::cli::command::notify::engine::route::Route;
use crate::cli::command::notify::engine::{Delivery, Outcome};
use crate::cli::command::notify::message::own::Own;
use crate::cli::command::notify::message::{Message, message};
use crate::cli::command::notify::metrics::{Metrics, now};
use crate::cli::command::notify::notice::Notice;
use crate::cli::command::notify::receiver::{DeliveryError, Parcel, Receiver};
use crate::cli::context::{Context, say};
use crate::cli::{explanation, level};
use crate::sync::panic_text;

/// Explanations under way at once, of one call to a receiver.
const EXPLAINED_AT_ONCE: usize = 16;

/// The end of what was carried.
pub enum Carried {
    /// Messages of a route.
    Deliveries(Vec<Delivery>, Outcome),
    /// A notice, and whether it was delivered.
    Notice(Notice, bool),
}

/// Carries messages.
pub struct Courier {
    client: Client,
    page: Option<String>,
    receivers: BTreeMap<String, Arc<Receiver>>,
    /// What each receiver said of its last failure.
    failing: BTreeMap<String, String>,
    under_way: JoinSet<(String, Carried, Option<DeliveryError>)>,
    metrics: Metrics,
}

impl Courier {
    /// Creates a courier for the receivers of a file.
    pub fn new(client: &Client, config: &Config, context: &Context, metrics: Metrics) -> Courier {
        let receivers = config.receivers.iter().map(|receiver| {
            let created = Receiver::new(receiver.clone(), context.variables());
            (receiver.name.clone(), Arc::new(created))
        });
        Courier {
            client: client.clone(),
            page: config.page.clone(),
            receivers: receivers.collect(),
            failing: BTreeMap::new(),
            under_way: JoinSet::new(),
            metrics,
        }
    }

    /// Begins to carry a notice.
    pub fn carry_notice(&mut self, notice: Notice, to: &str, own: &Own, unsent: usize) {
        let Some(receiver) = self.receivers.get(to).cloned() else { return };
        let message = own.notice(notice, unsent);
        let kind = if notice.begins { Kind::Problem } else { Kind::Resolved(Ending::Recovered) };
        let parcel = Parcel { message, kind, told_level: "error" };
        let to = to.to_string();
        self.under_way.spawn(async move {
            let error = failure_of(receiver.deliver(&[parcel], now())).await;
            (to, Carried::Notice(notice, error.is_none()), error)
        });
    }

    /// Begins to carry messages of one route.
    pub fn carry(&mut self, route: &Route, deliveries: Vec<Delivery>) {
        let Some(receiver) = self.receivers.get(&route.to).cloned() else { return };
        let together = matches!(receiver.config.target, Destination::Alertmanager(_));
        let parts = match together {
            true => vec![deliveries],
            false => deliveries.into_iter().map(|delivery| vec![delivery]).collect(),
        };
        for part in parts {
            let (receiver, client) = (receiver.clone(), self.client.clone());
            let (route, page) = (route.clone(), self.page.clone());
            self.under_way.spawn(async move {
                let delivering = async {
                    let mut writing = Vec::with_capacity(part.len());
                    for delivery in &part {
                        writing.push(write(delivery, &route, &client, page.as_deref()));
                    }
                    let written = stream::iter(writing).buffered(EXPLAINED_AT_ONCE);
                    let parcels: Vec<Parcel> = written.collect().await;
                    receiver.deliver(&parcels, now()).await
                };
                let error = failure_of(delivering).await;
                let outcome = match &error {
                    None => Outcome::Delivered,
                    Some(DeliveryError::Gone) => Outcome::TurnedOff,
                    Some(_) => Outcome::Failed,
                };
                (route.to, Carried::Deliveries(part, outcome), error)
            });
        }
    }

    /// Returns the end of something that was carried. Cancel safe.
    pub async fn next(&mut self) -> Carried {
        loop {
            match self.under_way.join_next().await {
                None => return std::future::pending().await,
                Some(Ok((to, carried, error))) => return self.noted(to, carried, error),
                // A task catches its panics, and none is cancelled.
                Some(Err(error)) => say(&format!("a delivery ended without a result: {error}")),
            }
        }
    }

    /// Returns the end of something that has ended already: one commit is for many.
    pub fn try_next(&mut self) -> Option<Carried> {
        let (to, carried, error) = self.under_way.try_join_next()?.ok()?;
        Some(self.noted(to, carried, error))
    }

    fn noted(&mut self, to: String, carried: Carried, error: Option<DeliveryError>) -> Carried {
        self.count(&to, &carried);
        self.tell(to, error);
        carried
    }

    fn count(&self, to: &str, carried: &Carried) {
        self.metrics.change(|tally| {
            let Some(counts) = tally.receivers.get_mut(to) else { return };
            match carried {
                Carried::Deliveries(deliveries, Outcome::Delivered) => {
                    for delivery in deliveries {
                        match delivery.kind {
                            Kind::Resolved(_) => counts.ended += 1,
                            Kind::Problem | Kind::Changed(_) => counts.told += 1,
                            Kind::Repeat => {}
                        }
                    }
                }
                Carried::Deliveries(deliveries, _) => counts.failed += deliveries.len() as u64,
                Carried::Notice(_, is_delivered) => counts.failed += u64::from(!is_delivered),
            }
        });
    }

    /// Says once that a receiver fails, and once that it is back.
    fn tell(&mut self, to: String, error: Option<DeliveryError>) {
        match error {
            None => {
                if self.failing.remove(&to).is_some() {
                    say(&format!("receiver {to}: delivers again"));
                }
            }
            Some(error) => {
                let text = error.to_string();
                if self.failing.get(&to) != Some(&text) {
                    say(&format!("receiver {to}: {text}"));
                    self.failing.insert(to, text);
                }
            }
        }
    }
}

/// Writes the message of a delivery.
async fn write(delivery: &Delivery, route: &Route, client: &Client, page: Option<&str>) -> Parcel {
    let explained = match (&delivery.fact, delivery.kind) {
        (Some(_), Kind::Problem | Kind::Changed(_) | Kind::Repeat) => {
            let AppRef { namespace, application } = &delivery.subject;
            explanation::soon(client, namespace, application).await
        }
        _ => None,
    };
    Parcel {
        message: message(delivery, route, explained.as_ref(), page, now()),
        kind: delivery.kind,
        told_level: level::word(delivery.told.face.level.into()),
    }
}

/// Returns why a delivery failed, if it did. One that panics has failed, and is tried again.
async fn failure_of(
    delivering: impl Future<Output = Result<(), DeliveryError>>,
) -> Option<DeliveryError> {
    match AssertUnwindSafe(delivering).catch_unwind().await {
        Ok(delivered) => delivered.err(),
        Err(panic) => Some(DeliveryError::Panic(panic_text(&*panic).to_string())),
    }
}

/// Sends an example to a receiver.
///
/// # Errors
/// If it may not have it.
pub async fn send_example(receiver: &Receiver, example: Message) -> Result<(), DeliveryError> {
    let parcel = Parcel { message: example, kind: Kind::Problem, told_level: "active" };
    receiver.deliver(std::slice::from_ref(&parcel), now()).await?;
    if matches!(receiver.config.target, Destination::Alertmanager(_)) {
        // No alert stays behind.
        let over = Parcel { kind: Kind::Resolved(Ending::Recovered), ..parcel };
        receiver.deliver(&[over], now()).await?;
    }
    Ok(())
}
