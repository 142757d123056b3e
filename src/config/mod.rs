//! The settings of the server: flags, then `BELLWETHER_*` variables, then the configuration file,
//! then defaults. They are checked once, here, before the server opens anything.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::aggregator;
use crate::domain::classify::Rules;
use crate::domain::limits::FaultSettings;
use crate::security::identity::jwt::Issuer;
use crate::service;
use crate::service::relay::RelayOptions;
use crate::service::web::Origins;
use crate::session;
use crate::store::Retention;
use crate::store::redis::link::{Secret, TargetError};

mod callers;
mod limits;
mod number;
mod page_name;
mod parse;
mod relay;
pub mod rules;
mod store;
mod tls;

pub use callers::{CallerFlags, Callers};
pub use number::Number;
pub use relay::RelayFlags;
pub use store::{PASSWORD_SHOWN, StoreChoice, StoreFlags, shows_password};
pub use tls::{TlsChoice, TlsFlags};

use number::{FileFaults, FileHistory, FileLimits, FileNumber, FileSessions, Seconds};
use page_name::PageName;

/// Flags of `bellwether serve`, each also a variable and a key of the file.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// Address for gRPC; port 0 picks a free one
    #[arg(long, alias = "listen", env = "BELLWETHER_GRPC_LISTEN", value_name = "ADDRESS")]
    pub grpc_listen: Option<SocketAddr>,
    /// Address for /metrics, /livez and /readyz; port 0 picks a free one
    #[arg(long, env = "BELLWETHER_OPS_LISTEN", value_name = "ADDRESS")]
    pub ops_listen: Option<SocketAddr>,
    /// The store
    #[command(flatten)]
    pub store: StoreFlags,
    /// Start the embedded store of this store epoch even if acknowledged commits are lost, because
    /// a part of its log is damaged or missing. The error of such a start names the epoch. The
    /// epoch changes then, so that the same value accepts no later loss
    #[arg(long, env = "BELLWETHER_ACCEPT_DATA_LOSS", value_name = "EPOCH")]
    pub accept_data_loss: Option<String>,
    /// File with error rules of your own, in TOML; read again at SIGHUP
    #[arg(long, env = "BELLWETHER_ERROR_RULES", value_name = "FILE")]
    pub error_rules: Option<PathBuf>,
    /// TLS of the ports
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Who may call
    #[command(flatten)]
    pub callers: CallerFlags,
    /// Origins of web pages that may call from a browser, as `https://status.example.com`
    #[arg(long, env = "BELLWETHER_ALLOWED_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub allowed_origins: Vec<String>,
    /// Serve no gRPC reflection and no /descriptor.binpb
    #[arg(long, env = "BELLWETHER_NO_REFLECTION")]
    pub no_reflection: bool,
    /// Name of this installation on the status page, instead of the host of the request; at most 64
    /// characters
    #[arg(long, env = "BELLWETHER_PAGE_NAME", value_name = "NAME")]
    pub page_name: Option<PageName>,
    /// Serve addresses beyond this machine even if any stranger there may call
    #[arg(long, env = "BELLWETHER_INSECURE")]
    pub insecure: bool,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    grpc_listen: Option<SocketAddr>,
    ops_listen: Option<SocketAddr>,
    store: Option<Secret>,
    store_password_file: Option<PathBuf>,
    store_ca: Option<PathBuf>,
    store_certificate: Option<PathBuf>,
    store_key: Option<PathBuf>,
    durability: Option<String>,
    store_prefix: Option<String>,
    store_buckets: Option<u16>,
    data_dir: Option<PathBuf>,
    accept_data_loss: Option<String>,
    ephemeral: bool,
    insecure: bool,
    no_reflection: bool,
    page_name: Option<PageName>,
    error_rules: Option<PathBuf>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_client_ca: Option<PathBuf>,
    tls_client_certificates: Option<String>,
    ops_tls: bool,
    tokens: Option<PathBuf>,
    roles: Option<PathBuf>,
    jwt: Vec<Issuer>,
    allowed_origins: Vec<String>,
    drain_deadline_seconds: Option<Seconds>,
    limits: FileLimits,
    history: FileHistory,
    sessions: FileSessions,
    faults: FileFaults,
}

