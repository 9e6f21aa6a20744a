//! A recording carries what every engine needs.

use crate::support::{command, root};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SETS: &str = "tests/programs/engines/sets.c";

fn build(folder: &Path) -> PathBuf {
    let program = folder.join("sets");
    let built = command()
        .args(["cc", "-O1", SETS, "-o"])
        .arg(&program)
        .status()
        .unwrap();
    assert!(built.success());
    program
}

fn run(program: &Path, seed: u32, options: &[&str]) -> Output {
    command()
        .args(["run", "--noise", "--noise-seed", &seed.to_string()])
        .args(options)
        .arg(program)
        .output()
        .unwrap()
}

/// The functions that an engine says not to be atomic, of several runs.
fn functions(program: &Path, options: &[&str]) -> Vec<String> {
    let mut functions: Vec<String> = (1..4)
        .flat_map(|seed| {
            let output = run(program, seed, &[&["--json"], options].concat());
            let document: Value = serde_json::from_slice(&output.stderr).unwrap();
            let findings = document["findings"].as_array().unwrap().clone();
            findings.into_iter().map(|finding| {
                let function = finding["culprit"]["function"].as_str().unwrap();
                function.to_owned()
            })
        })
        .collect();
    functions.sort();
    functions.dedup();
    functions
}

/// For Marathon an allocation is an atomic set, and so is a static with all that is in it; a function that
/// touches it is a unit of work.
#[test]
fn atomic_sets_of_a_program() {
    let out = tempfile::tempdir().unwrap();
    let program = build(out.path());
    let found = functions(&program, &["--engine", "marathon"]);
    assert_eq!(found, ["split_heap", "split_static"]);
    let found = functions(&program, &["--engine", "velodrome"]);
    assert!(found.contains(&"both".to_owned()), "{found:?}");
}

/// For Silver a yield is a line of the source; with those that it infers, Copper has nothing to say.
#[test]
fn yields_of_a_program_are_lines() {
    let out = tempfile::tempdir().unwrap();
    let program = build(out.path());
    let file = out.path().join("yields.txt");
    let written = file.to_str().unwrap();
    let trace = out.path().join("run.atrace");
    let kept = trace.to_str().unwrap();
    let options = ["--engine", "silver", "--write-yields", written];
    let output = run(
        &program,
        1,
        &[&options[..], &["--save-trace", kept]].concat(),
    );
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("yield at "), "{told}");
    assert!(told.contains("sets.c:"), "{told}");
    let source = std::fs::read_to_string(root().join(SETS)).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    let yields = std::fs::read_to_string(&file).unwrap();
    let places = yields.lines().filter(|line| line.starts_with("yield"));
    let places = places.filter_map(|line| line.split_once("sets.c:"));
    let places: Vec<usize> = places
        .filter_map(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        })
        .collect();
    assert!(!places.is_empty(), "{yields}");
    for line in places {
        assert!(
            lines[line - 1].contains("pthread_mutex_lock"),
            "{line}: {yields}"
        );
    }
    let copper = |options: &[&str]| {
        let output = command()
            .args(["check", "--engine", "copper", kept])
            .args(options)
            .output();
        output.unwrap().status.code()
    };
    assert_eq!(copper(&[]), Some(66));
    assert_eq!(copper(&["--yields", written]), Some(0));
}

/// What escape analysis and thread periods are made of is in the events: allocations, starts, joins,
/// barriers, and accesses by more than one thread.
#[test]
fn lives_of_objects_and_threads() {
    let out = tempfile::tempdir().unwrap();
    let count = |source: &str, what: &str| -> u64 {
        let (program, trace) = (out.path().join("program"), out.path().join("run.atrace"));
        let run =
            |command: &mut Command| assert!(command.output().unwrap().status.code().is_some());
        run(command().args(["cc", "-O1", source, "-o"]).arg(&program));
        run(command()
            .args(["run", "--save-trace"])
            .args([&trace, &program]));
        let stats = command().arg("stats").arg(&trace).output().unwrap();
        let stats = String::from_utf8(stats.stdout).unwrap();
        let line = stats.lines().find(|line| line.ends_with(what));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .unwrap_or_else(|| panic!("{what}: {stats}"))
            .replace(',', "")
            .parse()
            .unwrap()
    };
    // The three that threads share.
    assert_eq!(count(SETS, "  allocations"), 3);
    assert_eq!(count(SETS, "  forks"), 2);
    assert_eq!(count(SETS, "  joins"), 2);
    assert_eq!(
        count("tests/programs/c/withdraw-wrong.c", "  barrier arrivals"),
        2
    );
}

/// What a function does to an object that only its thread can reach interests nobody.
#[test]
fn objects_of_a_program_escape() {
    let out = tempfile::tempdir().unwrap();
    let program = build(out.path());
    let make = "make".to_owned();
    assert!(!functions(&program, &["--engine", "reduction"]).contains(&make));
    let without = ["--engine", "reduction", "--without", "escape"];
    assert!(functions(&program, &without).contains(&make));
}
