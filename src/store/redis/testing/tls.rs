//! A server with TLS, and certificates created for one test.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::server::{RedisServer, free_port};

/// A certificate authority with a certificate for a server on 127.0.0.1 and one for a client.
pub struct Certificates {
    directory: TempDir,
}

impl Certificates {
    /// Creates them with `openssl`.
    pub fn make() -> Certificates {
        let directory = TempDir::with_prefix("bellwether-tls-").unwrap();
        let path = directory.path();
        openssl(
            path,
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority \
            -addext basicConstraints=critical,CA:TRUE -keyout ca.key -out ca.pem",
        );
        std::fs::write(path.join("server.ext"), "subjectAltName=IP:127.0.0.1,DNS:localhost")
            .unwrap();
        std::fs::write(path.join("client.ext"), "extendedKeyUsage=clientAuth").unwrap();
        for name in ["server", "client"] {
            openssl(
                path,
                &format!(
                    "req -newkey rsa:2048 -nodes -subj /CN={name} \
                -keyout {name}.key -out {name}.csr"
                ),
            );
            openssl(
                path,
                &format!(
                    "x509 -req -days 2 -in {name}.csr -CA ca.pem -CAkey ca.key \
                -CAcreateserial -extfile {name}.ext -out {name}.pem"
                ),
            );
        }
        Certificates { directory }
    }

    /// Returns the path of `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// A server that asks its clients for a certificate.
pub struct TlsServer {
    /// The server; its `url` is the one without TLS.
    pub server: RedisServer,
    /// The port with TLS.
    pub tls_port: u16,
    /// The certificates of the server and of its clients.
    pub certificates: Certificates,
}

impl TlsServer {
    /// Starts a server with new certificates.
    pub async fn start() -> Option<TlsServer> {
        if !super::available("openssl", "version") {
            return None;
        }
        let certificates = Certificates::make();
        let path = |name| certificates.path(name).display().to_string();
        let tls_port = free_port();
        let port = tls_port.to_string();
        let (certificate, key) = (path("server.pem"), path("server.key"));
        let arguments = [
            ["--tls-port", &port],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &path("ca.pem")],
        ];
        let server = RedisServer::start_with(arguments.as_flattened()).await?;
        Some(TlsServer { server, tls_port, certificates })
    }

    /// Returns `rediss://127.0.0.1:tls_port`.
    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.tls_port)
    }
}

fn openssl(directory: &Path, words: &str) {
    let output = Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(directory)
        .output()
        .expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
