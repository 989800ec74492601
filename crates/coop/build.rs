//! Packs the program's own relocations, where the system's loader knows packed ones: unpacked they take half a megabyte
//! in every sidecar.

use std::env;
use std::process::Command;

/// The first glibc whose loader knows them.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_native = env::var("HOST") == env::var("TARGET");
    if is_native && glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of the system's glibc, if it has one.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
