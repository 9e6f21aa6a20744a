//! What `--save-trace` keeps is what was checked: `atomsan check` finds the same in it.

use crate::support::{command, root};
use serde_json::Value;
use std::path::Path;

/// What a document says of each finding.
fn findings(document: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(document);
    let document: Value =
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(document["events"].as_u64().unwrap() > 0);
    let mut findings = document["findings"].as_array().unwrap().clone();
    // Where it was found is all that may be different.
    for finding in &mut findings {
        finding.as_object_mut().unwrap().remove("process");
    }
    findings
}

/// The findings of a run, and of the trace that it has kept; the exit status is the same too.
fn both(program: &Path, trace: &Path, options: &[&str]) -> [Vec<Value>; 2] {
    let run = command()
        .args(["run", "--noise", "--noise-seed", "1", "--json"])
        .args(options)
        .arg("--save-trace")
        .arg(trace)
        .arg(program)
        .output()
        .unwrap();
    let check = command()
        .args(["check", "--json"])
        .args(options)
        .arg(trace)
        .output()
        .unwrap();
    let name = program.display();
    assert_eq!(run.status.code(), check.status.code(), "{name}");
    [findings(&run.stderr), findings(&check.stdout)]
}

#[test]
fn a_trace_that_was_kept_has_the_same_findings() {
    let out = tempfile::tempdir().unwrap();
    let mut found = 0;
    for (compiler, source) in [
        ("cc", "c/withdraw-wrong.c"),
        ("cc", "c/condvar-wrong.c"),
        ("cc", "c/once-right.c"),
        ("cc", "online/nested.c"),
        ("c++", "cpp/append-wrong.cpp"),
    ] {
        let program = out.path().join("program");
        let source = root().join("tests/programs").join(source);
        let built = command()
            .args([compiler, "-O1"])
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .status()
            .unwrap();
        assert!(built.success());
        let trace = out.path().join("trace.atrace");
        for options in [&[][..], &["--engine", "all"], &["--fail-on", "low"]] {
            let [run, check] = both(&program, &trace, options);
            found += run.len();
            assert_eq!(run, check, "{} {options:?}", source.display());
        }
    }
    assert!(found > 6, "{found}");
}
