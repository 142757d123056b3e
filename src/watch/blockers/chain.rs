//! The chain from one application to its first causes.

use std::collections::HashSet;

use super::MayRead;
use super::circles::Components;
use super::graph::{Find, Graph, Node, Object, is_waiting, stated};
use super::roots::{CauseState, Reach, Roots, has_action};
use crate::domain::name::AppName;
use crate::domain::need::Need;
use crate::domain::stated::StatedBy;
use crate::domain::time::Timestamp;

/// Lines of a chain: what a person reads on one page.
const LINES_MAX: usize = 64;

/// Lines that are counted beyond those.
const COUNTED_MAX: usize = 4096;

/// Objects that are followed for one application.
const OBJECTS_MAX: usize = 4096;

/// What an application needs, down to the first causes.
#[derive(Debug, Default)]
pub struct Chain {
    /// The lines, depth first, the worst first.
    pub lines: Vec<CauseLine>,
    /// The number of further lines.
    pub rest: usize,
}

/// A line of a chain.
#[derive(Debug, Clone)]
pub struct CauseLine {
    /// 1 for a need of the application itself.
    pub depth: u32,
    /// What is needed.
    pub need: Need,
    /// Who states that.
    pub stated_by: StatedBy,
    /// What is needed, as the reader sees it.
    pub object: Object,
    /// Its state.
    pub state: CauseState,
    /// Since when.
    pub since: Timestamp,
    /// Whether an earlier line has the object.
    pub is_repeated: bool,
    /// Whether it is a first cause.
    pub is_root: bool,
    /// Whether the application gets well with this cause alone.
    pub frees_this: bool,
}

/// A graph with what was found in it.
struct Found {
    graph: Graph,
    components: Components,
    roots: Roots,
}

impl Chain {
    pub(super) fn of(
        app: &AppName,
        find: Find<'_>,
        now: Timestamp,
        may_read: MayRead<'_>,
    ) -> Chain {
        let has_needs = |entry: &crate::watch::entry::Entry| !stated(&entry.head()).is_empty();
        if !find(app).is_some_and(|entry| is_waiting(&entry) && has_needs(&entry)) {
            return Chain::default();
        }
        let graph = Graph::from(app, find, may_read, OBJECTS_MAX);
        let components = Components::of(&graph);
        let roots = Roots::of(&graph, &components, now);
        let found = Found { graph, components, roots };
        let mut chain = Chain::default();
        let (mut seen, mut count) = (HashSet::from([0]), 0);
        let mut next: Vec<(Node, CauseLine)> = found.needs_of(0, 1, find);
        while let Some((node, line)) = next.pop() {
            count += 1;
            if COUNTED_MAX < count {
                break;
            }
            let is_met = line.state == CauseState::Met;
            let is_repeated = !is_met && !seen.insert(node);
            if !is_repeated && !is_met {
                next.extend(found.needs_of(node, line.depth + 1, find));
            }
            if chain.lines.len() < LINES_MAX {
                chain.lines.push(CauseLine { is_repeated, ..line });
            }
        }
        chain.rest = count.min(COUNTED_MAX) - chain.lines.len();
        chain
    }
}

impl Found {
    /// Returns the needs of an object, the worst last. Those that are met are lines of the
    /// explained application alone.
    fn needs_of(&self, node: Node, depth: u32, find: Find<'_>) -> Vec<(Node, CauseLine)> {
        let Some(head) = self.graph.objects[node as usize].head() else { return Vec::new() };
        let edges = self.graph.edges(node);
        let mut lines = Vec::new();
        for (place, stated) in stated(head).iter().enumerate() {
            let line = CauseLine {
                depth,
                need: stated.need.clone(),
                stated_by: stated.stated_by.clone(),
                object: Object::Outside("".into()),
                state: CauseState::Met,
                since: stated.since,
                is_repeated: false,
                is_root: false,
                frees_this: false,
            };
            match edges.iter().find(|edge| edge.need == place as u32) {
                Some(edge) => lines.push((edge.to, self.unmet(edge.to, line))),
                None if depth == 1 => {
                    let met = stated.need.app().and_then(find);
                    lines.extend(met.map(|object| {
                        let (since, head) = (object.since(), object.head());
                        (node, CauseLine { object: Object::Known(object, head), since, ..line })
                    }));
                }
                None => {}
            }
        }
        lines.sort_by_cached_key(|(_, line)| std::cmp::Reverse((line.state, line.object.name())));
        lines
    }

    /// Fills in the line of an unmet need.
    fn unmet(&self, to: Node, line: CauseLine) -> CauseLine {
        let object = self.graph.objects[to as usize].clone();
        let component = self.components.of[to as usize] as usize;
        let root = self.roots.of[component];
        let cause = root.map(|root| &self.roots.causes[root as usize]);
        let closed = cause.and_then(|cause| cause.closed);
        let waits = !self.graph.edges(to).is_empty();
        let state = match cause {
            Some(cause) if closed.is_some() => cause.state,
            _ if waits && !object.head().is_some_and(has_action) => CauseState::Waiting,
            _ => CauseState::of(&object),
        };
        let own = self.components.of[0] as usize;
        let since = match state {
            CauseState::Deadlock => closed,
            _ => object.head().map(|head| head.summary.since),
        };
        CauseLine {
            state,
            since: since.unwrap_or(line.since),
            is_root: root.is_some(),
            frees_this: root.is_some_and(|root| self.roots.reach[own] == Reach::One(root)),
            object,
            ..line
        }
    }
}
