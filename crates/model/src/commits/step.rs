//! The steps of the world: what a replica does with a call, an answer, an entry and a new master.

use bellwether::domain::app::Head;
use bellwether::domain::data_loss::uncertain_head;
use bellwether::domain::revision::Revision;

use super::replica::{Confirmed, Pending, Repair, Shown, Step};
use super::server::{Answer, Commit, Server};
use super::{Commits, Fault, NOW, State};
use crate::known::unit_name;

impl State {
    pub(super) fn number_in_force(&self) -> u8 {
        let reports = 0..=self.report.0;
        let (state, unit) = (self.server.app.state(), unit_name(0));
        let mut of_unit = state.statuses().of(&unit, None);
        let message = of_unit.next().map(|(_, status)| status.report.message.clone());
        let is_it = |n: &u8| message.as_deref() == Some(format!("report {n}").as_str());
        reports.into_iter().find(is_it).unwrap_or_default()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.replicas.iter().all(|replica| replica.is_settled(&self.server))
    }

    /// Decides, and sends a commit or confirms.
    pub(super) fn decide(&mut self, r: usize, report: Option<u8>) {
        // The second attempt reads first, and the third one meets no other cause.
        for _ in 0..3 {
            let replica = &mut self.replicas[r];
            replica.catch_up();
            replica.is_behind |= replica.state.state().epoch_floor != replica.floor;
            if replica.is_behind && !replica.load(&self.server) {
                return;
            }
            let request = report.map(Commits::request);
            let losses = replica.losses.1;
            let (transition, outcome) = replica.state.decide(losses, NOW, request.as_ref());
            let is_empty_commit = replica.is_unsettled && outcome.is_some();
            if transition.is_durable() || is_empty_commit {
                replica.seq += 1;
                let commit = Commit::of(transition);
                let seq = replica.seq;
                let pending = Pending { seq, commit: commit.clone(), report, waits_for: None };
                replica.pending = Some(pending);
                self.send(r as u8, seq, commit);
                return;
            }
            if outcome.is_none() {
                return;
            }
            match self.server.confirm(&replica.state) {
                Answer::Done(_) => {
                    let revision = replica.state.head().revision.0;
                    let floor = replica.state.state().epoch_floor;
                    let entry = self.server.newest();
                    replica.confirmed = Some((report, Confirmed { revision, floor, entry }));
                    return;
                }
                Answer::Revision(_) | Answer::Other => replica.is_behind = true,
            }
        }
    }

    /// Takes the answer to a confirmation.
    pub(super) fn answer(&mut self, r: usize, fault: Option<Fault>) {
        let replica = &mut self.replicas[r];
        let Some((report, confirmed)) = replica.confirmed.take() else { return };
        if fault == Some(Fault::ConfirmedUnread) || replica.rely_on(confirmed) {
            self.acknowledge(r, report);
        } else {
            replica.is_behind = true;
            self.decide(r, report);
        }
    }

    pub(super) fn send(&mut self, r: u8, seq: u64, commit: Commit) {
        self.packets.push((r, seq, commit));
        self.packets.sort_by_key(|(r, seq, _)| (*r, *seq));
    }

    fn acknowledge(&mut self, r: usize, report: Option<u8>) {
        let Some(report) = report else { return };
        let replica = &self.replicas[r];
        if self.acknowledged.0 <= report {
            self.acknowledged = (report, replica.losses.1);
        }
        if report == self.report.0 {
            self.report.0 += 1;
            self.report.1 = 0;
        }
    }

    pub(super) fn arrive(&mut self, at: usize, answers: bool, fault: Option<Fault>) {
        let (r, seq, commit) = self.packets.remove(at);
        let before = self.server.clone();
        let answer = self.server.commit((r, seq), &commit, &mut self.next_entry, fault);
        self.keep(before);
        let replica = &mut self.replicas[usize::from(r)];
        let is_awaited = replica.pending.as_ref().is_some_and(|pending| pending.seq == seq);
        self.met.late |= !is_awaited && !matches!(answer, Answer::Done(_));
        if !is_awaited || !answers {
            return;
        }
        let Some(pending) = replica.pending.as_mut() else { return };
        match answer {
            Answer::Done(Some(id)) if fault != Some(Fault::AcknowledgedUnread) => {
                pending.waits_for = Some(id);
                self.finish(usize::from(r), fault);
            }
            Answer::Done(None) if fault != Some(Fault::ConfirmedUnread) => {
                let (revision, floor) = (pending.commit.base, pending.commit.floor);
                let entry = self.server.newest();
                let relies = replica.rely_on(Confirmed { revision, floor, entry });
                if relies { self.succeed(usize::from(r)) } else { self.give_up(usize::from(r)) }
            }
            Answer::Done(_) => self.succeed(usize::from(r)),
            Answer::Revision(_) | Answer::Other => {
                let report = pending.report;
                let base = pending.commit.base;
                replica.pending = None;
                replica.catch_up();
                let known = replica.state.head().revision.0;
                replica.is_behind |= match answer {
                    Answer::Revision(current) => known < current || current < base,
                    _ => true,
                };
                self.decide(usize::from(r), report);
            }
        }
    }

