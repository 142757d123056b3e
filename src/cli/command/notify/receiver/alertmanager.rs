//! The API of Alertmanager, version 2: an alert for each open problem. An alert ends when its time
//! passes, so an open one is sent again.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use serde::Serialize;

use super::Parcel;
use crate::cli::command::notify::engine::pair::Kind;
use crate::cli::command::notify::message::Message;
use crate::domain::time::Timestamp;
use crate::security::get::GetError;

/// How long an alert fires unless it is sent again: three repeats may be lost.
const FIRES_FOR: Duration = Duration::from_secs(240);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Alert<'a> {
    labels: BTreeMap<&'static str, &'a str>,
    annotations: BTreeMap<&'static str, String>,
    starts_at: &'a str,
    ends_at: String,
    #[serde(rename = "generatorURL", skip_serializing_if = "str::is_empty")]
    generator_url: &'a str,
}

/// Returns the address of the call.
///
/// # Errors
/// If it cannot be made of the URL.
pub fn url(base: &Uri) -> Result<Uri, GetError> {
    let path = base.path().trim_end_matches('/');
    let path = format!("{path}/api/v2/alerts");
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path.parse::<PathAndQuery>().map_err(|_| GetError::Url)?);
    Uri::from_parts(parts).map_err(|_| GetError::Url)
}

/// Returns the alerts of messages. The level is a label, so a problem with another level is another
/// alert, and that of the former level ends.
pub fn body(parcels: &[Parcel], now: Timestamp) -> Bytes {
    let (ended, fires) = (now.to_utc(), now.after(FIRES_FOR).to_utc());
    let mut alerts = Vec::with_capacity(parcels.len());
    for Parcel { message, kind, told_level } in parcels {
        match kind {
            Kind::Problem | Kind::Repeat => alerts.push(alert(message, told_level, &fires)),
            Kind::Resolved(_) => alerts.push(alert(message, told_level, &ended)),
            Kind::Changed(_) => {
                if message.level != *told_level {
                    alerts.push(alert(message, told_level, &ended));
                }
                alerts.push(alert(message, &message.level, &fires));
            }
        }
    }
    Bytes::from(serde_json::to_vec(&alerts).unwrap_or_default())
}

fn alert<'a>(message: &'a Message, level: &'a str, ends_at: &str) -> Alert<'a> {
    let labels = BTreeMap::from([
        ("alertname", "BellwetherApplication"),
        ("app_namespace", message.namespace.as_str()),
        ("application", message.application.as_str()),
        ("level", level),
        ("route", message.route.as_str()),
    ]);
    let (first, _) = message.text.split_once('\n').unwrap_or((&message.text, ""));
    let winner = &message.winner;
    let annotations = [
        ("summary", first.to_string()),
        ("description", message.text.clone()),
        ("message", message.message.clone()),
        ("reason", message.reason.clone()),
        ("action", message.action.clone()),
        ("rule", message.rule.clone()),
        ("unit", winner.unit.clone()),
        ("component", winner.component.clone()),
        ("because", message.because.join("\n")),
        ("marks", message.marks.join("\n")),
        ("frees", message.frees.join(", ")),
        ("frees_count", message.frees_count.to_string()),
        ("cause", message.cause.to_string()),
        ("since", message.since.clone()),
        ("revision", message.revision.to_string()),
        ("id", message.id.clone()),
    ];
    let annotations = annotations.into_iter().filter(|(_, text)| !text.is_empty());
    Alert {
        labels,
        annotations: annotations.collect(),
        starts_at: &message.opened,
        ends_at: ends_at.to_string(),
        generator_url: &message.url,
    }
}
