//! Compiles `proto/` without a system protoc: writes the traits of the services and the descriptor
//! set that reflection serves. Checks the tables of errors. Finds the commit that
//! `bellwether version` and `GetServerInfo` name, and its date.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The classification of errors, which checks its tables.
#[allow(dead_code, missing_docs, unused_imports)]
#[path = "src/domain"]
mod domain {
    pub mod classify;
    pub mod level;
    mod word;
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // compile_fds emits no rerun lines of its own.
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_source_info(true) // comments, which `grpcurl describe` shows
        .include_imports(true)
        .open_files([
            "bellwether/v1/report_service.proto",
            "bellwether/v1/worker_service.proto",
            "bellwether/v1/application_service.proto",
            "bellwether/v1/operation_service.proto",
            "bellwether/v1/leader_service.proto",
            "bellwether/v1/app_data_service.proto",
            "bellwether/v1/server_service.proto",
            "grpc/health/v1/health.proto",
        ])?;
    std::fs::write(out.join("descriptor.bin"), compiler.encode_file_descriptor_set())?;
    // Only the traits of the server: `crates/client` has the messages, with the options of their
    // generation in its test `generated`.
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(".bellwether.v1", "::bellwether_client::proto::v1")
        .extern_path(".grpc.health.v1", "::bellwether_client::proto::health")
        .extern_path(".google.rpc", "::tonic_types::pb")
        .compile_fds(compiler.file_descriptor_set())?;
    println!("cargo:rerun-if-changed=src/domain/classify");
    let mistakes = domain::classify::table::mistakes();
    if !mistakes.is_empty() {
        return Err(mistakes.join("\n").into());
    }
    for name in ["BELLWETHER_COMMIT", "BELLWETHER_DATE"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rustc-env=BELLWETHER_COMMIT={}", commit().unwrap_or_default());
    println!("cargo:rustc-env=BELLWETHER_DATE={}", date().unwrap_or_default());
    Ok(())
}

/// Returns the commit of the source: `BELLWETHER_COMMIT` if it is set, as in a build from an
/// archive or in a container, else what git reports. A debug build names no commit, because each
/// commit would then recompile the whole crate.
fn commit() -> Option<String> {
    let given = std::env::var("BELLWETHER_COMMIT").unwrap_or_default();
    if !given.is_empty() {
        return Some(given);
    }
    if !has_repository()? {
        return None;
    }
    // This file changes with each commit and each checkout.
    println!("cargo:rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "HEAD"])
}

/// Returns the day of the commit, `2026-11-22`: `BELLWETHER_DATE` if it is set, else what git
/// reports. The day of the build would differ between two builds of one source.
fn date() -> Option<String> {
    let given = std::env::var("BELLWETHER_DATE").unwrap_or_default();
    if !given.is_empty() {
        return Some(given);
    }
    if !has_repository()? {
        return None;
    }
    git(&["log", "-1", "--format=%cs"])
}

/// Returns whether this is a release build in its own repository. The repository may belong to a
/// program that vendors this source.
fn has_repository() -> Option<bool> {
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return Some(false);
    }
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    let source = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    Some(top.canonicalize().ok()? == Path::new(&source).canonicalize().ok()?)
}

/// Returns the output of git; `None` without git or outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| answer.trim().to_string())
}
