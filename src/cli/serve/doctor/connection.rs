//! The connection to a running server: whether it can be reached, and what is wrong with its TLS.

use bellwether_client::Error;

use crate::cli::context::Context;
use crate::doctor::Finding;
use crate::proto::v1::GetServerInfoRequest;

/// Connects to the server of `--server`, and makes one call.
pub async fn examine(context: &Context) -> Finding {
    let finding = match context.call(GetServerInfoRequest {}).await {
        Ok(info) => Finding::ok("connection", format!("answers, version {}", info.version)),
        Err(Error::Handshake { sentence, detail, .. }) => {
            let found = format!("no TLS with the server ({detail})");
            let why = "no client can call this server over TLS in this way";
            Finding::error("connection", found, why).advise(&sentence)
        }
        Err(error) => {
            Finding::error("connection", error.to_string(), "this command cannot call it").advise(
                "check the address of --server, and the certificates and token of this client",
            )
        }
    };
    finding.on(&context.server)
}
