//! Errors whose code also means one that ends by itself, through the real service: shown as
//! blocked, tried again, and no hold. And the service's own code, which is read first.

use bellwether::proto::v1;
use bellwether::proto::v1::{ErrorClass, Level, OperationState, VerdictAction};

use crate::errors::{faults, mk_error, status};
use crate::operations::{client, mk_begin};
use crate::server::{Server, reason};

#[tokio::test]
async fn a_bare_code_shows_blocked_with_a_time_to_retry_and_holds_nothing() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for (system, code) in [("grpc", "INVALID_ARGUMENT"), ("http", "HTTP 400"), ("http", "422")] {
        let answer = reports.report_error(mk_error(system, code, code)).await.unwrap();
        let verdict = answer.into_inner().verdict.unwrap();
        assert_eq!(verdict.class(), ErrorClass::Blocked, "{code}");
        assert_eq!((verdict.action(), verdict.held), (VerdictAction::Block, false), "{code}");
        let wait = verdict.retry_after.unwrap().seconds;
        assert!((144..=216).contains(&wait), "{code}: {wait} s");
    }
    let open = faults(&server, false).await;
    assert!(open.iter().all(|fault| fault.level() == Level::Blocked), "{open:?}");
    assert_eq!(status(&server).await.level(), Level::Blocked);
    // A hint says which meaning it is.
    let mut by_user = mk_error("grpc", "INVALID_ARGUMENT", "other");
    by_user.error.as_mut().unwrap().user_input = Some(true);
    let verdict = reports.report_error(by_user).await.unwrap().into_inner().verdict.unwrap();
    assert_eq!((verdict.held, verdict.retry_after), (true, None));
}

#[tokio::test]
async fn an_operation_that_fails_by_a_bare_code_is_tried_again_and_shown_as_blocked() {
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap();
    let fail = |error| v1::FailOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: 1,
        error,
        ..Default::default()
    };
    let request = fail(mk_error("grpc", "FAILED_PRECONDITION", "").error);
    let failed = operations.fail_operation(request).await.unwrap().into_inner().operation.unwrap();
    assert_eq!((failed.state(), failed.attempts_failed), (OperationState::RetryWait, 0));
    let shown = status(&server).await;
    assert_eq!(shown.level(), Level::Blocked);
    let action = "bring the system into the state that the call needs; or retry or cancel";
    assert!(shown.action.starts_with(action), "{}", shown.action);
    // A class that the reporter gives itself stays.
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap();
    let class = ErrorClass::Blocked.into();
    let request = fail(Some(v1::ErrorReport { class, ..Default::default() }));
    let failed = operations.fail_operation(request).await.unwrap().into_inner().operation.unwrap();
    assert_eq!(failed.state(), OperationState::Blocked);
}

#[tokio::test]
async fn a_reason_is_the_code_of_the_service_and_a_code_that_cannot_be_one_gets_an_advice() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut throttled = mk_error("http", "400", "aws");
    let error = throttled.error.as_mut().unwrap();
    (error.domain, error.reason) = ("aws".into(), "ThrottlingException".into());
    let answer = reports.report_error(throttled.clone()).await.unwrap().into_inner();
    assert_eq!(answer.verdict.unwrap().class(), ErrorClass::Throttled);
    assert!(answer.advice.is_empty(), "{:?}", answer.advice);
    for (given, is_taken) in
        [("r".repeat(253), true), ("r".repeat(254), false), ("a b".into(), false)]
    {
        throttled.error.as_mut().unwrap().reason = given;
        let answer = reports.report_error(throttled.clone()).await;
        assert_eq!(answer.is_ok(), is_taken, "{answer:?}");
        if let Err(refused) = answer {
            assert_eq!(reason(&refused), "INVALID_VALUE");
            assert!(refused.message().contains("visible ASCII"), "{refused:?}");
        }
    }
    let answer = reports.report_error(mk_error("grpc", "BUSY", "x")).await.unwrap().into_inner();
    assert_eq!(answer.verdict.unwrap().class(), ErrorClass::Unclassified);
    assert!(answer.advice[0].starts_with("error.code: \"BUSY\" is no code of grpc: give "));
}
