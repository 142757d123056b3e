//! The conformance suite of stores from outside of the crate, as the tests of another backend would
//! run it. The backends here are the memory store, and the faulty store over it.

use std::sync::Arc;

use bellwether::store::conformance::{self, Deployment, FaultyLink};
use bellwether::store::faulty::FaultyStore;
use bellwether::store::{MemoryStore, Retention, Store};

/// The data of a memory store.
struct Memory(MemoryStore);

impl Deployment for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.0.another())
    }
}

/// A shared memory store. One process reaches it through a faulty store.
struct Remote {
    memory: MemoryStore,
    linked: Arc<FaultyStore>,
}

impl Deployment for Remote {
    async fn open(&self) -> Arc<dyn Store> {
        FaultyStore::over(self.memory.another())
    }
}

impl FaultyLink for Remote {
    async fn open_linked(&self) -> Arc<dyn Store> {
        self.linked.clone()
    }

    fn cut(&self) {
        self.linked.set_away(true);
    }

    fn lose_answers(&self, _: u32) {
        self.linked.lose_answers(usize::MAX);
    }

    fn heal(&self) {
        self.linked.set_away(false);
        self.linked.lose_answers(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_store_conforms() {
    conformance::test_all(async |retention| Memory(MemoryStore::new(retention))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_store_conforms_if_it_is_shared() {
    let make = async |retention| Memory(MemoryStore::new(retention).shared());
    conformance::test_all(make).await;
    conformance::test_shared(make).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_faulty_store_conforms() {
    let make = async |retention: Retention| {
        let memory = MemoryStore::new(retention).shared();
        Remote { linked: FaultyStore::over(memory.another()), memory }
    };
    conformance::test_all(make).await;
    conformance::test_shared(make).await;
    conformance::test_link(make).await;
}
