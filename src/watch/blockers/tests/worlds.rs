//! Worlds in which the causes are planted: the list has each of them, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use proptest::prelude::*;

use super::*;

/// A world: its fleet, and for each planted cause the names of those that lead to it alone.
#[derive(Debug)]
struct World {
    fleet: Fleet,
    /// The applications that each cause frees, and those that it blocks.
    planted: BTreeMap<String, (BTreeSet<usize>, BTreeSet<usize>)>,
}

/// Kinds of planted causes: the lines of their objects, their name in the list, and the need that
/// others state.
fn plant(kind: usize, n: usize) -> (String, String, String) {
    let one = |line: String, state: &str| (line, format!("{state} prod/c{n}"), format!("c{n}"));
    match kind {
        0 => one(format!("c{n} blocked do mend {n}\n"), "Person"),
        1 => one(format!("c{n} error\n"), "Failed"),
        2 => one(format!("c{n} active silent\n"), "Silent"),
        3 => one(String::new(), "NotKnown"),
        4 => one(format!("c{n} active hidden\n"), "NotReadable"),
        5 => (String::new(), format!("Outside thing {n}"), format!("outside thing {n}")),
        _ => {
            let lines = format!("c{n} waiting needs d{n}\nd{n} waiting needs c{n}\n");
            (lines, format!("Deadlock prod/c{n} + prod/d{n}"), format!("c{n}"))
        }
    }
}

/// Each application needs some of those before it, or causes; healthy ones need causes too, and are
/// in no list.
fn worlds() -> impl Strategy<Value = World> {
    let kinds = prop::collection::vec(0..7usize, 1..=5);
    let app = (0..10usize, prop::collection::vec(any::<prop::sample::Index>(), 1..4));
    (kinds, prop::collection::vec(app, 2..200)).prop_map(|(kinds, apps)| {
        let mut text = String::new();
        let mut objects: Vec<(String, BTreeSet<usize>)> = Vec::new();
        let mut planted = BTreeMap::new();
        let mut names = Vec::new();
        for (n, kind) in kinds.iter().enumerate() {
            let (lines, name, need) = plant(*kind, n);
            text += &lines;
            planted.insert(name.clone(), (BTreeSet::new(), BTreeSet::new()));
            names.push(name);
            objects.push((need, BTreeSet::from([n])));
        }
        for (n, (health, needs)) in apps.iter().enumerate() {
            let needs: BTreeSet<usize> = needs.iter().map(|at| at.index(objects.len())).collect();
            let causes: BTreeSet<usize> =
                needs.iter().flat_map(|at| objects[*at].1.clone()).collect();
            let stated: Vec<&str> = needs.iter().map(|at| objects[*at].0.as_str()).collect();
            let is_well = *health == 0;
            let level = if is_well { "active" } else { "waiting" };
            writeln!(text, "a{n} {level} needs {}", stated.join(", ")).unwrap();
            if is_well {
                continue;
            }
            for cause in &causes {
                let (frees, blocks) = planted.get_mut(&names[*cause]).unwrap();
                blocks.insert(n);
                if causes.len() == 1 {
                    frees.insert(n);
                }
            }
            objects.push((format!("a{n}"), causes));
        }
        World { fleet: Fleet::of(&text), planted }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_planted_cause_is_named_and_no_other(world in worlds()) {
        let found: BTreeSet<String> =
            world.fleet.blockers(None).lines().map(str::to_string).collect();
        let planted = world.planted.iter().filter_map(|(name, (frees, blocks))| {
            let own = if name.starts_with("Deadlock") { 2 } else { 0 };
            // What is not needed is listed only if it is an application that is not well itself.
            let is_listed = !blocks.is_empty()
                || ["Person", "Failed", "Deadlock"].iter().any(|state| name.starts_with(state));
            let (frees, blocks) = (frees.len() + own, blocks.len() + own);
            is_listed.then(|| format!("{name} frees {frees} blocks {blocks}"))
        });
        prop_assert_eq!(found, planted.collect::<BTreeSet<String>>());
    }
}
