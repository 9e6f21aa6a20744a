//! `atomsan cc` and `atomsan c++`: the user's compiler, with instrumentation and the runtime.
//!
//! Compiling gets `-fsanitize=thread` and line tables; linking gets our library in the place of
//! ThreadSanitizer's, which is in front of all others, so that it comes before libc.
//! A function that is inlined is no region, because nothing tells where it starts and ends; so
//! nothing is inlined unless the user's own arguments ask for it.
//! The compiler is the one named by `ATOMSAN_CC` / `ATOMSAN_CXX`, else `cc` / `c++`.

use crate::exit::Exit;
use crate::runtime;
use anyhow::Context as _;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

/// Compile and link C, or C++ as `c++`, for checking
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What the compiler is given
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<OsString>,
}

/// The languages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    C,
    Cpp,
}

impl Language {
    fn compiler(self) -> OsString {
        let (variable, default) = match self {
            Language::C => ("ATOMSAN_CC", "cc"),
            Language::Cpp => ("ATOMSAN_CXX", "c++"),
        };
        std::env::var_os(variable).unwrap_or_else(|| default.into())
    }
}

pub(crate) fn run(language: Language, args: &Args) -> anyhow::Result<Exit> {
    let compiler = language.compiler();
    let clang = is_clang(&compiler);
    let mut command = Command::new(&compiler);
    command.args(added(&args.arguments, &runtime::directory()?, clang));
    command.args(&args.arguments);
    let status = command
        .status()
        .with_context(|| format!("cannot run the compiler {}", compiler.display()))?;
    Ok(match status.code() {
        Some(code) => Exit::Program(code as u8),
        None => Exit::Failure,
    })
}

fn is_clang(compiler: &OsStr) -> bool {
    let version = Command::new(compiler).arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("clang"))
}

/// What is added in front of the user's arguments.
///
/// gcc links `-ltsan` for `-fsanitize=thread`, in front of everything else; our directory has a
/// library of that name, and comes first. clang is told to link nothing, and gets ours by name.
fn added(arguments: &[OsString], runtime: &Path, clang: bool) -> Vec<OsString> {
    let has = |names: &[&str]| {
        let given = |argument: &OsString| names.iter().any(|name| argument == name);
        arguments.iter().any(given)
    };
    let has_input = arguments
        .iter()
        .any(|argument| argument == "-" || !argument.to_string_lossy().starts_with('-'));
    if !has_input {
        return Vec::new();
    }
    let mut added: Vec<OsString> = vec![
        "-fsanitize=thread".into(),
        "-isystem".into(),
        runtime.join(runtime::INCLUDE).into(),
    ];
    if has(&["-E", "-M", "-MM", "-fsyntax-only"]) {
        return added;
    }
    added.extend(["-g", "-fno-inline", "-fno-optimize-sibling-calls"].map(OsString::from));
    if clang {
        added.extend(["-mllvm", "-tsan-instrument-read-before-write=1"].map(OsString::from));
    } else {
        added.push("-Wno-tsan".into());
    }
    if !has(&["-c", "-S", "-r"]) {
        if clang {
            added.push("-fno-sanitize-link-runtime".into());
            added.push(runtime.join(runtime::NAME).into());
        }
        for option in ["-L", "-Wl,-rpath,"] {
            let mut option = OsString::from(option);
            option.push(runtime);
            added.push(option);
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added_for(arguments: &[&str]) -> String {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let added = added(&arguments, Path::new("/rt"), false);
        added.join(OsStr::new(" ")).to_string_lossy().into_owned()
    }

    #[test]
    fn what_only_asks_is_left_alone() {
        for arguments in [&["--version"][..], &["-dumpmachine"], &[]] {
            assert_eq!(added_for(arguments), "");
        }
        let preprocessing = added_for(&["-E", "a.c"]);
        assert_eq!(preprocessing, "-fsanitize=thread -isystem /rt/include");
    }

    #[test]
    fn only_linking_gets_the_library() {
        assert!(!added_for(&["-c", "a.c"]).contains("-L/rt"));
        assert!(added_for(&["a.o", "-o", "a"]).contains("-L/rt -Wl,-rpath,/rt"));
        assert!(added_for(&["a.c"]).contains("-fsanitize=thread"));
    }
}
