//! `bellwether doctor`: checks the store that `serve` would use, and the way to a running server.

mod connection;
mod protection;

use std::time::Duration;

use bellwether_client::Security;
use http::Uri;
use serde_json::json;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::exit::{Exit, UsageError};
use crate::cli::render::doctor;
use crate::cli::{scrape, span};
use crate::config;
use crate::config::{StoreChoice, TlsChoice};
use crate::doctor::{Finding, Level, embedded, redis};

/// Check the store, the certificates and the files of callers and roles
///
/// It takes the flags, variables and configuration file of `serve`, and examines the store and the
/// files that they name. Nothing is changed. Exits with 1 if there is an error; warnings exit with
/// 0.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: config::StoreFlags,
    #[command(flatten)]
    tls: config::TlsFlags,
    #[command(flatten)]
    callers: config::CallerFlags,

    /// Also ask this running server, at its port for /metrics, whether it is in self-preservation;
    /// with TLS, as https://HOST:PORT with --ca. The store that is examined stays that of the flags
    #[arg(long, value_name = "ADDRESS", value_parser = ops_url)]
    ops: Option<Uri>,

    /// Also call the server of --server, and explain what is wrong with its TLS
    #[arg(long)]
    connect: bool,

    /// Time limit for all answers of a Redis together
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = span::parse)]
    timeout: Duration,
}

/// Examines the store and prints the findings.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.timeout.is_zero() {
        return Err(UsageError("--timeout 0 leaves no time for an answer".to_string()).into());
    }
    if config::shows_password(std::env::args_os()) {
        say(&format!("warning: {}", config::PASSWORD_SHOWN));
    }
    let wrong = |error: config::Error| UsageError(error.to_string());
    let asks_server = args.ops.is_some() || args.connect;
    // Without a flag, the store would be a folder here, which a running server need not use.
    let is_server_alone = asks_server && !args.store.names_store();
    let chosen = TlsChoice::load(&args.store, args.tls, args.callers);
    let (tls, callers) = chosen.map_err(wrong)?;
    // As with `serve`, a wrong description of a store is wrong usage.
    let store = StoreChoice::load(args.store).map_err(wrong)?;
    let mut findings = match is_server_alone {
        true => Vec::new(),
        false => examine(&store, args.timeout).await,
    };
    findings.extend(protection::examine(tls.as_ref(), &callers));
    findings.extend(protection::examine_urls(&callers).await);
    if let Some(ops) = args.ops {
        let metrics = tokio::time::timeout(args.timeout, read_metrics(&ops, context)).await;
        let no_answer = |_| Err(anyhow::anyhow!("no answer within {:?}", args.timeout));
        findings.push(self_preservation(&ops, metrics.unwrap_or_else(no_answer)));
    }
    if args.connect {
        findings.push(connection::examine(context).await);
    }
    let worst = findings.iter().map(|finding| finding.level).min().unwrap_or(Level::Ok);
    let of_flags = if asks_server { ", as the flags of this command name it" } else { "" };
    let (store, title) = match is_server_alone {
        true => (None, "no store is named by a flag: only the server is examined".to_string()),
        false => (Some(shown(&store)), format!("{}{of_flags}", shown(&store))),
    };
    let value = json!({"store": store, "level": worst, "findings": findings});
    context.print_value(&value, || {
        print(&doctor::render(&title, &findings, doctor::has_symbols(), screen()))
    })?;
    Ok(if worst == Level::Error { Exit::Failed } else { Exit::Ok })
}

async fn examine(store: &StoreChoice, timeout: Duration) -> Vec<Finding> {
    match store {
        StoreChoice::Memory => {
            let found = "in memory: nothing can be wrong with it, and nothing survives the process";
            vec![Finding::ok("memory", found)]
        }
        StoreChoice::Embedded(dir) => embedded::examine(dir),
        StoreChoice::Redis(target, durability, layout) => {
            redis::examine(target, *durability, layout, timeout).await
        }
    }
}

/// Reads HOST:PORT, or a URL.
fn ops_url(text: &str) -> Result<Uri, String> {
    let url = if text.contains("://") { text.to_string() } else { format!("http://{text}") };
    let url = url.parse::<Uri>().ok().filter(|url| url.port_u16().is_some());
    url.ok_or_else(|| "give HOST:PORT, or https://HOST:PORT".to_string())
}

async fn read_metrics(ops: &Uri, context: &Context) -> anyhow::Result<String> {
    let Security { ca, token_file, .. } = &context.security;
    let token = token_file.as_ref().map(std::fs::read_to_string).transpose()?;
    scrape::metrics_at(ops, ca.as_deref(), token.as_deref().map(str::trim)).await
}

/// Returns whether a server is in self-preservation, by its metrics.
fn self_preservation(ops: &Uri, metrics: anyhow::Result<String>) -> Finding {
    let failure = metrics.as_ref().err().map(|error| format!(": {error:#}"));
    let lines = metrics.iter().flat_map(|text| text.lines());
    let suspects = lines.filter_map(|line| line.strip_prefix("bellwether_observer_suspects "));
    let suspects = suspects.filter_map(|count| count.trim().parse::<u64>().ok()).next();
    let server = ops.authority().map(ToString::to_string).unwrap_or_default();
    let finding = match suspects {
        Some(0) => Finding::ok("observer", "in contact with its workers"),
        Some(count) => Finding::warning(
            "observer",
            format!("lost contact with most units of {count} applications at once"),
            "the fault may be on the side of the server: these units are not judged for now",
        )
        .advise("look at the network between this server and its workers; `why` names them"),
        None => Finding::unknown(
            "observer",
            format!("no answer with its metrics{}", failure.unwrap_or_default()),
            "the metrics show whether the server has lost contact with its workers",
        )
        .advise("give the address that `serve` prints as `ops`"),
    };
    finding.on(&server)
}

fn shown(store: &StoreChoice) -> String {
    match store {
        StoreChoice::Memory => "memory".to_string(),
        StoreChoice::Embedded(dir) => format!("embedded in {}", dir.display()),
        StoreChoice::Redis(target, ..) => target.to_string(),
    }
}
