//! Exports the randomness of a run to the C library, so that every library of the process gets it.

fn main() {
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=getrandom");
    println!("cargo::rerun-if-changed=build.rs");
}
