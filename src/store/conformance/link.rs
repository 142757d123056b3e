//! Tests of a process whose connection to the shared data breaks.

use std::pin::pin;

use crate::domain::name::UnitName;
use crate::domain::revision::Revision;
use crate::store::{Applied, CommitError, ReadError};

use super::deployment::FaultyLink;
use super::driver::{Driver, Recorder, insist, mk_app, mk_report, until};
use super::many::mk_set;

pub(super) async fn a_commit_without_an_answer_is_applied_once(link: impl FaultyLink) {
    let (far, near) = (link.open_linked().await, link.open().await);
    let recorder = Recorder::on(&far);
    let epoch = far.epoch();
    let mut web = insist(&far, "web", "start").await;
    for round in 0..12 {
        let message = "x".repeat(round as usize);
        // One status, or many.
        let report = match round % 2 {
            0 => web.draft(mk_report("u/0", &message)),
            _ => web.draft(mk_set("u/1", 0..20, &message)),
        };
        let (base, next) = (report.base, report.head.revision);
        link.lose_answers(round);
        let committed = {
            let mut committing = pin!(web.commit(report));
            let noticed = until("the loss is noticed", async || far.health().is_err());
            let answered = tokio::select! {
                answered = &mut committing => Some(answered),
                () = noticed => None,
            };
            link.heal();
            match answered {
                Some(answered) => answered,
                None => committing.await,
            }
        };
        let applied = match committed {
            Ok(()) => Applied::Yes,
            Err(CommitError::Unavailable { applied, .. }) => applied,
            Err(conflict) => panic!("conflicts with itself: {conflict}"),
        };
        web = Driver::new(&near, "web").await;
        web.store = far.clone();
        let is_as_said = match applied {
            Applied::No => web.revision() == base,
            Applied::Maybe => web.revision() == base || web.revision() == next,
            Applied::Yes => web.revision() == next,
        };
        assert!(is_as_said, "{applied:?}: {} after {base}", web.revision());
    }
    let end = Driver::new(&near, "web").await;
    let numbers = end.events().await.into_iter().map(|e| e.number).rev();
    assert!(numbers.eq(0..end.state.head().next_event));
    let last = end.revision();
    until("all changes arrive", async || recorder.last("web") == Some((last.0, false))).await;
    let record = recorder.record();
    let revisions = record.changes.iter().map(|change| change.head.revision);
    assert!(revisions.eq((1..=last.0).map(Revision)));
    assert_eq!((far.epoch(), record.data_losses), (epoch, vec![]));
}

pub(super) async fn a_process_that_was_cut_off_catches_up(link: impl FaultyLink) {
    let (far, near) = (link.open_linked().await, link.open().await);
    let recorder = Recorder::on(&far);
    let epoch = far.epoch();
    insist(&near, "web", "first").await;
    until("the change arrives", async || recorder.last("web") == Some((1, false))).await;
    let mut behind = Driver::new(&far, "web").await;

    link.cut();
    let applied = match behind.commit(behind.draft(mk_report("u/1", "lost"))).await {
        Err(CommitError::Unavailable { applied, .. }) => applied,
        answered => panic!("{answered:?}"),
    };
    assert_ne!(applied, Applied::Yes);
    let read = far.load(&mk_app("web")).await;
    assert!(matches!(read, Err(ReadError::Unavailable { .. })), "{read:?}");
    let confirmed = behind.confirm().await;
    assert!(matches!(confirmed, Err(CommitError::Unavailable { .. })), "{confirmed:?}");
    until("it is reported", async || far.health().is_err()).await;
    for n in 0..10 {
        insist(&near, "web", &"x".repeat(n)).await;
        insist(&near, "other", &"x".repeat(n)).await;
    }
    let mut gone = insist(&near, "gone", "soon").await;
    gone.delete().await;

    link.heal();
    until("all changes arrive", async || {
        let web = Driver::new(&near, "web").await.revision();
        recorder.last("web") == Some((web.0, false))
            && recorder.last("other") == Some((10, false))
            && recorder.last("gone") == Some((2, true))
    })
    .await;
    // It may commit again, and its observers have that before the commit returns.
    let again = insist(&far, "web", "again").await;
    assert_eq!(recorder.last("web"), Some((again.revision().0, false)));
    let is_there = again.state.unit(&UnitName::new("u/1").unwrap()).is_some();
    assert!(applied == Applied::Maybe || !is_there, "it was not applied");
    recorder.check_order();
    assert_eq!(recorder.record().data_losses, []);
    assert_eq!([far.epoch(), near.epoch()], [epoch; 2]);
}
