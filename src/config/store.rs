//! The store, from flags, variables and the file. The password of Redis comes from a file
//! or a variable, so that no command line shows it.

use std::path::PathBuf;
use std::time::Duration;

use super::{Error, File};
use crate::store::redis::durability::Durability;
use crate::store::redis::link::{Secret, Target, TlsFiles};
use crate::store::redis::{BUCKETS_MAX, Layout, Prefix};

/// The variable with the password of Redis. No flag takes the password, because every user of a
/// machine can read all command lines.
const PASSWORD: &str = "BELLWETHER_STORE_PASSWORD";

/// Flags that choose the store, for commands that need no other settings. Each is also a
/// variable and a key of the file.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct StoreFlags {
    /// The store: embedded, memory, or the URL of a Redis or Valkey: redis://HOST:PORT,
    /// redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT, with
    /// rediss for TLS
    #[arg(long, env = "BELLWETHER_STORE", value_name = "STORE")]
    pub store: Option<Secret>,
    /// File with the password of Redis, one line. It can also be in the variable
    /// BELLWETHER_STORE_PASSWORD
    #[arg(long, env = "BELLWETHER_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub store_password_file: Option<PathBuf>,
    /// CA certificates in PEM that verify the certificate of Redis; without it those of the system
    #[arg(long, env = "BELLWETHER_STORE_CA", value_name = "FILE")]
    pub store_ca: Option<PathBuf>,
    /// Client certificate for Redis, in PEM
    #[arg(long, env = "BELLWETHER_STORE_CERTIFICATE", value_name = "FILE")]
    pub store_certificate: Option<PathBuf>,
    /// Key of that certificate, in PEM
    #[arg(long, env = "BELLWETHER_STORE_KEY", value_name = "FILE")]
    pub store_key: Option<PathBuf>,
    /// When a commit to Redis counts: acknowledged, replicated:N (N replicas have it), synced:N
    /// (the disks of the master and of N replicas have it)
    #[arg(long, env = "BELLWETHER_DURABILITY", value_name = "LEVEL")]
    pub durability: Option<String>,
    /// Start of every key in Redis: 1 to 32 of the characters A-Z, a-z, 0-9, '.', '_' and '-';
    /// without it `bw`
    #[arg(long, env = "BELLWETHER_STORE_PREFIX", value_name = "PREFIX")]
    pub store_prefix: Option<String>,
    /// Buckets of the store in Redis, 1 to 256, fixed at its first start; without it the number
    /// that the store has, for a new one 64, or 256 in a Cluster
    #[arg(long, env = "BELLWETHER_STORE_BUCKETS", value_name = "NUMBER")]
    pub store_buckets: Option<u16>,
    /// Keep everything in memory only: the same as --store memory
    #[arg(long, env = "BELLWETHER_EPHEMERAL")]
    pub ephemeral: bool,
    /// Directory of the embedded store
    #[arg(long, env = "BELLWETHER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// File with the same settings and the limits, in TOML
    #[arg(long, env = "BELLWETHER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl StoreFlags {
    /// Whether a flag, a variable or a file says which store is meant.
    pub fn names_store(&self) -> bool {
        self.store.is_some() || self.ephemeral || self.data_dir.is_some() || self.config.is_some()
    }
}

/// The store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreChoice {
    /// A data directory.
    Embedded(PathBuf),
    /// The memory of the process; the data are gone when it ends.
    Memory,
    /// A Redis or Valkey, shared with other replicas.
    Redis(Box<Target>, Durability, Layout),
}

impl StoreChoice {
    /// Returns the backend that `Config::load` chooses with the same flags, without the other
    /// settings.
    pub fn load(flags: StoreFlags) -> Result<StoreChoice, Error> {
        File::of(&flags)?.store(flags)
    }
}

/// The warning for a command line that has the URL of a store with its password.
pub const PASSWORD_SHOWN: &str = "the command line shows the password of the store to every user \
    of this machine; give the URL by BELLWETHER_STORE, or the password by --store-password-file or \
    BELLWETHER_STORE_PASSWORD";

