//! First causes: what each application reaches, and in which state that is.

use std::collections::HashMap;
use std::time::Duration;

use super::circles::Components;
use super::graph::{Graph, Node, Object};
use crate::domain::app::Head;
use crate::domain::level::Level;
use crate::domain::met::is_silent;
use crate::domain::time::Timestamp;

/// How long each need of a circle must be unmet before the circle is a deadlock: applications that
/// start together state needs of each other for a moment.
pub(super) const DEADLOCK_AFTER: Duration = Duration::from_secs(10);

/// Condition of something that is needed. The order is that of lists: the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CauseState {
    /// A person must act there.
    Person,
    /// It needs itself through others, for long enough.
    Deadlock,
    /// It failed.
    Failed,
    /// Units of it are silent.
    Silent,
    /// It was never reported, or its level is unknown.
    NotKnown,
    /// It is no application.
    Outside,
    /// The reader may not read it.
    NotReadable,
    /// It waits for what it needs itself.
    Waiting,
    /// It may get well without help.
    Busy,
    /// The need is met.
    Met,
}

impl CauseState {
    /// Returns whether the cause may end without help.
    pub fn heals_itself(self) -> bool {
        matches!(self, CauseState::Waiting | CauseState::Busy | CauseState::Met)
    }

    /// Returns the state of an object that has no unmet needs, or whose action a person can take.
    pub(super) fn of(object: &Object) -> CauseState {
        match object {
            Object::Outside(_) => CauseState::Outside,
            Object::Unreadable(_) => CauseState::NotReadable,
            Object::Unknown(_) => CauseState::NotKnown,
            Object::Known(_, head) => CauseState::of_head(head),
        }
    }

    fn of_head(head: &Head) -> CauseState {
        match head.summary.level {
            Level::Blocked | Level::Terminated => CauseState::Person,
            _ if has_action(head) => CauseState::Person,
            _ if is_silent(head) => CauseState::Silent,
            Level::Error => CauseState::Failed,
            Level::Unknown => CauseState::NotKnown,
            Level::Active | Level::Waiting | Level::Maintenance => CauseState::Busy,
        }
    }
}

/// Returns whether the winner of an application has an action.
pub(super) fn has_action(head: &Head) -> bool {
    !head.summary.action.is_empty()
}

/// The number of a first cause in its graph.
pub(super) type Root = u32;

/// A first cause.
#[derive(Debug)]
pub(super) struct RootCause {
    pub(super) state: CauseState,
    /// Its objects. Those of a deadlock are in the order of their needs.
    pub(super) objects: Vec<Node>,
    /// When the newest need of a circle became unmet; `None` for other causes.
    pub(super) closed: Option<Timestamp>,
}

impl RootCause {
    /// Returns whether an object of the cause counts among those that its end frees.
    pub(super) fn counts_itself(&self) -> bool {
        self.closed.is_some()
    }
}

/// The first causes that an object leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// None: nothing keeps it.
    None,
    /// This one alone.
    One(Root),
    /// Several.
    Many,
}

impl Reach {
    fn and(self, other: Reach) -> Reach {
        match (self, other) {
            (Reach::None, reach) | (reach, Reach::None) => reach,
            (Reach::One(a), Reach::One(b)) if a == b => self,
            _ => Reach::Many,
        }
    }
}

/// The first causes of a graph, and what each component reaches.
#[derive(Debug)]
pub(super) struct Roots {
    pub(super) causes: Vec<RootCause>,
    /// The cause that a component is, if it is one.
    pub(super) of: Vec<Option<Root>>,
    pub(super) reach: Vec<Reach>,
}

impl Roots {
    pub(super) fn of(graph: &Graph, components: &Components, now: Timestamp) -> Roots {
        let mut roots = Roots { causes: Vec::new(), of: Vec::new(), reach: Vec::new() };
        // Actions in a namespace that a cause has already.
        let mut actions: HashMap<(&str, &str), Root, foldhash::fast::RandomState> =
            HashMap::default();
        for component in 0..components.len() as u32 {
            let members = components.members(component);
            let mut reach = Reach::None;
            for edge in members.iter().flat_map(|node| graph.edges(*node)) {
                let to = components.of[edge.to as usize];
                if to != component {
                    reach = reach.and(roots.reach[to as usize]);
                }
            }
            let cause = cause(graph, components, component, now);
            let root = cause.map(|cause| {
                // A circle stays one cause, so that it keeps its name.
                let action = shared_action(graph, &cause).filter(|_| members.len() == 1);
                if let Some(root) = action.and_then(|action| actions.get(&action)) {
                    roots.causes[*root as usize].objects.extend(cause.objects);
                    return *root;
                }
                let root = roots.causes.len() as Root;
                actions.extend(action.map(|action| (action, root)));
                roots.causes.push(cause);
                root
            });
            roots.of.push(root);
            roots.reach.push(root.map_or(reach, |root| reach.and(Reach::One(root))));
        }
        roots
    }
}

/// Returns the namespace and the action of a cause that others may share.
fn shared_action<'g>(graph: &'g Graph, cause: &RootCause) -> Option<(&'g str, &'g str)> {
    let [node] = cause.objects[..] else { return None };
    let Object::Known(entry, head) = &graph.objects[node as usize] else { return None };
    let action = &*head.summary.action;
    let shares = cause.state == CauseState::Person && !action.is_empty();
    shares.then_some((entry.app.namespace(), action))
}

/// Returns the cause that a component is, if it is one.
fn cause(
    graph: &Graph,
    components: &Components,
    component: u32,
    now: Timestamp,
) -> Option<RootCause> {
    let members = components.members(component);
    if let [node] = *members {
        let object = &graph.objects[node as usize];
        let is_root = graph.edges(node).is_empty() || object.head().is_some_and(has_action);
        let state = CauseState::of(object);
        return is_root.then(|| RootCause { state, objects: vec![node], closed: None });
    }
    let within = |node: &Node| {
        let inside = |to: Node| components.of[to as usize] == component;
        graph.edges(*node).iter().filter(move |edge| inside(edge.to))
    };
    let newest = members.iter().flat_map(within).map(|edge| edge.unmet).max()?;
    let mut objects = in_order_of_needs(graph, components, component);
    if DEADLOCK_AFTER <= now.since(newest) {
        return Some(RootCause { state: CauseState::Deadlock, objects, closed: Some(newest) });
    }
    let asks = |node: &Node| graph.objects[*node as usize].head().is_some_and(has_action);
    if objects.iter().any(asks) {
        objects.retain(asks);
        return Some(RootCause { state: CauseState::Person, objects, closed: None });
    }
    Some(RootCause { state: CauseState::Waiting, objects, closed: Some(newest) })
}

/// Returns the members of a circle: from the first by name along their needs, each once.
fn in_order_of_needs(graph: &Graph, components: &Components, component: u32) -> Vec<Node> {
    let mut left: Vec<Node> = components.members(component).to_vec();
    left.sort_by_key(|node| graph.objects[*node as usize].app().cloned());
    let mut order = Vec::with_capacity(left.len());
    let mut is_left: HashMap<Node, bool, foldhash::fast::RandomState> =
        left.iter().map(|node| (*node, true)).collect();
    for first in left {
        let mut next = Some(first);
        while let Some(node) = next.filter(|node| is_left.insert(*node, false) == Some(true)) {
            order.push(node);
            let needed = graph.edges(node).iter().map(|edge| edge.to);
            next = needed.into_iter().find(|to| is_left.get(to) == Some(&true));
        }
    }
    order
}
