//! `bellwether health`: a probe for containers and scripts, by `grpc.health.v1`.

use serde_json::json;

use crate::cli::context::{Context, print_plain};
use crate::cli::exit::Exit;
use crate::proto::health::HealthCheckRequest;
use crate::proto::health::health_check_response::ServingStatus;

/// Say whether the server serves, or applications are well; exits with 0 if so, with 1 if not
#[derive(clap::Args)]
pub struct Args {
    /// The application; without it the server itself
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: Option<String>,
    /// All applications of the namespace
    #[arg(long, conflicts_with = "application")]
    all: bool,
}

/// Asks the server once.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect().await?;
    let service = match args.application {
        Some(application) => format!("{}/{application}", context.namespace()),
        None if args.all => format!("{}/", context.namespace()),
        None => String::new(),
    };
    let request = client.request(HealthCheckRequest { service: service.clone() });
    let answer = client.answer(client.health().check(request).await)?;
    let status = answer.status();
    let value = json!({ "service": service, "status": status.as_str_name() });
    let word = status.as_str_name().to_lowercase().replace('_', " ");
    context.print_value(&value, || print_plain(&format!("{word}\n")))?;
    Ok(if status == ServingStatus::Serving { Exit::Ok } else { Exit::Failed })
}
