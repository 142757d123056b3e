//! An upgrade in three steps that survives its process: started again after it was killed, it
//! continues after the last step that it recorded.
//!
//! While `make run` runs: `cargo run --example operation -- db/0 v2`.

use std::time::Duration;

use bellwether_client::operation::Lost;
use bellwether_client::proto::v1::{
    AcquireOperationRequest, BeginOperationRequest, Operation, StatusReport,
};
use bellwether_client::worker::{Error, Event, Options};
use bellwether_client::{Client, OperationLease, Worker};

const SERVER: &str = "http://127.0.0.1:50051";
const STEPS: u8 = 3;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let unit = arguments.next().unwrap_or_else(|| "db/0".to_string());
    let target = arguments.next().unwrap_or_else(|| "v2".to_string());
    let server = std::env::var("BELLWETHER_SERVER").unwrap_or_else(|_| SERVER.to_string());
    let application = unit.split('/').next().unwrap_or_default();

    // The session tells the server that the unit is alive, and brings its unfinished operations.
    let options = Options::new(&server, application, &unit);
    let worker = Worker::connect(options, |_question| async { Vec::<StatusReport>::new() })?;
    let open = open_operations(&worker).await?;

    let client = Client::connect(&server).await?;
    let held = match open.into_iter().next() {
        Some(operation) => resume(&client, operation, &unit).await?,
        None => begin(&client, application, &unit, &target).await?,
    };
    match held {
        Some(held) => work(held).await?,
        None => println!("nothing to do: this upgrade is recorded already"),
    }
    worker.shutdown(false).await
}

/// Returns the operations of the application that are started and not finished.
async fn open_operations(worker: &Worker) -> Result<Vec<Operation>, Error> {
    let mut events = worker.events();
    while let Some(event) = events.next().await {
        if let Event::Connected { operations, .. } = event {
            return Ok(operations);
        }
    }
    Err(worker.over().await)
}

/// Records the upgrade before its first step.
async fn begin(
    client: &Client,
    application: &str,
    unit: &str,
    target: &str,
) -> Result<Option<OperationLease>, Error> {
    let request = BeginOperationRequest {
        application: application.to_string(),
        unit: unit.to_string(),
        operation_id: format!("upgrade-to-{target}"),
        target_version: target.to_string(),
        // A repetition of a step does no harm, so a holder that resumes need not verify first.
        deterministic: true,
        ..BeginOperationRequest::default()
    };
    Ok(OperationLease::begin(client, request).await?)
}

/// Continues an operation that another process began.
async fn resume(
    client: &Client,
    operation: Operation,
    unit: &str,
) -> Result<Option<OperationLease>, Error> {
    let request = AcquireOperationRequest {
        application: operation.application,
        unit: unit.to_string(),
        operation_id: operation.operation_id,
        ..AcquireOperationRequest::default()
    };
    Ok(Some(OperationLease::acquire(client, request).await?))
}

/// Does the steps that are not done, and records each.
async fn work(mut held: OperationLease) -> Result<(), Error> {
    let done = held.operation().checkpoint.first().copied().unwrap_or(0);
    println!("upgrading to {} after step {done}", held.operation().target_version);
    for step in done + 1..=STEPS {
        tokio::select! {
            () = install(step) => held.reached(vec![step], &format!("step {step}/{STEPS}")),
            lost = held.lost() => {
                println!("stopped before step {step} was done: {lost:?}");
                if lost == Lost::Cancelled {
                    held.release().await?;
                }
                return Ok(());
            }
        }
    }
    held.complete().await?;
    println!("done");
    Ok(())
}

/// The place of real work.
async fn install(step: u8) {
    tokio::time::sleep(Duration::from_millis(200)).await;
    println!("step {step} is done");
}
