//! The wrapper that cargo starts in place of rustc and rustdoc: this executable under other names.
//!
//! It adds what instruments a program to what cargo asks for. Flags in the environment would be
//! the simpler way, but cargo takes them instead of the ones in the user's configuration; a wrapper
//! sees what is the result of all the user's settings, and can also take something away.
//!
//! Only what is compiled for a named target is the program: cargo, which is always told a target,
//! names none for build scripts and procedural macros. These stay as they are.
//!
//! A compiler may not survive what it is made to do: LLVM's passes are seldom used like this. If it is
//! killed by a signal of its own, it is started again without the part that can be missed
//! ([`toolchain::without_splitting`]), and that is said.
//!
//! cargo must compile again when the instrumentation changes. It compares what the compiler says
//! of its version, so the name of the instrumentation is part of that.

use crate::exit::Exit;
use crate::run::verdict;
use crate::runtime::TARGET;
use crate::{linker, toolchain};
use anyhow::Context as _;
use signal_hook::consts::{SIGABRT, SIGBUS, SIGILL, SIGSEGV};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::Command;

/// The name this executable is called by in place of rustc; the path of rustc comes first.
pub(crate) const NAME: &str = "atomsan-rustc";
/// The name this executable is called by in place of rustdoc.
pub(crate) const DOC_NAME: &str = "atomsan-rustdoc";
/// The directory of the toolchain (see [`toolchain`]).
pub(crate) const DIRECTORY: &str = "ATOMSAN_TOOLCHAIN";
/// The user's own wrapper.
pub(crate) const REAL_WRAPPER: &str = "ATOMSAN_REAL_RUSTC_WRAPPER";
/// The rustdoc to use.
pub(crate) const REAL_DOC: &str = "ATOMSAN_REAL_RUSTDOC";

/// In place of rustc.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<Exit> {
    let wrapper = std::env::var_os(REAL_WRAPPER);
    let mut command: Vec<OsString> = wrapper.into_iter().collect();
    command.extend(arguments.iter().cloned());
    if arguments.get(1..).is_some_and(|rest| rest == ["-vV"]) {
        return version(&command);
    }
    replace(command, is_program(arguments))
}

/// In place of rustdoc, which compiles the tests in the documentation.
pub(crate) fn run_doc(arguments: &[OsString]) -> anyhow::Result<Exit> {
    let rustdoc = std::env::var_os(REAL_DOC).unwrap_or_else(|| "rustdoc".into());
    let tests = arguments.iter().any(|argument| argument == "--test");
    let mut command = vec![rustdoc];
    command.extend(arguments.iter().cloned());
    replace(command, tests && is_program(arguments))
}

fn is_program(arguments: &[OsString]) -> bool {
    arguments
        .windows(2)
        .any(|pair| pair[0] == "--target" && pair[1] == TARGET)
}

/// What the compiler says of itself, and which instrumentation it is used with.
fn version(command: &[OsString]) -> anyhow::Result<Exit> {
    let output = Command::new(&command[0])
        .args(&command[1..])
        .output()
        .with_context(|| format!("cannot run {}", command[0].display()))?;
    let mut text = output.stdout;
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let name = Path::new(&directory).file_name().unwrap_or_default();
        text.extend_from_slice(format!("atomsan: {}\n", name.display()).as_bytes());
    }
    std::io::stderr().write_all(&output.stderr)?;
    std::io::stdout().write_all(&text)?;
    Ok(Exit::Program(output.status.code().unwrap_or(1) as u8))
}

/// Becomes the compiler, or starts it.
fn replace(command: Vec<OsString>, instrumented: bool) -> anyhow::Result<Exit> {
    let Some(directory) = std::env::var_os(DIRECTORY).filter(|_| instrumented) else {
        let error = Command::new(&command[0]).args(&command[1..]).exec();
        return Err(error).with_context(|| format!("cannot run {}", command[0].display()));
    };
    let flags = Path::new(&directory).join(toolchain::FLAGS);
    let flags = std::fs::read_to_string(&flags)
        .with_context(|| format!("cannot read {}; run `cargo atomsan setup`", flags.display()))?;
    let kept = Kept::of(&command[1..]);
    let compile = |flags: &[String]| {
        instrumenting(&command[0], &kept, flags)
            .status()
            .with_context(|| format!("cannot run {}", command[0].display()))
    };
    let flags: Vec<String> = flags.lines().map(str::to_owned).collect();
    let mut status = compile(&flags)?;
    let fewer = toolchain::without_splitting(&flags);
    if let Some(signal) = status.signal().filter(|signal| CRASHES.contains(signal))
        && fewer != flags
    {
        eprintln!(
            "atomsan: rustc died of signal {signal} when it compiled {}; compiled again without taking \
             vectors of more than 16 bytes apart: accesses to such vectors there are not seen",
            kept.crate_name()
        );
        status = compile(&fewer)?;
    }
    Ok(verdict(status, Exit::Clean))
}

