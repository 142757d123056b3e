//! Random fleets beside a naive closure: for each application, the set of all that it leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use proptest::prelude::*;

use super::*;

/// A random fleet: levels, actions, needs, and applications that the reader may not read.
fn fleets() -> impl Strategy<Value = Fleet> {
    let level = prop::sample::select(vec![
        "waiting",
        "waiting",
        "waiting",
        "blocked",
        "error",
        "active",
        "active silent",
        "maintenance",
        "unknown",
        "terminated",
    ]);
    let traits = prop::sample::select(vec!["", "", "", "", "", " hidden", " since=55"]);
    let action = prop::sample::select(vec!["", "", "", "", " do a", " do b"]);
    let app = (level, traits, action, prop::collection::vec(0..14usize, 0..4));
    prop::collection::vec(app, 1..12).prop_map(|apps| {
        let mut text = String::new();
        for (n, (level, traits, action, needs)) in apps.iter().enumerate() {
            // Two numbers beyond the fleet: unknown, and outside.
            let needs = needs.iter().filter(|to| **to != n).map(|to| match to {
                13 => "outside quota".to_string(),
                to => format!("a{to}"),
            });
            let needs: BTreeSet<String> = needs.collect();
            let needs: Vec<String> = needs.into_iter().collect();
            let namespace = if n % 3 == 0 { "infra/" } else { "" };
            let name = |to: &str| match to.strip_prefix('a').and_then(|n| n.parse::<usize>().ok()) {
                Some(n) if n % 3 == 0 => format!("infra/{to}"),
                _ => to.to_string(),
            };
            let needs: Vec<String> = needs.iter().map(|need| name(need)).collect();
            write!(text, "{namespace}a{n} {level}{traits}{action}").unwrap();
            match needs.is_empty() {
                true => writeln!(text).unwrap(),
                false => writeln!(text, " needs {}", needs.join(", ")).unwrap(),
            }
        }
        Fleet::of(&text)
    })
}

/// The same by the definition: for each application, the set of all causes that it leads to.
struct Naive<'f> {
    fleet: &'f Fleet,
}