/// Every setting of the server, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address for gRPC.
    pub grpc_listen: SocketAddr,
    /// Address for operators.
    pub ops_listen: SocketAddr,
    /// The store.
    pub store: StoreChoice,
    /// The epoch of an embedded store that is opened even if acknowledged commits are lost.
    pub accept_data_loss: Option<String>,
    /// How long open calls may take to finish when the server stops.
    pub drain_deadline: Duration,
    /// Limits of the aggregator and of the domain.
    pub aggregator: aggregator::Options,
    /// Limits and times of sessions.
    pub session: session::Options,
    /// Limits of connections, calls and requests.
    pub service: service::Options,
    /// How much history is kept.
    pub retention: Retention,
    /// The user's error rules, with the file they come from.
    pub error_rules: Option<(PathBuf, Rules)>,
    /// TLS of the ports; `None`: without.
    pub tls: Option<TlsChoice>,
    /// How callers prove who they are.
    pub callers: Callers,
    /// What a relay follows; `None` in a server.
    pub relay: Option<RelayOptions>,
    /// Applications with series of their own at `/metrics`.
    pub metrics_applications_max: usize,
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("read {0} {path}: {2}", path = .1.display())]
    Read(&'static str, PathBuf, #[source] std::io::Error),
    /// The file has a syntax error or a wrong key. The error has the number of the line, never its
    /// text: it may hold a password.
    #[error("configuration file {path}, {1}", path = .0.display())]
    Parse(PathBuf, String),
    /// The value of a setting is unknown.
    #[error("{setting} {given:?} is not known; give {known}")]
    Unknown {
        /// The setting.
        setting: &'static str,
        /// The value; `***` for a store that is no plain word.
        given: String,
        /// The values that are known.
        known: &'static str,
    },
    /// The file or the variable for the password has none.
    #[error("{0} has no password; write one line into it")]
    NoPassword(String),
    /// The store has more than one password.
    #[error("the store has a password by {0} and by {1}; give one of them")]
    SeveralPasswords(&'static str, &'static str),
    /// The URL of the store names no valid target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The file of error rules is not TOML, or has a wrong key or value. Each mistake has its line.
    #[error("error rules {path}: {1}", path = .0.display())]
    Rules(PathBuf, String),
    /// Another store contradicts `--ephemeral`; it is `***` unless it is a plain word.
    #[error("--ephemeral is --store memory, but --store {0} is given too; leave one of them out")]
    EphemeralAndStore(String),
    /// The layout of a Redis is given for another store.
    #[error(
        "store_prefix and store_buckets are for a Redis; leave them out, or give its URL as store"
    )]
    OnlyRedis,
    /// A flag of the TLS is given without one that it needs.
    #[error("{0} needs {1}; give both or none")]
    TlsIncomplete(&'static str, &'static str),
    /// Two issuers have this name.
    #[error("two issuers have the name {0:?}; principals name their issuer, so give each its own")]
    IssuerTwice(String),
    /// The keys of the issuer of this name have an unusable URL.
    #[error("issuer {0:?}: {1}")]
    KeyUrl(String, &'static str),
    /// The issuer of this name has settings of a URL beside a file.
    #[error("issuer {0:?} has its keys in a file, so keys_ca and keys_token_file have no effect")]
    KeysOfFile(String),
    /// Callers are known, but may do nothing.
    #[error(
        "callers prove who they are, but no --roles FILE says what they may do, so every call \
         would be refused; give one"
    )]
    NoRoles,
    /// Callers have roles, but are not known.
    #[error(
        "--roles has no effect without a way to know callers; give --tokens, --tls-client-ca or \
         [[jwt]] too"
    )]
    OnlyRoles,
    /// An address that other machines can reach, without protection.
    #[error(
        "{flag} {address} can be reached from other machines, without {lacking}; \
         listen on 127.0.0.1, or say --insecure if the network protects it"
    )]
    Unprotected {
        /// The flag.
        flag: &'static str,
        /// Its value.
        address: SocketAddr,
        /// The protection that is missing.
        lacking: &'static str,
    },
    /// A text that is no origin of a web page.
    #[error("allowed origin {0:?} is no origin; give https://HOST or https://HOST:PORT")]
    Origin(String),
    /// A text that is no namespace.
    #[error("{0:?} is no name of a namespace; give --namespaces NAME,NAME")]
    Namespace(String),
    /// More namespaces than a relay may name.
    #[error("{0} namespaces are named; name at most {1}, or none for all")]
    TooManyNamespaces(usize, usize),
    /// An address of an upstream that is given again.
    #[error("upstream {0} is given twice; give --upstream URL,URL with each address once")]
    UpstreamTwice(String),
    /// An address of an upstream without any text.
    #[error("an address of --upstream is empty; give --upstream URL or URL,URL")]
    EmptyUpstream,
    /// More upstreams than a relay may have.
    #[error("{0} upstreams are named; name at most {1}, or relays of some of them")]
    TooManyUpstreams(usize, usize),
    /// A limit of 0, with which the server could serve nothing.
    #[error("limit {0} is 0, so nothing could be served; give 1 or more")]
    ZeroLimit(String),
    /// A number that is too large for a time or a semaphore.
    #[error("{limit} is {given}; give at most {most}")]
    TooLarge {
        /// The setting.
        limit: String,
        /// Its value.
        given: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// A setting of faults is above another one that bounds it.
    #[error("faults.{0} is above faults.{1}; give it the same or less")]
    OutOfOrder(&'static str, &'static str),
}

