//! The settings of a relay: those of its ports and callers are the settings of a server.

use std::net::SocketAddr;
use std::path::PathBuf;

use bellwether_client::Security;

use super::page_name::PageName;
use super::{CallerFlags, Config, Error, Flags, StoreFlags, TlsFlags};
use crate::domain::name::namespace_name;
use crate::service::relay::{RelayOptions, UPSTREAMS_MAX};

/// Namespaces that one relay may name: it follows each of them by a watch of its own.
const NAMESPACES_MAX: usize = 64;

/// Flags of `bellwether relay`, each also a variable.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RelayFlags {
    /// Addresses of the servers, or of the relays, to follow: http://HOST:PORT or
    /// https://HOST:PORT. Several must have different namespaces; for the servers of one store give
    /// one address
    #[arg(
        long,
        env = "BELLWETHER_UPSTREAM",
        value_name = "URL",
        value_delimiter = ',',
        required = true
    )]
    pub upstream: Vec<String>,
    /// Namespaces to serve, without it all
    #[arg(long, env = "BELLWETHER_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// Address for gRPC; port 0 picks a free one
    #[arg(long, alias = "listen", env = "BELLWETHER_GRPC_LISTEN", value_name = "ADDRESS")]
    pub grpc_listen: Option<SocketAddr>,
    /// Address for /metrics, /livez and /readyz; port 0 picks a free one
    #[arg(long, env = "BELLWETHER_OPS_LISTEN", value_name = "ADDRESS")]
    pub ops_listen: Option<SocketAddr>,
    /// Serve addresses beyond this machine even if any stranger there may call
    #[arg(long, env = "BELLWETHER_INSECURE")]
    pub insecure: bool,
    /// TLS of the ports
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Name of this installation on the status page, instead of the host of the request; at most 64
    /// characters
    #[arg(long, env = "BELLWETHER_PAGE_NAME", value_name = "NAME")]
    pub page_name: Option<PageName>,
    /// Who may call
    #[command(flatten)]
    pub callers: CallerFlags,
    /// Serve no gRPC reflection and no /descriptor.binpb
    #[arg(long, env = "BELLWETHER_NO_REFLECTION")]
    pub no_reflection: bool,
    /// Origins of web pages that may call from a browser, as `https://status.example.com`
    #[arg(long, env = "BELLWETHER_ALLOWED_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub allowed_origins: Vec<String>,
    /// File with the settings and limits of a server, in TOML; those of its store have no effect
    #[arg(long, env = "BELLWETHER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl Config {
    /// Loads the configuration of a relay. `security` has its credentials for the upstream.
    pub fn load_relay(flags: RelayFlags, security: Security) -> Result<Config, Error> {
        let given = flags.namespaces.iter();
        let namespaces = given.map(|name| {
            namespace_name(name).map_err(|_| Error::Namespace(name.escape_debug().to_string()))
        });
        let mut namespaces = namespaces.collect::<Result<Vec<_>, Error>>()?;
        namespaces.sort();
        namespaces.dedup();
        if NAMESPACES_MAX < namespaces.len() {
            return Err(Error::TooManyNamespaces(namespaces.len(), NAMESPACES_MAX));
        }
        let upstreams = upstreams(flags.upstream)?;
        let store = StoreFlags {
            store: Some("memory".into()),
            config: flags.config,
            ..StoreFlags::default()
        };
        let config = Config::load(Flags {
            grpc_listen: flags.grpc_listen,
            ops_listen: flags.ops_listen,
            store,
            tls: flags.tls,
            callers: flags.callers,
            allowed_origins: flags.allowed_origins,
            no_reflection: flags.no_reflection,
            page_name: flags.page_name,
            insecure: flags.insecure,
            ..Flags::default()
        })?;
        let relay = Some(RelayOptions { upstreams, namespaces, security });
        Ok(Config { relay, ..config })
    }
}

/// Checks the addresses of upstreams: each once, and not too many.
fn upstreams(given: Vec<String>) -> Result<Vec<String>, Error> {
    let mut upstreams: Vec<String> = Vec::new();
    for url in given {
        let url = url.trim().trim_end_matches('/').to_string();
        if url.is_empty() {
            return Err(Error::EmptyUpstream);
        }
        if upstreams.contains(&url) {
            return Err(Error::UpstreamTwice(url));
        }
        upstreams.push(url);
    }
    match upstreams.len() {
        count if UPSTREAMS_MAX < count => Err(Error::TooManyUpstreams(count, UPSTREAMS_MAX)),
        _ => Ok(upstreams),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_upstream_is_named_once() {
        let given = |urls: &[&str]| upstreams(urls.iter().map(ToString::to_string).collect());
        assert_eq!(given(&["http://a:1/", " http://b:1"]).unwrap(), ["http://a:1", "http://b:1"]);
        let refused = given(&["http://a:1", "http://a:1/"]).unwrap_err().to_string();
        assert!(refused.contains("http://a:1 is given twice"), "{refused}");
        let refused = given(&["http://a:1", ""]).unwrap_err().to_string();
        assert!(refused.contains("is empty"), "{refused}");
        let many: Vec<String> = (0..17).map(|n| format!("http://a:{n}")).collect();
        let refused = upstreams(many).unwrap_err().to_string();
        assert!(refused.contains("17 upstreams") && refused.contains("at most 16"), "{refused}");
    }
}
