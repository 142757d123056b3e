//! The flags with which a command proves who it is, and chooses the servers that it trusts.

use std::path::PathBuf;

use bellwether_client::Security;

/// Certificates and token of every command that calls a server.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SecurityArgs {
    /// CA certificates in PEM that verify an https server [default: those of the system]
    #[arg(id = "client_ca", long = "ca", global = true, value_name = "FILE")]
    #[arg(env = "BELLWETHER_CA", help_heading = "Global options")]
    ca: Option<PathBuf>,

    /// Certificate of this client, in PEM
    #[arg(id = "client_cert", long = "cert", global = true, value_name = "FILE")]
    #[arg(env = "BELLWETHER_CERT", help_heading = "Global options")]
    certificate: Option<PathBuf>,

    /// Key of that certificate, in PEM
    #[arg(id = "client_key", long = "cert-key", global = true, value_name = "FILE")]
    #[arg(env = "BELLWETHER_CERT_KEY", help_heading = "Global options")]
    key: Option<PathBuf>,

    /// File with a token for the server, one line
    #[arg(id = "client_token_file", long = "token-file", global = true, value_name = "FILE")]
    #[arg(env = "BELLWETHER_TOKEN_FILE", help_heading = "Global options")]
    token_file: Option<PathBuf>,
}

impl From<SecurityArgs> for Security {
    fn from(args: SecurityArgs) -> Security {
        let given = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        Security {
            ca: given(args.ca),
            certificate: given(args.certificate),
            key: given(args.key),
            token_file: given(args.token_file),
        }
    }
}
