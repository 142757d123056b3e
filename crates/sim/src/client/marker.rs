//! An operator that marks applications: it sets marks, sets them again and removes them.

use std::time::Duration;

use bellwether::aggregator::Error;
use bellwether::domain::command::Command;
use bellwether::domain::mark::{Cover, MarkId, MarkKind, NewMark, Until};
use bellwether::domain::name::{AppName, PartName, UnitName};
use tokio::time::sleep;

use crate::lock;
use crate::server::time::BEGINNING;

use super::Client;

/// Marks an application and removes the marks again, for ever.
pub async fn set_and_remove(client: Client, app: AppName) {
    let mut operator = Operator { client, app, calls: 0 };
    let mut number = 0;
    loop {
        number += 1;
        let id = format!("{}-{number}", operator.client.number).into();
        operator.keep(id).await;
        operator.pause(20_000).await;
    }
}

/// An operator that marks an application.
struct Operator {
    client: Client,
    app: AppName,
    calls: u64,
}

impl Operator {
    /// Sets a mark, sets it again and removes it, until a call has no answer: it may arrive later.
    async fn keep(&mut self, id: MarkId) {
        let mut new = self.mk_mark(id);
        loop {
            if !self.set(&new).await {
                return;
            }
            self.pause(60_000).await;
            match self.client.dice.index(5) {
                0 => return,
                1 | 2 => return self.remove(new.id).await,
                3 => {}
                // A start in the past is that of the first call, or now.
                _ => new.until = self.length(),
            }
        }
    }

    async fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.client.dice.between(500, most))).await;
    }

    fn length(&mut self) -> Until {
        Until::After(Duration::from_secs(self.client.dice.between(5, 180)))
    }

    fn mk_mark(&mut self, id: MarkId) -> NewMark {
        let kind = MarkKind::ALL[self.client.dice.index(MarkKind::ALL.len())];
        let unit = match self.client.dice.index(4) {
            3 => UnitName::application(),
            unit => {
                UnitName::new(&format!("{}/{unit}", self.app.application())).unwrap_or_default()
            }
        };
        let is_whole = unit.is_application() || self.client.dice.per_mille(500);
        let (component, key) = match is_whole {
            true => (None, None),
            false => (Some(PartName::default()), PartName::new("disk").ok()),
        };
        let ahead = self.client.dice.between(1, 60_000);
        let is_later = kind == MarkKind::Planned && self.client.dice.per_mille(300);
        let now = BEGINNING.after(Duration::from_millis(lock(&self.client.network.judge).now));
        NewMark {
            id,
            kind,
            cover: Cover { unit, component, key },
            start: is_later.then(|| now.after(Duration::from_millis(ahead))),
            until: self.length(),
            reason: "ticket 123".into(),
            author: "alice".into(),
            ends_when_well: self.client.dice.per_mille(300),
        }
    }

    /// Sends a call with an id of its own.
    async fn apply(&mut self, command: Command) -> Option<Result<(), Error>> {
        self.calls += 1;
        let request = format!("mark-{}-{}", self.client.number, self.calls);
        let place = self.client.pick();
        let applied = self.client.apply(place, &self.app, Some(&request), command).await;
        applied.map(|applied| applied.map(drop))
    }

    /// Sets a mark. Returns whether the call is acknowledged.
    async fn set(&mut self, new: &NewMark) -> bool {
        let place = (self.app.clone(), new.id.clone());
        let Until::After(length) = new.until else { return false };
        let judge = self.client.network.judge.clone();
        let (sent, ends) = {
            let mut judge = lock(&judge);
            (judge.sent(&self.app), judge.marks.on_call(&place, length.as_secs()))
        };
        let applied = self.apply(Command::SetMark(Box::new(new.clone()))).await;
        let Some(Ok(())) = applied else { return false };
        let mut judge = lock(&judge);
        judge.marks.acknowledged += 1;
        if !sent.is_before_loss(judge.sent(&self.app)) {
            judge.marks.on_set(place, length.as_secs(), ends);
        }
        true
    }

    async fn remove(&mut self, id: MarkId) {
        let place = (self.app.clone(), id.clone());
        let judge = self.client.network.judge.clone();
        let sent = lock(&judge).sent(&self.app);
        lock(&judge).marks.on_remove(place.clone());
        if let Some(Ok(())) = self.apply(Command::RemoveMark(id)).await {
            let mut judge = lock(&judge);
            if !sent.is_before_loss(judge.sent(&self.app)) {
                judge.marks.on_removed(place);
            }
        }
    }
}