impl Config {
    /// Merges flags, variables (clap has already merged these two), file and defaults, and checks
    /// the result.
    pub fn load(flags: Flags) -> Result<Config, Error> {
        let mut file = File::of(&flags.store)?;
        let insecure = flags.insecure || file.insecure;
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let grpc_listen = flags.grpc_listen.or(file.grpc_listen).unwrap_or(local(50051));
        let ops_listen = flags.ops_listen.or(file.ops_listen).unwrap_or(local(9090));
        let tls = file.tls(flags.tls)?;
        let callers = file.callers(flags.callers)?;
        check_roles(tls.as_ref(), &callers)?;
        if !insecure {
            check_protected(grpc_listen, ops_listen, tls.as_ref(), &callers)?;
        }
        let error_rules = flags.error_rules.or(file.error_rules.take());
        let error_rules = error_rules.map(|path| rules::read(&path).map(|rules| (path, rules)));
        let mut config = Config {
            error_rules: error_rules.transpose()?,
            grpc_listen,
            ops_listen,
            store: file.store(flags.store)?,
            accept_data_loss: flags.accept_data_loss.or(file.accept_data_loss.take()),
            tls,
            callers,
            ..Config::ephemeral()
        };
        file.set_numbers(&mut config);
        config.service.reflection = !(flags.no_reflection || file.no_reflection);
        let page_name = flags.page_name.or(file.page_name.take());
        config.service.page_name = page_name.map(PageName::into_text).unwrap_or_default();
        let mut origins = flags.allowed_origins;
        if origins.is_empty() {
            origins = std::mem::take(&mut file.allowed_origins);
        }
        config.service.origins =
            Origins::new(origins, grpc_listen.ip().is_loopback()).map_err(Error::Origin)?;
        config.check()?;
        Ok(config)
    }

