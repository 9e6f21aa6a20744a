//! Each format, as it is.

use crate::{document, sources};
use atomsan_report::{Document, Rank, Report, Sources, explain, html, junit, sarif, terminal};

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

/// What a person sees of names and widths in any of them.
#[test]
fn the_terminal_is_wide_enough() {
    for (name, width) in PROGRAMS.iter().flat_map(|name| [(name, 100), (name, 80)]) {
        let text = all_text(name, &sources(), width);
        let long = text.lines().find(|line| line.chars().count() > width);
        assert_eq!(long, None, "{name} at {width}");
        assert!(!text.contains("0x"), "no addresses: {text}");
    }
}

#[test]
fn terminal_without_source() {
    let text = all_text("invariant-wrong", &Sources::default(), 100);
    insta::assert_snapshot!("terminal-without-source", text);
}

#[test]
fn a_narrow_terminal() {
    let text = all_text("withdraw-wrong", &sources(), 72);
    insta::assert_snapshot!("terminal-narrow", text);
    let long = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
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

#[test]
fn explanations() {
    insta::assert_snapshot!("explain-list", explain::list());
    let all: Vec<String> = explain::ALL.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("explain", all.join("\n----\n\n"));
}
