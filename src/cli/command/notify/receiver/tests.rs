//! What goes over the wire.

use serde_json::Value;

use super::*;
use crate::cli::command::notify::engine::pair::{ChangeKind, Ending};
use crate::cli::command::notify::message::own::Own;

/// Returns a message of a kind about an application at `error`, of which `blocked` was sent.
fn mk_parcel(kind: Kind) -> Parcel {
    let [namespace, application, unit] = ["prod", "web", "host"].map(str::to_string);
    let example = Own { namespace, application, unit }.example(Timestamp::new(60_000));
    let message = Message { level: "error".into(), route: "all".into(), ..example };
    Parcel { message, kind, told_level: "blocked" }
}

/// Returns each alert as its level and whether it fires.
fn alerts(kind: Kind) -> Vec<(String, bool)> {
    let body = alertmanager::body(&[mk_parcel(kind)], Timestamp::new(90_000));
    let alerts: Vec<Value> = serde_json::from_slice(&body).unwrap();
    let of = |alert: &Value| {
        assert_eq!(alert["startsAt"], "1970-01-01T00:01:00Z");
        assert_eq!(alert["labels"]["alertname"], "BellwetherApplication");
        let level = alert["labels"]["level"].as_str().unwrap().to_string();
        (level, alert["endsAt"] == "1970-01-01T00:05:30Z")
    };
    alerts.iter().map(of).collect()
}

#[test]
fn an_alert_of_another_level_ends_the_former_one() {
    let [blocked, error] = ["blocked", "error"].map(str::to_string);
    assert_eq!(alerts(Kind::Problem), [(blocked.clone(), true)]);
    assert_eq!(alerts(Kind::Repeat), [(blocked.clone(), true)]);
    assert_eq!(alerts(Kind::Resolved(Ending::Recovered)), [(blocked.clone(), false)]);
    assert_eq!(alerts(Kind::Changed(ChangeKind::State)), [(blocked, false), (error, true)]);
}

#[test]
fn the_api_is_below_the_path_of_the_url() {
    for (base, expected) in [
        ("http://h:9093", "http://h:9093/api/v2/alerts"),
        ("http://h/am/", "http://h/am/api/v2/alerts"),
    ] {
        assert_eq!(alertmanager::url(&base.parse().unwrap()).unwrap().to_string(), expected);
    }
}

/// The example of the specification of Standard Webhooks.
#[test]
fn a_signature_is_that_of_the_specification() {
    let body = Bytes::from_static(br#"{"test": 2432232314}"#);
    let now = Timestamp::new(1_614_265_330_000);
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
    let headers = webhook::headers("msg_p5jXN8AQM9LWM0D4loKWxJek", &body, now, secret).unwrap();
    let values: Vec<_> = headers.iter().map(|(_, value)| value.to_str().unwrap()).collect();
    assert_eq!(values[1], "1614265330");
    assert_eq!(values[2], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let two = secret.repeat(2);
    let headers = webhook::headers("id", &body, now, &two).unwrap();
    assert_eq!(headers[2].1.to_str().unwrap().split(' ').count(), 2);
}

#[test]
fn a_wrong_secret_is_refused_and_not_repeated() {
    for secret in ["", "\n", "hunter2", "whsec_hunter2!", "whsec_aHVudGVyMg=="] {
        let refused = webhook::headers("id", &Bytes::new(), Timestamp::new(0), secret);
        let error = refused.unwrap_err();
        assert!(error.contains("whsec_") && !error.contains("hunter2"), "{error}");
    }
}
