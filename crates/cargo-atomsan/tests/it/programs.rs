//! Small programs in pairs, compiled, run and checked: the wrong one has the finding that
//! its first lines announce (`finding: FUNCTION LINE LINE`, and a rank if it matters), the right one
//! has none. One that is *harmless* has the shape of a mistake and does no damage: its finding says so
//! by its rank, or says before that nothing of it is high (`nothing high`).
//!
//! What is observed depends on the schedule, so a wrong program gets several runs; a right one
//! must be silent in each.

use crate::compilers::compilers;
use crate::support::{command, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Within so many noisy runs, a mistake is seen.
const RUNS: usize = 20;
/// So often a right program is silent.
const SILENT: usize = 4;

fn programs(language: &str, ending: &str) -> Vec<PathBuf> {
    let directory = root().join("tests/programs").join(language);
    let mut programs: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    programs.sort();
    assert!(!programs.is_empty());
    programs
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
}

/// What the source announces.
fn expected(source: &Path) -> Option<(Found, Option<String>)> {
    let text = fs::read_to_string(source).unwrap();
    let line = text
        .lines()
        .find_map(|line| Some(line.split_once("finding: ")?.1.to_owned()))?;
    // The end of a comment is no rank, and a function may have spaces in its name.
    let mut words: Vec<&str> = line.split_whitespace().collect();
    words.pop_if(|word| *word == "*/");
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let rank = words.pop_if(|word| !is_number(word));
    let mut number = || words.pop().unwrap().parse().unwrap();
    let second = number();
    let lines = [number(), second];
    let function = words.join(" ");
    Some(((function, lines), rank.map(str::to_owned)))
}

/// A finding, as function and lines.
type Found = (String, [u64; 2]);

/// Runs a program once; its findings and their ranks.
fn findings(program: &Path) -> Vec<(Found, String)> {
    let output = command()
        .args(["run", "--noise", "--json"])
        .arg(program)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let document: serde_json::Value = serde_json::from_str(stderr.trim())
        .unwrap_or_else(|error| panic!("{}: {error}: {stderr}", program.display()));
    assert!(
        document["events"].as_u64().unwrap() > 0,
        "{}",
        program.display()
    );
    let findings = document["findings"].as_array().unwrap();
    let status = output.status.code().unwrap();
    assert_eq!(
        status,
        if findings.is_empty() { 0 } else { 66 },
        "{}",
        program.display()
    );
    findings
        .iter()
        .map(|finding| {
            let culprit = &finding["culprit"];
            let lines = culprit["lines"].as_array().unwrap();
            let line = |at: usize| lines.get(at).or(lines.last()).unwrap().as_u64().unwrap();
            let function = culprit["function"].as_str().unwrap().to_owned();
            let rank = finding["rank"].as_str().unwrap().to_owned();
            ((function, [line(0), line(1)]), rank)
        })
        .collect()
}

fn check(source: &Path, program: &Path) {
    let name = source.display();
    let stem = source.file_stem().unwrap().to_string_lossy();
    let kind = stem.rsplit_once('-').map(|(_, kind)| kind);
    let text = fs::read_to_string(source).unwrap();
    if kind == Some("harmless") && text.contains("nothing high") {
        for _ in 0..SILENT {
            let found = findings(program);
            let high = found.into_iter().filter(|(_, rank)| rank == "high");
            assert_eq!(high.collect::<Vec<_>>(), [], "{name}");
        }
        return;
    }
    match kind {
        Some("right") => assert_eq!(expected(source), None, "{name}"),
        Some("wrong" | "harmless") => assert_ne!(expected(source), None, "{name}"),
        _ => {}
    }
    match expected(source) {
        None => {
            for _ in 0..SILENT {
                assert_eq!(findings(program), [], "{name}");
            }
        }
        Some((expected, rank)) => {
            let found = (0..RUNS)
                .map(|_| findings(program))
                .find(|found| !found.is_empty())
                .unwrap_or_default();
            assert!(!found.is_empty(), "{name}: not found in {RUNS} runs");
            let (found, ranks): (Vec<_>, Vec<_>) = found.into_iter().unzip();
            assert_eq!(found, [expected], "{name}: one mistake, one finding");
            assert!(rank.is_none_or(|rank| ranks == [rank]), "{name}: {ranks:?}");
        }
    }
}

/// What a source asks of its compiler, in its first line.
fn own_flags(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source).unwrap();
    let flags = text.lines().next().unwrap().split_once("flags: ");
    flags.map_or_else(Vec::new, |(_, flags)| {
        flags.split(' ').map(str::to_owned).collect()
    })
}

