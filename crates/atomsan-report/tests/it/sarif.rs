//! What we write is SARIF, says its schema. The schema is not ours to keep: it comes with the
//! sources of `serde-sarif`.

use crate::{document, sources};
use atomsan_report::sarif;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn schema() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        // What other platforms need may not be there.
        .args(["metadata", "--format-version=1", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|one| one["name"] == "serde-sarif");
    let manifest = package.unwrap()["manifest_path"].as_str().unwrap();
    let path = Path::new(manifest)
        .with_file_name("src")
        .join("schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn it_is_valid() {
    let mut schema = schema();
    // The schema's pattern for languages is not a regular expression; we name no language.
    for object in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][object]["properties"]["language"];
        language.as_object_mut().unwrap().remove("pattern");
    }
    assert!(
        schema["title"]
            .as_str()
            .unwrap()
            .contains("SARIF) Version 2.1.0")
    );
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut bare = document("withdraw-wrong");
    for finding in &mut bare.findings {
        finding.culprit.file = None;
        finding.culprit.lines.clear();
        finding.witness.clear();
        finding.edges.clear();
    }
    let mut empty = document("withdraw-wrong");
    empty.findings.clear();
    empty.warnings.push("something is odd".to_owned());
    let some = vec![
        document("withdraw-wrong"),
        document("map-wrong"),
        document("invariant-wrong"),
    ];
    for documents in [some, vec![bare], vec![empty], vec![]] {
        let text = sarif::render(&documents, &sources());
        let log: Value = serde_json::from_str(&text).unwrap();
        let errors: Vec<String> = (validator.iter_errors(&log))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, [] as [String; 0]);
        let _typed: serde_sarif::sarif::Sarif = serde_json::from_str(&text).unwrap();
    }
}

/// One thread flow a thread, and the numbers say the order across them.
#[test]
fn threads_flow_in_order() {
    let text = sarif::render(&[document("withdraw-wrong")], &sources());
    let log: Value = serde_json::from_str(&text).unwrap();
    let flows = log["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"]
        .as_array()
        .unwrap();
    assert_eq!(flows.len(), 2);
    let mut order: Vec<u64> = (flows.iter())
        .flat_map(|flow| flow["locations"].as_array().unwrap())
        .map(|step| step["executionOrder"].as_u64().unwrap())
        .collect();
    order.sort_unstable();
    assert_eq!(order, [1, 2, 3]);
    let uri = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(uri["uri"], "tests/programs/rust/src/bin/withdraw-wrong.rs");
    assert_eq!(uri["uriBaseId"], "SRCROOT");
}
