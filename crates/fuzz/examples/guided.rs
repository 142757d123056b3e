//! One target under libFuzzer, which `tools/fuzz` starts: `BELLWETHER_FUZZ_TARGET` names it.
#![no_main]

use std::sync::LazyLock;

#[path = "../tests/target/mod.rs"]
mod target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("BELLWETHER_FUZZ_TARGET").unwrap_or_default();
    let found = target::TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target is named {name:?}")).run
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
