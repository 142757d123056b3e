//! The clients of a run: workers, watchers and operators, on a machine of their own.

pub mod forbidden;
pub mod marker;
pub mod operator;
pub mod quorum;
pub mod start;
pub mod watcher;
pub mod worker;

use std::sync::Arc;
use std::time::Duration;

use bellwether::aggregator::Error;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::name::AppName;
use bellwether::domain::request::{Outcome, RequestId};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::lock;
use crate::network::{Delivery, Link, Network, Node};
use crate::process::{Process, Processes};
use crate::randomness::Dice;

/// How long a client waits for the answer to a call.
const CALL_MAX: Duration = Duration::from_secs(8);

/// A client: its end of the network, and its decisions.
pub struct Client {
    /// Its number.
    pub number: usize,
    /// The network.
    pub network: Network,
    /// Its decisions.
    pub dice: Dice,
    /// The processes of the replicas.
    pub processes: Processes,
}

impl Client {
    /// Returns its end of the network.
    pub fn node(&self) -> Node {
        Node::Client(self.number)
    }

    /// Returns the place of a replica.
    pub fn pick(&mut self) -> usize {
        let count = lock(&self.processes).len();
        self.dice.index(count)
    }

    /// Writes a line to the trace.
    pub fn note(&self, text: std::fmt::Arguments<'_>) {
        self.network.note(format_args!("client {} {text}", self.number));
    }

    /// Calls a replica. Returns nothing if the call or its answer is lost.
    pub async fn call<T, F>(
        &self,
        place: usize,
        label: &'static str,
        run: impl FnOnce(Arc<Process>) -> F + Send + 'static,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (sender, answered) = oneshot::channel();
        let (network, me, replica) = (self.network.clone(), self.node(), Node::Replica(place));
        let processes = self.processes.clone();
        let at_process = move || {
            let process = lock(&processes).get(place).cloned().flatten();
            let Some(process) = process else { return };
            let ran = run(process.clone());
            process.handle.spawn(async move {
                let answer = ran.await;
                let back = Delivery::Run(Box::new(move || drop(sender.send(answer))));
                network.send((replica, me), label, back);
            });
        };
        let deliver = Delivery::Run(Box::new(at_process));
        self.network.send((me, replica), label, deliver);
        timeout(CALL_MAX, answered).await.ok()?.ok()
    }

    /// Sends a message on a link to a replica.
    pub fn tell(
        &self,
        (place, link): (usize, Link),
        label: &'static str,
        run: impl FnOnce(&Arc<Process>) + Send + 'static,
    ) {
        let (processes, network) = (self.processes.clone(), self.network.clone());
        let at_process = move || match lock(&processes).get(place).cloned().flatten() {
            Some(process) => run(&process),
            None => network.cut(link),
        };
        let way = (self.node(), Node::Replica(place));
        self.network.send_on(link, way, label, Delivery::Run(Box::new(at_process)));
    }

    /// Sends a command as a call of its own.
    pub async fn apply(
        &self,
        place: usize,
        app: &AppName,
        id: Option<&str>,
        command: Command,
    ) -> Option<Result<Outcome, Error>> {
        self.commit(place, app, id, command).await.map(|(outcome, _)| outcome)
    }

    /// Sends a command as a call of its own. Returns also the epoch floor of the master that the
    /// replica has compared last.
    pub async fn commit(
        &self,
        place: usize,
        app: &AppName,
        id: Option<&str>,
        command: Command,
    ) -> Option<(Result<Outcome, Error>, u64)> {
        let (app, id) = (app.clone(), id.map(RequestId::from));
        self.call(place, "apply", move |process| async move {
            let outcome = process.aggregator.apply(&app, Request { id, command }).await;
            (outcome, process.store.epoch_floor(&app))
        })
        .await
    }
}
