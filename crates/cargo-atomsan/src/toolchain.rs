//! The Rust compiler in use: how it is made to instrument, and what its standard library hides.
//!
//! Both are found out once for each compiler and kept in a directory of its own below the target
//! directory, named by everything they depend on:
//!
//! | file | what |
//! |---|---|
//! | `rustc.flags` | what the compiler is given, a line each (see [`crate::rustc`]) |
//! | `std-stubs.s`, `std-stubs.options` | for the linker (see [`linker`]) |
//! | `missed` | what will not be seen, a line each |
//!
//! # Instrumentation
//!
//! The names of LLVM's passes carry no promise, so a small crate is compiled to see whether they
//! work, which means: whether the object calls the hooks for the read and the write of `*p += 1`.
//! If they do not, the unstable sanitizer flags are tried.

use crate::linker;
use crate::runtime::{self, TARGET};
use anyhow::{Context as _, bail};
use object::{Object as _, ObjectSymbol as _};
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the wrapper of rustc adds.
pub(crate) const FLAGS: &str = "rustc.flags";
const MISSED: &str = "missed";

/// The ways to have every function instrumented, the best first.
const INSTRUMENTATIONS: &[&[&str]] = &[
    // What is wider than 16 bytes is not announced, so it is taken apart before. LLVM 22 makes a
    // broken module of some vectors that straight-line code was made into (tokio's, optimised), so
    // there are none of these. Hooks are called by their addresses and not by way of a stub, as rustc calls other functions:
    // the pass that makes these calls does not ask for it, so it is said behind it.
    &[
        "-Cno-vectorize-slp",
        "-Cllvm-args=-force-attribute=sanitize_thread",
        "-Cllvm-args=-force-attribute=nonlazybind",
        "-Cllvm-args=-tsan-instrument-read-before-write",
        "-Cpasses=forceattrs,function(scalarizer<load-store;min-bits=128>),tsan-module,function(tsan),forceattrs",
    ],
    // The same without that; see `without_splitting`.
    &[
        "-Cllvm-args=-force-attribute=sanitize_thread",
        "-Cllvm-args=-force-attribute=nonlazybind",
        "-Cllvm-args=-tsan-instrument-read-before-write",
        "-Cpasses=forceattrs,tsan-module,function(tsan),forceattrs",
    ],
    &[
        "-Zsanitizer=thread",
        "-Zexternal-clangrt",
        "-Cunsafe-allow-abi-mismatch=sanitizer",
        "-Cllvm-args=-tsan-instrument-read-before-write",
    ],
    // Before sanitizers were target modifiers.
    &[
        "-Zsanitizer=thread",
        "-Zexternal-clangrt",
        "-Cllvm-args=-tsan-instrument-read-before-write",
    ],
];

/// For every crate: lines and full names for the report, no vectors that are too wide to be seen,
/// nothing inlined after instrumentation, and a program that the runtime can be loaded into.
const ALWAYS: &[&str] = &[
    "-Cdebuginfo=2",
    "-Csplit-debuginfo=off",
    "-Cstrip=none",
    "-Ctarget-cpu=x86-64",
    "-Ctarget-feature=-crt-static",
    "-Clto=off",
    "-Cforce-frame-pointers=yes",
    "--cfg=atomsan",
    "--check-cfg=cfg(atomsan)",
];

/// What is known of the compiler.
pub(crate) struct Toolchain {
    /// Where it is written down.
    pub(crate) directory: PathBuf,
    /// What will not be seen.
    pub(crate) missed: Vec<String>,
}

