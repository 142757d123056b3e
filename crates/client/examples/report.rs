//! Reports the status of a unit, once.
//!
//! While `make run` runs: `cargo run --example report -- web/0 active "ready to serve"`.

use bellwether_client::proto::v1::{Level, ReportStatusRequest, StatusReport};
use bellwether_client::{Client, Error};

const SERVER: &str = "http://127.0.0.1:50051";

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let unit = arguments.next().unwrap_or_else(|| "web/0".to_string());
    let level = arguments.next().unwrap_or_else(|| "active".to_string());
    let message = arguments.next().unwrap_or_default();
    let server = std::env::var("BELLWETHER_SERVER").unwrap_or_else(|_| SERVER.to_string());

    let client = Client::connect(&server).await?;
    let level = Level::from_str_name(&format!("LEVEL_{}", level.to_uppercase()));
    let request = ReportStatusRequest {
        application: unit.split('/').next().unwrap_or_default().to_string(),
        unit,
        status: Some(StatusReport {
            // The server refuses a status without a level.
            level: level.unwrap_or_default().into(),
            message,
            ..StatusReport::default()
        }),
        ..ReportStatusRequest::default()
    };
    let answer = client.call(request).await?;
    println!("stored at revision {}", answer.revision);
    for advice in answer.advice {
        println!("advice: {advice}");
    }
    Ok(())
}
