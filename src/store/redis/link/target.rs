//! The address of Redis, as `--store` gives it.

use std::fmt;
use std::path::PathBuf;

use super::secret::Secret;

/// The PEM files of a TLS connection. They are read at each connection, so renewed certificates are
/// used without a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The CA certificates to trust; without it, those of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate, if Redis asks for one. Needs `key`.
    pub certificate: Option<PathBuf>,
    /// The key of `certificate`.
    pub key: Option<PathBuf>,
}

/// The address of Redis and the user to connect as. Prints without the password.
///
/// ```
/// use bellwether::store::redis::link::{Target, TlsFiles};
///
/// let url = "redis+sentinel://flock:secret@one,two:26380/main/1";
/// let target = Target::parse(url, TlsFiles::default()).unwrap();
/// assert_eq!(target.to_string(), "redis+sentinel://flock@one:26379,two:26380/main/1");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub(super) topology: Topology,
    pub(super) tls: Option<TlsFiles>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: i64,
}

/// How the masters are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By the address of the one master.
    Standalone,
    /// By Sentinels, which know the address of the master.
    Sentinel,
    /// By nodes of a Cluster, which know all masters.
    Cluster,
}

/// How a link finds the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Topology {
    Standalone { address: Address },
    Sentinel { sentinels: Vec<Address>, master: String },
    Cluster { seeds: Vec<Address> },
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Why a URL or its TLS files are not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The part before `://` is not a known scheme.
    #[error(
        "store URL starts with {scheme:?}; use redis, redis+sentinel or redis+cluster, \
         with rediss for TLS"
    )]
    Scheme {
        /// The part before `://`, masked if it may be a password.
        scheme: String,
    },
    /// A host or port is missing or wrong.
    #[error("store URL has {found:?} where host:port should be")]
    Address {
        /// The text in place of host and port, with a possible password masked.
        found: String,
    },
    /// The URL names several servers where one is expected.
    #[error("store URL names several servers; use redis+sentinel:// or redis+cluster://")]
    SeveralServers,
    /// The URL of a Sentinel lacks the name of the master.
    #[error("store URL lacks the name of the master: redis+sentinel://host:port,host:port/NAME")]
    NoMasterName,
    /// The part after the last `/` is not a number. It is not shown, because it may be part of a
    /// password.
    #[error(
        "store URL has no number of a database after its last `/`; if the password has a `/`, \
         write it as %2F, or give it by BELLWETHER_STORE_PASSWORD"
    )]
    Database,
    /// A cluster has database 0 only.
    #[error("store URL selects a database, and a cluster has only one")]
    DatabaseOfCluster,
    /// The URL has options of other programs. They are refused, because they would have no effect.
    #[error("store URL has options after {mark:?}, and there are none")]
    Options {
        /// `?` or `#`.
        mark: char,
    },
    /// A `%` is not followed by two hexadecimal digits, or the decoded bytes are not UTF-8.
    #[error(
        "store URL has a user or password with a % that is not percent-encoded; write it as %25, \
         or give the password by BELLWETHER_STORE_PASSWORD"
    )]
    Encoding,
    /// There are TLS files, but the URL is without TLS.
    #[error("store URL is without TLS, and there are TLS files; use rediss:// or leave them out")]
    FilesWithoutTls,
    /// Of certificate and key, one is missing.
    #[error("the client certificate and its key are given together or not at all")]
    CertificateWithoutKey,
}

/// The default ports of Redis and Valkey.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

impl Target {
    /// Parses `redis://[user:password@]host:port[/database]`,
    /// `redis+sentinel://[user:password@]host:port,host:port/master-name[/database]` or
    /// `redis+cluster://[user:password@]host:port,host:port`; with `rediss` for TLS.
    ///
    /// # Errors
    ///
    /// If the URL or the files do not fit together. The sentence never shows the password.
    pub fn parse(url: &str, tls: TlsFiles) -> Result<Target, TargetError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (is_tls, kind) = kind_of(scheme)?;
        if tls.certificate.is_some() != tls.key.is_some() {
            return Err(TargetError::CertificateWithoutKey);
        }
        if !is_tls && tls != TlsFiles::default() {
            return Err(TargetError::FilesWithoutTls);
        }
        let (credentials, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        if let Some(mark) = place.chars().find(|c| matches!(c, '?' | '#')) {
            return Err(TargetError::Options { mark });
        }
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        let (topology, database) = kind.read(hosts, path)?;
        Ok(Target {
            topology,
            tls: is_tls.then_some(tls),
            user: decode(user)?,
            password: decode(password)?.map(Secret::from),
            database,
        })
    }

