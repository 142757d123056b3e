//! `bellwether data`: reads, changes and follows the data that the leader of an application shares.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::time::Duration;

use bellwether_client::{Client, Error};
use bytes::Bytes;
use tokio::time::timeout;

use crate::cli::command::leader::LeaderArgs;
use crate::cli::context::{Context, print, print_plain, say, say_dry};
use crate::cli::exit::{NotFoundError, UsageError};
use crate::cli::juju_hook::{self, juju_hook};
use crate::cli::render::{one_line, text};
use crate::cli::target::{UnitTarget, shell_word};
use crate::cli::unit::AppArgs;
use crate::cli::{file, json, suggest};
use crate::proto::v1::watch_app_data_response::Event;
use crate::proto::v1::{AppData, GetAppDataRequest, UpdateAppDataRequest, WatchAppDataRequest};

/// How long to wait before a broken watch is opened again, unless the server names a time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Data that the leader of an application shares with all units; not for secrets
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Print the data, or the value of one key as it is
    Get {
        #[command(flatten)]
        application: AppArgs,
        /// The key; without APP write --key KEY
        #[arg(value_name = "KEY")]
        key: Option<String>,
        /// The key
        #[arg(long = "key", value_name = "KEY", conflicts_with = "key", id = "key_flag")]
        key_flag: Option<String>,
    },
    /// Set values, as the leader
    Set {
        /// The unit, as web/0 [default: the unit inside a Juju hook], then the values; @FILE takes
        /// the value from a file, an empty one removes the key
        #[arg(value_name = "[APP/UNIT] KEY=VALUE|KEY=@FILE", required = true)]
        words: Vec<String>,
        #[command(flatten)]
        condition: Condition,
    },
    /// Remove keys, as the leader
    Rm {
        /// The unit, as web/0 [default: the unit inside a Juju hook], then the keys; the first word
        /// is the unit if it has a `/`, or with --application
        #[arg(value_name = "[APP/UNIT] KEY", required = true)]
        words: Vec<String>,
        #[command(flatten)]
        condition: Condition,
    },
    /// Follow the data: one JSON line for the current data, then one per change
    ///
    /// Values that are no text are base64, and `binary` names their keys.
    Watch(AppArgs),
}

#[derive(clap::Args)]
struct Condition {
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
    #[command(flatten)]
    leader: LeaderArgs,
    /// Only if the data still have this etag
    #[arg(long)]
    etag: Option<String>,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
}

impl Condition {
    fn target(&self, unit: Option<&str>) -> Result<UnitTarget, UsageError> {
        juju_hook::unit(unit, self.application.as_deref(), juju_hook())
    }
}

fn assignment(text: &str) -> Result<(String, String), UsageError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err(UsageError(format!("`{text}` sets nothing: write KEY=VALUE"))),
    }
}

/// A unit, if it is given, and the words after it.
type UnitAndWords<'a> = (Option<&'a str>, &'a [String]);

/// Divides the words of `data set` into the unit and the values.
fn unit_and_values(words: &[String]) -> Result<UnitAndWords<'_>, UsageError> {
    split_unit(words, |first| !first.contains('='), "no value to set: write KEY=VALUE")
}

/// Divides the words of `data rm` into the unit and the keys.
fn unit_and_keys(words: &[String], is_pod: bool) -> Result<UnitAndWords<'_>, UsageError> {
    split_unit(words, |first| is_pod || first.contains('/'), "no key to remove: write KEY")
}

fn split_unit<'a>(
    words: &'a [String],
    is_unit: impl Fn(&str) -> bool,
    missing: &str,
) -> Result<UnitAndWords<'a>, UsageError> {
    let (unit, rest) = match words {
        [first, rest @ ..] if is_unit(first) => (Some(first.as_str()), rest),
        _ => (None, words),
    };
    if rest.is_empty() { Err(UsageError(missing.to_string())) } else { Ok((unit, rest)) }
}

/// Reads, changes, or follows the data.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    match args.action {
        Action::Get { application, key, key_flag } => {
            get(application.name()?, key.or(key_flag), context).await
        }
        Action::Set { words, condition } => {
            let (unit, set) = unit_and_values(&words)?;
            let target = condition.target(unit)?;
            update(target, values(set)?, Vec::new(), condition, context).await
        }
        Action::Rm { words, condition } => {
            let (unit, keys) = unit_and_keys(&words, condition.application.is_some())?;
            let target = condition.target(unit)?;
            update(target, BTreeMap::new(), keys.to_vec(), condition, context).await
        }
        Action::Watch(application) => watch(application.name()?, context).await,
    }
}

/// Returns the values to set. A key given twice is refused: the intended value is unknown.
fn values(set: &[String]) -> Result<BTreeMap<String, Bytes>, UsageError> {
    let mut values = BTreeMap::new();
    for word in set {
        let (key, value) = assignment(word)?;
        if values.insert(key.clone(), read(value)?).is_some() {
            return Err(UsageError(format!("key {key:?} is given twice")));
        }
    }
    Ok(values)
}