    /// Ends a commit once the reader has read it back, as `store/redis/commit/read_back.rs` does.
    fn finish(&mut self, r: usize, fault: Option<Fault>) {
        let replica = &self.replicas[r];
        let Some(pending) = &replica.pending else { return };
        if pending.waits_for.is_none_or(|id| replica.cursor < id) {
            return;
        }
        let is_of_master = replica.read_floor <= pending.commit.floor;
        if is_of_master || fault == Some(Fault::LaterEntrySuffices) {
            self.succeed(r);
        } else {
            self.give_up(r);
        }
    }

    /// Leaves the result of a commit open.
    pub(super) fn give_up(&mut self, r: usize) {
        let replica = &mut self.replicas[r];
        replica.pending = None;
        (replica.is_behind, replica.is_unsettled) = (true, true);
    }

    fn succeed(&mut self, r: usize) {
        let replica = &mut self.replicas[r];
        let Some(pending) = replica.pending.take() else { return };
        if let Some(transition) = pending.commit.transition() {
            replica.state = replica.state.after(transition);
        }
        replica.is_unsettled = false;
        let is_told = pending.commit.base < pending.commit.revision();
        self.broken.not_shown |= is_told && replica.shown.revision < pending.commit.revision();
        self.acknowledge(r, pending.report);
    }

    /// Keeps a state that a failover may go back to.
    fn keep(&mut self, before: Server) {
        if before != self.server && 0 < self.failovers {
            self.past.push(before);
        }
    }

    pub(super) fn read(&mut self, r: usize, fault: Option<Fault>) {
        let replica = &mut self.replicas[r];
        let cursor = replica.cursor;
        let Some(entry) = self.server.log.iter().find(|entry| cursor < entry.id).cloned() else {
            return;
        };
        let Some((position, commit, app)) = entry.change else {
            let repair = Repair { step: Step::Read, is_lost: false, counted: false };
            replica.losses.0 = replica.losses.0.max(self.server.losses.0);
            replica.repair = Some((self.server.number, repair));
            return;
        };
        if position <= replica.last {
            // The log differs from what was read before.
            replica.compared = None;
            return;
        }
        (replica.cursor, replica.last) = (entry.id, position);
        let shown = Shown::of(&app, position);
        replica.settle(shown.revision);
        self.show(r, shown);
        let commit = commit.transition().is_some().then_some(commit);
        self.replicas[r].arrived.push((shown.revision, commit));
        self.finish(r, fault);
    }

    fn show(&mut self, r: usize, shown: Shown) {
        let replica = &mut self.replicas[r];
        let known = replica.shown;
        let is_same = known.revision == shown.revision && known.content == shown.content;
        self.broken.went_back |= shown.revision <= known.revision && !is_same;
        replica.shown = shown;
        let losses = replica.losses.1;
        self.seen.add(shown, losses);
    }

