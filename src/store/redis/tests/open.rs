//! The stores that are refused at start, with a sentence.

use super::*;

async fn refused(server: &RedisServer, options: Options) -> String {
    let refused = try_open(&server.url(), options).await;
    refused.err().unwrap().to_string()
}

#[tokio::test]
async fn another_number_of_buckets_is_refused() {
    let Some(server) = RedisServer::start().await else { return };
    open(&server.url()).await.close().await;
    let options = with_buckets(8);
    let said = refused(&server, options).await;
    assert!(said.contains("has 4 buckets, and --store-buckets is 8"), "{said}");
    open(&server.url()).await.close().await;
    // Without the flag the store keeps its number.
    let store = try_open(&server.url(), Options::default()).await.unwrap();
    assert_eq!(store.buckets(), 4);
}

#[tokio::test]
async fn keys_of_another_program_are_refused() {
    let Some(server) = RedisServer::start().await else { return };
    server.call::<()>(&["SET", "bw:meta", "mine"]).await.unwrap();
    let said = refused(&server, mk_options()).await;
    assert!(said.contains("key bw:meta in Redis is not a key of bellwether"), "{said}");
    assert!(said.contains("--store-prefix"), "{said}");
    let layout = Layout { prefix: Prefix::parse("other").unwrap(), ..Layout::default() };
    let other = try_open(&server.url(), Options { layout, ..mk_options() }).await.unwrap();
    other.close().await;
    server.call::<()>(&["DEL", "bw:meta"]).await.unwrap();
    server.call::<()>(&["HSET", "bw:meta", "buckets", "many"]).await.unwrap();
    let said = refused(&server, mk_options()).await;
    assert!(said.contains("is not a key of bellwether"), "{said}");
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let Some(server) = RedisServer::start().await else { return };
    open(&server.url()).await.close().await;
    server.call::<()>(&["HSET", "bw:meta", "format", "77"]).await.unwrap();
    let said = refused(&server, mk_options()).await;
    assert!(said.contains("have format 77"), "{said}");
}
