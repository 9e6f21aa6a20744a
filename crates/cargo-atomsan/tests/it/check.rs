//! `atomsan check`: findings, exit status, errors.

use crate::support::{atomsan, atomsan_with, command};
use std::io::Read;
use std::process::Stdio;

const BAD: &[u8] = b"T1|begin(f)|1\nT1|r(x)|2\nT2|w(x)|3\nT1|w(x)|4\nT1|end(f)|5\n";
const GOOD: &[u8] = b"T1|begin(f)|1\nT1|r(x)|2\nT1|w(x)|4\nT1|end(f)|5\nT2|w(x)|3\n";

#[test]
fn the_example_of_the_readme_is_what_the_readme_says() {
    let said = atomsan(&["check", "examples/withdraw.rr"]);
    assert_eq!(said.code, 66);
    let readme = include_str!("../../../../README.md");
    let shown = readme.split("examples/withdraw.rr").nth(1).unwrap();
    let shown = shown.split("```text\n").nth(1).unwrap();
    let shown = shown.split("```").next().unwrap();
    assert!(said.stdout.starts_with(shown), "{}", said.stdout);
}

#[test]
fn the_exit_status_is_the_verdict() {
    assert_eq!(atomsan_with(&["check", "-"], GOOD).code, 0);
    assert_eq!(atomsan_with(&["check", "-"], BAD).code, 66);
    let said = atomsan_with(&["check", "-q", "-"], BAD);
    assert_eq!(said.code, 66);
    assert_eq!(said.stdout + &said.stderr, "");
    assert_eq!(atomsan(&["check"]).code, 2);
    assert_eq!(atomsan(&["check", "no-such-file"]).code, 1);
}

#[test]
fn a_rank_below_fail_on_is_shown_but_not_a_failure() {
    let said = atomsan_with(&["check", "--fail-on", "high", "-"], BAD);
    assert_eq!(said.code, 66, "a lost update is high");
    let pair = b"T1|begin(f)|1\nT1|r(x)|2\nT2|w(x)|3\nT1|r(x)|4\nT1|end(f)|5\n";
    let said = atomsan_with(&["check", "--fail-on", "high", "-"], pair);
    assert_eq!(said.code, 0);
    assert!(said.stdout.contains("non-repeatable-read"));
}

#[test]
fn json_has_the_documented_fields() {
    let said = atomsan_with(&["check", "--json", "--stats", "-"], BAD);
    let json = said.json();
    assert_eq!(json["version"], 1);
    assert_eq!(json["engine"], "velodrome");
    assert_eq!(json["events"], 5);
    assert_eq!(json["engines"][0]["stats"]["transactions"], 1);
    let finding = &json["findings"][0];
    assert_eq!(finding["engine"], "velodrome");
    assert_eq!(finding["status"], "observed");
    assert_eq!(finding["rank"], "high");
    assert_eq!(finding["anomaly"], "lost-update");
    assert_eq!(finding["culprit"]["function"], "f");
    assert_eq!(finding["culprit"]["lines"], serde_json::json!([2, 4]));
    assert_eq!(finding["count"], 1);
    assert_eq!(finding["fingerprint"].as_str().unwrap().len(), 16);
    let step = &finding["witness"][1];
    assert_eq!(step["thread"], "T2");
    assert_eq!(step["op"], "write");
    assert_eq!(step["target"], "x");
    assert_eq!(step["line"], 3);
}

#[test]
fn an_unknown_engine_is_wrong_usage() {
    let said = atomsan_with(&["check", "--engine", "velodrom", "-"], GOOD);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("velodrome"), "{}", said.stderr);
}

#[test]
fn a_bad_line_says_where_and_what_was_expected() {
    let text = b"T1|r(x)|1\nT1|frobnicate(x)|2\nT1|r(x)|3\n";
    let said = atomsan_with(&["check", "-"], text);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("<stdin>:2: "), "{}", said.stderr);
    assert!(said.stderr.contains("--lenient"), "{}", said.stderr);
    let said = atomsan_with(&["check", "--lenient", "--json", "-"], text);
    assert_eq!(said.code, 0);
    assert_eq!(said.json()["events"], 2);
    assert!(said.stderr.contains("1 bad part"), "{}", said.stderr);
}

