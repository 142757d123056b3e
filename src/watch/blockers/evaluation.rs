//! The needs of all applications at one moment, as one reader sees them: which causes there are,
//! and which applications get well with each.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::MayRead;
use super::circles::Components;
use super::graph::{Graph, Node, Object, TooManyEdges, is_waiting};
use super::roots::{CauseState, Reach, Root, Roots, has_action};
use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::watch::entry::Entry;

/// Causes whose blocked applications are counted before they are ordered. Beyond these, causes that
/// free equally many are ordered by age alone.
const ORDERED_MAX: usize = 1024;

/// Objects that a row lists.
const OBJECTS_MAX: usize = 32;

/// Applications that a row names.
const NAMED_MAX: usize = 8;

/// The needs of all applications at one moment.
#[derive(Debug)]
pub struct Evaluation {
    graph: Graph,
    components: Components,
    roots: Roots,
    /// The number of applications that each cause frees, over all namespaces.
    frees: Vec<u32>,
}

/// The causes for one namespace, in order.
#[derive(Debug)]
pub struct Listing {
    rows: Vec<Row>,
    /// The number of causes that may end without help.
    pub self_healing: usize,
    namespace: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    root: Root,
    frees: u32,
    blocks: u32,
    since: Timestamp,
}

/// A first cause.
#[derive(Debug, Clone)]
pub struct Blocker {
    /// Its state.
    pub state: CauseState,
    /// What it is: the first objects.
    pub objects: Vec<Object>,
    /// The number of other objects.
    pub objects_rest: usize,
    /// Action, message and level of the first object that is known, that with an action first.
    pub action: Box<str>,
    /// Its message.
    pub message: Box<str>,
    /// Its level; `None` if it has none, or the reader may not know it.
    pub level: Option<Level>,
    /// Since when.
    pub since: Timestamp,
    /// Number of applications that have no other cause.
    pub frees: u32,
    /// Number of applications that lead to it.
    pub blocks: u32,
    /// The first of those that it frees.
    pub freed: Vec<AppName>,
    /// The first applications that state the need, for an object without a state.
    pub named_by: Vec<AppName>,
}

/// The first names of many.
#[derive(Default)]
struct First<'e>(BTreeSet<&'e AppName>);

impl<'e> First<'e> {
    fn extend(&mut self, name: Option<&'e AppName>) {
        self.0.extend(name);
        if NAMED_MAX < self.0.len() {
            self.0.pop_last();
        }
    }

    fn names(self) -> Vec<AppName> {
        self.0.into_iter().cloned().collect()
    }
}

/// The place of each cause among some rows.
type Places = HashMap<Root, usize, foldhash::fast::RandomState>;

fn places(rows: &[Row]) -> Places {
    rows.iter().enumerate().map(|(place, row)| (row.root, place)).collect()
}

/// 256 causes are counted in one pass over the graph.
type Mask = [u64; 4];
const MASK_BITS: usize = 256;

impl Evaluation {
    /// Evaluates the needs of these applications, each with its newest state.
    ///
    /// # Errors
    /// If they state more needs than an evaluation follows.
    pub fn of(
        entries: &[Arc<Entry>],
        now: Timestamp,
        may_read: MayRead<'_>,
    ) -> Result<Evaluation, TooManyEdges> {
        let graph = Graph::of_all(entries, may_read)?;
        let components = Components::of(&graph);
        let roots = Roots::of(&graph, &components, now);
        let mut evaluation = Evaluation { graph, components, roots, frees: Vec::new() };
        evaluation.frees = evaluation.count_freed(None);
        Ok(evaluation)
    }

    /// Returns the number of causes of each state.
    pub fn count_by_state(&self) -> HashMap<CauseState, usize> {
        let mut counts = HashMap::new();
        for cause in &self.roots.causes {
            *counts.entry(cause.state).or_default() += 1;
        }
        counts
    }

    /// Returns the number of applications that get well with the cause that has an object alone.
    pub fn freed_by(&self, object: &Object) -> u32 {
        let node = self.graph.find(object);
        let root = node.and_then(|node| self.roots.of[self.components.of[node as usize] as usize]);
        root.map_or(0, |root| self.frees[root as usize])
    }

    /// Lists the causes that keep applications of a namespace, or of all, from getting well.
    pub fn list(&self, namespace: Option<Arc<str>>) -> Listing {
        let frees = match &namespace {
            None => self.frees.clone(),
            Some(namespace) => self.count_freed(Some(namespace)),
        };
        let concerned = self.concerned(namespace.as_deref());
        let mut self_healing = 0;
        let mut rows: Vec<Row> = Vec::new();
        let since = self.since_of_roots();
        for (root, cause) in self.roots.causes.iter().enumerate() {
            if !concerned[root] {
                continue;
            }
            if cause.state.heals_itself() {
                self_healing += 1;
                continue;
            }
            let (root, frees, since) = (root as Root, frees[root], since[root]);
            rows.push(Row { root, frees, blocks: 0, since });
        }
        rows.sort_by_cached_key(|row| self.order(row));
        let count = rows.len().min(ORDERED_MAX);
        let ordered = &mut rows[..count];
        self.count_blocked(ordered, namespace.as_deref());
        ordered.sort_by_cached_key(|row| self.order(row));
        Listing { rows, self_healing, namespace }
    }

