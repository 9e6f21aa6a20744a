//! Engines that work on a stream check a program while it runs, and say what they say afterwards
//! of the same run.

use crate::online::{compile, compile_with, names, run};
use crate::support::Said;

/// All engines that work on a stream.
const STREAMING: &str = "velodrome,aerodrome,doublechecker,atomizer,copper";

fn compared(said: &Said) -> String {
    let found = (said.stderr.lines()).find(|line| line.starts_with("compared"));
    found
        .unwrap_or_else(|| panic!("{}", said.stderr))
        .to_owned()
}

#[test]
fn the_same_findings_as_afterwards() {
    let out = tempfile::tempdir().unwrap();
    let mut both = 0;
    for name in names() {
        let program = compile(out.path(), &name);
        let arguments = ["--online", "--compare", "--noise", "--engine", STREAMING];
        let line = compared(&run(&program, &arguments));
        assert!(
            line.ends_with("only online [], only offline []"),
            "{name}: {line}"
        );
        both += usize::from(!line.contains("both 0"));
    }
    assert!(both > 10, "{both} programs with findings");
}

/// Random accesses under random locks: what is observed is the same, whoever observes it.
#[test]
fn the_same_findings_in_random_programs() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(out.path(), "stress");
    for seed in ["1", "2", "3"] {
        for engine in ["doublechecker", "velodrome,atomizer", "copper"] {
            let arguments = ["--online", "--compare", "--noise", "--noise-seed", seed];
            let line = compared(&run(
                &program,
                &[&arguments[..], &["--engine", engine]].concat(),
            ));
            assert!(
                line.ends_with("only online [], only offline []"),
                "{engine} {seed}: {line}"
            );
        }
    }
}

#[test]
fn engines_that_need_the_whole_run_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(out.path(), "withdraw-wrong");
    for engine in ["blocks", "reduction", "marathon", "all"] {
        let said = run(&program, &["--online", "--engine", engine]);
        assert_eq!(said.code, 2, "{engine}: {}", said.stderr);
        assert!(
            said.stderr.contains("needs the whole run"),
            "{}",
            said.stderr
        );
        assert!(
            said.stderr.contains("expected velodrome,"),
            "{}",
            said.stderr
        );
    }
}

/// Objects and locks come and go; when there are too many for the budget, the check starts over,
/// knows still which locks are held, and goes on finding.
#[test]
fn memory_is_bounded_and_the_check_starts_over() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/churn", &["-DN=5000"]);
    for engine in ["velodrome", "atomizer"] {
        let arguments = [
            "--online", "--noise", "--memory", "256K", "--engine", engine,
        ];
        let said = run(&program, &arguments);
        assert!(said.stderr.contains("started over"), "{}", said.stderr);
        assert!(
            said.stderr.contains("`withdraw` is not atomic"),
            "{}",
            said.stderr
        );
        for right in ["renew", "use"] {
            let wrong = format!("`{right}` is not atomic");
            assert!(!said.stderr.contains(&wrong), "{engine}: {}", said.stderr);
        }
        assert_eq!(said.code, 66);
    }
}

/// The order of two transactions may be known by way of a third one that has not ended.
#[test]
fn a_lock_that_goes_round_is_right() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/churn", &["-DN=5000"]);
    for seed in 1..=8 {
        let seed = seed.to_string();
        let arguments = ["--online", "--noise=200", "--noise-seed", &seed];
        let said = run(&program, &arguments);
        assert!(
            !said.stderr.contains("`renew` is not atomic"),
            "seed {seed}: {}",
            said.stderr
        );
        assert!([0, 66].contains(&said.code), "{}", said.stderr);
    }
}

#[test]
fn yields_of_a_running_program() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/server", &["-DTENTHS=20"]);
    let said = crate::support::command()
        .args(["yields", "--online", "--noise"])
        .arg(&program)
        .output()
        .unwrap();
    let said = Said::from(said);
    assert_eq!(said.code, 7, "the program's own: {}", said.stderr);
    let lines: Vec<&str> = said.stderr.lines().collect();
    let at = |text: &str| lines.iter().position(|line| line.contains(text));
    let found = at("other threads matter").unwrap_or_else(|| panic!("{}", said.stderr));
    let all = at("yields inferred").or(at("yield inferred")).unwrap();
    assert!(found < all, "{}", said.stderr);
    assert!(at("server.c:14 in withdraw").is_some(), "{}", said.stderr);
    let density = at("interference density:").unwrap();
    let row: Vec<&str> = lines[density + 2].split_whitespace().collect();
    assert_eq!(row[0], "3", "three threads: {row:?}");
    assert!(row[1].parse::<u64>().unwrap() > 3, "{row:?}");
}

/// A function that was found not to be atomic is not taken for atomic from then on, so that what it
/// calls is checked by itself.
#[test]
fn what_a_culprit_contains_is_checked_by_itself() {
    let out = tempfile::tempdir().unwrap();
    let program = compile_with(out.path(), "online/nested", &[]);
    for engine in ["doublechecker", "velodrome"] {
        let said = run(&program, &["--online", "--noise", "--engine", engine]);
        for culprit in ["handle", "withdraw"] {
            let wrong = format!("`{culprit}` is not atomic");
            assert!(said.stderr.contains(&wrong), "{engine}: {}", said.stderr);
        }
    }
}
