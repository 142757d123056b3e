//! Circles of needs: strongly connected components, by Tarjan's algorithm without recursion, so
//! that a chain of 100,000 applications takes no stack.

use super::graph::{Graph, Node};

/// A graph of numbered objects.
pub trait Edges {
    /// Returns the number of objects.
    fn count(&self) -> usize;
    /// Returns the object that an edge of an object leads to; `None` after its last edge.
    fn target(&self, node: u32, edge: usize) -> Option<u32>;
}

impl Edges for Graph {
    fn count(&self) -> usize {
        self.len()
    }

    fn target(&self, node: Node, edge: usize) -> Option<Node> {
        self.edges(node).get(edge).map(|edge| edge.to)
    }
}

/// The components of a graph, in an order in which each comes after all that it leads to.
#[derive(Debug)]
pub struct Components {
    /// The component of each object.
    pub of: Vec<u32>,
    /// The objects, by component.
    members: Vec<Node>,
    /// The place of the first member of each component, and the end of the last one.
    starts: Vec<u32>,
}

impl Components {
    /// Finds the components of a graph.
    pub fn of(graph: &impl Edges) -> Components {
        let mut search = Search::new(graph.count());
        for node in 0..graph.count() as Node {
            search.visit(graph, node);
        }
        search.components.starts.push(search.components.members.len() as u32);
        search.components
    }

    /// Returns the number of components.
    #[allow(clippy::len_without_is_empty, reason = "an empty graph is no case of its own")]
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the objects of a component.
    pub fn members(&self, component: u32) -> &[Node] {
        let component = component as usize;
        &self.members[self.starts[component] as usize..self.starts[component + 1] as usize]
    }
}

const UNSEEN: u32 = u32::MAX;

struct Search {
    components: Components,
    /// The order in which objects were seen.
    seen: Vec<u32>,
    /// The first object in that order that each object leads back to.
    low: Vec<u32>,
    count: u32,
    /// Objects without a component so far.
    open: Vec<Node>,
    /// The way to the present object: each with the number of its edges that were followed.
    path: Vec<(Node, u32)>,
}

impl Search {
    fn new(count: usize) -> Search {
        let of = vec![UNSEEN; count];
        let components = Components { of, members: Vec::with_capacity(count), starts: Vec::new() };
        Search {
            components,
            seen: vec![UNSEEN; count],
            low: vec![0; count],
            count: 0,
            open: Vec::new(),
            path: Vec::new(),
        }
    }

    fn visit(&mut self, graph: &impl Edges, from: Node) {
        if self.seen[from as usize] != UNSEEN {
            return;
        }
        self.enter(from);
        while let Some((node, followed)) = self.path.last_mut() {
            let node = *node;
            let Some(target) = graph.target(node, *followed as usize) else {
                self.leave(node);
                continue;
            };
            *followed += 1;
            let to = target as usize;
            if self.seen[to] == UNSEEN {
                self.enter(target);
            } else if self.components.of[to] == UNSEEN {
                self.low[node as usize] = self.low[node as usize].min(self.seen[to]);
            }
        }
    }

    fn enter(&mut self, node: Node) {
        (self.seen[node as usize], self.low[node as usize]) = (self.count, self.count);
        self.count += 1;
        self.open.push(node);
        self.path.push((node, 0));
    }

    fn leave(&mut self, node: Node) {
        self.path.pop();
        let low = self.low[node as usize];
        if let Some((before, _)) = self.path.last() {
            let before = &mut self.low[*before as usize];
            *before = low.min(*before);
        }
        if low != self.seen[node as usize] {
            return;
        }
        let components = &mut self.components;
        let number = components.starts.len() as u32;
        components.starts.push(components.members.len() as u32);
        while let Some(member) = self.open.pop() {
            components.of[member as usize] = number;
            components.members.push(member);
            if member == node {
                return;
            }
        }
    }
}
