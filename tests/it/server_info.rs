//! The server's information about itself.

use bellwether::proto::v1::{GetServerInfoRequest, GetServerInfoResponse, StoreKind};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use crate::redis::Redis;
use crate::server::Server;
use crate::web::{Version, get};

async fn ask(server: &Server) -> GetServerInfoResponse {
    let answer = server.about().await.get_server_info(GetServerInfoRequest {}).await;
    answer.unwrap().into_inner()
}

#[tokio::test]
async fn the_server_information_has_version_store_limits_and_features() {
    let text = "[limits]\nunits_max = 5\n[sessions]\nheartbeat_interval_seconds = 7";
    let server = Server::configured(&["--ephemeral"], text);
    let info = ask(&server).await;
    assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
    let is_hex = info.commit.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(is_hex && [0, 40].contains(&info.commit.len()), "{}", info.commit);
    assert_eq!(info.store_kind(), StoreKind::Memory);
    assert_eq!(info.limits["units_max"], 5);
    assert_eq!(info.limits["heartbeat_interval_seconds"], 7);
    assert_eq!(info.limits["page_size_max"], 1000);
    assert_eq!(info.limits["message_bytes_max"], 4096);
    assert_eq!(info.features, ["bounded_answers", "multiplex_watches", "reflection"]);
    assert_eq!(info.replica_id.len(), 16);
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let apart = info.time.unwrap().seconds.abs_diff(wall.as_secs() as i64);
    assert!(apart < 60, "{apart} s apart");
}

#[tokio::test]
async fn replicas_over_one_store_have_its_epoch_and_names_of_their_own() {
    let Some(redis) = Redis::start(&[]) else { return };
    let url = redis.url();
    let (one, other) = (Server::start(&["--store", &url]), Server::start(&["--store", &url]));
    let (one, other) = (ask(&one).await, ask(&other).await);
    assert_eq!(one.store_kind(), StoreKind::Redis);
    assert_eq!(one.store_epoch, other.store_epoch);
    assert_ne!(one.replica_id, other.replica_id);
}

#[tokio::test]
async fn the_epoch_is_of_the_store_and_the_replica_of_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::on(dir.path());
    let first = ask(&server).await;
    server.kill();
    let second = ask(&Server::on(dir.path())).await;
    assert_eq!(first.store_kind(), StoreKind::Embedded);
    assert_eq!(first.store_epoch, second.store_epoch);
    assert_ne!(first.replica_id, second.replica_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_can_be_turned_off() {
    for (flags, is_on) in
        [(&["--ephemeral"][..], true), (&["--ephemeral", "--no-reflection"], false)]
    {
        let server = Server::start(flags);
        let features = ask(&server).await.features;
        assert_eq!(features.iter().any(|feature| feature == "reflection"), is_on);
        let answer = get(&server, Version::Http1, "/descriptor.binpb").await;
        assert_eq!(answer.status == 200, is_on, "{}", answer.status);
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let mut client = Grpc::new(server.channel().await);
        client.ready().await.unwrap();
        let codec: ProstCodec<(), ()> = ProstCodec::default();
        let path = PathAndQuery::from_static(path);
        let code = match client.server_streaming(Request::new(()), path, codec).await {
            Ok(stream) => stream.into_inner().message().await.err().map(|status| status.code()),
            Err(status) => Some(status.code()),
        };
        assert_eq!(code == Some(Code::Unimplemented), !is_on, "{code:?}");
    }
}