    /// Returns a configuration for tests and for programs that embed the server: free ports,
    /// nothing on disk.
    pub fn ephemeral() -> Config {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Config {
            grpc_listen: anywhere,
            ops_listen: anywhere,
            store: StoreChoice::Memory,
            accept_data_loss: None,
            // Shorter than the 30 s that Kubernetes and systemd wait before they kill.
            drain_deadline: Duration::from_secs(10),
            aggregator: aggregator::Options::default(),
            service: service::Options::default(),
            retention: Retention::default(),
            session: session::Options::default(),
            error_rules: None,
            tls: None,
            callers: Callers::default(),
            relay: None,
            metrics_applications_max: 500,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let numbers = self.numbers();
        if let Some(number) = numbers.iter().find(|number| number.most() < number.value) {
            let (limit, given, most) = (number.name(), number.value, number.most());
            return Err(Error::TooLarge { limit, given, most });
        }
        match numbers.iter().find(|number| number.value < number.least) {
            Some(number) => Err(Error::ZeroLimit(number.name())),
            None => check_order(&self.aggregator.limits.faults),
        }
    }
}

/// Checks that roles and ways to know callers are given together.
fn check_roles(tls: Option<&TlsChoice>, callers: &Callers) -> Result<(), Error> {
    match (callers.are_known(tls), callers.roles.is_some()) {
        (true, false) => Err(Error::NoRoles),
        (false, true) => Err(Error::OnlyRoles),
        _ => Ok(()),
    }
}

/// Checks the addresses that other machines can reach: the gRPC port needs TLS and known callers,
/// the ops port needs TLS.
fn check_protected(
    grpc: SocketAddr,
    ops: SocketAddr,
    tls: Option<&TlsChoice>,
    callers: &Callers,
) -> Result<(), Error> {
    let on_grpc = match tls {
        None => Some("TLS and a way to know its callers"),
        Some(_) if !callers.are_known(tls) => Some("a way to know its callers"),
        Some(_) => None,
    };
    let on_ops = (!tls.is_some_and(|tls| tls.with_ops)).then_some("TLS (--ops-tls)");
    for (flag, address, lacking) in
        [("--grpc-listen", grpc, on_grpc), ("--ops-listen", ops, on_ops)]
    {
        if let Some(lacking) = lacking.filter(|_| !address.ip().is_loopback()) {
            return Err(Error::Unprotected { flag, address, lacking });
        }
    }
    Ok(())
}

/// Checks that the thresholds and times of faults fit together.
fn check_order(faults: &FaultSettings) -> Result<(), Error> {
    let order = [
        (faults.soft_count <= faults.hard_count, "soft_count", "hard_count"),
        (faults.soft_after <= faults.hard_after, "soft_after_seconds", "hard_after_seconds"),
        (faults.retry_base <= faults.retry_max, "retry_base_milliseconds", "retry_max_seconds"),
    ];
    match order.into_iter().find(|(holds, ..)| !holds) {
        Some((_, least, most)) => Err(Error::OutOfOrder(least, most)),
        None => Ok(()),
    }
}

impl File {
    /// Reads the file that the flags name; returns an empty one if they name none.
    fn of(flags: &StoreFlags) -> Result<File, Error> {
        let Some(path) = &flags.config else { return Ok(File::default()) };
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Error::Read("configuration file", path.clone(), error))?;
        let wrong = |error| Error::Parse(path.clone(), parse::problem(&text, &error));
        toml::from_str(&text).map_err(wrong)
    }

    /// Sets the numbers that the file gives, and those that follow from them.
    fn set_numbers(&self, config: &mut Config) {
        if let Some(deadline) = self.drain_deadline_seconds {
            config.drain_deadline = deadline.value();
        }
        self.limits.apply(config);
        self.history.apply(config);
        self.sessions.apply(config);
        self.faults.apply(config);
        self.limits.set_namespaces(config);
        self.set_shares(config);
        config.aggregator.limits.events_max = config.retention.events_max;
        config.aggregator.limits.own_events_max = config.retention.own_events_max;
        config.service.requests.statuses_max = config.aggregator.limits.statuses_per_unit_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Flags {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, text).unwrap();
        with(StoreFlags { config: Some(path.keep().unwrap()), ..StoreFlags::default() })
    }

    fn with(store: StoreFlags) -> Flags {
        Flags { store, ..Flags::default() }
    }

