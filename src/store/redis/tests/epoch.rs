//! Restarts that lose acknowledged writes.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restart_without_anything_leaves_tombstones() {
    let Some(mut server) = RedisServer::start().await else { return };
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let diaries = [Diary::on(&stores[0]), Diary::on(&stores[1])];
    for n in 0..10 {
        insist(&stores[n % 2], &format!("app-{n}"), "here").await;
    }
    let before = stores[0].epoch();
    server.restart().await;
    let restarted = Instant::now();
    until("both were told", async || {
        diaries.iter().all(|diary| {
            (0..10).all(|n| matches!(diary.last(&format!("app-{n}")), Some((2.., true))))
        })
    })
    .await;
    assert!(restarted.elapsed() < Duration::from_secs(5), "{:?}", restarted.elapsed());
    let expected = Epoch { losses: 1, ..before };
    for (store, diary) in stores.iter().zip(&diaries) {
        until("it is doubted", async || !diary.pages().doubts.is_empty()).await;
        assert_eq!(store.epoch(), expected);
        assert!(diary.pages().doubts.iter().all(|(_, epoch)| *epoch == expected));
        assert!(diary.is_in_order());
    }
    // Revisions continue, so that none names two states.
    let again = insist(&stores[0], "app-3", "again").await;
    assert!(2 < again.revision().0);
    until("the other one knows", async || {
        diaries[1].last("app-3") == Some((again.revision().0, false))
    })
    .await;
    again.check().await;
    // The loss is counted only once.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!([stores[0].epoch(), stores[1].epoch()], [expected; 2]);
    assert_eq!(try_open(&server.url(), mk_options()).await.unwrap().epoch(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restart_from_an_older_dump_tells_what_is_there() {
    let arguments = ["--save", "3600 1000000", "--dbfilename", "dump.rdb"];
    let Some(mut server) = RedisServer::start_with(&arguments).await else { return };
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let diaries = [Diary::on(&stores[0]), Diary::on(&stores[1])];
    insist(&stores[0], "kept", "one").await;
    insist(&stores[0], "changed", "one").await;
    let mut gone = insist(&stores[0], "revived", "one").await;
    server.call::<()>(&["SAVE"]).await.unwrap();
    insist(&stores[0], "changed", "two").await;
    insist(&stores[0], "new", "one").await;
    gone.delete().await;
    server.restart().await;
    for (store, diary) in stores.iter().zip(&diaries) {
        until("what was lost is told", async || {
            matches!(diary.last("changed"), Some((3.., false)))
                && matches!(diary.last("new"), Some((2.., true)))
                && matches!(diary.last("revived"), Some((3.., false)))
        })
        .await;
        until("it is doubted", async || !diary.pages().doubts.is_empty()).await;
        assert_eq!(diary.last("kept"), Some((1, false)));
        assert_eq!(store.epoch().losses, 1);
        assert!(diary.is_in_order());
    }
    let changed = Driver::new(&stores[1], "changed").await;
    let (_, status) = changed.state.statuses_from(&mk_first()).next().unwrap();
    assert_eq!(&*status.report.message, "one");
    insist(&stores[1], "changed", "three").await.check().await;
}

fn mk_first() -> crate::domain::status::StatusKey {
    crate::domain::status::StatusKey::first_of(&crate::domain::name::UnitName::application())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_back_late_finds_out_as_well() {
    let Some(mut server) = RedisServer::start().await else { return };
    let proxy = super::super::testing::Proxy::to(&server.address()).await;
    let (near, far) = (open(&server.url()).await, open(&proxy.url()).await);
    let diary = Diary::on(&far);
    insist(&near, "web", "one").await;
    insist(&near, "web", "two").await;
    until("the far one knows", async || diary.last("web") == Some((2, false))).await;
    proxy.cut();
    near.close().await;
    server.restart().await;
    // Another process, which does not know the lost writes, commits as many.
    let fresh = open(&server.url()).await;
    for message in ["three", "four", "five"] {
        insist(&fresh, "web", message).await;
    }
    proxy.heal();
    until("the far one was told", async || {
        !diary.pages().doubts.is_empty() && matches!(diary.last("web"), Some((3.., false)))
    })
    .await;
    assert!(diary.is_in_order());
    until("both agree", async || fresh.epoch() == far.epoch()).await;
    let mine = Driver::new(&far, "web").await;
    assert_eq!(diary.last("web"), Some((mine.revision().0, false)));
}
