//! What a C compiler is asked for, as far as it matters to us.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// How far the compiler goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    /// It only answers.
    Nothing,
    /// It reads the source: `-E`, `-M`, `-fsyntax-only`.
    Read,
    /// It makes objects, assembly or precompiled headers.
    Compile,
    /// It makes a program or a library.
    Link,
}

/// Options whose argument is a word of its own.
const SEPARATE: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-L",
    "-D",
    "-U",
    "-B",
    "-T",
    "-u",
    "-z",
    "-e",
    "-F",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-A",
    "-G",
    "-V",
    "-b",
    "-h",
    "-include",
    "-imacros",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-isysroot",
    "-imultilib",
    "-iframework",
    "-include-pch",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xclang",
    "-Xanalyzer",
    "-Xopenmp-target",
    "-mllvm",
    "-target",
    "--param",
    "-aux-info",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-arch",
    "-wrapper",
    "-specs",
    "--sysroot",
    "-rpath",
    "-soname",
    "-fplugin-arg",
    "-gcc-toolchain",
    "-working-directory",
    "-serialize-diagnostics",
    "-install_name",
];

/// The sanitizers that ThreadSanitizer's instrumentation cannot be combined with.
const CONFLICTING: &[&str] = &["address", "kernel-address", "hwaddress", "leak", "memory"];

/// The compiler's arguments, read.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) stage: Stage,
    /// Why a program that is made like this cannot be checked.
    pub(super) objection: Option<String>,
}

impl Asked {
    /// Reads the arguments, those in files (`@file`) too.
    pub(super) fn of(arguments: &[OsString]) -> Asked {
        let arguments = expand(arguments, 0);
        let mut stage = Stage::Link;
        let (mut inputs, mut headers) = (0, 0);
        let mut language = None;
        let mut objection = None;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            let text = &*text;
            match text {
                "-E" | "-M" | "-MM" | "-fsyntax-only" => stage = stage.min(Stage::Read),
                "-c" | "-S" | "-r" | "-emit-pch" => stage = stage.min(Stage::Compile),
                "-static" | "--static" | "-static-pie" => {
                    let reason = "a statically linked program cannot be checked";
                    objection = Some(format!("{text}: {reason}; link it dynamically"));
                }
                "-m32" | "-mx32" => objection = Some(format!("{text}: {PLATFORM}")),
                "-x" => language = rest.next().map(|name| name.to_string_lossy().into_owned()),
                "-target" => {
                    let target = rest.next().map(|target| target.to_string_lossy());
                    objection = foreign(target.as_deref().unwrap_or("")).or(objection);
                }
                _ if text.starts_with("-x") => language = Some(text[2..].to_owned()),
                _ if SEPARATE.contains(&text) => {
                    rest.next();
                }
                _ if text.starts_with("-l") => inputs += 1,
                _ if text == "-" || !text.starts_with('-') => {
                    inputs += 1;
                    headers += u32::from(is_header(argument, language.as_deref()));
                }
                _ => {}
            }
            if let Some(target) = text.strip_prefix("--target=") {
                objection = foreign(target).or(objection);
            }
            let sanitizers = text.strip_prefix("-fsanitize=").unwrap_or("").split(',');
            if let Some(other) = sanitizers.into_iter().find(|one| CONFLICTING.contains(one)) {
                objection = Some(format!(
                    "-fsanitize={other} cannot be combined with atomsan, which instruments as \
                     ThreadSanitizer does; build without it"
                ));
            }
        }
        if inputs == 0 {
            stage = Stage::Nothing;
        } else if headers > 0 {
            stage = stage.min(Stage::Compile);
        }
        Asked { stage, objection }
    }
}

const PLATFORM: &str = "programs can be checked on x86-64 Linux with glibc only";

fn foreign(target: &str) -> Option<String> {
    let ours = target.starts_with("x86_64") && target.contains("linux") && !target.contains("musl");
    (!ours).then(|| format!("target {target}: {PLATFORM}"))
}

fn is_header(input: &OsStr, language: Option<&str>) -> bool {
    match language {
        Some(language) if language != "none" => language.ends_with("-header"),
        _ => Path::new(input).extension().is_some_and(|ending| {
            ["h", "hh", "hp", "hpp", "hxx", "h++", "H", "tcc"]
                .map(OsStr::new)
                .contains(&ending)
        }),
    }
}

/// Arguments with those that are in files; a file that cannot be read stays a word.
fn expand(arguments: &[OsString], depth: u32) -> Vec<OsString> {
    let mut expanded = Vec::new();
    for argument in arguments {
        let text = argument.to_string_lossy();
        match text.strip_prefix('@').map(std::fs::read_to_string) {
            Some(Ok(content)) if depth < 8 => {
                expanded.extend(expand(&words(&content), depth + 1));
            }
            _ => expanded.push(argument.clone()),
        }
    }
    expanded
}

/// The words of a file of arguments: separated by space, in quotes, or with `\` before what is
/// special.
pub(super) fn words(text: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (_, Some(open)) if character == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(character),
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            _ if character.is_whitespace() => words.extend(word.take().map(OsString::from)),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word.map(OsString::from));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &str) -> Asked {
        Asked::of(&words(arguments))
    }

    #[test]
    fn stages() {
        for (arguments, stage) in [
            ("", Stage::Nothing),
            ("--version", Stage::Nothing),
            ("-v", Stage::Nothing),
            ("-o a", Stage::Nothing),
            ("-dumpmachine", Stage::Nothing),
            ("-E a.c", Stage::Read),
            ("-MM -MF a.d a.c", Stage::Read),
            ("-c a.c -o a.o", Stage::Compile),
            ("-S -xc -", Stage::Compile),
            ("a.h", Stage::Compile),
            ("-x c++-header a -o a.gch", Stage::Compile),
            ("-xc++-header a -o a.gch", Stage::Compile),
            ("-include a.h a.c", Stage::Link),
            ("-x c -", Stage::Link),
            ("-### a.c", Stage::Link),
            ("a.o -o a", Stage::Link),
            ("-shared -Wl,--whole-archive -la -o liba.so", Stage::Link),
        ] {
            assert_eq!(
                asked(arguments),
                Asked {
                    stage,
                    objection: None
                },
                "{arguments}"
            );
        }
    }

    #[test]
    fn objections() {
        for (arguments, words) in [
            ("-static a.c", "-static: a statically linked program"),
            ("-m32 a.c", "x86-64 Linux with glibc only"),
            (
                "--target=x86_64-linux-musl a.c",
                "x86-64 Linux with glibc only",
            ),
            (
                "-fsanitize=undefined,address a.c",
                "-fsanitize=address cannot be combined",
            ),
        ] {
            let objection = asked(arguments).objection.unwrap();
            assert!(objection.contains(words), "{arguments}: {objection}");
        }
        for arguments in [
            "-static-libgcc a.c",
            "-fsanitize=undefined,thread a.c",
            "-target x86_64-linux-gnu a.c",
        ] {
            assert_eq!(asked(arguments).objection, None, "{arguments}");
        }
    }

    #[test]
    fn arguments_in_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "-c \"a b.c\"\n-o 'x y.o' a\\ b").unwrap();
        let argument = OsString::from(format!("@{}", file.path().display()));
        let expanded = expand(std::slice::from_ref(&argument), 0);
        assert_eq!(expanded, ["-c", "a b.c", "-o", "x y.o", "a b"]);
        assert_eq!(Asked::of(&[argument]).stage, Stage::Compile);
        assert_eq!(asked("@/no/such/file").stage, Stage::Link);
    }
}