/// Returns whether a command line has the URL of a store with a password in it.
pub fn shows_password(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> bool {
    arguments.into_iter().any(|argument| {
        let text = argument.to_string_lossy();
        let Some((scheme, rest)) = text.split_once("://") else { return false };
        let is_store = scheme.contains("redis") || scheme.contains("valkey");
        let credentials = rest.rsplit_once('@').map_or("", |(credentials, _)| credentials);
        is_store && credentials.split_once(':').is_some_and(|(_, password)| !password.is_empty())
    })
}

impl File {
    /// Returns the store; flags come before the file.
    pub(super) fn store(&mut self, flags: StoreFlags) -> Result<StoreChoice, Error> {
        let given = flags.store.or(self.store.take());
        let prefix = flags.store_prefix.or(self.store_prefix.take());
        let layout = read_layout(prefix, flags.store_buckets.or(self.store_buckets))?;
        let is_url = given.as_ref().is_some_and(|given| given.expose().contains("://"));
        if !is_url && layout != Layout::default() {
            return Err(Error::OnlyRedis);
        }
        match (given.as_ref().map(Secret::expose), flags.ephemeral || self.ephemeral) {
            (None | Some("memory"), true) | (Some("memory"), false) => Ok(StoreChoice::Memory),
            (None | Some("embedded"), false) => {
                let data_dir = flags.data_dir.or(self.data_dir.take());
                Ok(StoreChoice::Embedded(data_dir.unwrap_or_else(|| "bellwether-data".into())))
            }
            (Some(given), true) => Err(Error::EphemeralAndStore(shown(given))),
            (Some(url), false) if url.contains("://") => {
                let tls = TlsFiles {
                    ca: flags.store_ca.or(self.store_ca.take()),
                    certificate: flags.store_certificate.or(self.store_certificate.take()),
                    key: flags.store_key.or(self.store_key.take()),
                };
                let durability = read_durability(flags.durability.or(self.durability.take()))?;
                let target = Target::parse(url, tls)?;
                let file = flags.store_password_file.or(self.store_password_file.take());
                let target = with_password(target, file, std::env::var(PASSWORD).ok())?;
                Ok(StoreChoice::Redis(Box::new(target), durability, layout))
            }
            (Some(given), false) => Err(Error::Unknown {
                setting: "store",
                given: shown(given),
                known: "embedded or memory, or the URL of a Redis, as redis://HOST:PORT",
            }),
        }
    }
}

/// Returns the target with the password that is given beside its URL. Only one place may give it.
fn with_password(
    target: Target,
    file: Option<PathBuf>,
    variable: Option<String>,
) -> Result<Target, Error> {
    let in_url = target.has_password().then_some("the URL");
    let in_file = file.is_some().then_some("store_password_file");
    let in_variable = variable.is_some().then_some(PASSWORD);
    let mut places = [in_url, in_file, in_variable].into_iter().flatten();
    if let (Some(first), Some(second)) = (places.next(), places.next()) {
        return Err(Error::SeveralPasswords(first, second));
    }
    let (text, place) = match (file, variable) {
        (Some(path), _) => {
            let (text, place) = (std::fs::read_to_string(&path), path.display().to_string());
            let unread = |error| Error::Read("the password of the store from", path, error);
            (text.map_err(unread)?, place)
        }
        (None, Some(text)) => (text, PASSWORD.to_string()),
        (None, None) => return Ok(target),
    };
    // Editors and `echo` end a line with a newline; no password ends with one.
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(Error::NoPassword(place)),
        password => Ok(target.with_password(password.into())),
    }
}

/// Returns the given store, or `***` if it may contain a password, as an invalid URL may.
fn shown(given: &str) -> String {
    let is_word = given.len() <= 32 && given.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_word { given.to_string() } else { Secret::from(given).to_string() }
}

/// The time limit for confirmations of replicas: a healthy replica needs less, and the default
/// deadline of a call is longer.
const REPLICATION_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit for confirmations of disks. With `appendfsync everysec` the disk of a replica
/// takes up to a second, and its confirmation up to another second.
const SYNC_TIMEOUT: Duration = Duration::from_secs(3);

fn read_layout(prefix: Option<String>, buckets: Option<u16>) -> Result<Layout, Error> {
    if let Some(given) = buckets.filter(|given| !(1..=BUCKETS_MAX).contains(given)) {
        let (setting, given) = ("store_buckets", given.to_string());
        return Err(Error::Unknown { setting, given, known: "a number from 1 to 256" });
    }
    let Some(given) = prefix else { return Ok(Layout { buckets, ..Layout::default() }) };
    match Prefix::parse(&given) {
        Some(prefix) => Ok(Layout { prefix, buckets }),
        None => Err(Error::Unknown {
            setting: "store_prefix",
            given,
            known: "1 to 32 of the characters A-Z, a-z, 0-9, `.`, `_` and `-`",
        }),
    }
}

fn read_durability(given: Option<String>) -> Result<Durability, Error> {
    let Some(given) = given else { return Ok(Durability::Acknowledged) };
    let (level, count) = given.split_once(':').unwrap_or((given.as_str(), ""));
    match (level, count.parse()) {
        ("acknowledged", _) if count.is_empty() => Ok(Durability::Acknowledged),
        ("replicated", Ok(replicas)) => {
            Ok(Durability::Replicated { replicas, patience: REPLICATION_TIMEOUT })
        }
        ("synced", Ok(replicas)) => Ok(Durability::Synced { replicas, patience: SYNC_TIMEOUT }),
        _ => Err(Error::Unknown {
            setting: "durability",
            given,
            known: "acknowledged, replicated:N or synced:N, with N the number of replicas",
        }),
    }
}