fn read(value: String) -> Result<Bytes, UsageError> {
    let Some(path) = value.strip_prefix('@') else { return Ok(value.into()) };
    file::read(path.as_ref()).map(Bytes::from)
}

async fn get(application: String, key: Option<String>, context: &Context) -> anyhow::Result<()> {
    let request: GetAppDataRequest = context.of_application(&application);
    let app_data = context.call(request).await?.app_data.unwrap_or_default();
    if app_data.data.is_empty() {
        // An application that does not exist has no data either.
        context.application(&application).await?;
    }
    let Some(key) = key else {
        if app_data.data.is_empty() && !context.output.is_structured() {
            say(&format!("{application} has no data"));
        }
        return context.print_message(&app_data, "AppData", || print_plain(&render(&app_data)));
    };
    let Some(value) = app_data.data.get(&key) else {
        let keys = context.hint(&format!("data get {}", shell_word(&application)));
        let text = format!("{application} has no data under the key {key:?}; `{keys}` lists all");
        return Err(NotFoundError(text).into());
    };
    let mut stdout = std::io::stdout().lock();
    if stdout.is_terminal() {
        // Text of a leader must not move the cursor of a terminal; a file or a pipe gets the raw
        // bytes.
        writeln!(stdout, "{}", text::lines(&String::from_utf8_lossy(value)))?;
    } else {
        stdout.write_all(value)?;
    }
    Ok(stdout.flush()?)
}

async fn update(
    target: UnitTarget,
    set: BTreeMap<String, Bytes>,
    delete: Vec<String>,
    condition: Condition,
    context: &Context,
) -> anyhow::Result<()> {
    if condition.dry_run {
        condition.leader.check(&target, context).await?;
        let request: GetAppDataRequest = context.of_application(&target.application);
        let now = context.call(request).await?.app_data.unwrap_or_default();
        if let Some(etag) = condition.etag.filter(|etag| *etag != now.etag) {
            anyhow::bail!("the data have etag {} now, and not {etag}: read them again", now.etag);
        }
        say_dry(&preview(&target.application, &set, &delete, &now));
        return Ok(());
    }
    let request = UpdateAppDataRequest {
        lease_epoch: condition.leader.epoch(&target, context).await?,
        set,
        delete,
        etag: condition.etag,
        decided_outside: condition.leader.decided_outside,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    let what = if answer.changed { "changed" } else { "unchanged" };
    say(&format!("{what}: etag {} (revision {})", answer.etag, answer.revision));
    Ok(())
}

/// Says what an update of the data would do.
fn preview(
    application: &str,
    set: &BTreeMap<String, Bytes>,
    delete: &[String],
    now: &AppData,
) -> String {
    // An empty value removes its key.
    let (removed, written): (Vec<_>, Vec<_>) = set.iter().partition(|(_, value)| value.is_empty());
    let removed = removed.into_iter().map(|(key, _)| key).chain(delete);
    let removed: BTreeSet<_> = removed.filter(|key| now.data.contains_key(*key)).collect();
    let differs = |(key, value): &(&String, &Bytes)| now.data.get(*key) != Some(*value);
    let written = written.into_iter().filter(differs).map(|(key, _)| key);
    let listed = |word: &str, keys: Vec<&String>| {
        (!keys.is_empty()).then(|| format!("{word} {}", named(&keys)))
    };
    let parts = [listed("set", written.collect()), listed("remove", removed.into_iter().collect())];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => format!("the data of {application} would stay as they are"),
        false => format!("would {} of {application}", parts.join(" and ")),
    }
}

/// Formats `the key a`, or `3 keys (a, b, c)` with the first five names.
fn named(keys: &[&String]) -> String {
    match keys {
        [key] => format!("the key {key}"),
        keys => {
            let first: Vec<_> = keys.iter().take(5).map(|key| key.as_str()).collect();
            let more = if keys.len() > 5 { ", ..." } else { "" };
            format!("{} keys ({}{more})", keys.len(), first.join(", "))
        }
    }
}

async fn watch(application: String, context: &Context) -> anyhow::Result<()> {
    let client = context.connect().await?;
    suggest::say_absent(client, &context.namespace(), std::slice::from_ref(&application)).await;
    let mut printed = None;
    loop {
        let mut pause = None;
        if let Err(error) = follow(client, &application, context, &mut printed).await {
            let passing = error.downcast_ref::<Error>().filter(|error| error.is_passing());
            let Some(passing) = passing else { return Err(error) };
            say(&format!("connection lost: {passing}; reconnecting"));
            pause = passing.retry_after();
        }
        tokio::time::sleep(pause.unwrap_or(AGAIN_AFTER)).await;
    }
}

