//! A certificate authority for tests, made by `openssl`.

use std::path::PathBuf;
use std::process::Command;

use bellwether_client::{Client, Error, Security};
use tempfile::TempDir;

use crate::server::Server;

/// Roles that grant everything to every known caller.
pub const EVERYTHING: &str = r#"
[[grant]]
role = "operator"
to = ["*"]
namespace = "*"
application = "*"
[[grant]]
role = "worker"
to = ["*"]
namespace = "*"
application = "*"
unit = "*"
"#;

/// An authority with its certificates: `ca.pem`, `NAME.pem`, `NAME.key`.
pub struct Authority {
    directory: TempDir,
}

impl Authority {
    /// Makes an authority with the certificate `server` for `localhost` and 127.0.0.1.
    pub fn new() -> Authority {
        let authority = Authority { directory: tempfile::tempdir().unwrap() };
        authority.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
             -subj /CN=authority -addext basicConstraints=critical,CA:TRUE \
             -keyout ca.key -out ca.pem",
        );
        authority.issue("server", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        authority
    }

    /// Issues the certificate `name` with these extensions.
    pub fn issue(&self, name: &str, extensions: &str) {
        self.issue_until(name, extensions, "-days 2");
    }

    /// Issues a certificate with this validity.
    pub fn issue_until(&self, name: &str, extensions: &str, validity: &str) {
        std::fs::write(self.path(&format!("{name}.ext")), extensions).unwrap();
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} \
             -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req {validity} -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
             -extfile {name}.ext -out {name}.pem"
        ));
    }

    /// Returns the path of a file of roles that grant everything to every known caller.
    pub fn roles(&self) -> String {
        std::fs::write(self.path("roles.toml"), EVERYTHING).unwrap();
        self.text("roles.toml")
    }

    /// Returns the path of a file.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// Returns the path of a file as text.
    pub fn text(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }

    /// Copies a file beside itself, and returns the path of the copy.
    pub fn copy_of(&self, file: &str) -> PathBuf {
        let copy = self.path(&format!("{file}.copy"));
        std::fs::copy(self.path(file), &copy).unwrap();
        copy
    }

    /// Replaces files by those of another authority.
    pub fn replace(&self, files: &[&str], other: &Authority) {
        for file in files {
            std::fs::copy(other.path(file), self.path(file)).unwrap();
        }
    }

    /// Returns the flags of a server with the certificate `server` and more flags.
    pub fn flags(&self, more: &[&str]) -> Vec<String> {
        let (certificate, key) = (self.text("server.pem"), self.text("server.key"));
        let own = ["--ephemeral", "--tls-certificate", &certificate, "--tls-key", &key];
        own.iter().chain(more).map(ToString::to_string).collect()
    }

    /// Starts a server with these flags.
    pub fn serve(&self, more: &[&str]) -> Server {
        let flags = self.flags(more);
        Server::start(&flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Returns the files of a client with the certificate `name`; empty: without.
    pub fn client(&self, name: &str) -> Security {
        let file = |end: &str| (!name.is_empty()).then(|| self.path(&format!("{name}.{end}")));
        let (certificate, key) = (file("pem"), file("key"));
        Security { ca: Some(self.path("ca.pem")), certificate, key, token_file: None }
    }

    fn openssl(&self, words: &str) {
        let output = Command::new("openssl")
            .args(words.split_whitespace())
            .current_dir(self.directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Connects to the `localhost` of a server with TLS.
pub async fn connect(server: &Server, security: Security) -> Result<Client, Error> {
    Client::connect_with(&url(server), security).await
}

/// Returns the address of a server with TLS.
pub fn url(server: &Server) -> String {
    format!("https://localhost:{}", server.grpc.port())
}