#[test]
fn first_stops_at_the_first_violation() {
    let twice = [BAD, &BAD.to_ascii_uppercase()].concat();
    let text = String::from_utf8(twice).unwrap();
    let text = text.replace("BEGIN", "begin").replace("END", "end");
    let text = text.replace("R(", "r(").replace("W(", "w(");
    let all = atomsan_with(&["check", "--json", "-"], text.as_bytes());
    assert_eq!(all.json()["findings"].as_array().unwrap().len(), 2);
    let first = atomsan_with(&["check", "--json", "--first", "-"], text.as_bytes());
    assert_eq!(first.json()["findings"].as_array().unwrap().len(), 1);
}

#[test]
fn a_specification_chooses_the_transactions() {
    let log = b"@ Enter(1,A.run)\n@ Enter(1,A.f)\n@ Rd(1,x)\n@ Wr(2,x)\n@ Wr(1,x)\n@ Exit(1,A.f)\n";
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("spec");
    let check = |text: &str| {
        std::fs::write(&spec, text).unwrap();
        atomsan_with(&["check", "--spec", spec.to_str().unwrap(), "-"], log)
    };
    assert_eq!(check("").code, 66);
    assert_eq!(check("!A.f").code, 0);
    assert_eq!(check("B.*").code, 0);
    assert_eq!(check("*").code, 66);
    let bad = check("A.f\nB.[");
    assert_eq!(bad.code, 1);
    assert!(bad.stderr.contains("spec:2: "), "{}", bad.stderr);
}

#[test]
fn without_sync_edges_locks_do_not_order() {
    let text = b"T1|begin(f)|1\nT1|rel(m)|2\nT2|acq(m)|3\nT2|rel(m)|4\nT1|acq(m)|5\nT1|end(f)|6\n";
    assert_eq!(atomsan_with(&["check", "-"], text).code, 66);
    assert_eq!(
        atomsan_with(&["check", "--no-sync-edges", "-"], text).code,
        0
    );
}

#[test]
fn colours_are_for_terminals_or_on_request() {
    let plain = atomsan_with(&["check", "-"], BAD);
    assert!(!plain.stdout.contains('\x1b'));
    let always = atomsan_with(&["check", "--color", "always", "-"], BAD);
    assert!(always.stdout.contains('\x1b'));
}

