//! What data, locks and threads are called, in programs that make the same mistake with data of every
//! kind (`tests/programs/names`).

use crate::support::{command, root};
use serde_json::Value;
use std::path::Path;

/// What the findings of a program are about, by function.
struct Seen {
    document: Value,
}

impl Seen {
    fn of(command: &mut std::process::Command) -> Seen {
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let json = said.lines().find(|line| line.starts_with('{'));
        let json = json.unwrap_or_else(|| panic!("no document: {said}"));
        let document = serde_json::from_str(json).unwrap();
        Seen { document }
    }

    /// Whether a finding that names a function somewhere says that this was done to this.
    fn says(&self, function: &str, op: &str, target: &str) -> bool {
        let findings = self.document["findings"].as_array().unwrap();
        let ways = findings.iter().flat_map(|finding| {
            let also = finding["also"].as_array().cloned().unwrap_or_default();
            std::iter::once(finding.clone()).chain(also)
        });
        let mut steps = ways.flat_map(|way| way["witness"].as_array().unwrap().clone());
        steps.any(|step| {
            let stack = step["stack"].as_array().cloned().unwrap_or_default();
            let mut places = std::iter::once(step.clone()).chain(stack);
            step["op"] == op
                && step["target"] == target
                && places.any(|place| place["function"] == function)
        })
    }

    fn expect(&self, expected: &[(&str, &str, &str)]) {
        for (function, op, target) in expected {
            let findings = serde_json::to_string_pretty(&self.document["findings"]).unwrap();
            let said = self.says(function, op, target);
            assert!(said, "{function}: {op} {target}\n{findings}");
        }
    }

    /// What findings are known by across runs, each with its function, in order.
    fn prints(&self) -> Vec<(String, String)> {
        let findings = self.document["findings"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let of = |finding: &Value| {
            let function = text(&finding["culprit"]["function"]);
            let ways = finding["ways"].as_array().cloned().unwrap_or_default();
            let prints = std::iter::once(finding["fingerprint"].clone()).chain(ways);
            prints
                .map(|print| (function.clone(), text(&print)))
                .collect::<Vec<_>>()
        };
        let mut prints: Vec<_> = findings.flat_map(of).collect();
        prints.sort_unstable();
        prints
    }

    /// The threads, and at which lines they were started.
    fn threads(&self) -> Vec<(String, Option<u64>)> {
        let threads = self.document["threads"].as_array().unwrap().iter();
        threads
            .map(|thread| {
                let name = thread["name"].as_str().unwrap().to_owned();
                (name, thread["spawned"]["line"].as_u64())
            })
            .collect()
    }
}

fn thread(name: &str, line: u64) -> (String, Option<u64>) {
    (format!("thread \"{name}\""), Some(line))
}

#[test]
fn of_a_program_in_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("names");
    let source = root().join("tests/programs/names/names.cpp");
    let built = (command().arg("c++").arg(source).arg("-o").arg(&program)).status();
    assert!(built.unwrap().success());
    let run = |more: &[&str]| Seen::of(command().args(["run", "--json"]).args(more).arg(&program));
    let seen = run(&["--engine", "blocks,reduction"]);
    seen.expect(&[
        ("global", "read", "total"),
        ("global", "acquire", "lock"),
        ("field", "write", "bank.accounts[2].balance"),
        ("field", "acquire", "bank.mutex"),
        ("hidden", "read", "hidden()::calls"),
        (
            "shared",
            "read",
            "Account::balance of the 32 bytes allocated at names.cpp:59",
        ),
        (
            "plain",
            "write",
            "field +16 of the 32 bytes allocated at names.cpp:60",
        ),
        (
            "element",
            "read",
            "Account::balance of element 1 of the 64 bytes allocated at names.cpp:61",
        ),
        ("local", "read", "mine.balance of main (names.cpp:58)"),
        ("initialised", "read", "guarded of main (names.cpp:58)"),
        (
            "initialised",
            "acquire",
            "the lock initialised at names.cpp:64",
        ),
    ]);
    let main = ("main".to_owned(), None);
    let threads = [main, thread("teller", 81), thread("clerk", 82)];
    assert_eq!(seen.threads(), threads);
    // Names come after the threads are known.
    let online = run(&["--online", "--engine", "velodrome"]);
    assert_eq!(online.threads(), threads);
}

