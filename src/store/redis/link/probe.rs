//! Examines all servers of a target once, without keeping a connection, for the doctor.

use std::collections::BTreeSet;
use std::net::IpAddr;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;

use super::cluster;
use super::dial::Dialer;
use super::error::LinkError;
use super::options::Options;
use super::sentinel::{self, Sentinels};
use super::target::{Address, Target, Topology};

/// The servers of a target.
#[derive(Default)]
pub struct Survey {
    /// The Sentinels that the target names; empty without Sentinel.
    pub sentinels: Vec<Reading<MultiplexedConnection>>,
    /// The nodes of a Cluster that the target names and that do not answer as cluster nodes.
    pub lost_seeds: Vec<(String, LinkError)>,
    /// The masters, each with a connection or the reason why it cannot be used.
    pub masters: Vec<Reading<MultiplexedConnection>>,
}

/// What is known of one server.
#[derive(Debug, Clone)]
pub struct Reading<T> {
    /// `host:port`.
    pub address: String,
    /// Whether the server runs on this machine.
    pub is_local: bool,
    /// What the server gave: a connection or its answers; or why there is nothing. For a master,
    /// the connection leads to a server that is one.
    pub found: Result<T, LinkError>,
}

impl Survey {
    /// Asks all servers concurrently, each step with the time-outs of the options. It makes no
    /// second attempt.
    pub async fn take(target: &Target, options: Options) -> Survey {
        let dialer = Dialer::new(target.clone(), options);
        match &target.topology {
            Topology::Standalone { address } => {
                let masters = vec![master(&dialer, address).await];
                Survey { masters, ..Survey::default() }
            }
            Topology::Sentinel { sentinels, master } => {
                by_sentinels(&dialer, sentinels, master).await
            }
            Topology::Cluster { seeds } => by_seeds(&dialer, seeds).await,
        }
    }
}

async fn by_sentinels(dialer: &Dialer, addresses: &[Address], name: &str) -> Survey {
    let asked = addresses
        .iter()
        .map(async |address| Reading::new(address, sentinel::connect(dialer, address).await));
    let sentinels = join_all(asked).await;
    let candidates = Sentinels::new(addresses, name).resolve(dialer).await;
    let masters = match candidates {
        Err(error) => {
            vec![Reading { address: name.to_string(), is_local: true, found: Err(error) }]
        }
        Ok(candidates) => {
            let found = join_all(candidates.iter().map(|address| master(dialer, address))).await;
            let usable = found.iter().position(|place| place.found.is_ok()).unwrap_or(0);
            found.into_iter().skip(usable).take(1).collect()
        }
    };
    Survey { sentinels, masters, ..Survey::default() }
}

async fn by_seeds(dialer: &Dialer, seeds: &[Address]) -> Survey {
    let (newest, lost_seeds) = cluster::newest_view(dialer, seeds).await;
    let addresses: BTreeSet<Address> =
        newest.into_iter().flat_map(|view| view.slots).map(|(_, address)| address).collect();
    let masters = join_all(addresses.iter().map(|address| master(dialer, address))).await;
    Survey { lost_seeds, masters, ..Survey::default() }
}

async fn master(dialer: &Dialer, address: &Address) -> Reading<MultiplexedConnection> {
    let opened = dialer.open_master(address, &dialer.config()).await;
    Reading::new(address, opened.map(|(connection, _master)| connection))
}

impl<T> Reading<T> {
    fn new(address: &Address, found: Result<T, LinkError>) -> Reading<T> {
        Reading { address: address.to_string(), is_local: is_local(&address.host), found }
    }
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}
