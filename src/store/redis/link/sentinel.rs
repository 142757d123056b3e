//! Asks Sentinels for the address of the master.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value, from_redis_value};

use super::dial::{Dialer, Login};
use super::error::LinkError;
use super::target::Address;

/// The Sentinels of one master.
pub(super) struct Sentinels {
    master: String,
    sentinels: Vec<Sentinel>,
    /// The epoch of the last answer that was followed.
    epoch: u64,
}

struct Sentinel {
    address: Address,
    /// The connection, which is reused for later questions.
    connection: Option<MultiplexedConnection>,
}

/// The address of the master that a Sentinel reports. The epoch counts failovers: the higher, the
/// newer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SentinelAnswer {
    epoch: u64,
    address: Address,
}

impl Sentinels {
    pub(super) fn new(sentinels: &[Address], master: &str) -> Sentinels {
        let sentinels = sentinels.iter().cloned();
        let sentinels = sentinels.map(|address| Sentinel { address, connection: None });
        Sentinels { master: master.to_string(), sentinels: sentinels.collect(), epoch: 0 }
    }

    /// Returns the possible addresses of the master: those of the newest answers, the most frequent
    /// first. An older answer is ignored: a Sentinel that missed the failover would lead back to a
    /// master without replicas.
    pub(super) async fn resolve(&mut self, dialer: &Dialer) -> Result<Vec<Address>, LinkError> {
        let (epoch, candidates) = self.ask(dialer).await?;
        self.epoch = epoch;
        Ok(candidates)
    }

    /// Returns when the Sentinels name another master that can be reached, even if the old one can
    /// be reached too.
    pub(super) async fn moved(&mut self, dialer: &Dialer, from: &Address) -> String {
        loop {
            tokio::time::sleep(dialer.options.ping_interval).await;
            // Without Sentinels, the current master is kept.
            let Ok((epoch, candidates)) = self.ask(dialer).await else { continue };
            let Some(first) = candidates.first() else { continue };
            if first == from || epoch < self.epoch {
                continue;
            }
            if dialer.open_master(first, &dialer.config()).await.is_ok() {
                return format!("the Sentinels made {first} the master in place of {from}");
            }
        }
    }

    /// Asks all Sentinels concurrently. Returns the epoch and the addresses of the newest answers.
    async fn ask(&mut self, dialer: &Dialer) -> Result<(u64, Vec<Address>), LinkError> {
        let master = &self.master;
        let asked = self.sentinels.iter_mut().map(|sentinel| sentinel.ask(dialer, master));
        let mut answers = Vec::new();
        let mut failure = None;
        for answer in join_all(asked).await {
            match answer {
                Ok(answer) => answers.push(answer),
                // An error that an operator must fix is the better reason.
                Err(error @ LinkError::Refused { .. }) => failure = Some(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(failure) if answers.is_empty() => Err(failure),
            _ => Ok(newest(answers)),
        }
    }
}

/// Returns the highest epoch, and the addresses of the answers that have it.
fn newest(answers: Vec<SentinelAnswer>) -> (u64, Vec<Address>) {
    let epoch = answers.iter().map(|answer| answer.epoch).max().unwrap_or(0);
    let mut votes: BTreeMap<Address, usize> = BTreeMap::new();
    for answer in answers.into_iter().filter(|answer| answer.epoch == epoch) {
        *votes.entry(answer.address).or_default() += 1;
    }
    let mut votes: Vec<(Address, usize)> = votes.into_iter().collect();
    votes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    (epoch, votes.into_iter().map(|(address, _)| address).collect())
}

impl Sentinel {
    /// Asks on the connection of the last answer, or on a new one.
    async fn ask(&mut self, dialer: &Dialer, master: &str) -> Result<SentinelAnswer, LinkError> {
        let address = self.address.to_string();
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(dialer, &self.address).await?,
        };
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master);
        pipeline.cmd("SENTINEL").arg("MASTER").arg(master);
        let replies = connection.send_packed_commands(&pipeline, 0, 2).await;
        let replies =
            replies.map_err(|error| LinkError::away(format!("Sentinel {address}: {error}")))?;
        let [place, facts] = <[Value; 2]>::try_from(replies)
            .map_err(|_| LinkError::away(format!("Sentinel {address} answers only in part")))?;
        self.connection = Some(connection);
        read(&address, master, place, facts)
    }
}

fn read(
    sentinel: &str,
    master: &str,
    place: Value,
    facts: Value,
) -> Result<SentinelAnswer, LinkError> {
    if let Value::ServerError(error) = &place {
        return Err(LinkError::refused(format!(
            "{sentinel} does not answer as a Sentinel does ({error})"
        )));
    }
    let place: Option<(String, u16)> = from_redis_value(place)
        .map_err(|error| LinkError::away(format!("Sentinel {sentinel}: {error}")))?;
    let (host, port) = place.ok_or_else(|| {
        LinkError::refused(format!(
            "Sentinel {sentinel} knows no master {master:?}; check the name in --store"
        ))
    })?;
    // The ACL of a Sentinel may allow GET-MASTER-ADDR-BY-NAME only. The epoch is then 0, so that
    // all answers are equally new.
    let facts: BTreeMap<String, String> = from_redis_value(facts).unwrap_or_default();
    let epoch = facts.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    Ok(SentinelAnswer { epoch, address: Address { host, port } })
}

/// Connects as the user of the URL, and without a user if the Sentinel refuses that.
pub(super) async fn connect(
    dialer: &Dialer,
    address: &Address,
) -> Result<MultiplexedConnection, LinkError> {
    let config = dialer.config();
    match dialer.open(address, Login::Sentinel, &config).await {
        Err(LinkError::Refused { .. }) if dialer.target.password.is_some() => {
            dialer.open(address, Login::Anonymous, &config).await
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_answers_count() {
        let answer = |epoch, host: &str| SentinelAnswer {
            epoch,
            address: Address { host: host.to_string(), port: 1 },
        };
        let (epoch, candidates) =
            newest(vec![answer(1, "old"), answer(2, "one"), answer(2, "two"), answer(2, "two")]);
        let hosts: Vec<&str> = candidates.iter().map(|address| address.host.as_str()).collect();
        assert_eq!((epoch, hosts), (2, vec!["two", "one"]));
        assert_eq!(newest(Vec::new()), (0, Vec::new()));
    }
}
