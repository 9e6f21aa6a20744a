//! The linker that `cargo atomsan` gives to rustc: this executable under another name.
//!
//! It is the user's linker with something in front: the runtime, ahead of libc, and the stubs for
//! functions of the precompiled standard library that nothing can be seen of otherwise. Only
//! executables get these; a shared library finds the runtime in the executable that loads it.
//!
//! # Stubs
//!
//! The contended half of a lock, `Condvar::wait`, `Once::call` and others are global symbols of the
//! standard library's archive. `--wrap=NAME` makes the linker send calls of `NAME` to `__wrap_NAME`,
//! which is a stub that tells the runtime before and after the real one. The mangled names are
//! read from the archive of the toolchain in use, because they change with it.

use crate::exit::Exit;
use crate::runtime::{self, TARGET};
use crate::rustc;
use crate::toolchain::write;
use anyhow::{Context as _, bail};
use object::{Object as _, ObjectSymbol as _};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// The name this executable is called by when it is a linker. Its ending tells rustc that it takes
/// the arguments of a C compiler.
pub(crate) const NAME: &str = "atomsan-linker-cc";
/// The linker to use.
pub(crate) const REAL: &str = "ATOMSAN_REAL_LINKER";

const STUBS: &str = "std-stubs.s";
const OPTIONS: &str = "std-stubs.options";

/// A function of std by its path, the number that the runtime knows it by, and what is not seen
/// without it.
const WRAPPED: &[(&str, u32, &str)] = &[
    (
        "std::sys::sync::mutex::futex::Mutex::lock_contended",
        1,
        "a `Mutex::lock` that has to wait",
    ),
    (
        "std::sys::sync::rwlock::futex::RwLock::read_contended",
        2,
        "a `RwLock::read` that has to wait",
    ),
    (
        "std::sys::sync::rwlock::futex::RwLock::write_contended",
        3,
        "a `RwLock::write` that has to wait",
    ),
    (
        "std::sys::sync::condvar::futex::Condvar::wait",
        4,
        "`Condvar::wait`",
    ),
    (
        "std::sys::sync::condvar::futex::Condvar::wait_timeout",
        4,
        "`Condvar::wait_timeout`",
    ),
    (
        "std::sys::sync::once::futex::Once::call",
        5,
        "the initialisation of `Once`, `OnceLock` and `LazyLock`",
    ),
    ("std::sync::barrier::Barrier::wait", 6, "`Barrier::wait`"),
    ("std::thread::functions::park", 7, "`thread::park`"),
    (
        "std::thread::functions::park_timeout",
        7,
        "`thread::park_timeout`",
    ),
    (
        "std::thread::thread::Thread::park",
        10,
        "parking inside of std, as channels do",
    ),
    (
        "std::thread::thread::Thread::park_timeout",
        10,
        "parking with a timeout inside of std, as channels do",
    ),
    (
        "std::thread::scoped::ScopeData::decrement_num_running_threads",
        8,
        "the end of a scoped thread",
    ),
    ("std::thread::functions::sleep", 9, "`thread::sleep`"),
    (
        "std::thread::functions::yield_now",
        9,
        "`thread::yield_now`",
    ),
];

/// Writes the stubs for a standard library into a directory; what cannot be seen with it.
pub(crate) fn prepare(std: &Path, directory: &Path) -> anyhow::Result<Vec<String>> {
    let mut archives = 0;
    let mut found = Vec::new();
    let entries = std::fs::read_dir(std).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libstd-") && name.ends_with(".rlib") {
            archives += 1;
            found.extend(wrapped_symbols(&std::fs::read(&path)?));
        }
    }
    if archives == 0 {
        bail!(
            "this toolchain has no standard library for {TARGET}; add it with \
             `rustup target add {TARGET}`"
        );
    }
    found.sort();
    found.dedup();
    let stubs: String = found.iter().map(Symbol::stub).collect();
    let options: String = found
        .iter()
        .map(|symbol| format!("-Wl,--wrap={}\n", symbol.mangled))
        .collect();
    let note = "\t.section .note.GNU-stack,\"\",@progbits\n";
    write(&directory.join(STUBS), &format!("{stubs}{note}"))?;
    write(&directory.join(OPTIONS), &options)?;
    let missing = |path: &str| found.iter().all(|symbol| symbol.path != path);
    Ok(WRAPPED
        .iter()
        .filter(|(path, ..)| missing(path))
        .map(|(path, _, what)| format!("{what} is not seen: std has no `{path}`"))
        .collect())
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Symbol {
    mangled: String,
    path: &'static str,
    number: u32,
}

