//! The graph of needs, as one reader sees it: objects, and an edge for each unmet need.

// Only for lookups; the order of objects is that of their first appearance.
use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::app::Head;
use crate::domain::met::is_met;
use crate::domain::name::AppName;
use crate::domain::need::Need;
use crate::domain::stated::StatedNeed;
use crate::domain::time::Timestamp;
use crate::watch::entry::Entry;

use super::MayRead;

/// Unmet needs that one evaluation follows: 100,000 applications with ten each.
pub const EDGES_MAX: usize = 1 << 20;

/// The applications state more unmet needs than an evaluation follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyEdges;

/// Something that is needed, or that needs something.
#[derive(Debug, Clone)]
pub enum Object {
    /// An application that exists, and that the reader may read, with its state.
    Known(Arc<Entry>, Arc<Head>),
    /// An application that was never reported.
    Unknown(AppName),
    /// An application that the reader may not read, whether or not it exists.
    Unreadable(AppName),
    /// Something that is no application, in words.
    Outside(Box<str>),
}

impl Object {
    /// Returns the application, if it is one.
    pub fn app(&self) -> Option<&AppName> {
        match self {
            Object::Known(entry, _) => Some(&entry.app),
            Object::Unknown(app) | Object::Unreadable(app) => Some(app),
            Object::Outside(_) => None,
        }
    }

    /// Returns the state of the application, if the reader may read it and it exists.
    pub fn head(&self) -> Option<&Head> {
        match self {
            Object::Known(_, head) => Some(head),
            _ => None,
        }
    }

    /// Returns its name, for orders and lists.
    pub fn name(&self) -> String {
        match self {
            Object::Outside(words) => words.to_string(),
            other => other.app().map_or_else(String::new, ToString::to_string),
        }
    }
}

/// The number of an object in its graph.
pub(super) type Node = u32;

/// An unmet need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) to: Node,
    /// The place of the need among those that the application states.
    pub(super) need: u32,
    /// Since when the need is stated.
    pub(super) stated: Timestamp,
    /// Since when it is stated and unmet.
    pub(super) unmet: Timestamp,
}

/// Objects, and the edges of each.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) objects: Vec<Object>,
    edges: Vec<Edge>,
    /// The place of the first edge of each object, and the end of the last one.
    starts: Vec<u32>,
    apps: HashMap<AppName, Node, foldhash::fast::RandomState>,
    words: HashMap<Box<str>, Node, foldhash::fast::RandomState>,
}

/// Returns whether an application needs something to get better, so that its needs are edges.
pub(super) fn is_waiting(entry: &Entry) -> bool {
    !entry.is_deleted() && !entry.level().is_well()
}

/// Returns the needs that an application states.
pub(super) fn stated(head: &Head) -> &[StatedNeed] {
    head.needs.as_ref().map_or(&[], |stated| &stated.needs)
}

/// Finds the newest state of an application.
pub(super) type Find<'a> = &'a dyn Fn(&AppName) -> Option<Arc<Entry>>;

/// A graph that is being built: the needs of each new object are followed in turn.
struct Builder<'a> {
    graph: Graph,
    find: Find<'a>,
    may_read: MayRead<'a>,
}

impl Graph {
    /// Returns the graph of all applications that wait, and of what they need.
    pub(super) fn of_all(
        entries: &[Arc<Entry>],
        may_read: MayRead<'_>,
    ) -> Result<Graph, TooManyEdges> {
        let by_name: HashMap<&AppName, &Arc<Entry>, foldhash::fast::RandomState> =
            entries.iter().map(|entry| (&entry.app, entry)).collect();
        let find = |app: &AppName| by_name.get(app).map(|entry| (*entry).clone());
        let mut builder = Builder::new(&find, may_read);
        for entry in entries.iter().filter(|e| is_waiting(e) && may_read(&e.app)) {
            builder.app(&entry.app);
        }
        builder.follow(usize::MAX)
    }

