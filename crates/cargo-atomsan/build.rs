//! Compiles the runtime into a shared library that the command line carries inside itself.
//!
//! The runtime has no dependencies, so one call of the compiler is enough, and installing the
//! command line is all a user has to do.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let runtime = Path::new("../atomsan-rt/src");
    println!("cargo::rerun-if-changed={}", runtime.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = out.join("libatomsan_rt.so");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    if target != "x86_64-unknown-linux-gnu" {
        // The command line says so when it is asked to run a program.
        std::fs::write(&library, []).expect("cannot write to OUT_DIR");
        println!("cargo::rustc-env=ATOMSAN_RT_HASH=0");
        return;
    }
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let status = Command::new(rustc)
        .args(["--crate-name", "atomsan_rt", "--crate-type", "cdylib"])
        .args(["--edition", "2024", "--target", &target])
        .args([
            "-Copt-level=3",
            "-Ccodegen-units=1",
            "-Cdebuginfo=0",
            "-Cstrip=symbols",
        ])
        .arg("-Clink-arg=-Wl,-soname,libatomsan_rt.so")
        .arg(runtime.join("lib.rs"))
        .arg("-o")
        .arg(&library)
        .status()
        .expect("cannot start the compiler");
    assert!(status.success(), "the runtime does not compile");
    // By this the unpacked one is told from others, in every run of the command line.
    let mut hasher = DefaultHasher::new();
    std::fs::read(&library)
        .expect("cannot read the runtime")
        .hash(&mut hasher);
    println!("cargo::rustc-env=ATOMSAN_RT_HASH={:016x}", hasher.finish());
}
