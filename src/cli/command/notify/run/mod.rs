//! The process: claims the lease, follows applications while it leads, and carries messages.

mod courier;
mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether_client::{Client, Error, Event};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use self::courier::{Carried, Courier};
use self::watches::{Watches, has_expired};
use super::config::Config;
use super::engine::fact::{AppRef, Fact};
use super::engine::pair::Told;
use super::engine::room::{PAIRS_MAX, RecordName};
use super::engine::{Delivery, Engine, Orders};
use super::message::own::Own;
use super::metrics::{Metrics, now};
use super::notice::{Notices, Topic};
use super::store::lease::{Claimant, Standing};
use super::store::shards::Shards;
use crate::cli::context::{Context, say};
use crate::cli::outage::Outage;

pub use self::courier::send_example;

/// The pause after a commit that failed.
const SAVE_PAUSE: Duration = Duration::from_millis(500);
/// The time from one commit to the next: what ends and begins meanwhile shares one.
const COMMITS_PAUSE: Duration = Duration::from_millis(10);
/// Events that are taken before the time is looked at again.
const EVENTS_AT_ONCE: usize = 4_096;
/// The longest time without a look at the lease.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The time between two counts of what is open and owed.
const COUNT_EVERY: Duration = Duration::from_millis(500);

/// Why this process no longer leads.
enum Ended {
    /// Another process leads.
    Deposed,
    /// A signal asks for the end.
    Stopped,
}

/// The process.
struct Notifier {
    client: Client,
    config: Config,
    own: Own,
    standing: watch::Receiver<Standing>,
    courier: Courier,
    notices: Notices,
    metrics: Metrics,
    stop: Signal,
}

/// Notifies until a signal ends it.
///
/// # Errors
/// If it can never lead, the rights are missing, or the stored state cannot be read.
pub async fn run(config: Config, unit: String, context: &Context) -> anyhow::Result<()> {
    let client = context.connect_lazily()?;
    let metrics = Metrics::new(config.receivers.iter().map(|receiver| &receiver.name));
    let _serving = match config.listen {
        Some(address) => {
            let listener = TcpListener::bind(address).await?;
            say(&format!("metrics at http://{}/metrics", listener.local_addr()?));
            Some(AbortOnDropHandle::new(tokio::spawn(metrics.clone().serve(listener))))
        }
        None => None,
    };
    let (namespace, application) = (config.namespace.clone(), config.application.clone());
    let own = Own { namespace, application, unit };
    let claimant = Claimant {
        client: client.clone(),
        namespace: own.namespace.clone(),
        application: own.application.clone(),
        unit: own.unit.clone(),
    };
    let (sender, standing) = watch::channel(Standing::New);
    let claiming = AbortOnDropHandle::new(tokio::spawn(claimant.clone().claim(sender)));
    let repeats = config.receivers.iter().map(|it| it.target.delivery().repeat_every);
    let mut notifier = Notifier {
        courier: Courier::new(&client, &config, context, metrics.clone()),
        notices: Notices::new(repeats.collect()),
        stop: signal(SignalKind::terminate())?,
        standing,
        client,
        config,
        own,
        metrics,
    };
    let ended = notifier.take_turns().await;
    let epoch = notifier.standing.borrow().epoch();
    drop(claiming);
    if let Some(epoch) = epoch {
        claimant.release(epoch).await;
    }
    ended
}

impl Notifier {
    /// Stands by and leads, in turns.
    async fn take_turns(&mut self) -> anyhow::Result<()> {
        loop {
            if self.stand_by().await? {
                return Ok(());
            }
            let ended = match Lead::begin(self).await {
                Ok(lead) => lead.run(self).await,
                Err(error) if error.downcast_ref::<Error>().is_some_and(Error::is_passing) => {
                    say(&format!("cannot read what is open: {error}"));
                    Ok(Ended::Deposed)
                }
                Err(error) => Err(error),
            };
            self.metrics.change(|tally| (tally.leads, tally.sees) = (false, false));
            if matches!(ended?, Ended::Stopped) {
                return Ok(());
            }
            // The next claim says where this process stands.
            let _ = tokio::time::timeout(LOOK_EVERY, self.standing.changed()).await;
        }
    }

