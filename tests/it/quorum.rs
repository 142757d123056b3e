//! Quorums over the wire and on the command line.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::quorum::Enough;

use crate::server::{BINARY, Server, mk_report, reason};

fn mk_config(enough: Option<Enough>) -> v1::ConfigureApplicationRequest {
    let quorum = Some(v1::Quorum { enough });
    v1::ConfigureApplicationRequest {
        application: "web".to_string(),
        config: Some(v1::ApplicationConfig { quorum, ..v1::ApplicationConfig::default() }),
        ..v1::ConfigureApplicationRequest::default()
    }
}

/// Runs a command of the binary and returns its output.
fn command(server: &Server, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(BINARY);
    command.args(arguments).args(["--server", &server.url(), "--color", "never"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_quorum_without_one_valid_number_is_refused() {
    let server = Server::ephemeral();
    let refused = async |enough| {
        let mut client = server.applications().await;
        let status = client.configure_application(mk_config(enough)).await.unwrap_err();
        assert_eq!(reason(&status), "INVALID_VALUE", "{status:?}");
        status.message().to_string()
    };
    for (enough, expected) in [
        (None, "config.quorum is empty; give min_units or min_percent"),
        (Some(Enough::MinUnits(0)), "config.quorum.min_units is 0; give 1 to 1000000"),
        (Some(Enough::MinPercent(101)), "config.quorum.min_percent is 101; give 1 to 100"),
        (Some(Enough::MinPercent(-1)), "config.quorum.min_percent is -1; give 1 to 100"),
    ] {
        let text = refused(enough).await;
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_quorum_is_configured_explained_and_ended() {
    let server = Server::ephemeral();
    let shown = command(&server, &["configure", "web", "--quorum", "60%"]);
    assert!(shown.contains("quorum              60%\n"), "{shown}");
    let mut reports = server.reports().await;
    for (unit, level) in [
        ("web/0", Level::Error),
        ("web/1", Level::Active),
        ("web/2", Level::Active),
        ("web/3", Level::Blocked),
        ("web/4", Level::Active),
    ] {
        reports.report_status(mk_report("web", unit, level, "")).await.unwrap();
    }
    let asked = v1::ExplainApplicationRequest { application: "web".into(), ..Default::default() };
    let why = server.applications().await.explain_application(asked).await.unwrap().into_inner();
    assert_eq!(why.rule, "quorum: 3 of 5 units are active, 3 are needed");
    assert_eq!(why.winner.unwrap().r#ref.unwrap().unit, "web/1");
    let beyond = why.beaten.iter().filter(|one| one.beaten_by == "within the quorum");
    assert_eq!(beyond.count(), 2);
    let application = why.application.unwrap();
    assert_eq!(application.status.as_ref().unwrap().more_count, 2);
    let turnout = application.quorum.unwrap();
    let numbers = (turnout.active_count, turnout.known_count, turnout.needed_count);
    assert_eq!((numbers, turnout.met), ((3, 5, 3), true));
    let status = command(&server, &["status", "web"]);
    assert!(status.contains("quorum: 3 of 5 active, 3 needed"), "{status}");
    reports.report_status(mk_report("web", "web/4", Level::Terminated, "")).await.unwrap();
    let missed = command(&server, &["why", "web"]);
    assert!(missed.contains("quorum: 2 of 5 active, 3 needed !"), "{missed}");
    let ended = command(&server, &["configure", "web", "--quorum", "none", "-o", "json"]);
    assert!(!ended.contains("quorum"), "{ended}");
}
