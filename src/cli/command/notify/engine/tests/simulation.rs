//! Incidents at random, with processes that end at any moment, receivers that fail with and without
//! having taken a message, and a server that goes away: problems and ends are equal in number.

use super::*;
use crate::cli::command::notify::engine::fact::Needed;

/// Numbers that depend on the seed alone.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

const APPLICATIONS: u64 = 12;

/// A message as a receiver knows it: the same for each repeat.
type Id = (&'static str, u64, u64);

/// What a receiver has of one application by one route.
#[derive(Debug, Default)]
struct Mailbox {
    /// Ids that it knows, of the open problem alone: a later one has other ids.
    known: Vec<Id>,
    open: Option<u64>,
    last_opened: u64,
    problems: u64,
    ends: u64,
    revision: u64,
    level: Option<Level>,
}

impl Mailbox {
    /// Takes a message; a repeat counts for nothing.
    fn take(&mut self, delivery: &Delivery) {
        let opened = delivery.told.opened.millis();
        let fact = delivery.fact.as_ref().filter(|_| delivery.kind != Kind::Repeat);
        let revision = fact.map_or(delivery.told.revision, |fact| fact.revision);
        let changed = matches!(delivery.kind, Kind::Changed(_));
        let id = (delivery.kind.word(), opened, if changed { revision } else { 0 });
        assert!(self.revision <= revision, "{delivery:?} after {}", self.revision);
        self.revision = revision;
        if self.known.contains(&id) {
            return;
        }
        if delivery.kind != Kind::Repeat {
            // A problem that is over when it is sent again says what it said at first.
            let at_first = (delivery.kind == Kind::Problem).then_some(delivery.told.face.level);
            self.level = fact.map(|fact| fact.level).or(at_first);
        }
        match delivery.kind {
            Kind::Problem | Kind::Repeat => {
                assert_eq!(self.open, None, "a second problem: {delivery:?}");
                assert!(self.last_opened < opened, "{delivery:?}");
                self.known.clear();
                (self.open, self.last_opened) = (Some(opened), opened);
                self.problems += 1;
            }
            Kind::Changed(_) => assert_eq!(self.open, Some(opened), "{delivery:?}"),
            Kind::Resolved(_) => {
                assert_eq!(self.open, Some(opened), "an end without a problem: {delivery:?}");
                self.open = None;
                self.ends += 1;
            }
        }
        self.known.push(id);
    }
}

struct Fleet {
    seed: u64,
    dice: Dice,
    routes: Vec<Route>,
    engine: Engine,
    now: u64,
    stored: BTreeMap<RecordName, Told>,
    facts: BTreeMap<AppRef, Fact>,
    revision: u64,
    mailboxes: BTreeMap<(usize, AppRef), Mailbox>,
    /// Orders whose commit the server has not confirmed.
    held: Option<Orders>,
    under_way: Vec<Delivery>,
    is_calm: bool,
}

impl Fleet {
    fn new(seed: u64) -> Fleet {
        let short = Duration::from_secs(5);
        let plain = Route { stable_for: short, recover_after: short, ..mk_route("a") };
        let delivery =
            DeliveryWay { at_once_max: 512, repeat_every: Some(Duration::from_secs(60)) };
        let each = Route { each: true, delivery, sends_marked: true, ..plain.clone() };
        let routes = vec![plain, Route { name: "b".into(), to: "to-b".into(), ..each }];
        Fleet {
            seed,
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            engine: Engine::new(routes.clone(), Vec::new(), PAIRS_MAX, Timestamp::new(0)),
            routes,
            now: 1_000,
            stored: BTreeMap::new(),
            facts: BTreeMap::new(),
            revision: 0,
            mailboxes: BTreeMap::new(),
            held: None,
            under_way: Vec::new(),
            is_calm: false,
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::new(self.now)
    }

    /// Ends the process, and starts the next one with what is stored and the newest states.
    fn restart(&mut self) {
        self.held = None;
        for delivery in std::mem::take(&mut self.under_way) {
            if self.dice.one_in(2) {
                self.receive(&delivery);
            }
        }
        self.now += 1 + self.dice.roll(10_000);
        let records = self.stored.clone().into_iter().collect();
        self.engine = Engine::new(self.routes.clone(), records, PAIRS_MAX, self.time());
        for fact in self.facts.values().cloned().collect::<Vec<_>>() {
            self.engine.take(fact, self.time());
        }
        self.engine.sees(self.time());
    }

    fn receive(&mut self, delivery: &Delivery) {
        let key = (delivery.route, delivery.subject.clone());
        self.mailboxes.entry(key).or_default().take(delivery);
    }

    /// Commits what is due, or not, and begins to send it.
    fn work(&mut self) {
        let work = match self.held.take() {
            Some(work) => work,
            None => self.engine.turn(self.time()),
        };
        // The server is away, or the process ends before the commit.
        if !self.is_calm && self.dice.one_in(40) {
            self.held = Some(work);
            return;
        }
        for (name, told) in &work.store {
            match told {
                Some(told) => drop(self.stored.insert(name.clone(), told.clone())),
                None => drop(self.stored.remove(name)),
            }
        }
        self.under_way.extend(work.send);
    }

    /// Ends one of the deliveries under way.
    fn deliver(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let place = self.dice.roll(self.under_way.len() as u64) as usize;
        let delivery = self.under_way.remove(place);
        // A failure may come after the message has arrived.
        let fails = !self.is_calm && self.dice.one_in(5);
        if !fails || self.dice.one_in(2) {
            self.receive(&delivery);
        }
        let outcome = if fails { Outcome::Failed } else { Outcome::Delivered };
        self.engine.ended(&delivery, outcome, self.time());
    }

    fn change(&mut self) {
        let number = self.dice.roll(APPLICATIONS);
        let name = format!("app-{number}");
        let subject = AppRef::new("prod", &name);
        self.revision += 1;
        if self.dice.one_in(30) && self.facts.remove(&subject).is_some() {
            return self.engine.gone(&subject, self.time());
        }
        let levels = [Level::Error, Level::Blocked, Level::Waiting, Level::Unknown];
        let level = match self.dice.roll(8) {
            place @ 0..4 => levels[place as usize],
            _ => Level::Active,
        };
        let is_ill = level != Level::Active && level != Level::Unknown;
        let before = self.facts.get(&subject).is_some_and(|fact| fact.acknowledged);
        let acknowledged = is_ill && self.dice.one_in(4);
        let needs = match is_ill && self.dice.one_in(3) {
            true => {
                let other = format!("app-{}", self.dice.roll(APPLICATIONS));
                vec![Needed::Application(AppRef::new("prod", &other), vec![Level::Active])]
            }
            false => Vec::new(),
        };
        let fact = Fact {
            silent: self.dice.one_in(12),
            planned: is_ill && self.dice.one_in(8),
            acknowledged,
            acknowledgement_expired: before && !acknowledged && self.dice.one_in(2),
            needs,
            ..mk_fact(&name, self.revision, level)
        };
        self.facts.insert(subject, fact.clone());
        self.engine.take(fact, self.time());
    }

    fn step(&mut self) {
        self.now += 1 + self.dice.roll(2_000);
        match self.dice.roll(20) {
            0..9 => self.change(),
            9 if self.dice.one_in(10) => self.restart(),
            10 if self.dice.one_in(10) => {
                self.engine.blind();
                self.now += self.dice.roll(30_000);
                self.engine.sees(self.time());
            }
            _ => {}
        }
        self.work();
        for _ in 0..self.dice.roll(4) {
            self.deliver();
        }
        self.work();
    }

    /// Lets everything settle, and looks whether what is open is what is wrong.
    fn calm(&mut self) {
        self.is_calm = true;
        for _ in 0..1_500 {
            self.now += 500;
            self.work();
            while !self.under_way.is_empty() {
                self.deliver();
                self.work();
            }
        }
        self.is_calm = false;
        for (place, route) in self.routes.iter().enumerate() {
            for (subject, fact) in &self.facts {
                let key = (place, subject.clone());
                let is_open =
                    self.mailboxes.get(&key).is_some_and(|mailbox| mailbox.open.is_some());
                let may_be_listed = !route.each && !fact.needs.is_empty();
                match route.judge(Some(fact)) {
                    Verdict::Problem if is_open => {
                        let level = self.mailboxes.get(&key).and_then(|mailbox| mailbox.level);
                        assert_eq!(level, Some(fact.level), "{key:?}, seed {}", self.seed);
                    }
                    Verdict::Problem => assert!(may_be_listed, "{key:?} {fact:?}"),
                    Verdict::Below | Verdict::Planned => assert!(!is_open, "{key:?} {fact:?}"),
                    _ => {}
                }
            }
        }
        for ((_, subject), mailbox) in &self.mailboxes {
            let is_gone = !self.facts.contains_key(subject);
            assert!(!is_gone || mailbox.open.is_none(), "{subject} is gone");
        }
        let open = self.mailboxes.values().filter(|mailbox| mailbox.open.is_some()).count();
        assert_eq!(self.stored.len(), open, "records and open problems");
    }

    fn problems(&self) -> u64 {
        self.mailboxes.values().map(|mailbox| mailbox.problems).sum()
    }

    /// Ends all problems.
    fn heal(&mut self) {
        for (_, fact) in std::mem::take(&mut self.facts) {
            self.revision += 1;
            let well = mk_fact(&fact.subject.application, self.revision, Level::Active);
            self.facts.insert(well.subject.clone(), well.clone());
            self.engine.take(well, self.time());
        }
    }
}

/// Runs seeds until so many incidents were sent. Returns how many were.
fn run(first_seed: u64, incidents: u64) -> u64 {
    let mut count = 0;
    let mut seed = first_seed;
    while count < incidents {
        let mut fleet = Fleet::new(seed);
        fleet.engine.sees(fleet.time());
        for round in 1..=4 {
            for _ in 0..2_000 {
                fleet.step();
            }
            if round == 4 {
                fleet.heal();
            }
            fleet.calm();
        }
        let ends: u64 = fleet.mailboxes.values().map(|mailbox| mailbox.ends).sum();
        assert_eq!(fleet.problems(), ends, "seed {seed}");
        assert!(fleet.stored.is_empty(), "seed {seed}");
        count += ends;
        seed += 1;
    }
    count
}

/// `BELLWETHER_NOTIFY_INCIDENTS=1000000` runs as many.
#[test]
fn each_problem_has_one_end_whatever_fails() {
    let given = std::env::var("BELLWETHER_NOTIFY_INCIDENTS").ok();
    let incidents = given.and_then(|count| count.parse().ok()).unwrap_or(3_000);
    let count = run(1, incidents);
    println!("{count} problems, {count} ends");
    assert!(incidents <= count);
}
