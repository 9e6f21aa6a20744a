//! Each format, as it is.

use crate::{document, sources};
use atomsan_report::{Document, Rank, Report, Sources, explain, html, junit, sarif, terminal};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

/// In Rust, C and C++.
const PROGRAMS: [&str; 7] = [
    "withdraw-wrong",
    "map-wrong",
    "invariant-wrong",
    "c-withdraw-wrong",
    "c-append-wrong",
    "cpp-map-wrong",
    "cpp-lazy-wrong",
];
/// One in each language.
const LANGUAGES: [&str; 3] = ["withdraw-wrong", "c-append-wrong", "cpp-map-wrong"];

/// The text without its colours.
fn text(report: &Report, sources: &Sources, width: usize) -> String {
    let mut coloured = Vec::new();
    let options = terminal::Options { width, sources };
    terminal::write(&mut coloured, report, &options).unwrap();
    plain(&String::from_utf8(coloured).unwrap())
}

fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or("", |(_, rest)| rest)
    })
}

fn all_text(name: &str, sources: &Sources, width: usize) -> String {
    let findings = document(name).findings;
    findings
        .iter()
        .map(|one| text(one, sources, width))
        .collect()
}

#[test]
fn terminal_with_source() {
    for name in PROGRAMS {
        insta::assert_snapshot!(format!("terminal-{name}"), all_text(name, &sources(), 100));
    }
}

/// The first line that is too long. What cannot be broken is the path in the line that says where, as in
/// rustc: it is there to be clicked at.
fn too_long(text: &str, width: usize) -> Option<&str> {
    text.lines().find(|line| {
        let place = line.trim_start();
        let place = place.starts_with("--> ") || place.starts_with("::: ");
        line.width() > width && !place
    })
}

