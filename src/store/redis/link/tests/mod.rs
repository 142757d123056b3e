//! Links against real servers.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value, pipe};

use crate::store::redis::testing::{DEADLINE, until};

use super::{LinkError, Links, Master, Options, Servers, Target, TlsFiles};

mod cluster;
mod sentinel;
mod standalone;
mod tls;

fn options() -> Options {
    Options { start_deadline: Duration::from_secs(3), ..Options::default() }
}

async fn try_connect(url: &str, files: TlsFiles) -> Result<Arc<Links>, LinkError> {
    Links::connect(Target::parse(url, files).unwrap(), options()).await
}

async fn connect(url: &str) -> Arc<Links> {
    try_connect(url, TlsFiles::default()).await.unwrap()
}

/// Returns the error of a start that must fail.
async fn refusal(url: &str) -> LinkError {
    match try_connect(url, TlsFiles::default()).await {
        Ok(_) => panic!("connected to {url}"),
        Err(error) => error,
    }
}

fn set(key: &str, value: &str) -> Pipeline {
    pipe().cmd("SET").arg(key).arg(value).clone()
}

fn ping() -> Pipeline {
    pipe().cmd("PING").clone()
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn master(links: &Links) -> Option<Master> {
    links.master("{b00}").borrow().clone()
}

/// Waits until a pipeline is served again and the link is healthy.
async fn until_served(links: &Links, tag: &str) {
    until("the link is back", async || {
        let key = format!("{tag}k");
        let replies = links.run(tag, &set(&key, "v")).await;
        replies.is_ok_and(|replies| replies == [Value::Okay]) && links.health().is_ok()
    })
    .await;
}

/// Sends pings until the answer is the wanted one. Returns how long that took.
async fn until_answer(
    links: &Links,
    what: &str,
    wanted: impl Fn(&Result<Vec<Value>, LinkError>) -> bool,
) -> Duration {
    let started = tokio::time::Instant::now();
    loop {
        let answer = links.run("{b00}", &ping()).await;
        if wanted(&answer) {
            return started.elapsed();
        }
        assert!(started.elapsed() < DEADLINE, "waited until {what}, last {answer:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
