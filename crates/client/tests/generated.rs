//! The committed wire types are what the protos say; `UPDATE=1` writes them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use prost_types::FileDescriptorProto;

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
    let mut files = files(folder.path());
    let messages = files.get_mut("bellwether.v1.rs").expect("our package has code");
    let protos = compiler.file_descriptor_set();
    let ours: Vec<_> = protos.file.iter().filter(|it| it.package() == "bellwether.v1").collect();
    messages.push_str(&unary_calls(&ours));
    messages.push_str(&objects(&ours));
    files
}

/// Returns an implementation of `OfApplication` for each request that has such fields, and one of
/// `OfUnit`.
fn objects(ours: &[&FileDescriptorProto]) -> String {
    let messages = ours.iter().flat_map(|file| &file.message_type);
    let requests = messages.filter(|message| message.name().ends_with("Request"));
    let code = requests.map(|message| {
        let name = message.name();
        let is_required = |field: &str| {
            message.field.iter().any(|it| it.name() == field && !it.proto3_optional())
        };
        let mut code = String::new();
        if is_required("namespace") && is_required("application") {
            code.push_str(&format!(
                "impl super::OfApplication for {name} {{\n    \
                 fn of_application(namespace: &str, application: &str) -> {name} {{\n        \
                 let (namespace, application) = (namespace.into(), application.into());\n        \
                 {name} {{ namespace, application, ..{name}::default() }}\n    }}\n}}\n"
            ));
        }
        if !code.is_empty() && is_required("unit") {
            code.push_str(&format!(
                "impl super::OfUnit for {name} {{\n    \
                 fn of_unit(namespace: &str, application: &str, unit: &str) -> {name} {{\n        \
                 let rest = super::OfApplication::of_application(namespace, application);\n        \
                 {name} {{ unit: unit.into(), ..rest }}\n    }}\n}}\n"
            ));
        }
        code
    });
    code.collect()
}

/// Returns an implementation of `Unary` for the request of each unary method of our package.
fn unary_calls(ours: &[&FileDescriptorProto]) -> String {
    let services = ours.iter().flat_map(|file| &file.service);
    let methods = services.flat_map(|service| service.method.iter().map(move |it| (service, it)));
    let unary = methods.filter(|(_, it)| !it.client_streaming() && !it.server_streaming());
    unary
        .map(|(service, method)| {
            let [request, answer] = [method.input_type(), method.output_type()]
                .map(|name| name.trim_start_matches(".bellwether.v1."));
            let path = format!("/bellwether.v1.{}/{}", service.name(), method.name());
            format!(
                "impl super::Unary for {request} {{\n    type Answer = {answer};\n    \
                 const PATH: &'static str = \"{path}\";\n    \
                 const ANSWER: &'static str = \"{answer}\";\n}}\n"
            )
        })
        .collect()
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