    fn load(flags: Flags) -> Result<Config, String> {
        let path = flags.store.config.clone();
        let loaded = Config::load(flags).map_err(|e| e.to_string());
        path.map(std::fs::remove_file).transpose().unwrap();
        loaded
    }

    #[test]
    fn flags_beat_the_file_and_the_file_beats_defaults() {
        let text =
            "ops_listen = '127.0.0.1:7'\ngrpc_listen = '127.0.0.1:8'\n[limits]\nunits_max = 5";
        let flags = Flags { grpc_listen: Some(([127, 0, 0, 1], 9).into()), ..file(text) };
        let config = load(flags).unwrap();
        assert_eq!(config.grpc_listen.port(), 9);
        assert_eq!(config.ops_listen.port(), 7);
        assert_eq!(config.aggregator.limits.units_max, 5);
        assert_eq!(config.store, StoreChoice::Embedded("bellwether-data".into()));
    }

    #[test]
    fn invalid_settings_are_refused_with_their_reason() {
        let place = |store: &str| StoreFlags { store: Some(store.into()), ..StoreFlags::default() };
        let store = |store: &str| with(place(store));
        let open = Flags { grpc_listen: Some(([0, 0, 0, 0], 50051).into()), ..Flags::default() };
        let durable = |level: &str| {
            let durability = Some(level.to_string());
            with(StoreFlags { durability, ..place("redis://127.0.0.1:6379") })
        };
        assert!(load(durable("synced:1")).is_ok());
        const REDIS: &str = "redis://127.0.0.1:6379";
        let laid_out = |store: &str, prefix: &str, buckets| {
            let (store_prefix, store_buckets) = (Some(prefix.to_string()), Some(buckets));
            with(StoreFlags { store_prefix, store_buckets, ..place(store) })
        };
        assert!(load(laid_out(REDIS, "prod-1", 256)).is_ok());
        let both = with(StoreFlags { ephemeral: true, ..place("embedded") });
        let cases = [
            (store("etcd"), "give embedded or memory"),
            (store("mysql://127.0.0.1"), "starts with"),
            (durable("replicated"), "replicated:N"),
            (laid_out(REDIS, "a:b", 1), "store_prefix \"a:b\" is not known; give 1 to 32"),
            (laid_out(REDIS, "", 1), "give 1 to 32"),
            (laid_out(REDIS, "a", 0), "store_buckets \"0\" is not known; give a number from 1"),
            (laid_out(REDIS, "a", 257), "to 256"),
            (laid_out("embedded", "a", 1), "are for a Redis"),
            (durable("synced:some"), "replicated:N"),
            (open.clone(), "say --insecure"),
            (both, "leave one of them out"),
            (file("allowed_origins = ['https://a.example/page']"), "a.example/page\" is no origin"),
            (file("grpc_port = 5"), "unknown field `grpc_port`"),
            (file("[limits]\nunits_mx = 5"), "did you mean `units_max`?"),
            (file("[limits]\nunits_max = 0"), "limit units_max is 0"),
            (
                file("[limits]\nconnections_max = 9223372036854775807"),
                "give at most 281474976710656",
            ),
            (
                file("[sessions]\nheartbeat_interval_seconds = 9223372036854775807"),
                "heartbeat_interval_seconds is 9223372036854775807; give at most 4294967295",
            ),
            (file("drain_deadline_seconds = 4294967296"), "drain_deadline_seconds is 4294967296"),
            (file("[limits]\nunits_max = 'many'"), "invalid type"),
            (file("[faults]\nsoft_count = 11"), "soft_count is above faults.hard_count"),
            (file("[faults]\nretries_per_second_max = 0"), "retries_per_second_max is 0"),
        ];
        for (flags, expected) in cases {
            let error = load(flags).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(load(Flags { insecure: true, ..open }).is_ok());
        let config = Some("/nowhere/bellwether.toml".into());
        let missing = with(StoreFlags { config, ..StoreFlags::default() });
        assert!(Config::load(missing).unwrap_err().to_string().contains("/nowhere"));
    }
}
