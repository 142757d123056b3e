//! A worker: reports whether a file exists whenever the server asks, and its own start once.
//!
//! While `make run` runs: `cargo run --example worker -- web/0 /etc/hostname`, until Ctrl-C.

use std::path::PathBuf;

use bellwether_client::Worker;
use bellwether_client::proto::v1::{Level, StatusReport};
use bellwether_client::worker::{CollectRequest, Error, Event, Options};

const SERVER: &str = "http://127.0.0.1:50051";

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let unit = arguments.next().unwrap_or_else(|| "web/0".to_string());
    let path = PathBuf::from(arguments.next().unwrap_or_else(|| "/etc/hostname".to_string()));
    let server = std::env::var("BELLWETHER_SERVER").unwrap_or_else(|_| SERVER.to_string());
    let application = unit.split('/').next().unwrap_or_default();
    let options = Options::new(&server, application, &unit);

    // Pull: the server asks and receives the whole set.
    let worker = Worker::connect(options, move |question| look(question, path.clone()))?;

    // Push: reported without a question, and sent once there is a connection.
    worker.set_status(StatusReport {
        component: "start".to_string(),
        level: Level::Active.into(),
        message: format!("started as process {}", std::process::id()),
        ..StatusReport::default()
    });

    let mut events = worker.events();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => print(&event),
                None => return Err(worker.over().await),
            },
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    worker.shutdown(false).await
}

/// Returns the pull set: one status of the component `file`.
async fn look(question: CollectRequest, path: PathBuf) -> Vec<StatusReport> {
    println!("asked for {}", question.component.as_deref().unwrap_or("everything"));
    let (level, message) = match path.exists() {
        true => (Level::Active, format!("{} is there", path.display())),
        false => (Level::Error, format!("{} is missing", path.display())),
    };
    let status = StatusReport {
        component: "file".to_string(),
        level: level.into(),
        message,
        ..StatusReport::default()
    };
    match question.component.as_deref() {
        None | Some("file") => vec![status],
        Some(_) => Vec::new(),
    }
}

fn print(event: &Event) {
    match event {
        Event::Connecting { server } => println!("connecting to {server}"),
        Event::Connected { incarnation, retained, .. } => {
            println!("connected as incarnation {incarnation}; retained: {}", retained.len());
        }
        Event::Disconnected { error, pause } => println!("{error}; again in {pause:.1?}"),
        Event::Rejected { component, refusal, .. } => println!("{component}: {refusal}"),
        other => println!("{other:?}"),
    }
}
