//! Faults are stored like any record: written, changed, removed, and present after a reload.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::apply::apply;
use crate::domain::classify::finding::{ErrorOrigin, Evidence, Hints};
use crate::domain::classify::{Rules, classify};
use crate::domain::command::{Command, Request};
use crate::domain::delete::delete;
use crate::domain::draft::Draft;
use crate::domain::expire::expire;
use crate::domain::fault::{InternalDetail, NewError};
use crate::domain::limits::Limits;
use crate::domain::name::PartName;
use crate::domain::time::Timestamp;
use crate::store::Store;

use super::driver::{Driver, mk_report, mk_reporter};

pub(super) async fn what_is_open_is_there_after_a_reload(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "faults").await;
    let mut now = store.now();
    let met = |unit: &str, target: &str, code: &str| Command::ReportError {
        reporter: mk_reporter(unit),
        component: PartName::new("db").unwrap(),
        target: target.into(),
        error: Box::new(mk_error(code)),
    };
    let over = Command::ResolveError {
        reporter: mk_reporter("web/0"),
        component: Some(PartName::new("db").unwrap()),
        target: None,
        generation: "".into(),
    };
    let steps = [
        (vec![mk_report("web/0", "up")], 0, 0),
        (
            vec![met("web/0", "https://db:5432/?", "UNAVAILABLE"), met("web/1", "", "DATA_LOSS")],
            2,
            1,
        ),
        (vec![met("web/0", "https://db:5432/?", "UNAVAILABLE")], 2, 2),
        (vec![], 2, 2),
        (vec![over, met("web/0", "Grüße / 1", "NOT_FOUND")], 2, 2),
        (vec![Command::RemoveUnit(mk_reporter("web/1").unit)], 1, 1),
    ];
    for (commands, open, shown) in steps {
        now = now.after(Duration::from_secs(40));
        commit(&mut web, &commands, now).await;
        web.check().await;
        assert_eq!(web.state.head().open_faults.count, open);
        assert_eq!(web.state.head().summary.totals.faults, shown);
        assert_eq!(web.reload().await.faults(), web.state.faults());
    }
    let deletion = delete(&web.state, None, now).unwrap().0.unwrap();
    web.commit(deletion).await.unwrap();
    assert_eq!(web.reload().await.faults().iter().count(), 0);
}

async fn commit(web: &mut Driver, commands: &[Command], now: Timestamp) {
    let limits = Limits::default();
    let mut draft = Draft::new(&web.state, &limits, now);
    expire(&mut draft);
    for command in commands {
        apply(&mut draft, &Request { id: None, command: command.clone() }).unwrap();
    }
    let transition = draft.finish();
    web.commit(transition).await.unwrap();
}

fn mk_error(code: &str) -> NewError {
    let evidence = Evidence {
        system: "grpc".into(),
        code: code.into(),
        origin: ErrorOrigin::Peer,
        outcome: None,
        domain: "a.example".into(),
        reason: "AWAY".into(),
        message: "it is away".into(),
        retry_after: Some(Duration::from_millis(1500)),
        hints: Hints { quota: Some(true), ..Hints::default() },
    };
    NewError {
        needs: Default::default(),
        shortest_wait: None,
        finding: classify(&Rules::default(), &evidence),
        evidence,
        internal_detail: InternalDetail("a trace".into()),
        action: "look".into(),
        operation_id: "op-1".into(),
        attempt: 3,
        generation: "7".into(),
    }
}
