//! First causes: which applications one cause alone keeps from getting well.
//!
//! The same graph as that of [`crate::watch::blockers`], over what a client sees: an edge leads
//! from an application that is not well to each object of an unmet need. A first cause is an object
//! without edges, an application whose winner has an action, or a circle.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cli::command::notify::engine::fact::{AppRef, Fact, Needed};
use crate::watch::blockers::{Components, Edges};

/// Something that is needed, or that needs something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Thing {
    Application(AppRef),
    Outside(Arc<str>),
}

/// The first causes that a component leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstCauses {
    None,
    One(u32),
    Many,
}

impl FirstCauses {
    fn and(self, other: FirstCauses) -> FirstCauses {
        match (self, other) {
            (FirstCauses::None, reach) | (reach, FirstCauses::None) => reach,
            (FirstCauses::One(a), FirstCauses::One(b)) if a == b => self,
            _ => FirstCauses::Many,
        }
    }
}

/// A first cause that is the only one of some applications.
#[derive(Debug, Clone, Default)]
pub struct OnlyCause {
    /// The applications that it is: one, the members of a circle, or none for a thing outside.
    pub members: Vec<AppRef>,
    /// The other applications that get well with it alone, by name.
    pub frees: Vec<AppRef>,
}

/// The first causes of all applications at one moment.
#[derive(Debug, Default)]
pub struct Causes {
    causes: Vec<OnlyCause>,
    of: HashMap<AppRef, u32>,
}

#[derive(Default)]
struct NeedGraph {
    things: Vec<Thing>,
    numbers: HashMap<Thing, u32>,
    edges: Vec<Vec<u32>>,
    has_action: Vec<bool>,
}

impl Edges for NeedGraph {
    fn count(&self) -> usize {
        self.things.len()
    }

    fn target(&self, node: u32, edge: usize) -> Option<u32> {
        self.edges[node as usize].get(edge).copied()
    }
}

impl Causes {
    /// Finds the first causes of the applications that are not well and state needs.
    pub fn of(needy: &BTreeSet<AppRef>, facts: &HashMap<AppRef, Arc<Fact>>) -> Causes {
        let mut needs = NeedGraph::default();
        for fact in needy.iter().filter_map(|subject| facts.get(subject)) {
            let node = needs.number(Thing::Application(fact.subject.clone()));
            for needed in fact.needs.iter().filter(|needed| !is_met(needed, facts)) {
                let to = needs.number(match needed {
                    Needed::Application(subject, _) => Thing::Application(subject.clone()),
                    Needed::Outside(words) => Thing::Outside(words.clone()),
                });
                needs.edges[node as usize].extend((to != node).then_some(to));
            }
        }
        for (node, thing) in needs.things.iter().enumerate() {
            let Thing::Application(subject) = thing else { continue };
            let fact = facts.get(subject);
            needs.has_action[node] = fact.is_some_and(|fact| !fact.action.is_empty());
        }
        needs.causes()
    }

    /// Returns the only first cause of an application; `None` if it has none or several. That of a
    /// first cause is itself.
    pub fn only_cause(&self, subject: &AppRef) -> Option<(u32, &OnlyCause)> {
        let number = *self.of.get(subject)?;
        Some((number, &self.causes[number as usize]))
    }
}

/// Whether a need is met, as far as these applications say. One that is not among them may not be
/// readable, so its need counts as long as it is stated.
fn is_met(needed: &Needed, facts: &HashMap<AppRef, Arc<Fact>>) -> bool {
    let Needed::Application(subject, levels) = needed else { return false };
    facts.get(subject).is_some_and(|fact| levels.contains(&fact.level) && !fact.silent)
}

impl NeedGraph {
    fn number(&mut self, thing: Thing) -> u32 {
        if let Some(number) = self.numbers.get(&thing) {
            return *number;
        }
        let number = self.things.len() as u32;
        self.things.push(thing.clone());
        self.edges.push(Vec::new());
        self.has_action.push(false);
        self.numbers.insert(thing, number);
        number
    }

    fn causes(self) -> Causes {
        let components = Components::of(&self);
        let mut reach: Vec<FirstCauses> = Vec::with_capacity(components.len());
        let mut causes: Vec<OnlyCause> = Vec::new();
        let mut of = HashMap::new();
        for component in 0..components.len() as u32 {
            let members = components.members(component);
            let targets = members.iter().flat_map(|node| &self.edges[*node as usize]);
            let others = targets.map(|to| components.of[*to as usize]);
            let others = others.filter(|other| *other != component);
            let leads =
                others.fold(FirstCauses::None, |reached, other| reached.and(reach[other as usize]));
            let alone = members.first().filter(|_| members.len() == 1);
            let leads_on = alone.is_some_and(|node| !self.edges[*node as usize].is_empty());
            let acts = alone.is_some_and(|node| self.has_action[*node as usize]);
            let is_cause = !leads_on || acts;
            let mut subjects: Vec<AppRef> =
                members.iter().filter_map(|node| self.things[*node as usize].subject()).collect();
            subjects.sort();
            let here = match is_cause {
                false => leads,
                true => {
                    causes.push(OnlyCause { members: subjects.clone(), frees: Vec::new() });
                    leads.and(FirstCauses::One(causes.len() as u32 - 1))
                }
            };
            reach.push(here);
            if let FirstCauses::One(cause) = here {
                if !is_cause {
                    causes[cause as usize].frees.extend(subjects.iter().cloned());
                }
                of.extend(subjects.into_iter().map(|subject| (subject, cause)));
            }
        }
        causes.iter_mut().for_each(|cause| cause.frees.sort());
        Causes { causes, of }
    }
}

impl Thing {
    fn subject(&self) -> Option<AppRef> {
        match self {
            Thing::Application(subject) => Some(subject.clone()),
            Thing::Outside(_) => None,
        }
    }
}