    /// Returns whether the connections use TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the same target with this password.
    #[must_use]
    pub fn with_password(self, password: Secret) -> Target {
        Target { password: Some(password), ..self }
    }

    /// Returns whether the target has a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Returns the user, if it is not the default one.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the name of the master at the Sentinels; `None` without Sentinel.
    pub fn master_name(&self) -> Option<&str> {
        match &self.topology {
            Topology::Sentinel { master, .. } => Some(master),
            Topology::Standalone { .. } | Topology::Cluster { .. } => None,
        }
    }

    /// Returns how the masters are found.
    pub fn kind(&self) -> Kind {
        match self.topology {
            Topology::Standalone { .. } => Kind::Standalone,
            Topology::Sentinel { .. } => Kind::Sentinel,
            Topology::Cluster { .. } => Kind::Cluster,
        }
    }
}

fn kind_of(scheme: &str) -> Result<(bool, Kind), TargetError> {
    match scheme {
        "redis" | "valkey" => Ok((false, Kind::Standalone)),
        "rediss" | "valkeys" => Ok((true, Kind::Standalone)),
        "redis+sentinel" | "valkey+sentinel" => Ok((false, Kind::Sentinel)),
        "rediss+sentinel" | "valkeys+sentinel" => Ok((true, Kind::Sentinel)),
        "redis+cluster" | "valkey+cluster" => Ok((false, Kind::Cluster)),
        "rediss+cluster" | "valkeys+cluster" => Ok((true, Kind::Cluster)),
        _ => Err(TargetError::Scheme { scheme: word(scheme) }),
    }
}

/// Returns a scheme in a form that is safe to show: an unknown one may be a password.
fn word(scheme: &str) -> String {
    let is_word = scheme.len() <= 32
        && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || b"+-.".contains(&byte));
    if is_word { scheme.to_string() } else { Secret::from(scheme).to_string() }
}

/// Returns a place in a form that is safe to show: in a URL without `@`, the port may be a
/// password.
fn without_password(place: &str) -> String {
    match place.split_once(':') {
        Some((host, port)) if !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{host}:{}", Secret::from(port))
        }
        _ => place.to_string(),
    }
}

impl Kind {
    fn read(self, hosts: &str, path: &str) -> Result<(Topology, i64), TargetError> {
        let port = if let Kind::Sentinel = self { SENTINEL_PORT } else { PORT };
        let hosts = hosts.split(',').map(|text| Address::parse(text, port));
        let hosts = hosts.collect::<Result<Vec<Address>, TargetError>>()?;
        match self {
            Kind::Standalone => match <[Address; 1]>::try_from(hosts) {
                Ok([address]) => Ok((Topology::Standalone { address }, database(path)?)),
                Err(_) => Err(TargetError::SeveralServers),
            },
            Kind::Sentinel => {
                let (name, rest) = path.split_once('/').unwrap_or((path, ""));
                let master = decode(name)?.ok_or(TargetError::NoMasterName)?;
                Ok((Topology::Sentinel { sentinels: hosts, master }, database(rest)?))
            }
            Kind::Cluster => match database(path)? {
                0 => Ok((Topology::Cluster { seeds: hosts }, 0)),
                _ => Err(TargetError::DatabaseOfCluster),
            },
        }
    }
}

fn database(path: &str) -> Result<i64, TargetError> {
    let is_number = path.bytes().all(|byte| byte.is_ascii_digit());
    match path {
        "" => Ok(0),
        digits => digits.parse().ok().filter(|_| is_number).ok_or(TargetError::Database),
    }
}

/// Decodes percent-encoded text; `None` if it is empty.
fn decode(text: &str) -> Result<Option<String>, TargetError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or(TargetError::Encoding)?);
        rest = &after[2..];
    }
    let text = String::from_utf8(bytes).map_err(|_| TargetError::Encoding)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

