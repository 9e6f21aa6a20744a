//! `atomsan.toml`: what it sets, who wins, and what is said when it is wrong.

use crate::support::{Said, command, root};
use std::fs;
use std::path::Path;

/// Checks the example with this configuration; it has one lost update.
fn check(directory: &Path, config: &str, arguments: &[&str]) -> Said {
    fs::write(directory.join("atomsan.toml"), config).unwrap();
    let inner = directory.join("some/where");
    fs::create_dir_all(&inner).unwrap();
    command()
        .current_dir(inner)
        .arg("check")
        .arg(root().join("examples/withdraw.rr").canonicalize().unwrap())
        .args(arguments)
        .output()
        .unwrap()
        .into()
}

fn checked(config: &str, arguments: &[&str]) -> Said {
    check(tempfile::tempdir().unwrap().path(), config, arguments)
}

#[test]
fn it_is_found_upwards_and_the_command_line_wins() {
    let said = checked("engines = [\"aerodrome\", \"blocks\"]", &["--json"]);
    assert_eq!(said.json()["engine"], "aerodrome,blocks", "{}", said.stderr);
    let said = checked("engines = \"aerodrome\"", &["--json", "--engine=blocks"]);
    assert_eq!(said.json()["engine"], "blocks");
    let said = checked("engines = \"aerodrome\"", &["--json", "--no-config"]);
    assert_eq!(said.json()["engine"], "velodrome");
}

#[test]
fn another_file() {
    let out = tempfile::tempdir().unwrap();
    let other = out.path().join("other.toml");
    fs::write(&other, "engines = \"marathon\"").unwrap();
    let other = other.to_str().unwrap();
    let said = check(out.path(), "wrong", &["--json", "--config", other]);
    assert_eq!(said.json()["engine"], "marathon");
    let said = checked("", &["--config", "/nowhere.toml"]);
    assert_eq!(said.code, 1);
    assert!(
        said.stderr
            .contains("cannot read the configuration /nowhere.toml"),
        "{}",
        said.stderr
    );
}

/// A read, a write of another thread, a read: of medium rank.
#[test]
fn fail_on() {
    let out = tempfile::tempdir().unwrap();
    let trace = out.path().join("t.std");
    fs::write(
        &trace,
        "T1|begin|1\nT1|r(x)|2\nT2|w(x)|3\nT1|r(x)|4\nT1|end|5\n",
    )
    .unwrap();
    for (rank, code) in [("low", 66), ("medium", 66), ("high", 0)] {
        let config = format!("fail-on = \"{rank}\"");
        fs::write(out.path().join("atomsan.toml"), config).unwrap();
        let said: Said = command()
            .current_dir(out.path())
            .args(["check", "t.std"])
            .output()
            .unwrap()
            .into();
        assert!(
            said.stdout.contains("non-repeatable-read"),
            "{}",
            said.stdout
        );
        assert_eq!(said.code, code, "{rank}");
    }
}

#[test]
fn what_is_atomic() {
    let not = "[spec]\nnot-atomic = [\"*withdraw*\"]";
    assert_eq!(checked(not, &[]).code, 0);
    let only = "[spec]\natomic = [\"*deposit*\"]";
    assert_eq!(checked(only, &[]).code, 0);
    let both = "[spec]\natomic = \"bank/*\"\nnot-atomic = \"*deposit*\"";
    assert_eq!(checked(both, &[]).code, 66);
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("a.spec"), "!*withdraw*\n").unwrap();
    assert_eq!(
        check(out.path(), "[spec]\nfile = \"a.spec\"", &[]).code,
        0,
        "beside the configuration"
    );
    let spec = out.path().join("b.spec");
    fs::write(&spec, "*withdraw*\n").unwrap();
    let said = check(out.path(), not, &["--spec", spec.to_str().unwrap()]);
    assert_eq!(said.code, 66, "the command line wins");
}

