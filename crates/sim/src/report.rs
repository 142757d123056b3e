//! The checks of reports: what was acknowledged is there, or newer, until it ends by time.

use std::collections::BTreeMap;

use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::status::{Kind, Status, StatusKey};
use bellwether::domain::transition::{Transition, Write};

use crate::end::has_ended;
use crate::server::app::App;

/// A unit of an application.
pub type Member = (AppName, UnitName);

/// What clients know of their reports: the number of the last one for each status.
#[derive(Default)]
pub struct Reports {
    acknowledged: BTreeMap<(Member, PartName), u64>,
    /// Reports whose status has ended. The acknowledgement may come later.
    ended: BTreeMap<(Member, PartName), u64>,
}

impl Reports {
    /// Records an acknowledged report with this number.
    pub fn on_acknowledged(&mut self, member: Member, key: PartName, number: u64) {
        let place = (member, key);
        if self.ended.get(&place).is_none_or(|ended| *ended < number) {
            let known = self.acknowledged.entry(place).or_default();
            *known = number.max(*known);
        }
    }

    /// Checks what a commit does to the statuses. Returns what is wrong.
    pub fn on_commit(&mut self, known: Option<&App>, t: &Transition) -> Vec<String> {
        if t.is_deletion() {
            self.forget(&t.app);
            return Vec::new();
        }
        let mut wrong = Vec::new();
        for write in &t.writes {
            let Write::Status(key, after) = write else { continue };
            if key.kind != Kind::Push {
                continue;
            }
            let before = known.and_then(|app| app.statuses.get(key));
            if after.is_none() && has_ended(key, t) {
                self.end((&t.app, key), before.map(|status| number_of(status)));
            }
            let place = place((&t.app, key));
            let Some(&acknowledged) = self.acknowledged.get(&place) else { continue };
            let written = after.as_deref().map(number_of);
            if written.is_none_or(|written| written < acknowledged) {
                wrong.push(format!("{place:?} has report {written:?} after {acknowledged}"));
            }
        }
        wrong
    }

    /// Records that a status with this report has ended.
    fn end(&mut self, of: (&AppName, &StatusKey), number: Option<u64>) {
        let (place, number) = (place(of), number.unwrap_or_default());
        if self.acknowledged.get(&place).is_some_and(|acknowledged| *acknowledged <= number) {
            self.acknowledged.remove(&place);
        }
        self.ended.insert(place, number);
    }

    /// Forgets what was acknowledged of an application.
    pub fn forget(&mut self, app: &AppName) {
        self.acknowledged.retain(|((of, _), _), _| of != app);
    }

    /// Compares all acknowledged reports with what the store has. Returns what is wrong.
    pub fn compare(&self, apps: &BTreeMap<AppName, App>) -> Vec<String> {
        let mut wrong = Vec::new();
        for (((app, unit), key), acknowledged) in &self.acknowledged {
            let records = apps.get(app);
            let is_it = |status: &StatusKey| {
                status.unit == *unit && status.key == *key && status.kind == Kind::Push
            };
            let mut all = records.into_iter().flat_map(|app| &app.statuses);
            let found = all.find(|(status, _)| is_it(status));
            let found = found.map(|(_, status)| number_of(status));
            if found.is_none_or(|found| found < *acknowledged) {
                wrong.push(format!("{app} {unit:?} {key:?}: report {acknowledged}, is {found:?}"));
            }
        }
        wrong
    }
}

fn place((app, key): (&AppName, &StatusKey)) -> (Member, PartName) {
    ((app.clone(), key.unit.clone()), key.key.clone())
}

fn number_of(status: &Status) -> u64 {
    number(status.report.message.as_bytes())
}

/// Returns the number that a client wrote into a text.
pub fn number(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let digits = text.rsplit(' ').next().unwrap_or_default();
    digits.parse().unwrap_or_default()
}

/// What a client knew when it sent a request: an acknowledgement counts if nothing was lost since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// How often the application had lost a commit.
    pub losses: u64,
    /// The number of masters so far.
    pub masters: u64,
}

impl Sent {
    /// Returns whether the application lost a commit between the two.
    pub fn is_before_loss(self, later: Sent) -> bool {
        self.losses < later.losses
    }
}