impl Toolchain {
    /// Looks at a compiler, unless that has been done before; `below` is where to keep it.
    pub(crate) fn prepare(rustc: &OsStr, below: &Path) -> anyhow::Result<Toolchain> {
        let version = ask(rustc, &["-vV"])?;
        let std = ask(rustc, &["--print", "target-libdir", "--target", TARGET])?;
        let std = PathBuf::from(std.trim());
        let runtime = runtime::directory()?;
        let mut hasher = DefaultHasher::new();
        (&version, &std, &runtime, INSTRUMENTATIONS, ALWAYS).hash(&mut hasher);
        let directory = below.join(format!("toolchain-{:016x}", hasher.finish()));
        // It is written last.
        if let Ok(missed) = fs::read_to_string(directory.join(MISSED)) {
            let missed = missed.lines().map(str::to_owned).collect();
            return Ok(Toolchain { directory, missed });
        }
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let mut flags = instrumentation(rustc, &directory, &version)?;
        flags.extend(ALWAYS.iter().copied().map(str::to_owned));
        flags.push(format!("-Clinker={}", runtime.join(linker::NAME).display()));
        write(&directory.join(FLAGS), &lines(&flags))?;
        let missed = linker::prepare(&std, &directory)?;
        write(&directory.join(MISSED), &lines(&missed))?;
        Ok(Toolchain { directory, missed })
    }
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Another process may do the same, so the file comes into place as a whole.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension(format!("new.{}", std::process::id()));
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn ask(rustc: &OsStr, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(rustc)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}", rustc.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} does not work: {}", rustc.display(), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first way that works.
fn instrumentation(rustc: &OsStr, directory: &Path, version: &str) -> anyhow::Result<Vec<String>> {
    let object = directory.join(format!("probe.{}.o", std::process::id()));
    let mut said = String::new();
    let mut works = |flags: &&&[&str]| match probe(rustc, flags, &object) {
        Ok(()) => true,
        Err(error) => {
            said.push_str(&format!("\nwith {}: {error:#}", flags.join(" ")));
            false
        }
    };
    let found = INSTRUMENTATIONS.iter().find(&mut works);
    let _ = fs::remove_file(&object);
    let Some(flags) = found else {
        let name = version.lines().next().unwrap_or("this compiler");
        bail!(
            "{name} cannot be made to instrument code, neither by LLVM's passes nor as a \
             sanitizer; try another toolchain, for example `cargo +stable atomsan …`{said}"
        );
    };
    Ok(flags.iter().copied().map(str::to_owned).collect())
}

/// The same flags, but vectors that are too wide to be announced stay whole.
pub(crate) fn without_splitting(flags: &[String]) -> Vec<String> {
    let splitting = |flag: &&String| !INSTRUMENTATIONS[0].contains(&flag.as_str());
    let rest: Vec<String> = flags.iter().filter(splitting).cloned().collect();
    if rest.len() + INSTRUMENTATIONS[0].len() != flags.len() {
        return flags.to_vec();
    }
    let whole = INSTRUMENTATIONS[1].iter().copied().map(str::to_owned);
    whole.chain(rest).collect()
}

/// Whether these flags need a compiler that takes unstable ones.
pub(crate) fn are_unstable<'a>(mut flags: impl Iterator<Item = &'a str>) -> bool {
    flags.any(|flag| flag.starts_with("-Z"))
}

/// Compiles a function and looks for the hooks.
fn probe(rustc: &OsStr, flags: &[&str], object: &Path) -> anyhow::Result<()> {
    const SOURCE: &str = "#![no_std] #[inline(never)] pub fn probe(p: &mut u64) { *p += 1 }";
    let mut command = Command::new(rustc);
    command
        .args(["--crate-name=probe", "--crate-type=lib", "--emit=obj"])
        .args(["--target", TARGET, "-Copt-level=1"])
        .args(flags)
        .arg("-o")
        .arg(object)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if are_unstable(flags.iter().copied()) {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A compiler that does not like its flags does not read.
        let _ = stdin.write_all(SOURCE.as_bytes());
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let data = fs::read(object)?;
    let file = object::File::parse(&*data)?;
    let called: Vec<&str> = file
        .symbols()
        .filter(|symbol| symbol.is_undefined())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    for hook in ["__tsan_read8", "__tsan_write8", "__tsan_func_entry"] {
        if !called.contains(&hook) {
            bail!("what it compiles does not call `{hook}`");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::ObjectSection as _;

    /// What the compiler makes of a text, in the best way.
    fn compile(text: &str) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let [source, object] = ["a.rs", "a.o"].map(|name| directory.path().join(name));
        fs::write(&source, text).unwrap();
        let compiled = Command::new("rustc")
            .args([
                "--edition=2024",
                "--crate-type=lib",
                "--emit=obj",
                "-Copt-level=2",
            ])
            .args(INSTRUMENTATIONS[0])
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .status()
            .unwrap();
        assert!(compiled.success());
        fs::read(&object).unwrap()
    }

    /// A vector of 32 bytes is read and written in two parts that are announced.
    #[test]
    fn wide_vectors_are_announced() {
        let text = "use std::arch::x86_64::*;
            #[unsafe(no_mangle)] #[target_feature(enable = \"avx2\")]
            pub unsafe fn wide(a: *mut f32) { unsafe {
                _mm256_storeu_ps(a, _mm256_add_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(a)));
            } }";
        let data = compile(text);
        let file = object::File::parse(&*data).unwrap();
        let names: Vec<&str> = file
            .symbols()
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        for hook in ["__tsan_unaligned_read16", "__tsan_unaligned_write16"] {
            assert!(names.contains(&hook), "{names:?}");
        }
    }

    /// No stub is between the program and the hooks.
    #[test]
    fn hooks_are_called_by_their_addresses() {
        let data = compile("#[unsafe(no_mangle)] pub fn add(p: &mut u64) { *p += 1 }");
        let file = object::File::parse(&*data).unwrap();
        let mut kinds = std::collections::BTreeMap::new();
        for (_, relocation) in file.sections().flat_map(|section| section.relocations()) {
            let object::RelocationTarget::Symbol(symbol) = relocation.target() else {
                continue;
            };
            let name = file.symbol_by_index(symbol).unwrap().name().unwrap();
            if name.starts_with("__tsan_") && name != "__tsan_init" {
                kinds.insert(name.to_owned(), relocation.flags());
            }
        }
        assert_eq!(kinds.len(), 4, "{kinds:?}");
        use object::elf::{R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX};
        let by_address = |flags: &object::RelocationFlags| {
            [R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX]
                .iter()
                .any(|&r_type| *flags == object::RelocationFlags::Elf { r_type })
        };
        assert!(kinds.values().all(by_address), "{kinds:?}");
    }
}