    pub(super) fn compare(&mut self, r: usize, fault: Option<Fault>) {
        let before = self.server.clone();
        let server = &mut self.server;
        let replica = &mut self.replicas[r];
        let repair = replica.repair.take().filter(|(number, _)| *number == server.number);
        match repair {
            Some((_, repair)) => self.repair(r, repair, fault),
            None => {
                server.note(fault);
                replica.read_floor = server.floor;
                replica.find_unread(server);
                let mut counted = false;
                if server.losses.0 < replica.losses.0 && fault != Some(Fault::LossUncounted) {
                    replica.losses.0 = server.count_loss(replica.losses.0);
                    counted = true;
                }
                replica.losses.0 = replica.losses.0.max(server.losses.0);
                let next = server.log.iter().find(|entry| replica.cursor <= entry.id);
                let is_there = match next {
                    Some(entry) => entry.id == replica.cursor,
                    None => replica.cursor == 0,
                };
                let is_there = is_there || replica.cursor == 0;
                let position = next.and_then(|entry| entry.change.as_ref().map(|change| change.0));
                let is_other = !is_there && position.is_some_and(|at| at <= replica.last);
                let goes_on = replica.last <= server.last && server.losses.1 == replica.losses.1;
                if is_there && goes_on && replica.unread_before(server.floor).is_none() {
                    (replica.compared, replica.floor) = (Some(server.number), server.floor);
                } else {
                    let is_lost = is_other || counted;
                    let repair = Repair { step: Step::Read, is_lost, counted };
                    replica.repair = Some((server.number, repair));
                }
            }
        }
        let active = self.replicas.iter().filter(|replica| replica.repair.is_some()).count();
        self.met.two_repairs |= active == 2;
        self.keep(before);
    }

    /// Takes a step of a repair, as `LogSession::replace` does.
    fn repair(&mut self, r: usize, repair: Repair, fault: Option<Fault>) {
        let Repair { step, is_lost, counted } = repair;
        let server = &mut self.server;
        let replica = &mut self.replicas[r];
        let number = server.number;
        let goes_on = |step, counted| Some((number, Repair { step, is_lost, counted }));
        match step {
            Step::Count => {
                if !counted {
                    replica.losses.0 = server.count_loss(replica.losses.0);
                }
                replica.repair = goes_on(Step::Doubt, true);
            }
            Step::Doubt => {
                server.doubt(&mut self.next_entry, replica.last, replica.losses.0);
                replica.repair = goes_on(Step::Read, counted);
            }
            Step::Put(commit) => {
                replica.seq += 1;
                let mark = (replica.number, replica.seq);
                replica.repair = goes_on(Step::Read, counted);
                server.commit(mark, &commit, &mut self.next_entry, fault);
            }
            Step::Read => {
                let found = Shown::of(&server.app, server.position);
                let known = replica.shown;
                let head = server.app.head();
                let is_older = found.position <= replica.last || found.revision <= known.revision;
                let differs = found != known && is_older;
                let unread = replica.unread_before(server.floor);
                let above = match unread.filter(|answered| found.revision <= *answered) {
                    Some(answered) => Some(answered),
                    None => differs.then_some(found.revision.max(known.revision)),
                };
                let is_lost = is_lost
                    || differs
                    || unread.is_some()
                    || server.last < replica.last
                    || server.losses.1 < replica.losses.1;
                let uncounted = server.losses.1 <= replica.losses.1;
                if is_lost && uncounted && fault != Some(Fault::LossUncounted) {
                    replica.repair = goes_on(Step::Count, counted);
                } else if server.last < replica.last {
                    replica.repair = goes_on(Step::Doubt, counted);
                } else if let Some(above) =
                    above.filter(|_| fault != Some(Fault::RepairKeepsRevision))
                {
                    let revision = Revision(above).next();
                    let put = Head { revision, ..(**head).clone() };
                    let put = uncertain_head(put, server.losses.1, server.floor, NOW);
                    let commit = Commit::put(found.revision, server.floor, put);
                    replica.repair = goes_on(Step::Put(commit), counted);
                } else {
                    replica.losses.0 = replica.losses.0.max(server.losses.0).max(server.losses.1);
                    replica.losses.1 = server.losses.1;
                    (replica.cursor, replica.last) = (server.newest(), server.last);
                    (replica.compared, replica.floor) = (Some(number), server.floor);
                    replica.settle(found.revision);
                    replica.arrived.push((found.revision, None));
                    if fault != Some(Fault::MasterNotShown) {
                        self.show(r, found);
                    }
                    self.finish(r, fault);
                }
            }
        }
    }

    pub(super) fn fail_over(&mut self, dropped: usize, old_calls: bool) {
        self.failovers -= 1;
        let number = self.server.number + 1;
        self.past.push(self.server.clone());
        let at = self.past.len() - 1 - dropped;
        self.server = Server { number, is_noted: false, ..self.past[at].clone() };
        self.past.clear();
        if 0 < dropped && !old_calls {
            // The answers of the dropped commits are gone: see docs/design/proof.md.
            let acknowledged = self.acknowledged.0;
            self.calls.retain(|(report, _)| acknowledged < *report);
        }
    }
}