    /// Waits until this process leads. Returns true if a signal asks for the end.
    async fn stand_by(&mut self) -> anyhow::Result<bool> {
        loop {
            if let Standing::Refused(why) = &*self.standing.borrow_and_update() {
                anyhow::bail!("{why}");
            }
            if self.standing.borrow().epoch().is_some() {
                return Ok(false);
            }
            // An outage that was sent before is over where another process leads.
            self.notices.set(Topic::Blind, false, now());
            self.notices.set(Topic::Full, false, now());
            self.carry_notices(0);
            tokio::select! {
                _ = self.standing.changed() => {}
                carried = self.courier.next() => self.noticed(carried),
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = self.stop.recv() => return Ok(true),
            }
        }
    }

    fn carry_notices(&mut self, unsent: usize) {
        for notice in self.notices.turn(now()) {
            let to = self.config.receivers[notice.receiver].name.clone();
            self.courier.carry_notice(notice, &to, &self.own, unsent);
        }
    }

    fn noticed(&mut self, carried: Carried) {
        if let Carried::Notice(notice, is_delivered) = carried {
            self.notices.ended(notice, is_delivered, now());
        }
    }
}

/// The time in which this process leads.
struct Lead {
    engine: Engine,
    shards: Shards,
    watches: Watches,
    outage: Outage,
    /// What is not committed yet, and what may begin after that.
    unsaved: Vec<(RecordName, Option<Told>)>,
    held: Vec<Delivery>,
    save_at: Instant,
    /// When the next commit may begin.
    turn_at: Instant,
    /// When the metrics are counted again, which looks at every open problem.
    count_at: Instant,
}

impl Lead {
    async fn begin(notifier: &Notifier) -> anyhow::Result<Lead> {
        let Own { namespace, application, unit } = &notifier.own;
        let shards = Shards::load(&notifier.client, namespace, application, unit).await?;
        let is_known = |name: &RecordName| {
            notifier.config.receivers.iter().any(|receiver| receiver.name == name.to)
        };
        let (records, lost): (Vec<_>, Vec<_>) =
            shards.records().into_iter().partition(|(name, _)| is_known(name));
        if !lost.is_empty() {
            say(&format!(
                "{} problems stay without an end: the file no longer has their receivers",
                lost.len()
            ));
        }
        let engine = Engine::new(notifier.config.routes.clone(), records, PAIRS_MAX, now());
        Ok(Lead {
            engine,
            shards,
            watches: Watches::start(&notifier.client, notifier.config.namespaces()),
            outage: Outage::default(),
            unsaved: lost.into_iter().map(|(name, _)| (name, None)).collect(),
            held: Vec::new(),
            save_at: Instant::now(),
            turn_at: Instant::now(),
            count_at: Instant::now(),
        })
    }

    async fn run(mut self, notifier: &mut Notifier) -> anyhow::Result<Ended> {
        loop {
            match &*notifier.standing.borrow_and_update() {
                Standing::Refused(why) => anyhow::bail!("{why}"),
                Standing::StandsBy => return Ok(Ended::Deposed),
                Standing::New | Standing::Leads { .. } => {}
            }
            let wakes_at = self.work(notifier).await?;
            let Some(wakes_at) = wakes_at else { return Ok(Ended::Deposed) };
            tokio::select! {
                seen = self.watches.next() => {
                    self.see(seen, notifier).await?;
                    for _ in 0..EVENTS_AT_ONCE {
                        let Some(seen) = self.watches.try_next() else { break };
                        self.see(seen, notifier).await?;
                    }
                }
                carried = notifier.courier.next() => {
                    let mut next = Some(carried);
                    while let Some(carried) = next {
                        self.ended(carried, notifier);
                        next = notifier.courier.try_next();
                    }
                }
                () = sleep_until(wakes_at) => {}
                _ = notifier.standing.changed() => {}
                _ = notifier.stop.recv() => return Ok(Ended::Stopped),
            }
        }
    }

    fn ended(&mut self, carried: Carried, notifier: &mut Notifier) {
        match carried {
            Carried::Deliveries(deliveries, outcome) => {
                for delivery in &deliveries {
                    self.engine.ended(delivery, outcome, now());
                }
            }
            Carried::Notice(..) => notifier.noticed(carried),
        }
    }