/// Signals by which a compiler ends itself.
const CRASHES: [i32; 4] = [SIGILL, SIGABRT, SIGBUS, SIGSEGV];

/// The compiler, with what instruments.
fn instrumenting(compiler: &OsStr, kept: &Kept, flags: &[String]) -> Command {
    let mut process = Command::new(compiler);
    process.args(&kept.arguments).args(flags);
    if let Some(linker) = &kept.linker {
        process.env(linker::REAL, linker);
    }
    if toolchain::are_unstable(flags.iter().map(String::as_str)) {
        process.env("RUSTC_BOOTSTRAP", "1");
    }
    process
}

/// What is left of the compiler's arguments.
#[derive(PartialEq, Eq, Debug, Default)]
struct Kept {
    arguments: Vec<OsString>,
    /// The user's linker: ours calls it.
    linker: Option<OsString>,
}

impl Kept {
    /// What the crate is called.
    fn crate_name(&self) -> String {
        let mut arguments = self.arguments.iter();
        let named = arguments.find(|argument| *argument == "--crate-name");
        let name = named.and_then(|_| arguments.next());
        name.map_or_else(
            || "a crate".to_owned(),
            |name| format!("`{}`", name.display()),
        )
    }

    /// Takes away the linker, and link-time optimisation, which is after instrumentation: what it
    /// inlines would be taken for part of its caller.
    fn of(arguments: &[OsString]) -> Kept {
        let mut kept = Kept::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            let joined = text
                .strip_prefix("--codegen=")
                .or_else(|| text.strip_prefix("-C").filter(|option| !option.is_empty()));
            let (option, separate) = match joined {
                Some(option) => (option.trim_start().to_owned(), None),
                None if argument == "-C" || argument == "--codegen" => {
                    let Some(option) = rest.next() else {
                        kept.arguments.push(argument.clone());
                        break;
                    };
                    (option.to_string_lossy().into_owned(), Some(option))
                }
                None => {
                    kept.arguments.push(argument.clone());
                    continue;
                }
            };
            let (name, value) = option.split_once('=').unwrap_or((&option, ""));
            match name {
                "linker" => kept.linker = Some(value.into()),
                "linker-flavor" | "lto" | "linker-plugin-lto" => {}
                _ => {
                    kept.arguments.push(argument.clone());
                    kept.arguments.extend(separate.cloned());
                }
            }
        }
        kept
    }
}

/// Whether a wrapper that is configured is this one, so that it does not call itself.
pub(crate) fn is_ours(wrapper: &OsStr) -> bool {
    let name = Path::new(wrapper).file_name();
    name.is_some_and(|name| name == NAME || name == DOC_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(arguments: &[&str]) -> (Vec<String>, Option<String>) {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let kept = Kept::of(&arguments);
        let text = |argument: OsString| argument.into_string().unwrap();
        (
            kept.arguments.into_iter().map(text).collect(),
            kept.linker.map(text),
        )
    }

    #[test]
    fn the_linker_and_link_time_optimisation_are_taken_away() {
        let (arguments, linker) = kept(&[
            "--crate-name",
            "a",
            "-C",
            "linker=clang",
            "-Clto=fat",
            "--codegen=lto",
            "-C",
            "opt-level=3",
            "-Clinker-plugin-lto",
            "--codegen",
            "lto=thin",
            "-Cpanic=abort",
        ]);
        let left = ["--crate-name", "a", "-C", "opt-level=3", "-Cpanic=abort"];
        assert_eq!(arguments, left);
        assert_eq!(linker.as_deref(), Some("clang"));
    }

    #[test]
    fn what_is_for_the_host_is_not_the_program() {
        let is = |arguments: &[&str]| {
            is_program(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert!(is(&["rustc", "--target", TARGET, "a.rs"]));
        assert!(!is(&["rustc", "build.rs"]));
        assert!(!is(&[
            "rustc",
            "--target",
            "wasm32-unknown-unknown",
            "a.rs"
        ]));
    }
}