async fn follow(
    client: &Client,
    application: &str,
    context: &Context,
    printed: &mut Option<String>,
) -> anyhow::Result<()> {
    let request: WatchAppDataRequest = context.of_application(application);
    let mut calls = client.app_data();
    let opening = timeout(client.deadline(), calls.watch_app_data(request)).await;
    let unanswered = |_| Error::Silent { url: client.url().to_string(), after: client.deadline() };
    let mut stream = client.answer(opening.map_err(unanswered)?)?;
    loop {
        let next = stream.message().await;
        let Some(response) = next.map_err(|status| client.error(status))? else {
            return Ok(());
        };
        let Some(Event::AppData(app_data)) = response.event else { continue };
        // A reopened watch may repeat the data printed last.
        if printed.as_ref() != Some(&app_data.etag) {
            print(&line(&app_data)?)?;
            *printed = Some(app_data.etag);
        }
    }
}

/// Formats the data as one JSON line. Values that are text are text, as `data get` prints them;
/// others are base64, and `binary` names them.
fn line(app_data: &AppData) -> anyhow::Result<String> {
    let mut value = json::from_message(app_data, "AppData")?;
    let mut binary = Vec::new();
    for (key, bytes) in &app_data.data {
        match std::str::from_utf8(bytes) {
            Ok(text) => value["data"][key] = text.into(),
            Err(_) => binary.push(key.clone()),
        }
    }
    if !binary.is_empty() {
        binary.sort();
        value["binary"] = binary.into();
    }
    Ok(json::line(&value))
}

/// Formats the data by key: one line with the key and the start of its value.
fn render(app_data: &AppData) -> String {
    let sorted: BTreeMap<_, _> = app_data.data.iter().collect();
    let width = sorted.keys().map(|key| key.chars().count()).max().unwrap_or_default();
    let line = |(key, value): (&String, &Bytes)| {
        let value = one_line(&String::from_utf8_lossy(value));
        format!("{:<width$}  {value}\n", one_line(key))
    };
    sorted.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_each_key_on_a_line_of_its_own() {
        let data = [("user", "web\ntwo"), ("database.name", "web")];
        let data = data.map(|(key, value)| (key.to_string(), Bytes::from_static(value.as_bytes())));
        let app_data = AppData { data: data.into(), ..AppData::default() };
        assert_eq!(render(&app_data), "database.name  web\nuser           web two\n");
    }

    #[test]
    fn a_dry_run_names_the_keys_that_would_change() {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let now = [("a", "1"), ("b", "2")].map(|(key, value)| (key.to_string(), bytes(value)));
        let now = AppData { data: now.into(), ..AppData::default() };
        for (set, delete, said) in [
            (&[("a", "2"), ("c", "3"), ("b", "2")][..], &[][..], "set 2 keys (a, c)"),
            (&[("a", "")], &[], "remove the key a"),
            (&[], &["b", "gone"], "remove the key b"),
            (&[("c", "3"), ("a", "")], &[], "set the key c and remove the key a"),
        ] {
            let set = set.iter().map(|(key, value)| (key.to_string(), bytes(value))).collect();
            let delete: Vec<_> = delete.iter().map(ToString::to_string).collect();
            assert_eq!(preview("web", &set, &delete, &now), format!("would {said} of web"));
        }
        let said = preview("web", &BTreeMap::new(), &["gone".to_string()], &now);
        assert_eq!(said, "the data of web would stay as they are");
    }

    #[test]
    fn a_watched_value_is_text_if_it_is_text() {
        let data = [("text", &b"db:5432"[..]), ("bytes", &[0xff, 0x00])];
        let data = data.map(|(key, value)| (key.to_string(), Bytes::from_static(value)));
        let app_data = AppData { data: data.into(), ..AppData::default() };
        let value: serde_json::Value =
            serde_json::from_str(&line(&app_data).expect("a line")).expect("JSON");
        assert_eq!(value["data"]["text"], "db:5432");
        assert_eq!(
            (&value["data"]["bytes"], &value["binary"][0]),
            (&"/wA=".into(), &"bytes".into())
        );
    }

    #[test]
    fn an_invalid_assignment_is_refused() {
        assert_eq!(assignment("a=b=c").unwrap(), ("a".to_string(), "b=c".to_string()));
        for text in ["a", "=b"] {
            let error = assignment(text).unwrap_err().to_string();
            assert!(error.ends_with("write KEY=VALUE"), "{error}");
        }
    }

    #[test]
    fn a_key_is_no_unit() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (given, is_pod, unit, count) in [
            (&["web/0", "a", "b"][..], false, Some("web/0"), 2),
            (&["a", "b/c"], false, None, 2),
            (&["web-7f9c", "a"], true, Some("web-7f9c"), 1),
        ] {
            let given = words(given);
            let (found, keys) = unit_and_keys(&given, is_pod).unwrap();
            assert_eq!((found, keys.len()), (unit, count));
        }
        assert!(unit_and_keys(&words(&["web/0"]), false).is_err());
    }

    #[test]
    fn the_first_word_may_be_the_unit() {
        let words = ["web/0", "a=1", "b="].map(ToString::to_string);
        let (unit, values) = unit_and_values(&words).unwrap();
        assert_eq!((unit, values.len()), (Some("web/0"), 2));
        let (unit, values) = unit_and_values(&words[1..]).unwrap();
        assert_eq!((unit, values.len()), (None, 2));
        assert!(unit_and_values(&words[..1]).is_err());
    }
}
