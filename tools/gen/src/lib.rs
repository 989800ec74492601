//! The gRPC code and descriptors that the files in `proto` stand for.
//!
//! A package of its own that uses nothing of coop: when a proto file has changed, `coop-server` does not compile until
//! its code is written anew, so nothing that needs `coop-server` could write it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The names of the files that are written.
pub const FILES: [&str; 4] = ["coop.v1.rs", "descriptor.bin", "coop.fleet.v1.rs", "fleet.bin"];

/// Each proto file, and its descriptor.
const SOURCES: [(&str, &str); 2] =
    [("coop/v1/coop.proto", "descriptor.bin"), ("coop/fleet/v1/fleet.proto", "fleet.bin")];

/// Returns the folder in which they are committed.
pub fn committed() -> PathBuf {
    root().join("crates/coop-server/src/grpc")
}

/// Writes them to a folder.
pub fn generate(folder: &Path) -> io::Result<()> {
    for (source, descriptor) in SOURCES {
        let mut compiler = protox::Compiler::new([root().join("proto")]).map_err(io::Error::other)?;
        compiler.include_imports(false).include_source_info(false);
        compiler.open_file(source).map_err(io::Error::other)?;
        fs::write(folder.join(descriptor), compiler.encode_file_descriptor_set())?;
        tonic_prost_build::configure()
            .build_transport(false)
            .out_dir(folder)
            .bytes(".coop.v1.OutputChunk.data")
            .bytes(".coop.v1.GetDumpResponse.data")
            .bytes(".coop.v1.GetTranscriptResponse.lines")
            .compile_fds(compiler.file_descriptor_set())?;
    }
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
