//! A few seeds of the simulation, each twice: no invariant is violated, and one seed has one trace.

use std::process::Command;

#[test]
fn a_few_seeds_hold_and_repeat_themselves() {
    let mut run = Command::new(env!("CARGO_BIN_EXE_bellwether-sim"));
    run.args(["--from-seed", "1", "--seeds", "3", "--minutes", "4", "--twice"]);
    let output = run.output().expect("the simulation starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let sum = text.lines().last().expect("a summary");
    assert!(sum.contains("0 failed; each ran twice with one trace"), "{sum}");
    // A run in which nothing happens would hold too.
    for word in ["faults=", "commits=", "reports=", "leader_writes=", "marks=", "bookmarks="] {
        let counts = text.split_whitespace().filter_map(|part| part.strip_prefix(word));
        let total: u64 = counts.map(|count| count.parse::<u64>().expect("a number")).sum();
        assert!(0 < total, "{word} {text}");
    }
}
