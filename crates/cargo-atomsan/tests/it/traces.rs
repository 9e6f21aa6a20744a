//! `atomsan gen`, `convert` and `stats`: traces of our own making.

use crate::support::{atomsan, atomsan_with};

#[test]
fn a_generated_trace_is_serializable_unless_asked_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.atrace");
    let file = file.to_str().unwrap();
    for (violations, code) in [("0", 0), ("0.1", 66)] {
        for seed in ["1", "2", "3"] {
            let options = [
                "--events",
                "50000",
                "--seed",
                seed,
                "--violations",
                violations,
            ];
            let said = atomsan(&[&["gen", "-o", file], &options[..]].concat());
            assert_eq!((said.code, said.stderr.as_str()), (0, ""));
            let engines = "--engine=velodrome,aerodrome";
            assert_eq!(atomsan(&["check", "-q", engines, file]).code, code);
        }
    }
}

#[test]
fn every_format_gives_the_same_findings() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let std = path("t.std");
    atomsan(&[
        "gen",
        "--events",
        "20000",
        "--violations",
        "0.1",
        "-o",
        &std,
    ]);
    let findings = |file: &str| {
        let json = atomsan(&["check", "--json", file]).json();
        json["findings"].clone()
    };
    let expected = findings(&std);
    assert!(!expected.as_array().unwrap().is_empty());
    for name in [
        "t.atrace",
        "t.std.gz",
        "t.std.zst",
        "t.atrace.zst",
        "t.atrace.gz",
    ] {
        let file = path(name);
        let said = atomsan(&["convert", &std, &file]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{name}");
        assert_eq!(findings(&file), expected, "{name}");
        let back = path("back.std");
        atomsan(&["convert", &file, &back]);
        assert!(
            std::fs::read(&back).unwrap() == std::fs::read(&std).unwrap(),
            "{name} is not the same text again"
        );
    }
}

#[test]
fn a_truncated_binary_trace_is_used_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.atrace");
    let file = file.to_str().unwrap();
    atomsan(&["gen", "--events", "1000000", "-o", file]);
    let bytes = std::fs::read(file).unwrap();
    let whole = atomsan(&["check", "--json", file]).json()["events"].as_u64();
    std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    let said = atomsan(&["check", "--json", file]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("not complete"), "{}", said.stderr);
    let json = said.json();
    assert!(json["events"].as_u64() > Some(0) && json["events"].as_u64() < whole);
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn a_trace_is_not_converted_into_itself() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.std");
    std::fs::write(&file, "T1|r(x)|1\n").unwrap();
    let name = file.to_str().unwrap();
    assert_eq!(atomsan(&["convert", name, name]).code, 2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "T1|r(x)|1\n");
}

#[test]
fn a_format_must_be_known_to_be_written() {
    let said = atomsan_with(&["convert", "-", "/tmp/a.unknown"], b"T1|r(x)|1\n");
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--to"), "{}", said.stderr);
    let said = atomsan_with(&["convert", "--to", "rr", "-", "-"], b"T1|r(x)|1\n");
    assert_eq!(said.code, 2);
}

#[test]
fn stats_count_what_is_there() {
    let text = b"T1|begin(f)|1\nT1|begin(g)|2\nT1|acq(l)|3\nT1|w(x)|4\nT1|rel(l)|5\nT1|end(g)|6\nT1|end(f)|7\nT2|r(x)|8\n";
    let stats = atomsan_with(&["stats", "--json", "-"], text).json();
    for (name, count) in [
        ("events", 8),
        ("threads", 2),
        ("transactions", 1),
        ("regions_begun", 2),
        ("accesses_in_transactions", 1),
        ("accesses_outside", 1),
    ] {
        assert_eq!(stats[name], count, "{name}");
    }
}
