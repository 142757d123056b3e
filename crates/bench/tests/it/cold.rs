//! Reads of memory that is in no cache.

use serde_json::Value;

use crate::program;
use crate::rows::{positive, row};

#[test]
fn reads_of_memory_that_is_in_no_cache() {
    let line = ["cold-lines", "--mib", "1", "--reads", "1000", "--rounds", "1", "--json"];
    let output = program::bench(&line).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for work in ["where the next one is", "many at the same time"] {
        let row = row(&report, work);
        assert!(positive(&row["ours"]["value"]) && row["peer"].is_null(), "{row}");
    }
}
