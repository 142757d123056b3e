//! Follows an application until it is active, also across restarts of the server.
//!
//! While `make run` runs: `cargo run --example watch -- web`.

use bellwether_client::proto::v1::{Level, WatchApplicationsRequest};
use bellwether_client::{Client, Error, Event, Watch};

const SERVER: &str = "http://127.0.0.1:50051";

#[tokio::main]
async fn main() -> Result<(), Error> {
    let application = std::env::args().nth(1).unwrap_or_else(|| "web".to_string());
    let server = std::env::var("BELLWETHER_SERVER").unwrap_or_else(|_| SERVER.to_string());

    let client = Client::connect(&server).await?;
    // The application need not exist yet.
    let request = WatchApplicationsRequest {
        applications: vec![application],
        ..WatchApplicationsRequest::default()
    };
    let mut watch = Watch::new(&client, request);
    loop {
        match watch.next().await? {
            Event::Upserted(application, _units) => {
                let status = application.status.unwrap_or_default();
                let level = status.level();
                println!("{}: {} {}", application.name, level.as_str_name(), status.message);
                if level == Level::Active {
                    return Ok(());
                }
            }
            Event::Removed { name, .. } => println!("{name} is removed"),
            Event::Current => println!("waiting for changes"),
            Event::Disconnected { error, pause } => println!("{error}; again in {pause:.1?}"),
        }
    }
}
