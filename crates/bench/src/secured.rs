//! `secured`: reports acknowledged per second with TLS and a JWT, beside the same without. The
//! server is the same, with the memory store; the client encrypts too, on the same processors.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bellwether::proto::v1::{ConnectRequest, ConnectResponse};
use tempfile::TempDir;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::both_ways::{BothWays, Comparison};
use crate::ingest;
use crate::load::{self, Measured, Work};
use crate::machine::Machine;
use crate::pipelined::{self, Exchange, Messages};
use crate::process;
use crate::rounds::{Contender, Progress};
use crate::server::{Place, Server};
use crate::streams::{Reports, checked};

/// Flags of `secured`.
#[derive(Debug, clap::Args)]
pub struct Secured {
    /// The load of both ways.
    #[command(flatten)]
    pub both: BothWays,
}

/// The least ratios to the rates without TLS and JWT.
const STREAMS_TARGET: f64 = 0.85;
const UNARY_TARGET: f64 = 0.75;
/// How long the JWT is valid: longer than any measurement.
const VALID_SECONDS: u64 = 7 * 86_400;

/// Runs the command: starts both sides, measures them in turn, prints the report.
pub async fn run(args: Secured) -> anyhow::Result<()> {
    let site = args.both.load.site()?;
    let machine = Machine::look(&site.directory);
    let progress = Progress::new();
    progress.say("making certificates and starting servers");
    let issuer = Issuer::make(&site.directory)?;
    let secured = Server::start_with(&Place::Memory, &issuer.configuration(), &site).await?;
    let plain = Server::start(&Place::Memory, &site).await?;
    drop(progress);
    let sides = [
        Caller::new(
            "with TLS 1.3 and a JWT",
            issuer.endpoint(secured.grpc.port())?,
            issuer.token()?,
        )?,
        Caller::new(
            "without",
            Endpoint::from_shared(format!("http://{}", plain.grpc))?,
            String::new(),
        )?,
    ];
    let work = |what: &str| format!("{what}, memory store, with TLS 1.3 and a JWT, beside without");
    let on_streams = Comparison {
        work: work("Reports on workers' streams"),
        sides: sides.each_ref().map(|side| args.on_streams(side)),
        target: STREAMS_TARGET,
    };
    let unary = Comparison {
        work: work("Unary ReportStatus"),
        sides: sides.each_ref().map(|side| args.unary(side)),
        target: UNARY_TARGET,
    };
    args.both.print(machine, [on_streams, unary]).await
}

impl Secured {
    fn on_streams(&self, side: &Caller) -> Contender<Measured> {
        let exchange = Arc::new(Calling { reports: self.both.reports(), caller: side.clone() });
        let (plan, endpoint) = (self.both.load.plan(self.both.in_flight), side.endpoint.clone());
        let streams = self.both.streams as usize;
        Contender::new(side.named(), move |first| {
            let (exchange, endpoint) = (exchange.clone(), endpoint.clone());
            let load = pipelined::run_at(exchange, endpoint, plan.clone(), streams, first);
            Box::pin(checked(load))
        })
    }

    fn unary(&self, side: &Caller) -> Contender<Measured> {
        let (plan, caller) = (self.both.load.plan(self.both.calls), Arc::new(side.clone()));
        Contender::new(side.named(), move |first| {
            let endpoint = caller.endpoint.clone();
            Box::pin(checked(load::run_at(caller.clone(), endpoint, plan.clone(), first)))
        })
    }
}

/// How a side is called.
#[derive(Clone)]
struct Caller {
    name: &'static str,
    endpoint: Endpoint,
    authorization: Option<MetadataValue<Ascii>>,
}

impl Caller {
    fn new(name: &'static str, endpoint: Endpoint, token: String) -> anyhow::Result<Caller> {
        let header = (!token.is_empty()).then(|| format!("Bearer {token}").parse());
        Ok(Caller { name, endpoint, authorization: header.transpose()? })
    }

    fn named(&self) -> String {
        format!("bellwether {} {}", bellwether::VERSION, self.name)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(header) = &self.authorization {
            request.metadata_mut().insert("authorization", header.clone());
        }
        request
    }
}

/// Unary reports.
impl Work for Caller {
    async fn call(&self, channel: Channel, sequence: u64) -> Result<(), Status> {
        let report = self.request(ingest::report(sequence));
        ReportServiceClient::new(channel).report_status(report).await?;
        Ok(())
    }
}