/// The functions to be wrapped in the objects of an archive.
fn wrapped_symbols(archive: &[u8]) -> Vec<Symbol> {
    let mut found = Vec::new();
    let Ok(file) = object::read::archive::ArchiveFile::parse(archive) else {
        return found;
    };
    for member in file.members().flatten() {
        let Some(object) = member
            .data(archive)
            .ok()
            .and_then(|data| object::File::parse(data).ok())
        else {
            continue;
        };
        for symbol in object
            .symbols()
            .filter(|symbol| symbol.is_definition() && symbol.is_global())
        {
            let Ok(mangled) = symbol.name() else {
                continue;
            };
            let path = format!("{:#}", rustc_demangle::demangle(mangled)).replace(['<', '>'], "");
            if let Some((path, number, _)) = WRAPPED.iter().find(|(known, ..)| path == *known) {
                found.push(Symbol {
                    mangled: mangled.to_owned(),
                    path,
                    number: *number,
                });
            }
        }
    }
    found
}

impl Symbol {
    /// Saves the arguments, tells the runtime, calls the real function, tells the runtime, and
    /// returns what the function returned. An unwinder gets through by the frame pointer.
    fn stub(&self) -> String {
        let Symbol {
            mangled, number, ..
        } = self;
        let mut text = String::new();
        let mut line = |instruction: &str| {
            let _ = writeln!(text, "\t{instruction}");
        };
        line(".text");
        line(&format!(".globl __wrap_{mangled}"));
        line(&format!(".type __wrap_{mangled}, @function"));
        line(&format!("\n__wrap_{mangled}:"));
        line(".cfi_startproc");
        line("pushq %rbp");
        line(".cfi_def_cfa_offset 16");
        line(".cfi_offset %rbp, -16");
        line("movq %rsp, %rbp");
        line(".cfi_def_cfa_register %rbp");
        line("subq $48, %rsp");
        let arguments = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"];
        for (at, register) in arguments.iter().enumerate() {
            line(&format!("movq %{register}, -{}(%rbp)", 8 * (at + 1)));
        }
        let tell = |function: &str, line: &mut dyn FnMut(&str)| {
            line(&format!("movl ${number}, %edi"));
            line("movq -8(%rbp), %rsi");
            line("movq -16(%rbp), %rdx");
            line("movq 8(%rbp), %rcx");
            line(&format!("call {function}@PLT"));
        };
        tell("atomsan_wrap_before", &mut line);
        for (at, register) in arguments.iter().enumerate() {
            line(&format!("movq -{}(%rbp), %{register}", 8 * (at + 1)));
        }
        line(&format!("call __real_{mangled}@PLT"));
        line("movq %rax, -24(%rbp)");
        line("movq %rdx, -32(%rbp)");
        tell("atomsan_wrap_after", &mut line);
        line("movq -24(%rbp), %rax");
        line("movq -32(%rbp), %rdx");
        line("leave");
        line(".cfi_def_cfa %rsp, 8");
        line("ret");
        line(".cfi_endproc");
        line(&format!(".size __wrap_{mangled}, .-__wrap_{mangled}"));
        text
    }
}

/// Links as rustc asks, with the runtime.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<Exit> {
    let real = std::env::var_os(REAL).unwrap_or_else(|| "cc".into());
    let [program, first @ ..] = &driver(&real)[..] else {
        bail!("there is no linker");
    };
    let mut command = Command::new(program);
    command.args(first);
    if !arguments.iter().any(|argument| argument == "-shared") {
        let runtime = runtime::directory()?;
        command.args(["-Wl,--push-state", "-Wl,--no-as-needed"]);
        command.arg(runtime.join(runtime::NAME));
        command.arg("-Wl,--pop-state");
        let mut rpath = OsString::from("-Wl,-rpath,");
        rpath.push(&runtime);
        command.arg(rpath);
        if let Some(directory) = std::env::var_os(rustc::DIRECTORY) {
            let directory = Path::new(&directory);
            let options = std::fs::read_to_string(directory.join(OPTIONS)).unwrap_or_default();
            if !options.is_empty() {
                command.arg(directory.join(STUBS));
                command.args(options.lines());
            }
        }
    }
    let error = command.args(arguments).exec();
    Err(error).with_context(|| format!("cannot run the linker {}", program.display()))
}

/// The C compiler that links with what the user has chosen, which may be the linker itself.
fn driver(real: &OsStr) -> Vec<OsString> {
    let name = Path::new(real).file_name().unwrap_or(real);
    let chosen = match name.to_string_lossy().as_ref() {
        "ld.lld" | "lld" | "rust-lld" => "-fuse-ld=lld",
        "ld.mold" | "mold" => "-fuse-ld=mold",
        "ld.gold" | "gold" => "-fuse-ld=gold",
        "ld" | "ld.bfd" => "-fuse-ld=bfd",
        _ => return vec![real.to_owned()],
    };
    vec!["cc".into(), chosen.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_linker_is_called_by_a_compiler() {
        assert_eq!(driver(OsStr::new("clang-19")), ["clang-19"]);
        assert_eq!(driver(OsStr::new("/usr/bin/mold")), ["cc", "-fuse-ld=mold"]);
    }
}