#[test]
fn no_line_is_longer_than_the_terminal_is_wide() {
    let (with, without) = (sources(), Sources::default());
    for name in PROGRAMS {
        for width in 40..=140 {
            for sources in [&with, &without] {
                let text = all_text(name, sources, width);
                assert_eq!(too_long(&text, width), None, "{name} at {width}:\n{text}");
                assert!(!text.contains("0x"), "no addresses: {text}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the names and the source lines are, as long as a line's indentation leaves room.
    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide_with_any_names(
        width in 40usize..=140,
        names in prop::collection::vec("[a-z:<>_ 漢é]{1,90}", 4),
        lines in prop::collection::vec("(\t| ){0,5}[a-z(){};. 漢\t]{0,160}", 30),
        seen in prop::collection::vec(1u32..30, 3),
        above in prop::sample::select(vec![0, 90, 990, 99_990]),
        anomaly in prop::sample::select(atomsan_report::explain::ALL.iter().map(|one| one.code).collect::<Vec<_>>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("odd.rs"), "\n".repeat(above) + &lines.join("\n")).unwrap();
        let seen: Vec<u32> = seen.iter().map(|line| line + above as u32).collect();
        let mut report = document("withdraw-wrong").findings.remove(0);
        report.anomaly = anomaly.to_owned();
        report.culprit.function = Some(names[0].clone());
        report.culprit.file = Some("odd.rs".to_owned());
        report.culprit.lines = vec![seen[0], seen[2]];
        report.notes.push(names[3].clone());
        for transaction in &mut report.transactions {
            transaction.thread.clone_from(&names[1]);
        }
        for (step, line) in report.witness.iter_mut().zip(&seen) {
            step.thread.clone_from(&names[1]);
            step.target = Some(names[2].clone());
            step.place.function = report.culprit.function.clone();
            step.place.file = Some("odd.rs".to_owned());
            step.place.line = Some(*line);
            step.stack.clear();
        }
        let text = text(&report, &Sources::under(folder.path()), width);
        prop_assert_eq!(too_long(&text, width), None, "{} columns:\n{}", width, text);
    }
}

#[test]
fn terminal_without_source() {
    let text = all_text("invariant-wrong", &Sources::default(), 100);
    insta::assert_snapshot!("terminal-without-source", text);
}

#[test]
fn a_narrow_terminal() {
    let widths = [72, 56, 40].map(|width| all_text("withdraw-wrong", &sources(), width));
    insta::assert_snapshot!("terminal-narrow", widths.concat());
}

/// The lines are what they were when the program was checked, whatever has become of the file.
#[test]
fn sources_in_the_document_go_first() {
    let mut document = document("withdraw-wrong");
    document.keep_sources(&sources());
    assert!(!document.sources.is_empty());
    let kept = Document::read_all(&document.to_line()).unwrap();
    let mut remembered = Sources::default();
    remembered.remember(&kept[0]);
    let report = &kept[0].findings[0];
    assert_eq!(
        text(report, &remembered, 100),
        text(report, &sources(), 100)
    );
}

#[test]
fn names_and_sources_cannot_move_the_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(5000);
    let lines = format!("fn f() {{\r\n\t\t\u{1b}[2Jread();\r\n{long}\r\n}}\r\n");
    let mut bytes = lines.into_bytes();
    bytes.extend(b"\xff\xfe");
    std::fs::write(folder.path().join("odd.rs"), bytes).unwrap();
    let mut report = document("withdraw-wrong").findings.remove(0);
    report.culprit.function = Some("f\u{1b}]0;title\u{7}\nerror: other".to_owned());
    report.culprit.file = Some("odd.rs".to_owned());
    report.culprit.lines = vec![2, 3];
    report.rank = Rank::Low;
    for step in &mut report.witness {
        step.thread = "evil\r\nthread".to_owned();
        step.target = Some(format!("t\u{8}{long}"));
        step.place.function = report.culprit.function.clone();
        step.place.file = Some("odd.rs".to_owned());
        step.place.line = Some(2);
    }
    let text = text(&report, &Sources::under(folder.path()), 100);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest < 200), "{text}");
    insta::assert_snapshot!("terminal-odd", text);
}

#[test]
fn json() {
    for name in PROGRAMS {
        let document = document(name);
        let line = document.to_line();
        assert!(!line.contains('\n'));
        assert_eq!(Document::read_all(&line).unwrap(), [document]);
    }
    for name in LANGUAGES {
        let value: serde_json::Value = serde_json::from_str(&document(name).to_line()).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        insta::assert_snapshot!(format!("json-{name}"), pretty);
    }
}

#[test]
fn sarif() {
    let documents = LANGUAGES.map(document);
    insta::assert_snapshot!("sarif", sarif::render(&documents, &sources()));
}

#[test]
fn html_data() {
    let data = html::data(&PROGRAMS.map(document), &sources());
    let pretty = serde_json::to_string_pretty(&data).unwrap();
    insta::assert_snapshot!("html-data", pretty);
}

#[test]
fn junit() {
    let mut clean = document("withdraw-wrong");
    clean.findings.clear();
    clean.file = "target/clean".to_owned();
    let documents: Vec<Document> = LANGUAGES.map(document).into_iter().chain([clean]).collect();
    insta::assert_snapshot!("junit", junit::render(&documents, &sources()));
}

/// What nextest writes: two tests that succeed and one that fails, and which of them have findings.
#[test]
fn junit_of_nextest() {
    let nextest = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" skipped="0" failures="1" errors="0">
    <testsuite name="bank::it" tests="3" skipped="0" errors="0" failures="1">
        <testcase name="withdraws" classname="bank::it" time="0.018">
            <flakyFailure timestamp="2026-01-01T00:00:00.000+00:00" time="0.010" message="too little" type="test failure with exit code 101"/>
        </testcase>
        <testcase name="pays" classname="bank::it" time="0.011"/>
        <testcase name="fails" classname="bank::it" time="0.496">
            <failure message="too little" type="test failure with exit code 101">panicked</failure>
        </testcase>
    </testsuite>
</testsuites>
"#;
    let test = |name: &str| {
        let mut document = document("withdraw-wrong");
        document.test = Some(atomsan_report::json::Test {
            binary: "bank::it".to_owned(),
            name: name.to_owned(),
        });
        document
    };
    let mut asked = document("withdraw-wrong");
    asked.findings.clear();
    let documents = [asked, test("withdraws"), test("fails")];
    let added = junit::add_findings(nextest, &documents, &sources()).unwrap();
    insta::assert_snapshot!("junit-nextest", added);
    insta::assert_snapshot!("junit-tests", junit::render(&documents, &sources()));
    assert!(junit::add_findings("no XML", &documents, &sources()).is_err());
}

#[test]
fn explanations() {
    insta::assert_snapshot!("explain-list", explain::list());
    let all: Vec<String> = explain::ALL.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("explain", all.join("\n----\n\n"));
}