/// Each mistake has its place, its line, and a suggestion where there is one.
#[test]
fn mistakes() {
    for (config, place, message, help) in [
        (
            "fail_on = \"low\"",
            "1:1",
            "there is no setting `fail_on`",
            "did you mean `fail-on`?",
        ),
        (
            "\nengine = \"blocks\"",
            "2:1",
            "there is no setting `engine`",
            "did you mean `engines`?",
        ),
        (
            "colour = 1",
            "1:1",
            "there is no setting `colour`",
            "expected one of: baseline, ",
        ),
        (
            "engines = [\n  \"blocks\",\n  \"velodrom\"]",
            "3:3",
            "there is no engine `velodrom`",
            "did you mean `velodrome`?",
        ),
        (
            "fail-on = \"hihg\"",
            "1:11",
            "`hihg`",
            "did you mean `high`?",
        ),
        (
            "regions = 7",
            "1:11",
            "expected a string, found integer",
            "",
        ),
        ("noise = \"loud\"", "1:9", "invalid digit", ""),
        ("noise = -1", "1:9", "-1 is too big, or less than 0", ""),
        (
            "noise = true",
            "1:9",
            "expected a string or a number, found boolean",
            "",
        ),
        (
            "memory = \"much\"",
            "1:10",
            "`much` is not a size; expected for example 512M or 2G",
            "",
        ),
        (
            "baseline = [1]",
            "1:12",
            "expected a string, found array",
            "",
        ),
        (
            "spec = \"x\"",
            "1:8",
            "expected a table `[spec]`, found string",
            "",
        ),
        (
            "[spec]\nnot_atomic = []",
            "2:1",
            "`[spec]` has no `not_atomic`",
            "did you mean `not-atomic`?",
        ),
        (
            "[spec]\natomic = \"bad[\"",
            "2:10",
            "unclosed character class",
            "",
        ),
        (
            "[spec]\natomic = \"!f\"",
            "2:10",
            "no function name starts with `!`",
            "the others under `not-atomic`",
        ),
        ("[spec]\natomic = \"\"", "2:10", "an empty pattern", ""),
        (
            "[spec]\nfile = \"none.spec\"",
            "2:8",
            "cannot read the specification",
            "",
        ),
        (
            "[suppress]\nreason = \"r\"",
            "1:1",
            "expected tables `[[suppress]]`, found table",
            "",
        ),
        (
            "[[suppress]]\nfunction = \"f\"",
            "1:1",
            "a suppression needs a reason",
            "add `reason = ",
        ),
        (
            "[[suppress]]\nfunction = \"f\"\nreason = \" \"",
            "3:10",
            "the reason is empty",
            "",
        ),
        (
            "[[suppress]]\nreason = \"r\"",
            "1:1",
            "this would suppress everything",
            "add a function",
        ),
        (
            "[[suppress]]\nfunc = \"f\"\nreason = \"r\"",
            "2:1",
            "`[[suppress]]` has no `func`",
            "did you mean `function`?",
        ),
        (
            "[[suppress]]\nanomaly = \"lost_update\"\nreason = \"r\"",
            "2:11",
            "there is no anomaly `lost_update`",
            "did you mean `lost-update`?",
        ),
        (
            "[[suppress]]\nengine = \"block\"\nreason = \"r\"",
            "2:10",
            "there is no engine `block`",
            "did you mean `blocks`?",
        ),
        (
            "[[suppress]]\nfingerprint = \"12\"\nreason = \"r\"",
            "2:15",
            "a fingerprint has 16 hexadecimal digits",
            "",
        ),
        (
            "[[suppress]]\nfile = 3\nreason = \"r\"",
            "2:8",
            "expected a string, found integer",
            "",
        ),
        (
            "[[model]]\nfunction = \"f\"\nis = \"locks\"",
            "3:6",
            "`locks` is not what a function can be",
            "did you mean `lock`?",
        ),
        (
            "[[model]]\nis = \"lock\"",
            "1:1",
            "a model needs a function",
            "add `function",
        ),
        ("a = ", "1:5", "", ""),
        ("noise = 1\nnoise = 2", "2:1", "duplicate key", ""),
    ] {
        let said = checked(config, &[]);
        assert_eq!(said.code, 2, "{config}: {}", said.stderr);
        assert!(said.stdout.is_empty());
        let start = format!("atomsan.toml:{place}: ");
        assert!(said.stderr.contains(&start), "{config}: {}", said.stderr);
        assert!(said.stderr.contains(message), "{config}: {}", said.stderr);
        let (line, _) = place.split_once(':').unwrap();
        let shown = config
            .lines()
            .nth(line.parse::<usize>().unwrap() - 1)
            .unwrap();
        let shown = format!(" {line} | {shown}\n");
        assert!(said.stderr.contains(&shown), "{config}: {}", said.stderr);
        let marked = said.stderr.lines().last().unwrap();
        assert!(
            marked.contains('^') && marked.contains(help),
            "{config}: {}",
            said.stderr
        );
    }
}

#[test]
fn all_mistakes_at_once() {
    let said = checked("nois = 3\nmemori = \"1G\"", &[]);
    assert_eq!(said.stderr.matches("error: ").count(), 2, "{}", said.stderr);
}