impl Naive<'_> {
    fn is_met(&self, app: &AppName) -> bool {
        let head = self.fleet.heads.get(app);
        head.is_some_and(|head| {
            head.summary.level == Level::Active && head.summary.totals.lost_units == 0
        })
    }

    /// Returns the unmet needs of an object, by name.
    fn edges(&self, name: &str) -> BTreeSet<String> {
        let app = mk_app(name);
        let Some(head) = self.fleet.heads.get(&app).filter(|_| self.fleet.may_read(&app)) else {
            return BTreeSet::new();
        };
        if matches!(head.summary.level, Level::Active | Level::Terminated) {
            return BTreeSet::new();
        }
        let needs = head.needs.iter().flat_map(|stated| &stated.needs);
        let unmet = needs.filter_map(|stated| match &stated.need {
            Need::Outside(words) => Some(words.to_string()),
            Need::Application(app, _) => {
                let is_met = self.fleet.may_read(app) && self.is_met(app);
                (!is_met).then(|| app.to_string())
            }
        });
        unmet.collect()
    }

    /// Returns what an object leads to over any number of steps.
    fn closure(&self, name: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut next: Vec<String> = self.edges(name).into_iter().collect();
        while let Some(name) = next.pop() {
            if all.insert(name.clone()) {
                next.extend(self.edges(&name));
            }
        }
        all
    }

    fn is_waiting(&self, name: &str) -> bool {
        let app = mk_app(name);
        let head = self.fleet.heads.get(&app).filter(|_| self.fleet.may_read(&app));
        head.is_some_and(|h| !matches!(h.summary.level, Level::Active | Level::Terminated))
    }

    /// Returns the cause that an object is: all its objects, and whether they count themselves.
    fn cause(&self, name: &str) -> Option<(BTreeSet<String>, bool)> {
        let own = |name: &str| BTreeSet::from([name.to_string()]);
        let head = |name: &str| match name == "quota" {
            true => None,
            false => {
                self.fleet.heads.get(&mk_app(name)).filter(|_| self.fleet.may_read(&mk_app(name)))
            }
        };
        let acts = |name: &str| head(name).is_some_and(|head| !head.summary.action.is_empty());
        let closure = self.closure(name);
        if closure.contains(name) {
            let back = |other: &&String| self.closure(other).contains(name);
            let circle: BTreeSet<String> = closure.iter().filter(back).cloned().collect();
            let unmet = |name: &String| head(name).map_or(0, |h| h.summary.since.millis());
            let inside =
                circle.iter().flat_map(|from| self.edges(from)).filter(|to| circle.contains(to));
            let newest = inside.map(|to| unmet(&to)).max().unwrap_or_default();
            let acting: BTreeSet<String> = circle.iter().filter(|n| acts(n)).cloned().collect();
            return match NOW - newest < 10_000 && !acting.is_empty() {
                true => Some((acting, false)),
                false => Some((circle, true)),
            };
        }
        if !acts(name) && !self.edges(name).is_empty() {
            return None;
        }
        let asks = |name: &str| {
            let state = head(name)
                .map(|h| (h.summary.action.clone(), mk_app(name).namespace().to_string()));
            state.filter(|(action, _)| !action.is_empty())
        };
        let Some(wanted) = asks(name) else { return Some((own(name), false)) };
        let shares = |other: &AppName| {
            let other = other.to_string();
            let alone = !self.closure(&other).contains(&other);
            let is_seen = self.is_waiting(&other) || self.is_needed(&other);
            (alone && is_seen && asks(&other) == Some(wanted.clone())).then_some(other)
        };
        Some((self.fleet.heads.keys().filter_map(shares).collect(), false))
    }

    fn is_needed(&self, name: &str) -> bool {
        self.fleet.heads.keys().any(|app| self.edges(&app.to_string()).contains(name))
    }

    /// Returns for each cause the number of applications that it frees, and that it blocks.
    fn causes(&self) -> BTreeMap<BTreeSet<String>, (u32, u32)> {
        let mut causes: BTreeMap<BTreeSet<String>, (u32, u32)> = BTreeMap::new();
        let waiting = self.fleet.heads.keys().map(ToString::to_string);
        let waiting: Vec<String> = waiting.filter(|name| self.is_waiting(name)).collect();
        for name in &waiting {
            let reached = self.closure(name).into_iter().chain([name.clone()]);
            let reached: BTreeSet<_> = reached.filter_map(|name| self.cause(&name)).collect();
            for (cause, counts_itself) in &reached {
                let counts = !cause.contains(name) || *counts_itself;
                let (frees, blocks) = causes.entry(cause.clone()).or_default();
                *blocks += u32::from(counts);
                *frees += u32::from(counts && reached.len() == 1);
            }
        }
        causes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000)
    ))]

    #[test]
    fn random_fleets_agree_with_a_naive_closure(fleet in fleets()) {
        let evaluation = fleet.evaluate();
        let mut found: BTreeMap<BTreeSet<String>, (u32, u32)> = BTreeMap::new();
        for row in evaluation.all() {
            let objects = row.objects.iter().map(Object::name).collect();
            found.insert(objects, (row.frees, row.blocks));
        }
        prop_assert_eq!(found, Naive { fleet: &fleet }.causes());
    }

    /// What a list says of one cause is what a reader sees who looks at one application.
    #[test]
    fn a_chain_ends_at_the_causes_of_the_list(fleet in fleets()) {
        let naive = Naive { fleet: &fleet };
        for app in fleet.heads.keys().filter(|app| fleet.may_read(app)) {
            let name = app.to_string();
            let lines = fleet.why(&name);
            let has = |line: &str, name: &String| line.split(' ').any(|word| word == name);
            let shown = |name: &String| lines.lines().any(|line| has(line, name));
            if naive.is_waiting(&name) {
                let closure = naive.closure(&name);
                prop_assert!(closure.iter().all(shown), "{}\n{}", name, lines);
            } else {
                prop_assert_eq!(lines, "");
            }
        }
    }
}
