//! Keeps a link connected to the current master.
//!
//! ```text
//!  resolve --> connect --> ready <--> suspect
//!     ^           |          |          |
//!     '- backoff--+----------+----------'
//! ```

use std::sync::{Arc, Weak};

use redis::{PushInfo, PushKind};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::backoff::Backoff;
use super::dial::Dialer;
use super::error::LinkError;
use super::master::{Identity, Master};
use super::sentinel::Sentinels;
use super::single::{Event, LinkObserver, Live, MasterLink};
use super::target::Address;

/// The maximum number of events that wait for the supervisor. A lost event does no harm: the next
/// check finds the same.
const EVENTS_MAX: usize = 8;

/// Where a link finds the address of its master.
pub(super) enum Source {
    /// A fixed address.
    Fixed(Address),
    /// The address that the Sentinels report.
    Sentinels(Sentinels),
}

impl Source {
    async fn resolve(&mut self, dialer: &Dialer) -> Result<Vec<Address>, LinkError> {
        match self {
            Source::Fixed(address) => Ok(vec![address.clone()]),
            Source::Sentinels(sentinels) => sentinels.resolve(dialer).await,
        }
    }

    /// Returns when another master replaces the one at this address.
    async fn moved(&mut self, dialer: &Dialer, from: &Address) -> String {
        match self {
            Source::Fixed(_) => std::future::pending().await,
            Source::Sentinels(sentinels) => sentinels.moved(dialer, from).await,
        }
    }
}

/// Starts a link with the task that keeps it connected until the link ends.
pub(super) fn start(
    name: String,
    dialer: &Arc<Dialer>,
    observer: Weak<dyn LinkObserver>,
    ended: CancellationToken,
    source: Source,
) -> Arc<MasterLink> {
    let link = Arc::new(MasterLink::new(name, dialer.clone(), observer, ended));
    let supervised = link.clone();
    tokio::spawn(async move {
        supervised.ended.run_until_cancelled(supervise(&supervised, source)).await;
        supervised.lose("the connection has been closed, as it is no longer used".to_string());
    });
    link
}

async fn supervise(link: &MasterLink, mut source: Source) {
    let options = &link.dialer.options;
    let mut backoff = Backoff::new(options);
    let mut is_known_away = false;
    loop {
        match establish(link, &mut source).await {
            Ok((live, events)) => {
                info!(master = %live.address, run_id = live.master.run_id, "connected to Redis");
                let connected = Instant::now();
                let live = Arc::new(live);
                link.publish(live.clone());
                let reason = tokio::select! {
                    reason = observe(link, live.clone(), events) => reason,
                    reason = source.moved(&link.dialer, &live.address) => reason,
                };
                warn!(link = link.name, reason, "connection to Redis lost");
                link.lose(reason);
                is_known_away = true;
                // The backoff continues if a new master is lost immediately, so that this does not
                // become a busy loop.
                if options.backoff_max < connected.elapsed() {
                    backoff.reset();
                }
            }
            Err(error) => {
                match is_known_away {
                    true => debug!(link = link.name, %error, "still no connection to Redis"),
                    false => warn!(link = link.name, %error, "no connection to Redis"),
                }
                is_known_away = true;
                link.fail(error);
            }
        }
        link.note_misrouted();
        sleep(backoff.pause()).await;
    }
}

/// Connects to the first candidate that is a master.
async fn establish(
    link: &MasterLink,
    source: &mut Source,
) -> Result<(Live, mpsc::Receiver<Event>), LinkError> {
    let mut failure = LinkError::away(format!("{} has no address", link.name));
    for address in source.resolve(&link.dialer).await? {
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let pushed = events.clone();
        let config = link.dialer.config().set_push_sender(move |push: PushInfo| match push.kind {
            PushKind::Disconnection => pushed.try_send(Event::Disconnected).map_err(drop),
            _ => Ok(()),
        });
        match link.dialer.open_master(&address, &config).await {
            Ok((connection, master)) => {
                return Ok((Live { connection, address, master, events }, received));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Checks whether the server answers and is still a master: regularly, and immediately after a
/// pipeline without an answer.
async fn observe(
    link: &MasterLink,
    mut live: Arc<Live>,
    mut events: mpsc::Receiver<Event>,
) -> String {
    let options = &link.dialer.options;
    let address = &live.address.clone();
    let mut ticks = interval(options.ping_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut timeouts = 0;
    loop {
        // After a timeout the next check follows immediately.
        let event = match timeouts {
            0 => tokio::select! {
                _ = ticks.tick() => None,
                event = events.recv() => event,
            },
            _ => events.try_recv().ok(),
        };
        match event {
            Some(Event::Disconnected) => return format!("{address} closed the connection"),
            Some(Event::Leave(code)) => return format!("{address} says {code}"),
            Some(Event::Unanswered) | None => (),
        }
        match ask(&live).await {
            Ok(identity) => {
                let is_renamed = identity.replid() != live.master.replid;
                if is_renamed {
                    let master =
                        Master { replid: identity.replid().to_string(), ..live.master.clone() };
                    live = Arc::new(Live { master, ..Live::clone(&live) });
                }
                if is_renamed || timeouts > 0 {
                    link.publish(live.clone());
                }
                timeouts = 0;
            }
            Err(LinkError::Ambiguous { reason }) if timeouts + 1 < options.timeouts_max => {
                timeouts += 1;
                link.suspect(reason);
            }
            Err(error) => return error.reason().to_string(),
        }
    }
}

/// Asks whether the connection still leads to the same master. Returns `Ambiguous` if there is no
/// answer in time, and any other error if the connection is closed or leads to another server.
async fn ask(live: &Live) -> Result<Identity, LinkError> {
    let address = &live.address;
    let identity = Identity::ask(&mut live.connection.clone(), address, Identity::AGAIN).await?;
    if !identity.is_master() {
        return Err(LinkError::away(format!("{address} is a replica now")));
    }
    // The server has been a replica in between, so it may have lost writes.
    if identity.replid() != live.master.replid && !identity.has_no_predecessor() {
        return Err(LinkError::away(format!("{address} began another replication history")));
    }
    Ok(identity)
}
