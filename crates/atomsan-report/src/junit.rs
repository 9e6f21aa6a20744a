//! JUnit's XML, for the test pages of CI servers.
//!
//! A test suite is a process or a trace, with a test case for each finding in it, which fails, or is
//! skipped if the finding is accepted; one without findings has one case, which succeeds, so that a
//! server shows that something was checked.
//!
//! nextest writes a file of its own with the tests of the program, and knows nothing of findings. They
//! are [added](add_findings) to it: there, the test fails that has one.

use crate::json::Document;
use crate::resolve::Report;
use crate::source::Sources;
use crate::story;
use quick_junit::{
    DeserializeError, NonSuccessKind, Report as Suites, TestCase, TestCaseStatus, TestSuite,
};
use std::time::Duration;

/// The XML.
pub fn render(documents: &[Document], sources: &Sources) -> String {
    let mut suites = Suites::new("atomsan");
    // nextest asks each binary first which tests it has, which is no test.
    let tests = documents.iter().any(|document| document.test.is_some());
    let is_asked = |one: &&Document| tests && one.test.is_none() && one.findings.is_empty();
    for document in documents.iter().filter(|one| !is_asked(one)) {
        let name = match &document.test {
            Some(test) => format!("{} {}", test.binary, test.name),
            None => sources.name(&document.file),
        };
        let mut suite = TestSuite::new(name);
        suite.set_time(Duration::try_from_secs_f64(document.seconds).unwrap_or_default());
        if document.findings.is_empty() {
            suite.add_test_case(TestCase::new("atomicity", TestCaseStatus::success()));
        }
        for finding in &document.findings {
            suite.add_test_case(case(finding, sources));
        }
        suites.add_test_suite(suite);
    }
    text(&suites)
}

fn text(suites: &Suites) -> String {
    let mut bytes = Vec::new();
    suites
        .serialize(&mut bytes)
        .expect("memory can be written to");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Adds findings to the file that nextest has written about the tests they were found in: a test with
/// findings fails; one that had failed anyway says so besides.
pub fn add_findings(
    nextest: &str,
    documents: &[Document],
    sources: &Sources,
) -> Result<String, DeserializeError> {
    let mut suites = Suites::deserialize_from_str(nextest)?;
    let mut failures = 0;
    for suite in &mut suites.test_suites {
        for case in &mut suite.test_cases {
            let is_it = |document: &&Document| {
                let test = document.test.as_ref();
                test.is_some_and(|test| {
                    test.binary == suite.name.as_str() && test.name == case.name.as_str()
                })
            };
            // A test that is tried again, or that starts processes, has several documents.
            let of_it = documents.iter().filter(is_it);
            let findings: Vec<&Report> = of_it.flat_map(|document| &document.findings).collect();
            let Some(worst) = findings.iter().max_by_key(|finding| finding.rank) else {
                continue;
            };
            let told: Vec<String> = (findings.iter())
                .map(|finding| {
                    let file = finding.culprit.file.as_deref();
                    let file = file.map(|file| sources.name(file));
                    let headline = story::headline(finding);
                    format!("{headline}\n{}", description(finding, file.as_deref()))
                })
                .collect();
            let told = told.join("\n\n");
            if let TestCaseStatus::NonSuccess { description, .. } = &mut case.status {
                let before = description.take();
                let before = before.as_ref().map_or("", |text| text.as_str());
                *description = Some(format!("{before}\n\n{told}").into());
                continue;
            }
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status
                .set_type(worst.anomaly.as_str())
                .set_message(story::headline(worst))
                .set_description(told);
            // The attempts before the one that succeeded.
            if let TestCaseStatus::Success { flaky_runs } = &mut case.status {
                status.add_reruns(std::mem::take(flaky_runs));
            }
            case.status = status;
            suite.failures += 1;
            failures += 1;
        }
    }
    suites.failures += failures;
    Ok(text(&suites))
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
