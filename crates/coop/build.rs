//! Makes the program small in memory: a sidecar stands beside every agent.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

/// The first glibc whose loader knows packed relocations.
const FIRST: (u32, u32) = (2, 36);
/// Linkers that do not know `INSERT`.
const WITHOUT_INSERT: [&str; 2] = ["mold", "gold"];
/// Digits of a place in a name.
const PLACE: usize = 3;

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=layout.txt");
    let is_native = env::var("HOST") == env::var("TARGET");
    if is_native && glibc().is_some_and(|version| version >= FIRST) {
        // Unpacked they take half a megabyte in every sidecar.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let knows_insert = !WITHOUT_INSERT.iter().any(|linker| flags.contains(linker));
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && knows_insert {
        lay_out()?;
    }
    Ok(())
}

/// Has the functions that every sidecar runs put side by side. The kernel maps code in blocks of 64 KiB around each page
/// that is used, so that without this most of the program is mapped. `tools/layout/run.sh` writes the list.
fn lay_out() -> io::Result<()> {
    let names = fs::read_to_string("layout.txt")?;
    // Where hashes are not what they were, other functions of the same name come along.
    let exact = names.lines().map(str::to_owned);
    let any: BTreeSet<_> = names.lines().map(without_hashes).collect();
    let used: String = exact.chain(any).map(|name| format!("*(\".text.{name}\")\n")).collect();
    let script = Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("layout.ld");
    fs::write(&script, format!("SECTIONS {{ .text.used : {{\n{used}}} }}\nINSERT BEFORE .text;\n"))?;
    println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
    Ok(())
}

/// Returns a symbol's name with its hashes left open: the one at the end; or those of crates within, and the places that
/// earlier parts of the name are at, which move with the hashes' lengths.
fn without_hashes(name: &str) -> String {
    if let Some((start, _)) = name.rsplit_once("17h") {
        return format!("{start}17h*E*");
    }
    open(&open(name, "Cs", usize::MAX), "B", PLACE)
}

/// Leaves open what stands between this mark and the next underscore, if it is a number of at most so many digits.
fn open(name: &str, mark: &str, most: usize) -> String {
    let mut parts = name.split(mark);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| match part.split_once('_') {
        Some((number, rest)) if number.len() <= most && number.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            format!("{name}{mark}*_{rest}")
        }
        _ => format!("{name}{mark}{part}"),
    })
}

/// Returns the version of the system's glibc, if it has one.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
