//! A server for tests: one gRPC method, whose part the test plays over a real socket.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::MethodRouter;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Serves the method at `path`, on a free port if `address` has port 0. Returns the URL.
pub(crate) fn serve(address: SocketAddr, path: &str, method: MethodRouter) -> String {
    let incoming = TcpIncoming::bind(address).expect("free").with_nodelay(Some(true));
    let url = format!("http://{}", incoming.local_addr().expect("bound"));
    let routes = Routes::from(Router::new().route(path, method));
    tokio::spawn(Server::builder().add_routes(routes).serve_with_incoming(incoming));
    url
}
