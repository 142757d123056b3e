//! A hundred changes of the files of tokens and roles under load: no caller ever gets a right that
//! no version grants, and none loses a right that every version grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bellwether::proto::v1::Level;
use bellwether_client::{Client, Security};

use crate::identities::{TokenFile, bearer};
use crate::ops::fetch;
use crate::server::{Server, eventually, mk_report};

const ROUNDS: usize = 100;

/// Grants each of these tokens the unit of its name.
fn grants(of: &[&str]) -> String {
    let grant = |name: &&str| {
        format!(
            "[[grant]]\nrole = \"worker\"\nto = [\"token:{name}\"]\nnamespace = \"default\"\n\
             application = \"web\"\nunit = \"web/{name}\"\n"
        )
    };
    of.iter().map(grant).collect()
}

#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// Reports without a pause as `web/NAME`.
async fn report(url: String, security: Security, name: &'static str, load: Arc<Load>) {
    let client = Client::connect_with(&url, security).await.unwrap();
    let mut n = 0_u64;
    while !load.is_over.load(Ordering::Relaxed) {
        n += 1;
        let wire = mk_report("web", &format!("web/{name}"), Level::Active, &n.to_string());
        let answer = client.reports().report_status(client.request(wire)).await;
        match client.answer(answer) {
            Ok(_) => load.accepted.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                let reason = error.reason().unwrap_or("none").to_string();
                let expected = ["SCOPE_DENIED", "CREDENTIALS_INVALID", "RIGHTS_CHANGED"];
                assert!(expected.contains(&&*reason), "{name}: {error}");
                load.refused.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
}

fn stale_files(server: &Server) -> Option<u32> {
    let metrics = fetch(server.ops, "/metrics").1;
    let mut lines = metrics.lines();
    lines.find_map(|line| line.strip_prefix("bellwether_security_stale_files ")?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_changes_under_load_open_and_shut_nothing_by_accident() {
    let tokens = TokenFile::new();
    let names = ["always", "sometimes", "never"];
    let files = names.map(|name| tokens.create(name, "1h"));
    let server = tokens.serve(&grants(&["always"]));
    let loads: [Arc<Load>; 3] = Default::default();
    let mut callers = Vec::new();
    for ((name, file), load) in names.into_iter().zip(&files).zip(&loads) {
        callers.push(tokio::spawn(report(server.url(), bearer(file), name, load.clone())));
    }
    let [always, sometimes, never] = &loads;
    let moves = async |what: &str, count: &AtomicU64| {
        let before = count.load(Ordering::Relaxed);
        eventually(what, async || (before < count.load(Ordering::Relaxed)).then_some(())).await;
    };
    let mut is_granted = false;
    for round in 0..ROUNDS {
        let (text, is_valid) = match round % 5 {
            0 => (grants(&["always", "sometimes"]), true),
            // Broken files change nothing.
            1 => (format!("{}[[grant]]\nrole = ", grants(&["always", "never"])), false),
            2 => (String::new(), false),
            3 => (grants(&["always"]), true),
            _ => (grants(&["always", "never"])[..40].to_string(), false),
        };
        is_granted = if is_valid { round % 5 == 0 } else { is_granted };
        // A half-written file for a moment, as an editor leaves it.
        tokens.write("roles.toml", &text[..text.len() / 2]);
        server.signal("HUP");
        tokens.write("roles.toml", &text);
        server.signal("HUP");
        let expected = u32::from(!is_valid);
        eventually("the file is read", async || (stale_files(&server)? == expected).then_some(()))
            .await;
        match is_granted {
            true => moves("the new right", &sometimes.accepted).await,
            false => moves("the end of the right", &sometimes.refused).await,
        }
        moves("the one with the lasting right goes on", &always.accepted).await;
    }
    for load in &loads {
        load.is_over.store(true, Ordering::Relaxed);
    }
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(always.refused.load(Ordering::Relaxed), 0, "every version grants it");
    assert_eq!(never.accepted.load(Ordering::Relaxed), 0, "no valid version grants it");
    assert!(0 < never.refused.load(Ordering::Relaxed));
}
