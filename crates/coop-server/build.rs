//! Puts the built page (`make web`) into the program. Without it the program says how to build it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web/dist");
    // The folder is always there, so that nothing is built anew while there is no page in it.
    println!("cargo::rerun-if-changed={}", root.display());
    let page = root.join("page");
    let mut files = Vec::new();
    if page.join("index.html").exists() {
        find(&page, &mut files)?;
    }
    files.sort();
    let mut code = String::from("&[\n");
    for file in files.iter().filter(|file| !is_packed(file)) {
        let path = file.strip_prefix(&page).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
        let packed = |ending: &str| {
            let packed = PathBuf::from(format!("{}.{ending}", file.display()));
            if packed.exists() { format!("Some(include_bytes!({packed:?}))") } else { "None".to_owned() }
        };
        writeln!(
            code,
            "Asset {{ path: {path:?}, plain: include_bytes!({file:?}), gzip: {}, brotli: {} }},",
            packed("gz"),
            packed("br")
        )
        .map_err(io::Error::other)?;
    }
    code += "]\n";
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("assets.rs"), code)
}

fn is_packed(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "gz" || ending == "br")
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { find(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
