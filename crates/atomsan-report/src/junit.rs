//! JUnit's XML, for the test pages of CI servers.
//!
//! nextest writes a file of its own with the tests of the program, and knows nothing of findings; so
//! this is a second file beside it. A test suite is a process or a trace, with a test case for each
//! finding in it, which fails, or is skipped if the finding is accepted; one without findings has
//! one case, which succeeds, so that a server shows that something was checked.

use crate::json::Document;
use crate::resolve::Report;
use crate::source::Sources;
use crate::story;
use quick_junit::{NonSuccessKind, Report as Suites, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

/// The XML.
pub fn render(documents: &[Document], sources: &Sources) -> String {
    let mut suites = Suites::new("atomsan");
    for document in documents {
        let mut suite = TestSuite::new(sources.name(&document.file));
        suite.set_time(Duration::try_from_secs_f64(document.seconds).unwrap_or_default());
        if document.findings.is_empty() {
            suite.add_test_case(TestCase::new("atomicity", TestCaseStatus::success()));
        }
        for finding in &document.findings {
            suite.add_test_case(case(finding, sources));
        }
        suites.add_test_suite(suite);
    }
    let mut bytes = Vec::new();
    suites
        .serialize(&mut bytes)
        .expect("memory can be written to");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn case(finding: &Report, sources: &Sources) -> TestCase {
    let file = finding
        .culprit
        .file
        .as_deref()
        .map(|file| sources.name(file));
    let status = match &finding.accepted {
        Some(accepted) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(accepted.sentence());
            status
        }
        None => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status
                .set_type(finding.anomaly.as_str())
                .set_message(story::headline(finding))
                .set_description(description(finding, file.as_deref()));
            status
        }
    };
    let name = format!(
        "{} is atomic ({})",
        story::who(finding),
        finding.fingerprint
    );
    let mut case = TestCase::new(name, status);
    if let Some(file) = &file {
        case.extra.insert("file".into(), file.as_str().into());
    }
    if let Some(line) = finding.culprit.lines.first() {
        case.extra.insert("line".into(), line.to_string().into());
    }
    case.set_classname(file.unwrap_or_else(|| "atomsan".to_owned()));
    case
}

fn description(finding: &Report, file: Option<&str>) -> String {
    let mut lines: Vec<String> = story::between(finding, file).into_iter().collect();
    for step in story::tell(finding) {
        let at = match (&step.place.function, step.place.line) {
            (Some(function), Some(line)) => format!("line {line} of `{function}`"),
            (None, Some(line)) => format!("line {line}"),
            (Some(function), None) => format!("`{function}`"),
            (None, None) => "an unknown place".to_owned(),
        };
        let meaning = match step.meaning.as_str() {
            "" => String::new(),
            meaning => format!(", {meaning}"),
        };
        let (sign, thread, action) = (step.sign(), &step.thread, &step.action);
        lines.push(format!("{sign} {thread} {action}, at {at}{meaning}"));
    }
    lines.extend(story::about(finding));
    lines.push(format!("help: {}", story::help(finding)));
    lines.push(story::evidence(finding));
    lines.join("\n")
}