/// Reports on streams that are opened with the header of the caller.
struct Calling {
    reports: Reports,
    caller: Caller,
}

impl Exchange for Calling {
    type Sent = ConnectRequest;
    type Told = ConnectResponse;

    async fn open(
        &self,
        channel: Channel,
        _: usize,
        messages: Messages<Calling>,
    ) -> Result<Streaming<ConnectResponse>, Status> {
        let mut client = WorkerServiceClient::new(channel);
        Ok(client.connect(self.caller.request(messages)).await?.into_inner())
    }

    fn hello(&self, stream: usize) -> Option<ConnectRequest> {
        self.reports.hello(stream)
    }

    fn message(&self, stream: usize, first: u64, seq: u64) -> ConnectRequest {
        self.reports.message(stream, first, seq)
    }

    fn acknowledged(&self, told: ConnectResponse, before: u64) -> Result<u64, Status> {
        self.reports.acknowledged(told, before)
    }
}

/// An authority and an issuer of JWT, made by `openssl`, in a directory of their own.
pub struct Issuer(TempDir);

impl Issuer {
    /// Makes certificates and keys.
    pub fn make(parent: &Path) -> anyhow::Result<Issuer> {
        let issuer = Issuer(process::directory(parent)?);
        issuer.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 7 -subj /CN=bench \
             -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
             -addext basicConstraints=critical,CA:FALSE -keyout tls.key -out tls.pem",
            "",
        )?;
        issuer.openssl("genrsa -out jwt.key", "")?;
        issuer.openssl("rsa -in jwt.key -pubout -out jwt.pem", "")?;
        std::fs::write(
            issuer.file("roles.toml"),
            "[[grant]]\nrole = \"worker\"\nto = [\"*\"]\nnamespace = \"*\"\napplication = \"*\"\n\
             unit = \"*\"\n",
        )?;
        Ok(issuer)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the configuration of a server with these certificates and this issuer.
    fn configuration(&self) -> String {
        let [certificate, key, roles, keys] =
            ["tls.pem", "tls.key", "roles.toml", "jwt.pem"].map(|name| self.file(name));
        format!(
            "tls_certificate = {certificate:?}\ntls_key = {key:?}\nroles = {roles:?}\n\
             [[jwt]]\nname = 'bench'\nissuer = 'bench'\naudience = 'bellwether'\nkeys = {keys:?}\n\
             algorithms = ['RS256']\n"
        )
    }

    /// Returns the flags of a server with these certificates alone.
    pub fn tls_flags(&self) -> Vec<String> {
        let file = |name: &str| self.file(name).display().to_string();
        let flags = ["--tls-certificate".into(), file("tls.pem"), "--tls-key".into()];
        flags.into_iter().chain([file("tls.key")]).collect()
    }

    /// Returns the address of a server with these certificates on this machine.
    pub fn endpoint(&self, port: u16) -> anyhow::Result<Endpoint> {
        let ca = Certificate::from_pem(std::fs::read(self.file("tls.pem"))?);
        let tls = ClientTlsConfig::new().ca_certificate(ca);
        Ok(Endpoint::from_shared(format!("https://localhost:{port}"))?.tls_config(tls)?)
    }

    /// Returns a signed JWT.
    fn token(&self) -> anyhow::Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims = serde_json::json!({"iss": "bench", "aud": "bellwether", "sub": "bench",
            "nbf": now - 60, "exp": now + VALID_SECONDS});
        let header = self.openssl("base64 -A", "{\"alg\":\"RS256\",\"typ\":\"JWT\"}")?;
        let claims = self.openssl("base64 -A", &claims.to_string())?;
        let text = url_safe(&format!("{}.{}", header.trim(), claims.trim()));
        std::fs::write(self.file("jwt.txt"), &text)?;
        self.openssl("dgst -sha256 -sign jwt.key -out jwt.signature jwt.txt", "")?;
        let signature = self.openssl("base64 -A -in jwt.signature", "")?;
        Ok(format!("{text}.{}", url_safe(signature.trim())))
    }

    fn openssl(&self, line: &str, input: &str) -> anyhow::Result<String> {
        use std::io::Write;
        let mut command = Command::new("openssl");
        command.args(line.split_whitespace()).current_dir(self.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("start openssl")?;
        // The end of stdin is the end of the input.
        child.stdin.take().context("no stdin")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "openssl {line}: {}", errors.trim());
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Turns standard base64 into that of JWT.
fn url_safe(text: &str) -> String {
    text.replace('+', "-").replace('/', "_").replace('=', "")
}
