//! Which upstream has which namespace. Each has one owner; what another upstream has of it is kept
//! aside, and nothing of such a namespace is served until one of the two has no application in it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::domain::name::AppName;
use crate::watch::Copied;

/// The namespaces of a relay with several upstreams.
#[derive(Debug, Default)]
pub(super) struct NamespaceClaims {
    owners: HashMap<Arc<str>, NamespaceClaim>,
    /// What is kept aside, by upstream and name.
    aside: BTreeMap<(usize, AppName), Copied>,
    /// How much of each namespace is kept aside, by upstream.
    contested: BTreeMap<Arc<str>, BTreeMap<usize, usize>>,
}

/// The upstream that has a namespace, and the number of its applications in the hub.
#[derive(Debug, Clone, Copy)]
struct NamespaceClaim {
    upstream: usize,
    count: usize,
}

/// A namespace that two upstreams have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) namespace: Arc<str>,
    /// Of these two, by their numbers.
    pub(super) upstreams: (usize, usize),
}

/// What becomes of a batch.
#[derive(Debug, Default)]
pub(super) struct Divided {
    /// The changes for the hub.
    pub(super) own: Vec<Copied>,
    /// Namespaces that the upstream does not have any more.
    freed: Vec<Arc<str>>,
}

/// What was kept aside and may be shown, by upstream.
pub(super) type Released = Vec<(usize, Vec<Copied>)>;

impl NamespaceClaims {
    /// Returns the upstream that has a namespace.
    pub(super) fn owner(&self, namespace: &str) -> Option<usize> {
        self.owners.get(namespace).map(|claim| claim.upstream)
    }

    /// Returns each namespace that two upstreams have.
    pub(super) fn overlaps(&self) -> impl Iterator<Item = Overlap> {
        self.contested.iter().map(|(namespace, others)| self.overlap_of(namespace, others))
    }

    /// Returns the overlap of a namespace, if it has one.
    pub(super) fn overlap(&self, namespace: &str) -> Option<Overlap> {
        let (namespace, others) = self.contested.get_key_value(namespace)?;
        Some(self.overlap_of(namespace, others))
    }

    fn overlap_of(&self, namespace: &Arc<str>, others: &BTreeMap<usize, usize>) -> Overlap {
        let other = others.keys().next().copied().unwrap_or_default();
        let last = others.keys().last().copied().unwrap_or_default();
        let owner = self.owner(namespace).unwrap_or(last);
        Overlap { namespace: namespace.clone(), upstreams: (owner, other) }
    }

    /// Returns what an upstream has of an application, if it is kept aside.
    pub(super) fn aside(&self, upstream: usize, app: &AppName) -> Option<&Copied> {
        if self.aside.is_empty() { None } else { self.aside.get(&(upstream, app.clone())) }
    }

    /// Returns everything of an upstream that is kept aside.
    pub(super) fn aside_of(&self, upstream: usize) -> impl Iterator<Item = &Copied> {
        let of_upstream = move |((of, _), _): &(&(usize, AppName), &Copied)| *of == upstream;
        self.aside.iter().filter(of_upstream).map(|(_, copied)| copied)
    }

    /// Takes a proved batch of an upstream; `is_known` says whether the hub has an application.
    pub(super) fn take(
        &mut self,
        upstream: usize,
        changes: Vec<Copied>,
        is_known: impl Fn(&AppName) -> bool,
    ) -> Divided {
        let mut sorted = Divided::default();
        for change in changes {
            let namespace = change.app.namespace();
            let owner = self.owner(namespace).unwrap_or(upstream);
            if owner != upstream || self.aside(upstream, &change.app).is_some() {
                self.put_aside(upstream, change);
                continue;
            }
            let (was, is) = (is_known(&change.app), change.head.is_some());
            if !was && !is {
                continue;
            }
            let known = self.owners.get(namespace).map_or(0, |claim| claim.count);
            let count = (known + usize::from(is)).saturating_sub(usize::from(was));
            if count == 0 {
                let freed = self.owners.remove_entry(namespace).map(|(namespace, _)| namespace);
                sorted.freed.extend(freed);
            } else if let Some(claim) = self.owners.get_mut(namespace) {
                claim.count = count;
            } else {
                self.owners.insert(Arc::from(namespace), NamespaceClaim { upstream, count });
            }
            sorted.own.push(change);
        }
        // It may have others in the meantime.
        sorted.freed.retain(|namespace| !self.owners.contains_key(namespace));
        sorted
    }

    fn put_aside(&mut self, upstream: usize, change: Copied) {
        let namespace: Arc<str> = Arc::from(change.app.namespace());
        let key = (upstream, change.app.clone());
        let (was, is) = match change.head.is_some() {
            true => (self.aside.insert(key, change).is_some(), true),
            false => (self.aside.remove(&key).is_some(), false),
        };
        if was == is {
            return;
        }
        let others = self.contested.entry(namespace.clone()).or_default();
        let count = others.entry(upstream).or_default();
        *count = (*count + usize::from(is)).saturating_sub(usize::from(was));
        if *count == 0 {
            others.remove(&upstream);
        }
        if others.is_empty() {
            self.contested.remove(&namespace);
        }
    }

    /// Returns what may be shown now that namespaces have lost their owner. It stays aside until
    /// [`NamespaceClaims::settle`], so that it is known all the time.
    pub(super) fn release(&self, sorted: &Divided) -> Released {
        let mut released: BTreeMap<usize, Vec<Copied>> = BTreeMap::new();
        for namespace in &sorted.freed {
            let others = self.contested.get(namespace);
            let Some(next) = others.and_then(|others| others.keys().next()) else { continue };
            let of_namespace = |copied: &&Copied| copied.app.namespace() == &**namespace;
            let all = self.aside_of(*next).filter(of_namespace).cloned();
            released.entry(*next).or_default().extend(all);
        }
        released.into_iter().collect()
    }

