//! SARIF 2.1.0, for code hosts and editors.
//!
//! One run. A rule is an anomaly, with what `explain` says of it. A result's location is where the
//! culprit was split, its related locations are all steps, and its code flow has one thread flow a
//! thread, whose steps carry the order in which they happened across all threads. Files below the
//! base directory are relative to it (`SRCROOT`), so a code host finds them in its checkout.

use crate::accepted::AcceptedBy;
use crate::explain::{self, Explanation};
use crate::gather::gather;
use crate::json::Document;
use crate::rank::Rank;
use crate::resolve::{Place, Report};
use crate::source::Sources;
use crate::story::{self, Told};
use serde_json::{Value, json};
use std::fmt::Write as _;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Code hosts refuse more steps in a result.
const MOST_STEPS: usize = 10_000;

/// All documents as one run.
pub fn render(documents: &[Document], sources: &Sources) -> String {
    let findings = gather(
        documents
            .iter()
            .flat_map(|one| one.findings.clone())
            .collect(),
    );
    let rules: Vec<&Explanation> = (explain::ALL.iter())
        .filter(|rule| findings.iter().any(|one| one.anomaly == rule.code))
        .collect();
    let results = findings.iter().map(|one| result(one, &rules, sources));
    let warnings = documents.iter().flat_map(|document| {
        let file = document.file.as_str();
        let texts = document.warnings.iter();
        texts.map(
            move |text| json!({"level": "warning", "message": {"text": format!("{file}: {text}")}}),
        )
    });
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "atomsan",
                "fullName": "AtomicitySanitizer",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|one| rule(one)).collect::<Vec<_>>(),
            }},
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": warnings.collect::<Vec<_>>(),
            }],
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {"SRCROOT": {
                "description": {"text": "the directory in which atomsan was started"}
            }},
            "results": results.collect::<Vec<_>>(),
        }],
    });
    let mut text = serde_json::to_string_pretty(&log).expect("names and numbers are always JSON");
    text.push('\n');
    text
}

fn rule(one: &Explanation) -> Value {
    let (meaning, example) = (one.meaning, one.example);
    let (fixes, harmless) = (one.fixes, one.harmless);
    let markdown = format!(
        "{meaning}\n\n```text\n{example}\n```\n\n**What to do**\n\n{fixes}\n\n**When it is harmless**\n\n{harmless}\n"
    );
    json!({
        "id": one.code,
        "name": pascal(one.code),
        "shortDescription": {"text": one.title},
        "fullDescription": {"text": one.meaning.replace('\n', " ")},
        "help": {"text": one.to_string(), "markdown": markdown},
    })
}

/// `LostUpdate` for `lost-update`.
fn pascal(code: &str) -> String {
    let words = code.split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}

fn result(finding: &Report, rules: &[&Explanation], sources: &Sources) -> Value {
    let told = story::tell(finding);
    let told = &told[..told.len().min(MOST_STEPS)];
    let culprit = &finding.culprit;
    let lines = || culprit.lines.iter().copied();
    let place = Place {
        function: culprit.function.clone(),
        file: culprit.file.clone(),
        line: lines().min(),
    };
    let mut location = self::location(&place, sources);
    if let (Some(region), Some(last)) = (
        location.pointer_mut("/physicalLocation/region"),
        lines().max(),
    ) {
        region["endLine"] = last.into();
    }
    let mut message = story::headline(finding);
    let _ = write!(message, "\n\n{}", story::help(finding));
    if let Some(doubt) = story::doubt(finding) {
        let _ = write!(message, "\n\nNote: {doubt}.");
    }
    for about in story::about(finding) {
        let _ = write!(message, "\n\n{about}.");
    }
    let _ = write!(message, "\n\n{}.", story::evidence(finding));
    let related = told.iter().map(|step| {
        let mut location = self::location(&step.place, sources);
        location["id"] = step.number.into();
        location["message"] = json!({"text": sentence(step)});
        location
    });
    let mut result = json!({
        "ruleId": finding.anomaly,
        "level": match finding.rank {
            Rank::High => "error",
            Rank::Medium => "warning",
            Rank::Low => "note",
        },
        "message": {"text": message},
        "locations": [location],
        "relatedLocations": related.collect::<Vec<_>>(),
        "partialFingerprints": {"atomsan/v1": finding.fingerprint},
        "occurrenceCount": finding.total.max(1),
        "codeFlows": [{"threadFlows": flows(told, sources)}],
        "properties": {
            "criterion": finding.criterion,
            "status": finding.status,
            "engines": engines(finding),
        },
    });
    if let Some(index) = rules.iter().position(|rule| rule.code == finding.anomaly) {
        result["ruleIndex"] = index.into();
    }
    if let Some(accepted) = &finding.accepted {
        result["suppressions"] = json!([{
            "kind": "external",
            "status": "accepted",
            "justification": accepted.sentence(),
        }]);
        if accepted.by == AcceptedBy::Baseline {
            result["baselineState"] = "unchanged".into();
        }
    }
    if told.is_empty() {
        result
            .as_object_mut()
            .map(|object| object.remove("codeFlows"));
    }
    result
}

fn engines(finding: &Report) -> Vec<&str> {
    let others = finding.agreeing.iter().map(|one| one.engine.as_str());
    [finding.engine.as_str()]
        .into_iter()
        .chain(others)
        .collect()
}

/// One a thread, in the order in which they first appear.
fn flows(told: &[Told], sources: &Sources) -> Vec<Value> {
    let mut threads: Vec<&str> = Vec::new();
    for step in told {
        if !threads.contains(&step.thread.as_str()) {
            threads.push(&step.thread);
        }
    }
    let flow = |thread: &str| {
        let steps = told
            .iter()
            .filter(|step| step.thread == thread)
            .map(|step| {
                let mut location = location(&step.place, sources);
                location["message"] = json!({"text": sentence(step)});
                json!({
                    "executionOrder": step.number,
                    "importance": if step.culprit { "essential" } else { "important" },
                    "location": location,
                })
            });
        json!({"id": thread, "locations": steps.collect::<Vec<_>>()})
    };
    threads.into_iter().map(flow).collect()
}

fn sentence(step: &Told) -> String {
    let mut text = format!("{} {} {}", step.sign(), step.thread, step.action);
    if !step.meaning.is_empty() {
        let _ = write!(text, ", {}", step.meaning);
    }
    text
}

fn location(place: &Place, sources: &Sources) -> Value {
    let mut location = json!({});
    if let Some(file) = &place.file {
        let name = sources.name(file);
        let mut artifact = json!({"uri": uri(&name)});
        if !name.starts_with('/') {
            artifact["uriBaseId"] = "SRCROOT".into();
        }
        location["physicalLocation"] = json!({"artifactLocation": artifact});
        if let Some(line) = place.line.filter(|line| *line > 0) {
            location["physicalLocation"]["region"] = json!({"startLine": line});
        }
    }
    if let Some(function) = &place.function {
        location["logicalLocations"] =
            json!([{"fullyQualifiedName": function, "kind": "function"}]);
    }
    location
}

/// A path as a URI reference.
fn uri(path: &str) -> String {
    let mut text = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                text.push(byte as char);
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_uris() {
        assert_eq!(uri("src/a b#.rs"), "src/a%20b%23.rs");
        assert_eq!(uri("/tmp/ä.rs"), "file:///tmp/%C3%A4.rs");
    }

    #[test]
    fn rules_have_names() {
        assert_eq!(pascal("non-repeatable-read"), "NonRepeatableRead");
    }
}
