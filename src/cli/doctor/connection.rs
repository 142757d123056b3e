//! The connection to a running server: whether it can be reached, and what is wrong with its TLS.

use bellwether_client::Error;

use crate::cli::context::Context;
use crate::proto::v1::GetServerInfoRequest;
use crate::store::doctor::Finding;

/// Connects to the server of `--server`, and makes one call.
pub async fn examine(context: &Context) -> Finding {
    let finding = match call(context).await {
        Ok(version) => Finding::ok("connection", format!("answers, version {version}")),
        Err(error) => failed(&error),
    };
    finding.on(&context.server)
}

async fn call(context: &Context) -> anyhow::Result<String> {
    let client = context.connect().await?;
    let request = client.request(GetServerInfoRequest {});
    Ok(client.answer(client.server().get_server_info(request).await)?.version)
}

fn failed(error: &anyhow::Error) -> Finding {
    match error.downcast_ref::<Error>() {
        Some(Error::Handshake { sentence, detail, .. }) => Finding::error(
            "connection",
            format!("no TLS with the server ({detail})"),
            "no client can call this server over TLS in this way",
        )
        .advise(sentence),
        _ => Finding::error("connection", format!("{error:#}"), "this command cannot call it")
            .advise("check the address of --server, and the certificates and token of this client"),
    }
}