    /// Makes upstreams the owners of what was released, after the hub has it.
    pub(super) fn settle(&mut self, released: &Released) {
        for (upstream, changes) in released {
            for Copied { app, .. } in changes {
                let gone = Copied { app: app.clone(), head: None, image: bytes::Bytes::new() };
                self.put_aside(*upstream, gone);
                let claim = NamespaceClaim { upstream: *upstream, count: 0 };
                self.owners.entry(Arc::from(app.namespace())).or_insert(claim).count += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;

    use super::*;
    use crate::domain::app::Head;
    use crate::domain::revision::Revision;

    fn mk(name: &str) -> AppName {
        let (namespace, name) = name.split_once('/').unwrap();
        AppName::new(namespace, name).unwrap()
    }

    fn mk_change(name: &str, is_there: bool) -> Copied {
        let head = is_there.then(|| Arc::new(Head::empty(Revision(1))));
        Copied { app: mk(name), head, image: Bytes::new() }
    }

    /// A hub with the claims: `+prod/web` is a state, `-prod/web` a removal.
    #[derive(Default)]
    struct Union {
        claims: NamespaceClaims,
        hub: BTreeSet<(usize, AppName)>,
    }

    impl Union {
        fn take(&mut self, upstream: usize, words: &str) {
            let changes = words.split(' ').map(|word| mk_change(&word[1..], &word[..1] == "+"));
            let is_known = |app: &AppName| self.hub.iter().any(|(_, known)| known == app);
            let sorted = self.claims.take(upstream, changes.collect(), is_known);
            let released = self.claims.release(&sorted);
            self.show(upstream, sorted.own);
            for (upstream, changes) in released.clone() {
                self.show(upstream, changes);
            }
            self.claims.settle(&released);
        }

        fn show(&mut self, upstream: usize, changes: Vec<Copied>) {
            for Copied { app, head, .. } in changes {
                match head {
                    Some(_) => assert!(self.hub.insert((upstream, app))),
                    None => assert!(self.hub.remove(&(upstream, app))),
                }
            }
        }

        fn shown(&self) -> String {
            let words = self.hub.iter().map(|(upstream, app)| format!("{upstream}:{app}"));
            words.collect::<Vec<_>>().join(" ")
        }

        fn contested(&self) -> Vec<(String, (usize, usize))> {
            let overlaps = self.claims.overlaps();
            overlaps.map(|each| (each.namespace.to_string(), each.upstreams)).collect()
        }
    }

    #[test]
    fn each_namespace_has_the_owner_that_came_first() {
        let mut union = Union::default();
        union.take(0, "+prod/web +prod/db");
        union.take(1, "+dev/web");
        assert_eq!(union.shown(), "0:prod/db 0:prod/web 1:dev/web");
        assert_eq!(union.claims.owner("prod"), Some(0));
        assert_eq!(union.claims.owner("dev"), Some(1));
        assert_eq!(union.claims.owner("test"), None);
        assert_eq!(union.contested(), []);
    }

    #[test]
    fn the_part_of_another_upstream_is_kept_aside() {
        let mut union = Union::default();
        union.take(0, "+prod/web");
        union.take(1, "+dev/web +prod/api +prod/web");
        assert_eq!(union.shown(), "0:prod/web 1:dev/web");
        assert_eq!(union.contested(), [("prod".to_string(), (0, 1))]);
        let overlap = union.claims.overlap("prod").unwrap();
        assert_eq!(overlap, Overlap { namespace: "prod".into(), upstreams: (0, 1) });
        assert_eq!(union.claims.overlap("dev"), None);
        assert_eq!(union.claims.aside_of(1).count(), 2);
        union.take(1, "-prod/web");
        assert!(union.claims.aside(1, &mk("prod/api")).is_some());
        assert_eq!(union.contested().len(), 1);
        // The second one has left.
        union.take(1, "-prod/api");
        assert_eq!((union.contested(), union.shown()), (vec![], "0:prod/web 1:dev/web".into()));
    }

    #[test]
    fn a_namespace_goes_to_the_next_upstream_when_the_owner_has_left_it() {
        let mut union = Union::default();
        union.take(0, "+prod/a +prod/b");
        union.take(2, "+prod/c");
        union.take(1, "+prod/a");
        assert_eq!(union.contested(), [("prod".to_string(), (0, 1))]);
        union.take(0, "-prod/a");
        assert_eq!(union.shown(), "0:prod/b");
        union.take(0, "-prod/b");
        assert_eq!(union.claims.owner("prod"), Some(1));
        assert_eq!(union.shown(), "1:prod/a");
        assert_eq!(union.contested(), [("prod".to_string(), (1, 2))]);
        union.take(1, "-prod/a");
        assert_eq!((union.contested(), union.shown()), (vec![], "2:prod/c".into()));
        union.take(2, "-prod/c");
        assert_eq!((union.claims.owner("prod"), union.shown()), (None, String::new()));
    }

    #[test]
    fn an_owner_that_replaces_all_of_its_applications_stays_the_owner() {
        let mut union = Union::default();
        union.take(0, "+prod/z");
        union.take(1, "+prod/c");
        union.take(0, "-prod/z +prod/a");
        assert_eq!(union.shown(), "0:prod/a");
        assert_eq!(union.claims.owner("prod"), Some(0));
        assert_eq!(union.contested().len(), 1);
        union.take(1, "-prod/q");
        assert_eq!(union.contested().len(), 1);
    }
}