/// A single run reads little of what the program did, and calls everything what the recording calls it.
#[test]
fn of_a_program_that_is_checked_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("early");
    let source = root().join("tests/programs/names/early.c");
    let built = (command().arg("cc").arg(source).arg("-o").arg(&program)).status();
    assert!(built.unwrap().success());
    let expected = [
        (
            "deposit",
            "read",
            "field +8 of the 16 bytes allocated at early.c:49",
        ),
        ("count", "write", "deposits of main (early.c:53)"),
    ];
    let run = |more: &[&str]| {
        Seen::of((command().args(["run", "--json", "--noise"]).args(more)).arg(&program))
    };
    let says_all = |seen: &Seen| {
        (expected.iter()).all(|(function, op, target)| seen.says(function, op, target))
    };
    let main = ("main".to_owned(), None);
    let worker = |number| (format!("thread {number}"), Some(61));
    let threads = [main, worker(1), worker(2)];
    let tries = |more: &[&str], wanted: &dyn Fn(&Seen) -> bool| {
        let mut runs = (0..6).map(|_| run(more));
        let seen = runs.find(|seen| says_all(seen) && wanted(seen));
        let seen = seen.unwrap_or_else(|| panic!("never {more:?}: {:#}", run(more).document));
        assert_eq!(seen.threads(), threads);
        seen
    };
    // A gap may be seen in several ways, so each has several prints; one of them is enough.
    let offline = tries(&[], &|_| true).prints();
    tries(&["--online"], &|online| {
        let known = |(function, print): &(String, String)| {
            offline.contains(&(function.clone(), print.clone()))
        };
        let prints = online.prints();
        let mut functions: Vec<_> = prints.iter().filter(|one| known(one)).collect();
        functions.dedup_by_key(|(function, _)| function);
        functions.len() == 2
    });
}

#[test]
fn of_a_program_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("names");
    std::fs::create_dir_all(package.join("src")).unwrap();
    let source = root().join("tests/programs/names/names.rs");
    std::fs::copy(source, package.join("src/main.rs")).unwrap();
    let manifest =
        "[package]\nname = \"names\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(package.join("Cargo.toml"), manifest).unwrap();
    let seen = run_package(&package);
    seen.expect(&[
        ("names::global", "atomic load", "names::TOTAL"),
        ("names::field", "read", "names::BANK.accounts[1].balance"),
        ("names::field", "acquire", "names::BANK.accounts[1].balance"),
        (
            "names::shared",
            "atomic load",
            "Account::limit of the 40 bytes allocated at main.rs:56",
        ),
        (
            "names::behind_a_lock",
            "write",
            "Mutex<i64> of the 32 bytes allocated at main.rs:60",
        ),
        (
            "names::behind_a_lock",
            "acquire",
            "Mutex<i64> of the 32 bytes allocated at main.rs:60",
        ),
        (
            "names::element",
            "atomic load",
            "AtomicU32 of element 3 of the 32 bytes allocated at main.rs:61",
        ),
        ("names::local", "read", "count of names::main (main.rs:55)"),
        (
            "names::local",
            "acquire",
            "count of names::main (main.rs:55)",
        ),
    ]);
    let main = ("main".to_owned(), None);
    assert_eq!(
        seen.threads(),
        [main, thread("teller", 78), thread("clerk", 78)]
    );
}

fn run_package(package: &Path) -> Seen {
    let mut command = command();
    command.current_dir(package);
    let engines = ["--engine", "blocks,reduction"];
    Seen::of(command.args(["cargo", "run", "--json"]).args(engines))
}