    /// Commits and sends what is due. Returns when something may be due again; `None` if another
    /// process leads.
    async fn work(&mut self, notifier: &mut Notifier) -> anyhow::Result<Option<Instant>> {
        let time = now();
        // What could not be committed goes first.
        if self.unsaved.is_empty() && self.held.is_empty() && self.turn_at <= Instant::now() {
            let Orders { store, send } = self.engine.turn(time);
            if !store.is_empty() {
                self.turn_at = Instant::now() + COMMITS_PAUSE;
            }
            (self.unsaved, self.held) = (store, send);
        }
        let epoch = notifier.standing.borrow().epoch();
        if let Some(epoch) = epoch
            && !self.unsaved.is_empty()
            && self.save_at <= Instant::now()
        {
            match self.shards.save(&self.unsaved, epoch).await {
                Ok(()) => self.unsaved.clear(),
                Err(error) if error.reason() == Some("NOT_LEADER") => return Ok(None),
                Err(error) if error.is_passing() => self.save_at = Instant::now() + SAVE_PAUSE,
                Err(error) => return Err(error.into()),
            }
        }
        // The lease may have ended while the commit was under way.
        if self.unsaved.is_empty() && notifier.standing.borrow().epoch().is_some() {
            self.send(notifier);
        }
        notifier.notices.set(Topic::Full, 0 < self.engine.unsent_count(), time);
        notifier.carry_notices(self.engine.unsent_count());
        if self.count_at <= Instant::now() {
            self.count_at = Instant::now() + COUNT_EVERY;
            self.count(&notifier.metrics, epoch.is_some());
        }
        Ok(Some(self.wakes_at(notifier)))
    }

    fn send(&mut self, notifier: &mut Notifier) {
        let mut by_route: BTreeMap<usize, Vec<Delivery>> = BTreeMap::new();
        for delivery in self.held.drain(..) {
            by_route.entry(delivery.route).or_default().push(delivery);
        }
        for (place, deliveries) in by_route {
            notifier.courier.carry(self.engine.route(place), deliveries);
        }
    }

    fn wakes_at(&self, notifier: &Notifier) -> Instant {
        let latest = Instant::now() + LOOK_EVERY;
        if !self.unsaved.is_empty() {
            return self.save_at.max(Instant::now() + Duration::from_millis(1)).min(latest);
        }
        if Instant::now() < self.turn_at {
            return self.turn_at.min(latest);
        }
        let next = [self.engine.wakes_at(), notifier.notices.wakes_at()];
        let next = next.into_iter().flatten().min();
        let after = next.map(|at| Instant::now() + at.since(now()));
        after.map_or(latest, |at| at.min(latest))
    }

    fn count(&self, metrics: &Metrics, leads: bool) {
        metrics.change(|tally| {
            tally.leads = leads;
            tally.open = self.engine.open_count();
            tally.unsent = self.engine.unsent_count();
            let owed = self.engine.owed_since();
            for (name, counts) in &mut tally.receivers {
                counts.owed_since = owed.get(name.as_str()).copied();
            }
        });
    }

    async fn see(
        &mut self,
        (place, event): (usize, Result<Event, Error>),
        notifier: &mut Notifier,
    ) -> anyhow::Result<()> {
        let event = event?;
        self.outage.tell(&event);
        match event {
            Event::Upserted(application, _) => {
                let mut fact = Fact::of(&application);
                let was = self.engine.acknowledged_at(&fact.subject);
                if let Some(revision) = was.filter(|_| !fact.acknowledged && !fact.is_well()) {
                    let client = &notifier.client;
                    fact.acknowledgement_expired =
                        has_expired(client, &application, revision).await;
                }
                self.engine.take(fact, now());
            }
            Event::Removed { namespace, name } => {
                self.engine.gone(&AppRef::new(&namespace, &name), now());
            }
            Event::Current => {
                if self.watches.set_current(place, true) {
                    self.engine.sees(now());
                    notifier.notices.set(Topic::Blind, false, now());
                    notifier.metrics.change(|tally| tally.sees = true);
                }
            }
            Event::Disconnected { .. } => {
                self.watches.set_current(place, false);
                self.engine.blind();
                notifier.notices.set(Topic::Blind, true, now());
                notifier.metrics.change(|tally| tally.sees = false);
            }
        }
        Ok(())
    }
}
