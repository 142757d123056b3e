//! Requests of every method, by structure, to a real server over a socket: each call has an answer
//! or a typed error.

use std::sync::LazyLock;
use std::time::Duration;

use bellwether::app::App;
use bellwether::config::Config;
use bellwether::telemetry::{Metrics, Prometheus};
use bellwether_fuzz::choices::Choices;
use prost_reflect::MethodDescriptor;
use prost_reflect::prost::Message;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::raw_call;
use super::value::message;

/// Calls of one input.
const CALLS_MAX: usize = 24;
/// Messages of one stream.
const MESSAGES_MAX: usize = 4;
/// The deadline of a call, as the server knows it.
const DEADLINE: &str = "20m";
/// The longest silence of a stream that is still read.
const SILENCE: Duration = Duration::from_millis(5);
/// Much longer than any call takes.
const HANG: Duration = Duration::from_secs(10);

static METHODS: LazyLock<Vec<MethodDescriptor>> = LazyLock::new(raw_call::methods);

/// Starts a server without data, makes the calls, and drops the server.
pub fn run(input: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let app = App::build(Config::ephemeral(), Metrics::disabled(), Prometheus::default());
        let app = app.await.unwrap();
        let url = format!("http://{}", app.addresses().unwrap().grpc);
        tokio::select! {
            _ = app.run(std::future::pending()) => panic!("the server has ended"),
            () = calls(&url, Choices::new(input)) => (),
        }
    });
    runtime.shutdown_background();
}

async fn calls(url: &str, mut choices: Choices<'_>) {
    let channel = Endpoint::from_shared(url.to_string()).unwrap().connect().await.unwrap();
    for _ in 0..CALLS_MAX {
        let method = &METHODS[choices.below(METHODS.len())];
        let messages = if method.is_client_streaming() { MESSAGES_MAX } else { 1 };
        let messages: Vec<Vec<u8>> = (0..messages)
            .map(|_| message(&method.input(), &mut choices, 0).encode_to_vec())
            .collect();
        let call = tokio::time::timeout(HANG, call(&channel, method, messages.clone()));
        match call.await {
            Err(_) => panic!("{} hangs: {messages:?}", method.full_name()),
            Ok(Err(status)) => check(method, &status),
            Ok(Ok(())) => (),
        }
        if choices.is_over() {
            break;
        }
    }
}

async fn call(
    channel: &Channel,
    method: &MethodDescriptor,
    messages: Vec<Vec<u8>>,
) -> Result<(), Status> {
    let path = raw_call::path(method);
    let deadline = ("grpc-timeout", DEADLINE);
    let mut answers = raw_call::call_path_with(channel, &path, &[deadline], messages).await?;
    while let Ok(answer) = tokio::time::timeout(SILENCE, answers.message()).await {
        if answer?.is_none() {
            break;
        }
    }
    Ok(())
}

/// Checks that an error is one that the contract has.
fn check(method: &MethodDescriptor, status: &Status) {
    let details = status.get_error_details();
    let name = method.full_name();
    let is_ours = details.error_info().is_some_and(|info| info.domain == "bellwether");
    // The deadline of the call, at which the transport answers.
    let is_late = matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled);
    let is_health = name.starts_with("grpc.health");
    assert!(is_ours || is_late || is_health, "{name}: {status:?}");
    let is_fault = matches!(status.code(), Code::Internal | Code::Unknown | Code::DataLoss);
    assert!(!is_fault, "{name}: {status:?}");
}
