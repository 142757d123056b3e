//! The map of a cluster: which master has which slots.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Pipeline, Value, from_redis_value};
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::dial::{Dialer, Login};
use super::error::{LinkError, of_reply};
use super::info::InfoFields;
use super::routing_table::{Route, RoutingTable};
use super::single::MasterLink;
use super::supervisor::{self, Source};
use super::target::Address;

/// The minimum interval between two looks, because all pipelines notice a moved slot at the same
/// time.
const REFRESH_MIN: Duration = Duration::from_millis(100);

/// The links to the masters of a cluster.
struct ClusterLinks {
    seeds: Vec<Address>,
    dialer: Arc<Dialer>,
    table: Arc<RoutingTable>,
    ended: CancellationToken,
    links: BTreeMap<Address, Arc<MasterLink>>,
}

/// The view of one node on the cluster.
pub(super) struct View {
    /// The epoch of the cluster's configuration: the higher, the newer.
    pub(super) epoch: u64,
    /// The ranges of slots, each with its master.
    pub(super) slots: Vec<(RangeInclusive<u16>, Address)>,
}

/// Updates the routes of a cluster regularly, and when a link requests it. `ended` ends all links.
pub(super) async fn maintain(
    seeds: Vec<Address>,
    dialer: Arc<Dialer>,
    table: Arc<RoutingTable>,
    ended: CancellationToken,
) {
    let mut cluster = ClusterLinks { seeds, dialer, table, ended, links: BTreeMap::new() };
    let mut backoff = Backoff::new(&cluster.dialer.options);
    loop {
        let pause = match cluster.discover().await {
            Ok(view) => {
                cluster.apply(view);
                backoff.reset();
                cluster.dialer.options.refresh_interval
            }
            Err(error) => {
                cluster.table.set_failure(error);
                backoff.pause()
            }
        };
        tokio::time::sleep(REFRESH_MIN).await;
        let _ = tokio::time::timeout(pause, cluster.table.remap.notified()).await;
    }
}

impl ClusterLinks {
    /// Returns the newest view of all nodes that are known.
    async fn discover(&self) -> Result<View, LinkError> {
        let nodes: BTreeSet<&Address> = self.links.keys().chain(&self.seeds).collect();
        let (newest, mut lost) = newest_view(&self.dialer, nodes).await;
        newest.ok_or_else(|| match lost.pop() {
            Some((_, error)) => error,
            None => LinkError::away("no node of the cluster is known"),
        })
    }

    fn apply(&mut self, view: View) {
        let mut kept = BTreeMap::new();
        let mut routes = Vec::with_capacity(view.slots.len());
        for (slots, address) in view.slots {
            let link = kept.entry(address.clone()).or_insert_with(|| {
                self.links.remove(&address).unwrap_or_else(|| self.start(address))
            });
            routes.push(Route { slots, link: link.clone() });
        }
        for (_, left) in std::mem::replace(&mut self.links, kept) {
            left.ended.cancel();
        }
        self.table.set_routes(routes);
    }

    fn start(&self, address: Address) -> Arc<MasterLink> {
        let name = format!("Redis at {address}");
        let (table, ended) = (Arc::downgrade(&self.table), self.ended.child_token());
        supervisor::start(name, &self.dialer, table, ended, Source::Fixed(address))
    }
}

/// Returns the newest view of the nodes that answer: a node that is cut off has an outdated one.
/// Also returns the nodes that do not answer, with the reason.
pub(super) async fn newest_view<'a>(
    dialer: &Dialer,
    nodes: impl IntoIterator<Item = &'a Address>,
) -> (Option<View>, Vec<(String, LinkError)>) {
    let asked = nodes.into_iter().map(async |node| (node, view(dialer, node).await));
    let (mut newest, mut lost): (Option<View>, _) = (None, Vec::new());
    for (node, view) in join_all(asked).await {
        match view {
            Ok(view) if newest.as_ref().is_none_or(|newest| newest.epoch < view.epoch) => {
                newest = Some(view);
            }
            Ok(_older) => (),
            Err(error) => lost.push((node.to_string(), error)),
        }
    }
    (newest, lost)
}

/// Reads the view of one node.
async fn view(dialer: &Dialer, node: &Address) -> Result<View, LinkError> {
    let address = node.to_string();
    let mut connection = dialer.open(node, Login::Store, &dialer.config()).await?;
    let mut pipeline = Pipeline::new();
    pipeline.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let replies = connection.send_packed_commands(&pipeline, 0, 2).await;
    let replies = replies.map_err(|error| LinkError::of_connecting(&address, &error))?;
    for reply in &replies {
        if let Value::ServerError(error) = reply {
            let details = error.details().unwrap_or("");
            return Err(match details.contains("cluster support disabled") {
                true => {
                    LinkError::refused(format!("{address} is not part of a cluster; use redis://"))
                }
                false => of_reply(&address, error.code(), details),
            });
        }
    }
    let [info, slots] = <[Value; 2]>::try_from(replies)
        .map_err(|_| LinkError::away(format!("{address} answers only in part")))?;
    let strange = |error: redis::ParsingError| LinkError::of_connecting(&address, &error.into());
    let info: String = from_redis_value(info).map_err(strange)?;
    let epoch = InfoFields::of_lines(&info).number("cluster_current_epoch").unwrap_or(0);
    let slots: Vec<Vec<Value>> = from_redis_value(slots).map_err(strange)?;
    Ok(View { epoch, slots: slots.into_iter().filter_map(|range| range_of(range, node)).collect() })
}

/// Parses `[first, last, [host, port, ...] of the master, ...]`. A node that does not know its own
/// name leaves the host out; it is the node that was asked.
fn range_of(range: Vec<Value>, asked: &Address) -> Option<(RangeInclusive<u16>, Address)> {
    let mut parts = range.into_iter();
    let first: u16 = from_redis_value(parts.next()?).ok()?;
    let last: u16 = from_redis_value(parts.next()?).ok()?;
    let Value::Array(node) = parts.next()? else { return None };
    let mut node = node.into_iter();
    let host: Option<String> = from_redis_value(node.next()?).ok()?;
    let port: u16 = from_redis_value(node.next()?).ok()?;
    let host = match host.as_deref() {
        None | Some("") => asked.host.clone(),
        Some("?") => return None,
        Some(host) => host.to_string(),
    };
    Some((first..=last, Address { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_their_master() {
        let asked = Address { host: "here".to_string(), port: 1 };
        let range = |host: Value| {
            let node = Value::Array(vec![host, Value::Int(7), Value::SimpleString("id".into())]);
            range_of(vec![Value::Int(5), Value::Int(9), node], &asked)
        };
        let there = |host: &str| Some((5..=9, Address { host: host.to_string(), port: 7 }));
        assert_eq!(range(Value::BulkString(b"there".to_vec())), there("there"));
        assert_eq!(range(Value::Nil), there("here"));
        assert_eq!(range(Value::BulkString(b"?".to_vec())), None);
    }
}
