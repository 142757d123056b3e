//! Collect cycles of a real charm (`tests/data/charm-collects`): a real worker answers real
//! collects with the statuses that the charm's handler added, and the unit gets the status that the
//! charm framework chose.

use bellwether::proto::v1;

use crate::peer::{Peer, hello};
use crate::server::Server;
use crate::sessions::unit;

/// One cycle.
#[derive(serde::Deserialize)]
struct Cycle {
    unit: String,
    /// Level and message, in the order in which they were added.
    collected: Vec<(String, String)>,
    chosen: (String, String),
}

fn read() -> Vec<Cycle> {
    let file = "tests/data/charm-collects/prometheus-k8s.jsonl";
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn level(word: &str) -> v1::Level {
    v1::Level::from_str_name(&format!("LEVEL_{}", word.to_uppercase())).unwrap()
}

/// Returns the pull set of a cycle. Among equally bad statuses the framework takes the one that was
/// added first. The server takes the first by component name, so the component is the number of its
/// position.
fn pull_set(collected: &[(String, String)]) -> Vec<v1::StatusReport> {
    let places = collected.iter().enumerate().map(|(place, (word, message))| v1::StatusReport {
        component: format!("{place:03}"),
        level: level(word) as i32,
        message: message.clone(),
        ..v1::StatusReport::default()
    });
    places.collect()
}

async fn run(server: &Server, peer: &mut Peer, cycle: &Cycle) {
    let application = cycle.unit.split('/').next().unwrap().to_string();
    let request = v1::CollectApplicationRequest {
        application: application.clone(),
        deadline: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
        ..Default::default()
    };
    let mut client = server.applications().await;
    let call = tokio::spawn(async move { client.collect_application(request).await });
    let question = peer.question().await;
    peer.replace(&question.collect_id, pull_set(&cycle.collected)).await;
    let collected = call.await.unwrap().unwrap().into_inner();
    assert_eq!((collected.asked_count, collected.answered_count), (1, 1));
    let [answer] = &collected.answers[..] else { panic!("{collected:?}") };
    assert_eq!(answer.statuses.len(), cycle.collected.len());
    let chosen = (level(&cycle.chosen.0), cycle.chosen.1.as_str());
    for found in
        [answer.unit.clone().unwrap(), unit(server, &application, &cycle.unit).await.unwrap()]
    {
        assert_eq!((found.level(), found.message.as_str()), chosen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_has_the_status_that_the_charm_framework_chose() {
    let cycles = read();
    assert_eq!(cycles.len(), 130);
    let server = Server::ephemeral();
    let name = cycles[0].unit.clone();
    let mut peer = Peer::connect(&server, hello(name.split('/').next().unwrap(), &name)).await;
    let newcomer = peer.question().await;
    let seq = peer.replace(&newcomer.collect_id, Vec::new()).await;
    peer.acknowledged(seq).await;
    for cycle in &cycles {
        run(&server, &mut peer, cycle).await;
    }
}

/// The data contain no tie between different messages. Among equal levels the first status wins,
/// even with more than ten, and whatever its message is.
#[tokio::test(flavor = "multi_thread")]
async fn among_equals_the_one_that_was_added_first_is_chosen() {
    let server = Server::ephemeral();
    let mut peer = Peer::connect(&server, hello("charm", "charm/0")).await;
    let newcomer = peer.question().await;
    let seq = peer.replace(&newcomer.collect_id, Vec::new()).await;
    peer.acknowledged(seq).await;
    let named = |count: usize| {
        let messages = (0..count).rev().map(|n| ("blocked".to_string(), format!("{n} is missing")));
        messages.collect::<Vec<_>>()
    };
    for count in [2, 9, 10, 11, 12, 101] {
        let mut collected = vec![("active".to_string(), String::new())];
        collected.extend(named(count));
        let chosen = collected[1].clone();
        let cycle = Cycle { unit: "charm/0".to_string(), collected, chosen };
        run(&server, &mut peer, &cycle).await;
    }
}
