//! The committed gRPC code and descriptor are what the proto file says. `COOP_UPDATE=1` writes them anew.

use std::fs;
use std::path::Path;

use prost_types::FileDescriptorSet;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn grpc_code_is_current() {
    let descriptors = protox::Compiler::new([format!("{ROOT}/proto")])
        .expect("the proto folder is there")
        .include_imports(false)
        .include_source_info(false)
        .open_file("coop/v1/coop.proto")
        .expect("the proto file compiles")
        .file_descriptor_set();
    let temp = tempfile::tempdir().expect("a temporary folder");
    generate(descriptors.clone(), temp.path());
    let code = fs::read(temp.path().join("coop.v1.rs")).expect("code was generated");
    check("crates/coop-server/src/grpc/coop.v1.rs", &code);
    check("crates/coop-server/src/grpc/descriptor.bin", &prost::Message::encode_to_vec(&descriptors));
}

fn generate(descriptors: FileDescriptorSet, folder: &Path) {
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(folder)
        .bytes(".coop.v1.OutputChunk.data")
        .compile_fds(descriptors)
        .expect("code can be generated");
}

fn check(path: &str, expected: &[u8]) {
    let file = Path::new(ROOT).join(path);
    if std::env::var_os("COOP_UPDATE").is_some() {
        fs::write(&file, expected).expect("the file can be written");
    }
    let committed = fs::read(&file).unwrap_or_default();
    assert!(committed == expected, "{path} is out of date; run `make generate` and commit it");
}
