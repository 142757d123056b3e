//! Compiles `proto/` without a system protoc and writes the descriptor set that reflection serves.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // compile_fds emits no rerun lines of its own.
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_source_info(true) // comments, so that `grpcurl describe` explains
        .include_imports(true)
        .open_files([
            "bellwether/v1/report_service.proto",
            "bellwether/v1/worker_service.proto",
            "bellwether/v1/application_service.proto",
            "bellwether/v1/operation_service.proto",
            "bellwether/v1/leader_service.proto",
            "bellwether/v1/app_data_service.proto",
            "grpc/health/v1/health.proto",
        ])?;
    std::fs::write(out.join("descriptor.bin"), compiler.encode_file_descriptor_set())?;
    // The traits of a server would need more of tonic than a client links.
    let serves = std::env::var_os("CARGO_FEATURE_SERVER").is_some();
    tonic_prost_build::configure()
        .build_server(serves)
        .build_transport(false) // its `connect` would collide with the rpc of that name
        .bytes(".bellwether.v1")
        // What is rare must not make large what is moved for each report.
        .boxed(".bellwether.v1.ConnectRequest.message.hello")
        .boxed(".bellwether.v1.ConnectRequest.message.error")
        .extern_path(".google.rpc", "::tonic_types::pb")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