    /// Returns the graph of what one application needs, over any number of steps. The application
    /// is object 0.
    pub(super) fn from(
        app: &AppName,
        find: Find<'_>,
        may_read: MayRead<'_>,
        objects_max: usize,
    ) -> Graph {
        let mut builder = Builder::new(find, may_read);
        builder.app(app);
        builder.follow(objects_max).unwrap_or_default()
    }

    /// Returns the number of an object like this one, if the graph has it.
    pub(super) fn find(&self, object: &Object) -> Option<Node> {
        match object {
            Object::Outside(words) => self.words.get(words).copied(),
            other => self.apps.get(other.app()?).copied(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns the unmet needs of an object.
    pub(super) fn edges(&self, node: Node) -> &[Edge] {
        let node = node as usize;
        &self.edges[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

impl<'a> Builder<'a> {
    fn new(find: Find<'a>, may_read: MayRead<'a>) -> Builder<'a> {
        Builder { graph: Graph::default(), find, may_read }
    }

    /// Returns the number of an application.
    fn app(&mut self, app: &AppName) -> Node {
        match self.graph.apps.get(app) {
            Some(node) => *node,
            None => self.add_app(app, self.object(app)),
        }
    }

    /// Returns an application as the reader sees it.
    fn object(&self, app: &AppName) -> Object {
        if !(self.may_read)(app) {
            return Object::Unreadable(app.clone());
        }
        match (self.find)(app).filter(|entry| !entry.is_deleted()) {
            Some(entry) => {
                let head = entry.head();
                Object::Known(entry, head)
            }
            None => Object::Unknown(app.clone()),
        }
    }

    fn add_app(&mut self, app: &AppName, object: Object) -> Node {
        let node = self.add(object);
        self.graph.apps.insert(app.clone(), node);
        node
    }

    fn outside(&mut self, words: &str) -> Node {
        if let Some(node) = self.graph.words.get(words) {
            return *node;
        }
        let node = self.add(Object::Outside(words.into()));
        self.graph.words.insert(words.into(), node);
        node
    }

    fn add(&mut self, object: Object) -> Node {
        self.graph.objects.push(object);
        (self.graph.objects.len() - 1) as Node
    }

    /// Adds the edges of each object in turn, and the objects that they lead to. Objects beyond
    /// `objects_max` have no edges.
    fn follow(mut self, objects_max: usize) -> Result<Graph, TooManyEdges> {
        let mut node = 0;
        while node < self.graph.objects.len() {
            self.graph.starts.push(self.graph.edges.len() as u32);
            let entry = match &self.graph.objects[node] {
                Object::Known(entry, head) if node < objects_max && is_waiting(entry) => {
                    Some((entry.clone(), head.clone()))
                }
                _ => None,
            };
            if let Some((entry, head)) = entry {
                for (place, need) in stated(&head).iter().enumerate() {
                    self.follow_need(&entry, place as u32, need);
                }
            }
            if EDGES_MAX < self.graph.edges.len() {
                return Err(TooManyEdges);
            }
            node += 1;
        }
        self.graph.starts.push(self.graph.edges.len() as u32);
        Ok(self.graph)
    }

    fn follow_need(&mut self, entry: &Entry, need: u32, stated: &StatedNeed) {
        let (to, unmet) = match &stated.need {
            Need::Outside(words) => (self.outside(words), stated.since),
            Need::Application(app, _) if *app == entry.app => return,
            Need::Application(app, levels) => {
                let known = self.graph.apps.get(app).copied();
                let new = known.is_none().then(|| self.object(app));
                let object = match (known, &new) {
                    (Some(node), _) => Some(&self.graph.objects[node as usize]),
                    (None, new) => new.as_ref(),
                };
                let head = object.and_then(Object::head);
                // An application that nothing waits for is no object of the graph.
                if head.is_some_and(|head| is_met(Some(head), levels)) {
                    return;
                }
                let unmet = head.map_or(stated.since, |h| stated.since.max(h.summary.since));
                let node = known.or_else(|| new.map(|object| self.add_app(app, object)));
                let Some(node) = node else { return };
                (node, unmet)
            }
        };
        self.graph.edges.push(Edge { to, need, stated: stated.since, unmet });
    }
}