impl Address {
    /// Parses `host`, `host:port` or `[v6]:port`.
    pub(super) fn parse(text: &str, default_port: u16) -> Result<Address, TargetError> {
        let wrong = || TargetError::Address { found: without_password(text) };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
            None => text.split_at(text.rfind(':').unwrap_or(text.len())),
        };
        let port = match port {
            "" => default_port,
            port => {
                let digits = port.strip_prefix(':').ok_or_else(wrong)?;
                digits.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?
            }
        };
        let is_v6 = text.starts_with('[');
        if host.is_empty() || !is_v6 && host.contains(':') {
            return Err(wrong());
        }
        Ok(Address { host: host.to_string(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, hosts) = match &self.topology {
            Topology::Standalone { address } => ("", std::slice::from_ref(address)),
            Topology::Sentinel { sentinels, .. } => ("+sentinel", sentinels.as_slice()),
            Topology::Cluster { seeds } => ("+cluster", seeds.as_slice()),
        };
        write!(f, "redis{}{kind}://", if self.tls.is_some() { "s" } else { "" })?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        let hosts: Vec<String> = hosts.iter().map(Address::to_string).collect();
        write!(f, "{}", hosts.join(","))?;
        if let Topology::Sentinel { master, .. } = &self.topology {
            write!(f, "/{master}")?;
        }
        match self.database {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_without_password() {
        let table = [
            ("redis://host", Ok("redis://host:6379")),
            ("redis://host:1/2", Ok("redis://host:1/2")),
            ("redis://:p%40ss@host", Ok("redis://host:6379")),
            ("rediss://me:secret@[::1]:7/", Ok("rediss://me@[::1]:7")),
            ("valkey://host", Ok("redis://host:6379")),
            ("redis+sentinel://a,b:2/main", Ok("redis+sentinel://a:26379,b:2/main")),
            ("rediss+cluster://a:1,b:2", Ok("rediss+cluster://a:1,b:2")),
            ("http://host", Err(TargetError::Scheme { scheme: "http".into() })),
            ("host:6379", Err(TargetError::Scheme { scheme: String::new() })),
            ("redis+://host", Err(TargetError::Scheme { scheme: "redis+".into() })),
            ("redis://a,b", Err(TargetError::SeveralServers)),
            ("redis://a:b", Err(TargetError::Address { found: "a:***".into() })),
            ("me:word@redis://a", Err(TargetError::Scheme { scheme: "***".into() })),
            ("redis://::1", Err(TargetError::Address { found: ":***".into() })),
            ("redis://", Err(TargetError::Address { found: String::new() })),
            ("redis://a/x", Err(TargetError::Database)),
            ("redis://a/0?protocol=resp3", Err(TargetError::Options { mark: '?' })),
            ("redis+sentinel://a", Err(TargetError::NoMasterName)),
            ("redis+cluster://a/1", Err(TargetError::DatabaseOfCluster)),
            ("redis://me:%zz@a", Err(TargetError::Encoding)),
        ];
        for (url, expected) in table {
            let shown = Target::parse(url, TlsFiles::default()).map(|target| target.to_string());
            assert_eq!(shown.as_deref(), expected.as_ref().map(|text| *text), "{url}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_kept_to_themselves() {
        let target = Target::parse("redis://me:p%40ss%3a@host", TlsFiles::default()).unwrap();
        assert_eq!(target.user.as_deref(), Some("me"));
        assert_eq!(target.password, Some("p@ss:".into()));
        assert!(!format!("{target:?} {target}").contains("ss:"), "{target:?}");
    }

    #[test]
    fn files_fit_the_url() {
        let ca = TlsFiles { ca: Some("ca.pem".into()), ..TlsFiles::default() };
        let error = Target::parse("redis://host", ca).unwrap_err();
        assert_eq!(error, TargetError::FilesWithoutTls);
        let half = TlsFiles { key: Some("client.key".into()), ..TlsFiles::default() };
        let error = Target::parse("rediss://host", half).unwrap_err();
        assert_eq!(error, TargetError::CertificateWithoutKey);
    }
}
