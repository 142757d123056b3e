//! The committed wire types are what the protos say; `UPDATE=1` writes them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_wire_types_are_those_of_the_protos() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    if package.join(".cargo_vcs_info.json").exists() {
        return; // A published package has no protos.
    }
    let folder = package.join("src/generated");
    let fresh = generated(&package.join("../../proto"));
    if std::env::var_os("UPDATE").is_some() {
        for (name, text) in &fresh {
            fs::write(folder.join(name), text).expect("the folder is writable");
        }
    }
    let committed = files(&folder);
    let names = fresh.keys().chain(committed.keys());
    let stale: BTreeSet<&String> =
        names.filter(|name| fresh.get(*name) != committed.get(*name)).collect();
    assert!(
        stale.is_empty(),
        "{stale:?} in {} differ from the protos: run `UPDATE=1 cargo test --test generated`, and \
         remove a file without a proto",
        folder.display()
    );
}

/// Returns the code of each package of `protos`, by the name of its file.
fn generated(protos: &Path) -> BTreeMap<String, String> {
    let mut sources = vec![PathBuf::from("grpc/health/v1/health.proto")];
    let ours = files(&protos.join("bellwether/v1"));
    sources.extend(ours.keys().map(|name| Path::new("bellwether/v1").join(name)));
    let mut compiler = protox::Compiler::new([protos]).expect("a folder of protos");
    // Source information has the comments, which become documentation.
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(sources).expect("the protos compile");
    let folder = tempfile::tempdir().expect("a folder for the code");
    tonic_prost_build::configure()
        .out_dir(folder.path())
        // The traits of the server are generated where they are implemented.
        .build_server(false)
        .build_transport(false) // its `connect` would collide with the rpc of that name
        .bytes(".bellwether.v1")
        // Ordered maps, so that equal requests have equal bytes.
        .btree_map(".bellwether.v1")
        // Rare messages are boxed, so that they do not enlarge the enum that is moved for each
        // report.
        .boxed(".bellwether.v1.ConnectRequest.message.hello")
        .boxed(".bellwether.v1.ConnectRequest.message.error")
        .extern_path(".google.rpc", "::tonic_types::pb")
        .compile_fds(compiler.file_descriptor_set())
        .expect("code can be generated");
    files(folder.path())
}

/// Returns the texts of the files in a folder, by their names.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("the folder is readable");
    let paths = entries.map(|entry| entry.expect("the entry is readable").path());
    paths
        .map(|path| {
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("the file is text"))
        })
        .collect()
}
