//! The layer of HTTP under the conformance suite of the Connect project, over real sockets.
//!
//! The suite (`connectconformance`, installed by `tools/install`) starts this program as its server
//! and calls it by Connect, gRPC and gRPC-Web, with and without TLS: 2,204 cases in some seconds.
//! The program prints the counts. Every case must pass.

mod plain;
mod service;
mod wire;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use bellwether::security::Reloaded;
use bellwether::security::role::right::Right;
use bellwether::security::tls::{ClientCertificates, Files, Port, Tls};
use bellwether::service::call::intake::{self, Intake};
use bellwether::service::call::{CallParts, Calls};
use bellwether::service::caller::outgoing::{self, StreamExecutor, Untaken};
use bellwether::service::caller::{self, Class};
use bellwether::service::edge::{self, Gate, Times};
use bellwether::service::method::{AnswerSize, AtRelay, Method, RequestSize};
use bellwether::service::offload::Offload;
use bellwether::service::web::{self, Origins, Web};
use bellwether::store::Epoch;
use bellwether::telemetry::Metrics;
use bellwether::watch::{self, Hub};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioTimer;
use prost::Message;
use prost_types::FileDescriptorSet;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use plain::Plain;
use service::Conformance;
use wire::{CompatRequest, CompatResponse, TlsCreds};

/// The argument with which the suite starts this program.
const SERVE: &str = "serve-conformance";
/// The maximum size of a message if a case asks for none.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == SERVE) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(serve());
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--list") {
        println!("conformance: test");
        return ExitCode::SUCCESS;
    }
    let is_left_out = |filter: &String| !filter.starts_with('-') && !"conformance".contains(filter);
    match arguments.iter().any(is_left_out) {
        true => ExitCode::SUCCESS,
        false => run(),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn protos() -> PathBuf {
    root().join(".tools/conformance-proto")
}

/// Runs the suite against this program.
fn run() -> ExitCode {
    let suite = root().join(".tools/bin/connectconformance");
    if !suite.is_file() || !protos().is_dir() {
        eprintln!("SKIPPED: connectconformance is missing; run tools/install");
        assert!(std::env::var_os("CI").is_none(), "in CI nothing is skipped");
        return ExitCode::SUCCESS;
    }
    let mut command = Command::new(suite);
    command.args(["--mode", "server", "--conf"]).arg(root().join("tests/connect/suite.yaml"));
    let own = std::env::current_exe().unwrap();
    let output = command.arg("--").arg(own).arg(SERVE).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let counts = said.find("Total cases").filter(|_| output.status.success());
    println!("{}", &said[counts.unwrap_or_default()..]);
    if output.status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reads the properties of a server, serves on a free port, and writes its address.
async fn serve() {
    let mut length = [0; 4];
    std::io::stdin().read_exact(&mut length).unwrap();
    let mut request = vec![0; u32::from_be_bytes(length) as usize];
    std::io::stdin().read_exact(&mut request).unwrap();
    let request = CompatRequest::decode(request.as_slice()).unwrap();
    let bytes_max = match request.message_receive_limit {
        0 => MESSAGE_BYTES_MAX,
        limit => limit as usize,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().into();
    let creds = request.server_creds.filter(|_| request.use_tls);
    let tls = creds.as_ref().map(tls);
    let pem_cert = creds.map(|creds| creds.cert).unwrap_or_default();
    let response = CompatResponse { host: "127.0.0.1".into(), port, pem_cert }.encode_to_vec();
    let mut answer = (response.len() as u32).to_be_bytes().to_vec();
    answer.extend(response);
    std::io::stdout().write_all(&answer).unwrap();
    std::io::stdout().flush().unwrap();
    edge::serve(listener, server(bytes_max, tls), CancellationToken::new()).await;
}

/// Returns TLS with a certificate of the suite.
fn tls(creds: &TlsCreds) -> Tls {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, &creds.cert).unwrap();
    std::fs::write(&key, &creds.key).unwrap();
    let client_certificates = ClientCertificates::None;
    let files = Files { certificate, key, client_ca: None, client_certificates };
    Tls::new(Reloaded::open(files).unwrap(), Port::Grpc)
}

type Served = Web<Plain<Calls<Conformance>>>;

const fn row(name: &'static str) -> Method {
    Method {
        service: "connectrpc.conformance.v1.ConformanceService",
        name,
        right: Right::Anyone,
        class: Class::Read,
        request: RequestSize::Large,
        answer: AnswerSize::Short,
        relay: AtRelay::Serves,
        note: "",
    }
}

/// The methods of the service that the suite calls.
const METHODS: &[Method] = &[
    row("Unary"),
    row("ServerStream"),
    row("ClientStream"),
    row("BidiStream"),
    row("Unimplemented"),
    row("IdempotentUnary"),
];

fn server(bytes_max: usize, tls: Option<Tls>) -> edge::Server<Served> {
    let file = "connectrpc/conformance/v1/service.proto";
    let set = protox::compile([file], [protos()]).unwrap();
    let set = FileDescriptorSet::decode(set.encode_to_vec().as_slice()).unwrap();
    let limits = intake::Limits {
        large_bytes_max: bytes_max,
        small_bytes_max: bytes_max,
        timeout: Duration::from_secs(10),
        compression_ratio_max: 1000,
        statuses_max: 0,
    };
    let gate = Gate::new(
        edge::Limits {
            connections_max: 10_000,
            per_peer_max: 10_000,
            unfinished_max: 1000,
            bytes_per_connection_max: 1 << 30,
            bytes_per_peer_max: 1 << 30,
            bytes_max: 1 << 30,
            answers: outgoing::Limits::default(),
        },
        Metrics::disabled(),
    );
    let encoded = set.encode_to_vec();
    let offload = Offload::new(1, Metrics::disabled());
    let draining = CancellationToken::new();
    let sets = [set];
    let intake = Intake::new(METHODS, &sets, limits, Arc::from([]), offload, draining);
    let parts = CallParts {
        methods: METHODS,
        descriptors: &sets,
        protection: Arc::default(),
        extent: None,
        limits: caller::Limits::default(),
        answers: outgoing::Limits::default(),
        intake: intake.clone(),
        metrics: Metrics::disabled(),
    };
    let hub = Hub::new(Epoch { store_id: 1, losses: 0 }, 1, false, watch::Limits::default());
    let web = web::Options {
        intake: intake.clone(),
        hub: Arc::new(hub),
        pool: web::pool(&[&encoded]).unwrap(),
        descriptors: None,
        origins: Origins::default(),
        page_name: Box::default(),
        protection: Arc::default(),
        is_tls: tls.is_some(),
    };
    let calls = Calls::new(parts, Conformance);
    let untaken = Untaken { max: Duration::from_secs(30), metrics: Metrics::disabled() };
    let mut http1 = http1::Builder::new();
    http1.timer(TokioTimer::new());
    let mut http2 = http2::Builder::new(StreamExecutor(untaken.clone()));
    http2.timer(TokioTimer::new());
    let times = Times { handshake: Duration::from_secs(5), age_max: None };
    let service = Web::new(web, Plain(calls));
    edge::Server { service, gate, http2, http1, times, untaken, tls }
}
