//! Reads the file, and says with its line what is wrong in it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use serde::Deserialize;
use toml::Spanned;

use super::{Config, Destination, Endpoint, RECEIVERS_MAX, ROUTES_MAX, ReceiverConfig};
use crate::cli::command::notify::engine::route::{Levels, Route};
use crate::cli::exit::UsageError;
use crate::cli::{file, level, span};
use crate::domain::name::AppName;
use crate::proto::v1::Level;

/// The longest `stable_for` and `recover_after`.
const SPAN_MAX: Duration = Duration::from_secs(7 * 86_400);
/// The longest time of a delivery.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);
/// How long a delivery may take unless the file says otherwise.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long a problem lasts before it is sent, and is over before its end is sent.
const SETTLE: Duration = Duration::from_secs(60);
/// Bytes of a name of a receiver or of a route.
const NAME_BYTES_MAX: usize = 63;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotifyFile {
    namespace: Option<String>,
    application: Option<String>,
    page: Option<String>,
    listen: Option<SocketAddr>,
    #[serde(default)]
    to: Vec<Spanned<ToEntry>>,
    #[serde(default)]
    route: Vec<Spanned<RouteEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToEntry {
    name: String,
    alertmanager: Option<String>,
    webhook: Option<String>,
    secret_file: Option<PathBuf>,
    exec: Option<Vec<String>>,
    #[serde(default)]
    insecure: bool,
    ca: Option<PathBuf>,
    token_file: Option<PathBuf>,
    timeout: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteEntry {
    to: String,
    name: Option<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    applications: Vec<String>,
    levels: Option<Vec<String>>,
    at_least: Option<String>,
    stable_for: Option<String>,
    recover_after: Option<String>,
    marked: Option<String>,
    #[serde(default)]
    each: bool,
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read, or something in it is wrong: with its line.
pub fn read(path: &Path) -> Result<Config, UsageError> {
    let bytes = file::read(path)?;
    let text = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_string());
    let config = text.and_then(|text| parse(&text));
    config.map_err(|error| UsageError(format!("{}: {}", path.display(), error.trim_end())))
}

/// Parses the text of a file.
///
/// # Errors
/// A sentence with the line.
pub fn parse(text: &str) -> Result<Config, String> {
    let file: NotifyFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let line = |start: usize| 1 + text[..start].matches('\n').count();
    if file.to.is_empty() || file.route.is_empty() {
        return Err("there is no receiver, [[to]], or no [[route]] to one".to_string());
    }
    for (count, max, what) in
        [(file.to.len(), RECEIVERS_MAX, "receivers"), (file.route.len(), ROUTES_MAX, "routes")]
    {
        if max < count {
            return Err(format!("{count} {what} are more than {max}: use a second file"));
        }
    }
    let mut receivers: Vec<ReceiverConfig> = Vec::new();
    for entry in file.to {
        let at = line(entry.span().start);
        let receiver = entry.into_inner().receiver();
        let receiver = receiver.map_err(|error| format!("line {at}: {error}"))?;
        if receivers.iter().any(|known| known.name == receiver.name) {
            return Err(format!("line {at}: `{}` is there already", receiver.name));
        }
        receivers.push(receiver);
    }
    let mut routes: Vec<Route> = Vec::new();
    for entry in file.route {
        let at = line(entry.span().start);
        let route = entry.into_inner().route(&receivers);
        let route = route.map_err(|error| format!("line {at}: {error}"))?;
        if routes.iter().any(|known| known.name == route.name) {
            let name = &route.name;
            return Err(format!("line {at}: the route `{name}` is there already: add `name`"));
        }
        routes.push(route);
    }
    let namespace = file.namespace.unwrap_or_else(|| "default".to_string());
    let application = file.application.unwrap_or_else(|| "bellwether-notify".to_string());
    AppName::new(&namespace, &application).map_err(|(field, error)| format!("{field}: {error}"))?;
    let page = file.page.map(|page| page_url(&page)).transpose()?;
    Ok(Config { namespace, application, page, listen: file.listen, receivers, routes })
}

fn page_url(text: &str) -> Result<String, String> {
    let url: Option<Uri> = text.parse().ok();
    let is_web = url.is_some_and(|url| matches!(url.scheme_str(), Some("http" | "https")));
    match is_web && !text.contains(['?', '#']) {
        true => Ok(text.trim_end_matches('/').to_string()),
        false => Err(format!("page: `{text}` is not the address of a status page")),
    }
}

impl ToEntry {
    fn receiver(self) -> Result<ReceiverConfig, String> {
        checked_name(&self.name)?;
        let timeout = span_of("timeout", self.timeout.as_deref(), TIMEOUT, TIMEOUT_MAX)?;
        if timeout.is_zero() {
            return Err("`timeout` is 0: write 10s".to_string());
        }
        let is_web = self.exec.is_none();
        let is_signed = self.secret_file.is_some();
        let endpoint = |url: &str| {
            let url = url_of(url, self.insecure)?;
            Ok::<_, String>(Endpoint {
                url,
                ca: self.ca.clone(),
                token_file: self.token_file.clone(),
            })
        };
        let target = match (&self.alertmanager, &self.webhook, self.exec) {
            (Some(_), None, None) if is_signed => {
                return Err("an Alertmanager takes no secret_file; for a token, token_file".into());
            }
            (Some(url), None, None) => Destination::Alertmanager(endpoint(url)?),
            (None, Some(url), None) => {
                let Some(secret) = self.secret_file.clone() else {
                    return Err("a webhook needs secret_file: messages are signed".to_string());
                };
                Destination::Webhook(endpoint(url)?, secret)
            }
            (None, None, Some(command)) => {
                if command.first().is_none_or(String::is_empty) {
                    return Err("`exec` is empty: write the program and its arguments".into());
                }
                Destination::Command(command)
            }
            _ => return Err("write one of alertmanager, webhook and exec".to_string()),
        };
        let has_more = self.insecure || self.ca.is_some() || self.token_file.is_some() || is_signed;
        if !is_web && has_more {
            return Err("exec takes no secret_file, ca, token_file or insecure".to_string());
        }
        Ok(ReceiverConfig { name: self.name, target, timeout })
    }
}

/// Parses a URL. Without TLS it leads to this machine, unless that is asked for.
fn url_of(text: &str, insecure: bool) -> Result<Uri, String> {
    // The text may have a password, so no message repeats it.
    let url: Uri = text.parse().map_err(|_| "the URL is not valid".to_string())?;
    let Some(authority) = url.authority() else {
        return Err("the URL has no host: write https://HOST/PATH".to_string());
    };
    if authority.as_str().contains('@') {
        return Err("the URL has a user: use token_file, or secret_file of a webhook".to_string());
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let address: Option<std::net::IpAddr> = host.parse().ok();
    let is_here = host == "localhost" || address.is_some_and(|address| address.is_loopback());
    match url.scheme_str() {
        Some("https") => Ok(url),
        Some("http") if is_here || insecure => Ok(url),
        Some("http") => {
            Err(format!("messages to {host} would go without TLS: write https, or insecure = true"))
        }
        _ => Err("the URL needs http:// or https://".to_string()),
    }
}

impl RouteEntry {
    fn route(self, receivers: &[ReceiverConfig]) -> Result<Route, String> {
        let Some(receiver) = receivers.iter().find(|receiver| receiver.name == self.to) else {
            return Err(format!("there is no receiver `{}`, [[to]]", self.to));
        };
        let name = self.name.unwrap_or_else(|| self.to.clone());
        checked_name(&name)?;
        for pattern in self.namespaces.iter().chain(&self.applications) {
            let is_known = |c: char| c.is_ascii_alphanumeric() || "._-*?".contains(c);
            if pattern.is_empty() || 253 < pattern.len() || !pattern.chars().all(is_known) {
                return Err(format!("`{pattern}` is no pattern of a name: write web or web-*"));
            }
        }
        let levels = match (self.levels, self.at_least) {
            (None, None) => Levels::AtLeast(Level::Blocked),
            (Some(_), Some(_)) => return Err("write levels or at_least, not both".to_string()),
            (None, Some(word)) => Levels::AtLeast(level_of(&word)?),
            (Some(words), None) => {
                let levels = words.iter().map(|word| level_of(word));
                Levels::Of(levels.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let sends_marked = match self.marked.as_deref() {
            None | Some("skip") => false,
            Some("send") => true,
            Some(other) => return Err(format!("marked: `{other}` is neither skip nor send")),
        };
        Ok(Route {
            name,
            to: self.to,
            namespaces: self.namespaces,
            applications: self.applications,
            levels,
            stable_for: span_of("stable_for", self.stable_for.as_deref(), SETTLE, SPAN_MAX)?,
            recover_after: span_of(
                "recover_after",
                self.recover_after.as_deref(),
                SETTLE,
                SPAN_MAX,
            )?,
            sends_marked,
            each: self.each,
            is_gone: false,
            delivery: receiver.target.delivery(),
        })
    }
}

fn checked_name(name: &str) -> Result<(), String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_known) {
        true => Ok(()),
        false => Err(format!("`{name}` is no name: letters, digits, . _ - and at most 63")),
    }
}

fn level_of(word: &str) -> Result<Level, String> {
    level::parse(word)
        .ok_or_else(|| format!("`{word}` is no level: write one of {}", level::words().join(", ")))
}

fn span_of(
    key: &str,
    text: Option<&str>,
    default: Duration,
    max: Duration,
) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(default) };
    let span = span::parse(text).map_err(|error| format!("{key}: {error}"))?;
    match span <= max {
        true => Ok(span),
        false => Err(format!("{key}: {text} is longer than {}", span::exact(max))),
    }
}