    /// Returns the rows of a page: up to `count_max` from `first` on, as long as `fits`.
    pub fn page(&self, listing: &Listing, first: usize, count_max: usize) -> Vec<Blocker> {
        let rows = listing.rows.iter().skip(first).take(count_max);
        let mut rows: Vec<Row> = rows.copied().collect();
        if ORDERED_MAX <= first + rows.len() {
            self.count_blocked(&mut rows, listing.namespace.as_deref());
        }
        self.blockers(&rows, listing.namespace.as_deref())
    }

    /// Returns every cause, also those that may end without help.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<Blocker> {
        let roots = 0..self.roots.causes.len() as Root;
        let since = Timestamp::default();
        let mut rows: Vec<Row> = roots
            .map(|root| Row { root, frees: self.frees[root as usize], blocks: 0, since })
            .collect();
        self.count_blocked(&mut rows, None);
        self.blockers(&rows, None)
    }

    /// Returns rows with their texts and names. The names of all rows take one pass together.
    fn blockers(&self, rows: &[Row], namespace: Option<&str>) -> Vec<Blocker> {
        let freed = self.freed(rows, namespace);
        let named_by = self.named_by(rows);
        let rows = rows.iter().zip(freed).zip(named_by);
        rows.map(|((row, freed), named_by)| self.blocker(row, freed, named_by)).collect()
    }

    fn blocker(&self, row: &Row, freed: First<'_>, named_by: First<'_>) -> Blocker {
        let cause = &self.roots.causes[row.root as usize];
        let objects = cause.objects.iter().map(|node| &self.graph.objects[*node as usize]);
        let mut heads = objects.clone().filter_map(Object::head);
        let shown = heads.clone().find(|head| has_action(head)).or_else(|| heads.next());
        let summary = shown.map(|head| &head.summary);
        let text = |text: Option<&Box<str>>| text.cloned().unwrap_or_default();
        Blocker {
            state: cause.state,
            objects: objects.clone().take(OBJECTS_MAX).cloned().collect(),
            objects_rest: cause.objects.len().saturating_sub(OBJECTS_MAX),
            action: text(summary.map(|s| &s.action)),
            message: text(summary.map(|s| &s.message)),
            level: summary.map(|s| s.level),
            since: row.since,
            frees: row.frees,
            blocks: row.blocks,
            freed: freed.names(),
            named_by: named_by.names(),
        }
    }

    /// Returns whether an object is an application that waits, in this namespace or in any.
    fn counts(&self, node: Node, namespace: Option<&str>) -> bool {
        let Object::Known(entry, _) = &self.graph.objects[node as usize] else { return false };
        is_waiting(entry) && namespace.is_none_or(|wanted| entry.app.namespace() == wanted)
    }

    /// Returns the cause that an object frees, if it counts and there is one alone.
    fn freed_alone(&self, node: Node, namespace: Option<&str>) -> Option<Root> {
        let component = self.components.of[node as usize] as usize;
        let Reach::One(root) = self.roots.reach[component] else { return None };
        let counts = self.own_cause(node) != Some(root) && self.counts(node, namespace);
        counts.then_some(root)
    }

    /// Returns the cause that an object is and does not count among its own. The members of a
    /// circle count, and so do those beside the ones whose action a person can take.
    fn own_cause(&self, node: Node) -> Option<Root> {
        let component = self.components.of[node as usize];
        let root = self.roots.of[component as usize]?;
        let cause = &self.roots.causes[root as usize];
        let is_alone = self.components.members(component).len() == 1;
        let is_object = is_alone || cause.objects.contains(&node);
        (is_object && !cause.counts_itself()).then_some(root)
    }

    fn nodes(&self) -> std::ops::Range<Node> {
        0..self.graph.len() as Node
    }

    fn count_freed(&self, namespace: Option<&str>) -> Vec<u32> {
        let mut frees = vec![0; self.roots.causes.len()];
        for root in self.nodes().filter_map(|node| self.freed_alone(node, namespace)) {
            frees[root as usize] += 1;
        }
        frees
    }

    /// Returns the first applications that each of some causes frees.
    fn freed(&self, rows: &[Row], namespace: Option<&str>) -> Vec<First<'_>> {
        let places = places(rows);
        let mut freed: Vec<First<'_>> = rows.iter().map(|_| First::default()).collect();
        for node in self.nodes() {
            let root = self.freed_alone(node, namespace);
            if let Some(place) = root.and_then(|root| places.get(&root)) {
                freed[*place].extend(self.graph.objects[node as usize].app());
            }
        }
        freed
    }

    /// Returns the first applications that state a need of each of some causes, if none of its
    /// objects has a state.
    fn named_by(&self, rows: &[Row]) -> Vec<First<'_>> {
        let mut named: Vec<First<'_>> = rows.iter().map(|_| First::default()).collect();
        let mut wanted: HashMap<Node, usize, foldhash::fast::RandomState> = HashMap::default();
        for (place, row) in rows.iter().enumerate() {
            let objects = &self.roots.causes[row.root as usize].objects;
            let has_state = |node: &Node| self.graph.objects[*node as usize].head().is_some();
            if !objects.iter().any(has_state) {
                wanted.extend(objects.iter().map(|node| (*node, place)));
            }
        }
        if wanted.is_empty() {
            return named;
        }
        for node in self.nodes() {
            for edge in self.graph.edges(node) {
                if let Some(place) = wanted.get(&edge.to) {
                    named[*place].extend(self.graph.objects[node as usize].app());
                }
            }
        }
        named
    }

    /// Returns for each cause whether an application of the namespace is it, or leads to it.
    fn concerned(&self, namespace: Option<&str>) -> Vec<bool> {
        let mut concerned = vec![namespace.is_none(); self.roots.causes.len()];
        if namespace.is_none() {
            return concerned;
        }
        // A component comes after all that it leads to, so the reverse order passes the mark on.
        let mut marked = vec![false; self.components.len()];
        for component in (0..self.components.len() as u32).rev() {
            let members = self.components.members(component);
            let is_own = |node: &Node| {
                let object = &self.graph.objects[*node as usize];
                let is_there = object.head().is_some();
                is_there && object.app().is_some_and(|app| Some(app.namespace()) == namespace)
            };
            if !marked[component as usize] && !members.iter().any(is_own) {
                continue;
            }
            if let Some(root) = self.roots.of[component as usize] {
                concerned[root as usize] = true;
            }
            for edge in members.iter().flat_map(|node| self.graph.edges(*node)) {
                marked[self.components.of[edge.to as usize] as usize] = true;
            }
        }
        concerned
    }

    /// Returns since when each cause is one.
    fn since_of_roots(&self) -> Vec<Timestamp> {
        let needed = self.needed_since();
        let of = |node: &Node| match self.graph.objects[*node as usize].head() {
            Some(head) => Some(head.summary.since),
            None => needed[*node as usize],
        };
        let since = self.roots.causes.iter().map(|cause| {
            cause.closed.or_else(|| cause.objects.iter().filter_map(of).min()).unwrap_or_default()
        });
        since.collect()
    }

    /// Returns since when each object is needed.
    fn needed_since(&self) -> Vec<Option<Timestamp>> {
        let mut since: Vec<Option<Timestamp>> = vec![None; self.graph.len()];
        for edge in self.nodes().flat_map(|node| self.graph.edges(node)) {
            let since = &mut since[edge.to as usize];
            *since = Some(since.map_or(edge.stated, |since| since.min(edge.stated)));
        }
        since
    }

    /// Counts the applications that lead to each of some causes.
    fn count_blocked(&self, rows: &mut [Row], namespace: Option<&str>) {
        let counted: Vec<Node> =
            self.nodes().filter(|node| self.counts(*node, namespace)).collect();
        for rows in rows.chunks_mut(MASK_BITS) {
            let places = places(rows);
            rows.iter_mut().for_each(|row| row.blocks = 0);
            let masks = self.masks(&places);
            for node in &counted {
                let component = self.components.of[*node as usize] as usize;
                let mut mask = masks[component];
                if let Some(place) = self.own_cause(*node).and_then(|root| places.get(&root)) {
                    mask[place / 64] &= !(1 << (place % 64));
                }
                for (word, bits) in mask.into_iter().enumerate() {
                    let mut bits: u64 = bits;
                    while bits != 0 {
                        rows[64 * word + bits.trailing_zeros() as usize].blocks += 1;
                        bits &= bits - 1;
                    }
                }
            }
        }
    }

    /// Returns for each component the causes that it leads to, among those that have a place.
    fn masks(&self, places: &HashMap<Root, usize, foldhash::fast::RandomState>) -> Vec<Mask> {
        let mut masks: Vec<Mask> = vec![[0; 4]; self.components.len()];
        for component in 0..self.components.len() {
            let mut mask: Mask = [0; 4];
            let members = self.components.members(component as u32);
            for edge in members.iter().flat_map(|node| self.graph.edges(*node)) {
                let to = masks[self.components.of[edge.to as usize] as usize];
                mask.iter_mut().zip(to).for_each(|(word, other)| *word |= other);
            }
            if let Some(place) = self.roots.of[component].and_then(|root| places.get(&root)) {
                mask[place / 64] |= 1 << (place % 64);
            }
            masks[component] = mask;
        }
        masks
    }

    /// Returns the place of a row: what frees most first, then what blocks most, then the oldest.
    fn order(&self, row: &Row) -> (Reverse<u32>, Reverse<u32>, Timestamp, String) {
        let objects = &self.roots.causes[row.root as usize].objects;
        let first = objects.first().map(|node| self.graph.objects[*node as usize].name());
        (Reverse(row.frees), Reverse(row.blocks), row.since, first.unwrap_or_default())
    }
}

impl Listing {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether nothing needs help.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
