//! `bellwether version`: prints the version of this client, and that of the server.

use bellwether_client::Error;
use serde_json::json;

use crate::cli::context::{Context, print_plain};
use crate::cli::json;
use crate::cli::render::text::with_notes;
use crate::proto::v1::{GetServerInfoRequest, GetServerInfoResponse};

/// Commit of the source, from `build.rs`; empty if unknown at the build.
const COMMIT: &str = env!("BELLWETHER_COMMIT");

/// Day of that commit, as `2026-11-22`; empty if unknown at the build.
const DATE: &str = env!("BELLWETHER_DATE");

/// Print the versions of this program and of the server
#[derive(clap::Args)]
pub struct Args {
    /// Only of this program, without asking a server
    #[arg(long)]
    client: bool,
}

/// Prints the versions; that of the client even if no server answers.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let asked = if args.client { Ok(None) } else { ask(context).await.map(Some) };
    let version = env!("CARGO_PKG_VERSION");
    let own = json!({ "version": version, "commit": COMMIT, "commit_date": DATE });
    let mut value = json!({ "client": own });
    let mut text = format!("client  {}\n", named(version, COMMIT, DATE));
    if let Ok(Some(info)) = &asked {
        value["server"] = json::from_message(info, "GetServerInfoResponse")?;
        text.push_str(&server(info, &context.server));
    }
    context.print_value(&value, || print_plain(&text))?;
    asked.map(drop)
}

async fn ask(context: &Context) -> anyhow::Result<GetServerInfoResponse> {
    match context.call(GetServerInfoRequest {}).await {
        Err(Error::Refused(refusal)) if refusal.code == tonic::Code::Unimplemented => {
            anyhow::bail!("the server at {} is too old to say its version", context.server)
        }
        answer => Ok(answer?),
    }
}

fn server(info: &GetServerInfoResponse, url: &str) -> String {
    let store = info.store_kind().as_str_name().trim_start_matches("STORE_KIND_");
    let store = store.to_lowercase().replace('_', " ");
    format!("server  {}, store {store}, at {url}\n", named(&info.version, &info.commit, ""))
}

/// Formats `0.1.0 (8131854, 2026-11-22)`, with what is known.
fn named(version: &str, commit: &str, date: &str) -> String {
    let parts = [commit.get(..7).unwrap_or_default(), date];
    let known: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    with_notes(version, &known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::StoreKind;

    #[test]
    fn names_version_commit_and_store() {
        let info = GetServerInfoResponse {
            version: "0.1.0".into(),
            commit: "8131854aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".into(),
            store_kind: StoreKind::RedisSentinel.into(),
            ..GetServerInfoResponse::default()
        };
        let expected = "server  0.1.0 (8131854), store redis sentinel, at http://h:1\n";
        assert_eq!(server(&info, "http://h:1"), expected);
        let named_with = named("0.1.0", &info.commit, "2026-11-22");
        assert_eq!(named_with, "0.1.0 (8131854, 2026-11-22)");
        assert_eq!(named("0.1.0", "", ""), "0.1.0");
    }
}
