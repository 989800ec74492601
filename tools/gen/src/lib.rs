//! The gRPC code and descriptor that `proto/coop/v1/coop.proto` stands for.
//!
//! A package of its own that uses nothing of coop: when the proto file has changed, `coop-server` does not compile until
//! its code is written anew, so nothing that needs `coop-server` could write it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The names of the files that are written.
pub const FILES: [&str; 2] = ["coop.v1.rs", "descriptor.bin"];

/// Returns the folder in which they are committed.
pub fn committed() -> PathBuf {
    root().join("crates/coop-server/src/grpc")
}

/// Writes them to a folder.
pub fn generate(folder: &Path) -> io::Result<()> {
    let mut compiler = protox::Compiler::new([root().join("proto")]).map_err(io::Error::other)?;
    compiler.include_imports(false).include_source_info(false);
    compiler.open_file("coop/v1/coop.proto").map_err(io::Error::other)?;
    fs::write(folder.join(FILES[1]), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(folder)
        .bytes(".coop.v1.OutputChunk.data")
        .bytes(".coop.v1.GetDumpResponse.data")
        .bytes(".coop.v1.GetTranscriptResponse.lines")
        .compile_fds(compiler.file_descriptor_set())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
