//! `atomsan cc` and `atomsan c++`: the user's compiler, with instrumentation and the runtime.
//!
//! Compiling gets `-fsanitize=thread` and line tables; linking gets our library in the place of
//! ThreadSanitizer's, which is in front of all others, so that it comes before libc. What only
//! asks (`--version`, `-v`, …) is passed on as it is.
//!
//! The compiler is the one named by `ATOMSAN_CC` / `ATOMSAN_CXX`, else the one named by `CC` /
//! `CXX` unless that is `atomsan cc`, as in a build that is told to use it, else `cc` / `c++`.
//!
//! # Inlining
//!
//! Compilers instrument after inlining, so nothing in the recording tells where an inlined function
//! starts and ends. The line tables tell which inlined functions an event is in, which is good
//! for most, but a function that loops is taken for several. So what is inlined is only what the
//! source asks for: `inline`, methods in the body of a class, `constexpr`. Ordinary functions, which
//! are the regions that matter, keep an exact start and end, and the small change of C++ (iterators,
//! smart pointers, operators) does not cost a call and two hooks each.

mod asked;

use crate::exit::Exit;
use crate::runtime;
use anyhow::{Context as _, bail};
use asked::{Asked, Stage};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// The name this executable is called by as a C compiler.
pub(crate) const NAME: &str = "atomsan-cc";
/// The name this executable is called by as a C++ compiler.
pub(crate) const CPP_NAME: &str = "atomsan-c++";

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
    pub(crate) arguments: Vec<OsString>,
}

/// The languages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    C,
    Cpp,
}

impl Language {
    /// The compiler, with arguments of its own.
    fn compiler(self) -> Vec<OsString> {
        let (variables, default) = match self {
            Language::C => (["ATOMSAN_CC", "CC"], "cc"),
            Language::Cpp => (["ATOMSAN_CXX", "CXX"], "c++"),
        };
        let named = variables.iter().find_map(|variable| {
            let words = asked::words(&std::env::var(variable).ok()?);
            (!words.is_empty() && !words.iter().any(|word| is_ours(word))).then_some(words)
        });
        named.unwrap_or_else(|| vec![default.into()])
    }
}

fn is_ours(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or(word);
    let ours = ["atomsan", "cargo-atomsan", NAME, CPP_NAME].map(OsStr::new);
    // Somebody may have given it another name.
    let this = std::env::current_exe().unwrap_or_default();
    ours.contains(&name) || this.file_name() == Some(name)
}

pub(crate) fn run(language: Language, arguments: &[OsString]) -> anyhow::Result<Exit> {
    let compiler = language.compiler();
    let asked = Asked::of(arguments);
    let mut command = Command::new(&compiler[0]);
    command.args(&compiler[1..]);
    if asked.stage > Stage::Nothing {
        if let Some(objection) = &asked.objection {
            bail!("{objection}");
        }
        if compiler[0].to_string_lossy().contains("musl") {
            bail!(
                "{}: programs can be checked with glibc only",
                compiler[0].display()
            );
        }
        command.args(added(
            &asked,
            &runtime::directory()?,
            is_clang(&compiler[0]),
        ));
    }
    // A runtime that is linked statically would be ThreadSanitizer's; names are wanted.
    let unwanted = ["-static-libtsan", "-static-libsan", "-s"].map(OsStr::new);
    let kept = |argument: &&OsString| !unwanted.contains(&argument.as_os_str());
    let error = command.args(arguments.iter().filter(kept)).exec();
    Err(error).with_context(|| format!("cannot run the compiler {}", compiler[0].display()))
}

fn is_clang(compiler: &OsStr) -> bool {
    let name = Path::new(compiler)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    if name.contains("clang") || name.contains("gcc") || name.contains("g++") {
        return name.contains("clang");
    }
    let version = Command::new(compiler).arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("clang"))
}

/// What is added in front of the user's arguments.
///
/// gcc links `-ltsan` for `-fsanitize=thread`, in front of everything else; our directory has a
/// library of that name, and comes first. clang is told to link nothing, and gets ours by name.
fn added(asked: &Asked, runtime: &Path, clang: bool) -> Vec<OsString> {
    // For the macros that it defines.
    let mut added: Vec<OsString> = vec!["-fsanitize=thread".into()];
    if asked.compiles {
        added.extend(["-isystem".into(), runtime.join(runtime::INCLUDE).into()]);
    }
    if asked.stage >= Stage::Compile && asked.compiles {
        let only: &[&str] = if clang {
            // What is wider than 16 bytes is not announced; what the user asks for is in the debug
            // information, so that the summary can say so.
            &[
                "-grecord-command-line",
                "-finline-hint-functions",
                "-fno-vectorize",
                "-fno-slp-vectorize",
                "-mllvm",
                "-tsan-instrument-read-before-write=1",
            ]
        } else {
            &[
                "-fno-inline-functions",
                "-fno-inline-small-functions",
                "-fno-inline-functions-called-once",
                "-fno-partial-inlining",
                "-fno-ipa-icf",
                "-Wno-tsan",
            ]
        };
        // A hook that is called by way of the linkage table takes a tenth longer.
        let both = ["-g", "-fno-optimize-sibling-calls", "-fno-plt"];
        added.extend(both.iter().chain(only).map(OsString::from));
    }
    if asked.stage == Stage::Link {
        if clang {
            added.push("-fno-sanitize-link-runtime".into());
            added.push("-Wl,--push-state,--no-as-needed".into());
            added.push(runtime.join(runtime::NAME).into());
            added.push("-Wl,--pop-state".into());
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

    #[test]
    fn only_linking_gets_the_library() {
        let added = |arguments: &str, clang| {
            let asked = Asked::of(&asked::words(arguments));
            let added = added(&asked, Path::new("/rt"), clang);
            added.join(OsStr::new(" ")).into_string().unwrap()
        };
        for clang in [false, true] {
            assert!(!added("-c a.c", clang).contains("-L/rt"));
            assert!(added("-E a.c", clang).contains("-isystem /rt/include"));
            assert!(added("a.o -o a", clang).contains("-L/rt -Wl,-rpath,/rt"));
            // clang objects to what it has no use for.
            assert!(!added("a.o -o a", clang).contains("-mllvm"));
            assert!(added("a.c", clang).contains("-fsanitize=thread"));
        }
    }

    #[test]
    fn a_wrapper_does_not_wrap_itself() {
        for (word, ours) in [
            ("atomsan", true),
            ("/usr/bin/atomsan-cc", true),
            ("gcc", false),
        ] {
            assert_eq!(is_ours(OsStr::new(word)), ours, "{word}");
        }
    }
}