#[test]
fn the_result_can_go_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result");
    let said = atomsan_with(&["check", "-o", file.to_str().unwrap(), "-"], BAD);
    assert_eq!((said.code, said.stdout.as_str()), (66, ""));
    assert!(
        std::fs::read_to_string(file)
            .unwrap()
            .contains("lost-update")
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_not_an_error() {
    let mut child = command()
        .args(["gen", "--events", "1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut head = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut head).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn all_engines_run_in_one_pass_and_their_verdicts_are_compared() {
    let said = atomsan_with(&["check", "--engine", "all", "-"], BAD);
    assert_eq!(said.code, 66);
    let found = said
        .stdout
        .lines()
        .find(|line| line.contains(": findings: "));
    let found = found.unwrap_or_else(|| panic!("{}", said.stdout));
    for engine in [
        "velodrome",
        "aerodrome",
        "doublechecker",
        "blocks",
        "reduction",
    ] {
        assert!(found.contains(engine), "{found}");
    }
    assert!(!said.stdout.contains("bug in atomsan"));
}

#[test]
fn engines_that_say_the_same_are_one_finding() {
    let said = atomsan_with(
        &[
            "check",
            "--json",
            "--engine",
            "velodrome,doublechecker,blocks",
            "-",
        ],
        BAD,
    );
    let json = said.json();
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{json}");
    assert_eq!(findings[0]["engine"], "velodrome");
    let agreeing = findings[0]["agreeing"].as_array().unwrap();
    let names: Vec<_> = agreeing.iter().map(|other| &other["engine"]).collect();
    assert_eq!(names, ["doublechecker", "blocks"]);
}

#[test]
fn a_second_run_finds_what_the_first_run_points_at() {
    let folder = tempfile::tempdir().unwrap();
    let info = folder.path().join("info");
    let info = info.to_str().unwrap();
    let engine = ["check", "--json", "--engine", "doublechecker"];
    let first = atomsan_with(&[&engine[..], &["--first-run", info, "-"]].concat(), BAD);
    assert_eq!(first.code, 0, "a first run only looks");
    let text = std::fs::read_to_string(info).unwrap();
    assert!(text.contains("region f"), "{text}");
    let second = atomsan_with(&[&engine[..], &["--second-run", info, "-"]].concat(), BAD);
    assert_eq!(second.code, 66);
    let single = atomsan_with(&[&engine[..], &["-"]].concat(), BAD);
    assert_eq!(second.json()["findings"], single.json()["findings"]);
    std::fs::write(info, "nonsense").unwrap();
    let bad = atomsan_with(&[&engine[..], &["--second-run", info, "-"]].concat(), BAD);
    assert_eq!(bad.code, 1);
    assert!(bad.stderr.contains("--first-run"), "{}", bad.stderr);
}

#[test]
fn silver_infers_yields_that_copper_is_content_with() {
    let text = b"T1|r(x)|2\nT2|w(x)|3\nT1|w(x)|4\n";
    let folder = tempfile::tempdir().unwrap();
    let yields = folder.path().join("yields");
    let yields = yields.to_str().unwrap();
    let silver = ["check", "--engine", "silver"];
    let said = atomsan_with(
        &[&silver[..], &["--write-yields", yields, "-"]].concat(),
        text,
    );
    assert_eq!(said.code, 0, "an inference is not a finding");
    assert!(said.stdout.contains("1 yield inferred"), "{}", said.stdout);
    assert!(
        said.stdout.contains("against location 3, once"),
        "{}",
        said.stdout
    );
    let said = atomsan_with(&[&silver[..], &["--against", yields, "-"]].concat(), text);
    assert!(said.stdout.contains("0 new, 1 again"), "{}", said.stdout);
    let copper = ["check", "-q", "--engine", "copper"];
    assert_eq!(atomsan_with(&[&copper[..], &["-"]].concat(), text).code, 66);
    let with = [&copper[..], &["--yields", yields, "-"]].concat();
    assert_eq!(atomsan_with(&with, text).code, 0);
}

#[test]
fn marathon_looks_at_each_set_by_itself() {
    let text = b"T1|begin(f)|1\nT1|w(x)|2\nT2|begin(g)|3\nT2|r(x)|4\nT2|w(y)|5\nT2|end(g)|6\nT1|r(y)|7\nT1|end(f)|8\n";
    let run = |flags: &[&str]| {
        atomsan_with(
            &[&["check", "-q", "--engine", "marathon"], flags, &["-"]].concat(),
            text,
        )
        .code
    };
    assert_eq!(run(&["--one-set"]), 66, "x and y belong together");
    assert_eq!(run(&[]), 0, "x and y are sets of their own");
}

#[test]
fn prediction_finds_what_did_not_happen() {
    let text = b"T1|fork(T2)|0\nT1|begin(f)|1\nT1|acq(l)|2\nT1|r(x)|3\nT1|rel(l)|4\nT1|acq(l)|5\nT1|w(x)|6\nT1|rel(l)|7\nT1|end(f)|8\nT2|begin(g)|9\nT2|acq(l)|10\nT2|w(x)|11\nT2|rel(l)|12\nT2|end(g)|13\n";
    let run = |engine: &str| atomsan_with(&["check", "-q", "--engine", engine, "-"], text).code;
    assert_eq!(run("velodrome"), 0);
    assert_eq!(run("blocks"), 66);
    assert_eq!(run("reduction"), 66);
    assert_eq!(run("atomizer"), 0, "it learns of T2 only after f has ended");
}

#[test]
fn a_limit_that_was_reached_is_said() {
    let mut text = String::new();
    for turn in 0..8 {
        let (thread, x, y) = (turn % 4, turn % 3, (turn + 1) % 3);
        text.push_str(&format!(
            "T{thread}|begin(f{turn})|1\nT{thread}|r(x{x})|2\n"
        ));
        text.push_str(&format!(
            "T{thread}|w(x{y})|{turn}\nT{thread}|end(f{turn})|4\n"
        ));
    }
    let run = |limit: &str| {
        let flags = [
            "check",
            "--engine",
            "blocks",
            "--strength",
            "cyclic",
            "--limit",
            limit,
            "-",
        ];
        atomsan_with(&flags, text.as_bytes()).stdout
    };
    assert!(run("1").contains("raise --limit"), "{}", run("1"));
    assert!(!run("100000000").contains("raise --limit"));
}

#[test]
fn a_result_is_not_written_over_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.std");
    std::fs::write(&trace, BAD).unwrap();
    let name = trace.to_str().unwrap();
    for flag in ["-o", "--first-run", "--write-yields"] {
        let said = atomsan(&["check", "--engine", "all", flag, name, name]);
        assert_eq!(said.code, 2, "{flag}");
        assert!(said.stderr.contains("overwritten"), "{}", said.stderr);
        assert_eq!(std::fs::read(&trace).unwrap(), BAD);
    }
}

#[test]
fn what_makes_a_clean_verdict_hollow_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("spec");
    std::fs::write(&spec, "NoSuchFunction").unwrap();
    let said = atomsan_with(&["check", "--spec", spec.to_str().unwrap(), "-"], BAD);
    assert_eq!(said.code, 0);
    assert!(said.stderr.contains("no function"), "{}", said.stderr);
    let said = atomsan_with(&["check", "--format", "rr", "-"], BAD);
    assert!(said.stderr.contains("no events"), "{}", said.stderr);
    let said = atomsan_with(&["check", "--one-set", "-"], BAD);
    assert!(
        said.stderr.contains("--one-set is not for"),
        "{}",
        said.stderr
    );
    let flags = [
        "check",
        "--engine",
        "doublechecker",
        "--first-run",
        "/dev/null",
        "-",
    ];
    let said = atomsan_with(&flags, BAD);
    assert!(said.stdout.contains("1 region and"), "{}", said.stdout);
    assert!(!said.stdout.contains("clean"), "{}", said.stdout);
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let text = b"T1|begin(f)|1\nT1|r(\x1b[2J\x07x)|2\nT2|w(\x1b[2J\x07x)|3\nT1|w(\x1b[2J\x07x)|4\n";
    let said = atomsan_with(&["check", "-"], text);
    assert_eq!(said.code, 66);
    assert!(!said.stdout.contains(['\x1b', '\x07']), "{:?}", said.stdout);
    assert!(said.stdout.contains("\\u{1b}"), "{}", said.stdout);
}

#[test]
fn first_is_one_finding_for_each_engine() {
    let two = [
        BAD,
        b"T1|begin(g)|11\nT1|r(y)|12\nT2|w(y)|13\nT1|w(y)|14\nT1|end(g)|15\n",
    ]
    .concat();
    let said = atomsan_with(
        &["check", "--json", "--first", "--engine", "all", "-"],
        &two,
    );
    for engine in said.json()["engines"].as_array().unwrap() {
        let count = engine["findings"].as_u64().unwrap();
        assert!(count <= 1, "{engine}");
    }
}

/// Many short threads, four at a time: what is remembered of their order grows with their number, and not with
/// its square.
#[test]
fn many_short_threads_take_memory_for_each_and_not_for_each_pair() {
    let pieces = |rounds: usize| -> usize {
        let mut trace = String::new();
        for round in 0..rounds {
            let threads = 4 * round + 1..4 * round + 5;
            for thread in threads.clone() {
                trace += &format!("T0|fork(T{thread})|1\nT{thread}|begin(f)|2\n");
                trace += &format!("T{thread}|r(x)|3\nT{thread}|w(x)|4\nT{thread}|end(f)|5\n");
            }
            for thread in threads {
                trace += &format!("T0|join(T{thread})|6\nT0|r(x)|7\n");
            }
        }
        let said = atomsan_with(
            &["check", "--engine=blocks", "--stats", "-"],
            trace.as_bytes(),
        );
        let mut lines = said.stdout.lines();
        let line = lines.find_map(|line| line.trim().strip_suffix("pieces of clocks"));
        line.unwrap().trim().replace(',', "").parse().unwrap()
    };
    let [few, many] = [300, 3_000].map(pieces);
    assert!(few > 0 && many < 20 * few, "{few}, {many}");
}
