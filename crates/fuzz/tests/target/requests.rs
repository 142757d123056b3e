//! Requests of every method, by structure, to a real server over a socket: each call has an answer
//! or a typed error.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::{LazyLock, Mutex, Once, PoisonError};
use std::time::Duration;

use bellwether::app::{App, Drained};
use bellwether::config::Config;
use bellwether::telemetry::{Metrics, Prometheus};
use bellwether_fuzz::choices::Choices;
use prost_reflect::MethodDescriptor;
use prost_reflect::prost::Message;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::raw_call;
use super::value::{in_namespace, message};

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

/// How long the next call waits for one. A call that waits for something goes on beside the others.
const PATIENCE: Duration = Duration::from_millis(2);
/// Inputs of one server, which bounds its memory.
const INPUTS_MAX: usize = 1000;

static METHODS: LazyLock<Vec<MethodDescriptor>> = LazyLock::new(raw_call::methods);

/// The inputs that the server has taken. A failure may need all of them.
static INPUTS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
static KEEP_HISTORY: Once = Once::new();

thread_local! {
    // Not dropped at the end of the thread: the clock that stands is gone by then.
    static SERVER: RefCell<Option<ManuallyDrop<Server>>> = const { RefCell::new(None) };
}

/// A server in this thread, which runs while an input does.
struct Server {
    runtime: Runtime,
    serving: JoinHandle<Drained>,
    channel: Channel,
}

/// Makes the calls of an input. A server takes many inputs, each with namespaces of its own.
pub fn run(input: &[u8]) {
    KEEP_HISTORY.call_once(keep_history);
    SERVER.with_borrow_mut(|place| {
        let mut inputs = INPUTS.lock().unwrap();
        if inputs.len() == INPUTS_MAX
            && let Some(server) = place.take()
        {
            ManuallyDrop::into_inner(server).runtime.shutdown_background();
            inputs.clear();
        }
        // The names of the first input are as they are, the default namespace among them.
        let prefix = (!inputs.is_empty()).then(|| format!("i{}-", inputs.len()));
        inputs.push(input.to_vec());
        drop(inputs);
        let server = place.get_or_insert_with(|| ManuallyDrop::new(Server::start()));
        server.run(input, prefix.as_deref());
    });
}

impl Server {
    fn start() -> Server {
        // The clock stands while anything happens, and goes on to the next timer otherwise, so that
        // an input takes no longer than its work. A call that waits is waited for in no time.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        let (serving, channel) = runtime.block_on(async {
            let app = App::build(Config::ephemeral(), Metrics::disabled(), Prometheus::default());
            let app = app.await.unwrap();
            let url = format!("http://{}", app.addresses().unwrap().grpc);
            let serving = tokio::spawn(app.run(std::future::pending()));
            (serving, Endpoint::from_shared(url).unwrap().connect().await.unwrap())
        });
        Server { runtime, serving, channel }
    }

    fn run(&mut self, input: &[u8], prefix: Option<&str>) {
        let calls = calls(&self.channel, Choices::new(input), prefix);
        self.runtime.block_on(async {
            tokio::select! {
                _ = &mut self.serving => panic!("the server has ended"),
                () = calls => (),
            }
        });
    }
}

/// Lets a panic write the inputs of the server into a folder. libFuzzer ends the process at a
/// panic, so nothing can be done afterwards.
fn keep_history() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let folder = std::env::temp_dir().join("bellwether-fuzz-requests-history");
        let _ = std::fs::remove_dir_all(&folder);
        let _ = std::fs::create_dir_all(&folder);
        let inputs = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, input) in inputs.iter().enumerate() {
            let _ = std::fs::write(folder.join(format!("{number:04}")), input);
        }
        eprintln!("the {} inputs of the server are in {}", inputs.len(), folder.display());
        before(panic);
    }));
}

async fn calls(channel: &Channel, mut choices: Choices<'_>, prefix: Option<&str>) {
    let mut waiting = JoinSet::new();
    for _ in 0..CALLS_MAX {
        let method = &METHODS[choices.below(METHODS.len())];
        let messages = if method.is_client_streaming() { MESSAGES_MAX } else { 1 };
        let messages: Vec<Vec<u8>> = (0..messages)
            .map(|_| {
                let mut message = message(&method.input(), &mut choices, 0);
                if let Some(prefix) = prefix {
                    in_namespace(&mut message, prefix);
                }
                message.encode_to_vec()
            })
            .collect();
        waiting.spawn(checked_call(channel.clone(), method, messages));
        if let Ok(Some(ended)) = tokio::time::timeout(PATIENCE, waiting.join_next()).await {
            ended.unwrap();
        }
        if choices.is_over() {
            break;
        }
    }
    while let Some(ended) = waiting.join_next().await {
        ended.unwrap();
    }
}

/// Makes a call, which has an answer or a typed error.
async fn checked_call(channel: Channel, method: &MethodDescriptor, messages: Vec<Vec<u8>>) {
    match tokio::time::timeout(HANG, call(&channel, method, messages.clone())).await {
        Err(_) => panic!("{} hangs: {messages:?}", method.full_name()),
        Ok(Err(status)) => check(method, &status),
        Ok(Ok(())) => (),
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