/// By every compiler of the machine, as a release would be: functions that are inlined are regions.
fn compiled(language: &str, ending: &str, which: usize) {
    let out = tempfile::tempdir().unwrap();
    let (compiler, variable) = [("cc", "ATOMSAN_CC"), ("c++", "ATOMSAN_CXX")][which];
    for users in compilers() {
        for source in programs(language, ending) {
            let program = out.path().join(source.file_stem().unwrap());
            succeeds(
                command()
                    .args([compiler, "-O2"])
                    .args(own_flags(&source))
                    .env(variable, users[which])
                    .arg(&source)
                    .arg("-o")
                    .arg(&program),
            );
            check(&source, &program);
        }
    }
}

#[test]
fn c() {
    compiled("c", "c", 0);
}

#[test]
fn cpp() {
    compiled("cpp", "cpp", 1);
}

fn rust_programs(project: &str, profile: &str, directory: &str) {
    let sources = format!("{project}/src/bin");
    let project = root().join("tests/programs").join(project);
    let arguments = ["cargo", "build", "--quiet", "--profile", profile];
    succeeds(command().current_dir(&project).args(arguments));
    let built = project
        .join("target/atomsan/x86_64-unknown-linux-gnu")
        .join(directory);
    for source in programs(&sources, "rs") {
        check(&source, &built.join(source.file_stem().unwrap()));
    }
}

#[test]
fn rust() {
    rust_programs("rust", "dev", "debug");
}

/// Synchronisation of other crates: parking_lot, crossbeam, dashmap, tokio, rayon and others.
#[test]
fn crates() {
    rust_programs("crates", "dev", "debug");
}

#[test]
fn crates_optimised() {
    rust_programs("crates", "release", "release");
}

/// Functions that are inlined are still regions.
#[test]
fn rust_optimised() {
    rust_programs("rust", "release", "release");
}

/// A program that gcc built for ThreadSanitizer is checked as it is.
#[test]
fn built_by_gcc_for_thread_sanitizer() {
    let out = tempfile::tempdir().unwrap();
    let program = out.path().join("program");
    let source = root().join("tests/programs/c/withdraw-wrong.c");
    let built = Command::new("gcc")
        .args(["-g", "-fsanitize=thread"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    if !built.status.success() {
        assert!(std::env::var_os("CI").is_none(), "CI must have it");
        eprintln!("skipped: gcc has no ThreadSanitizer here");
        return;
    }
    check(&source, &program);
}

/// `atomsan cc prog.c -o prog && ./prog` is enough.
#[test]
fn a_program_that_nobody_watches_is_checked_at_exit() {
    let out = tempfile::tempdir().unwrap();
    let run = |name: &str, tail: &str| {
        let source = root().join("tests/programs/c").join(name);
        let text = fs::read_to_string(source)
            .unwrap()
            .replace("    return 0;\n", tail);
        let (source, program) = (out.path().join("program.c"), out.path().join("program"));
        fs::write(
            &source,
            format!("#include <stdio.h>\n#include <unistd.h>\n{text}"),
        )
        .unwrap();
        succeeds(
            command()
                .args(["cc", "-O1"])
                .arg(&source)
                .arg("-o")
                .arg(&program),
        );
        let output = Command::new(&program)
            .env_remove("LD_LIBRARY_PATH")
            .env("TMPDIR", out.path())
            .env("ATOMSAN_NOISE", "16")
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stderr.contains("atomsan: "), "{stderr}");
        assert!(!fs::read_dir(out.path()).unwrap().any(|entry| {
            entry
                .unwrap()
                .path()
                .extension()
                .is_some_and(|ending| ending == "rec")
        }));
        (output.status.code(), stdout, stderr)
    };
    let (status, stdout, stderr) =
        run("withdraw-wrong.c", "    printf(\"done\");\n    return 0;\n");
    assert_eq!((status, stdout.as_str()), (Some(66), "done"), "{stderr}");
    assert!(stderr.contains("`withdraw` is not atomic"), "{stderr}");
    // As programs do that want to know whether all of their output has been written.
    let (status, _, stderr) = run("withdraw-wrong.c", "    fclose(stderr);\n    return 0;\n");
    assert_eq!(status, Some(66), "{stderr}");
    assert!(stderr.contains("`withdraw` is not atomic"), "{stderr}");
    let (status, ..) = run("withdraw-wrong.c", "    return 3;\n");
    assert_eq!(status, Some(3), "the program's own status");
    let (status, _, stderr) = run("withdraw-right.c", "    _exit(0);\n");
    assert_eq!(status, Some(0), "{stderr}");
}
