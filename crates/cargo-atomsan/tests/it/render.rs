//! The formats, from the front door.

use crate::support::{atomsan, command, root};

const TRACE: &str = "examples/withdraw.rr";

/// What differs from run to run.
fn steady(mut value: serde_json::Value) -> serde_json::Value {
    for field in ["seconds", "peak_memory"] {
        if let Some(number) = value.get_mut(field) {
            assert!(number.as_f64().unwrap() > 0.0);
            *number = 1.into();
        }
    }
    value
}

#[test]
fn a_trace_as_text_and_for_programs() {
    let text = atomsan(&["check", TRACE]);
    assert_eq!(text.code, 66);
    insta::assert_snapshot!("check-text", text.stdout);
    let json = steady(atomsan(&["check", "--json", TRACE]).json());
    let pretty = serde_json::to_string_pretty(&json).unwrap();
    insta::assert_snapshot!("check-json", pretty);
    let sarif = atomsan(&["check", "--sarif", TRACE]);
    insta::assert_snapshot!("check-sarif", sarif.stdout);
    let xml = atomsan(&["check", "--junit", TRACE]).stdout;
    let time = xml
        .split("time=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let xml = xml.replace(&format!("time=\"{time}\""), "time=\"1\"");
    insta::assert_snapshot!("check-junit", xml);
    let html = atomsan(&["check", "--html", TRACE]);
    assert!(html.stdout.starts_with("<!doctype html>"));
    assert!(html.stdout.contains("bank/Account.withdraw"));
}

#[test]
fn one_format_at_a_time() {
    let both = atomsan(&["check", "--json", "--html", TRACE]);
    assert_eq!(both.code, 2, "{}", both.stderr);
}

/// Several traces are one report, but one JSON object each.
#[test]
fn several_traces() {
    let json = atomsan(&["check", "--json", TRACE, TRACE]);
    assert_eq!(json.stdout.lines().count(), 2);
    let sarif = atomsan(&["check", "--sarif", TRACE, TRACE]).json();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["occurrenceCount"], 2 * count());
}

fn count() -> u64 {
    let json = atomsan(&["check", "--json", TRACE]).json();
    json["findings"][0]["total"].as_u64().unwrap()
}

/// A program's output is its own; a whole file needs a name.
#[test]
fn a_run_needs_a_file() {
    let refused = atomsan(&["run", "--html", "true"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("--html -o FILE"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_run_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = root().join("tests/programs/c/withdraw-wrong.c");
    let built = command()
        .arg("cc")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(built.status.success());
    for (flag, sign) in [
        ("--sarif", "\"ruleId\": \"lost-update\""),
        ("--html", "`withdraw` is not atomic"),
        ("--junit", "type=\"lost-update\""),
        ("--json", "\"anomaly\":\"lost-update\""),
    ] {
        let file = folder.path().join("result");
        let run = command()
            .args(["run", flag, "-o"])
            .arg(&file)
            .arg(&program)
            .output()
            .unwrap();
        assert_eq!(
            run.status.code(),
            Some(66),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(sign), "{flag}: {text}");
    }
}

/// Yields and the interference density, for a person, for programs and as a map; and again without
/// the program.
#[test]
fn yields_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = root().join("tests/programs/c/withdraw-wrong.c");
    std::fs::copy(source, folder.path().join("prog.c")).unwrap();
    let atomsan = |arguments: &[&str]| {
        let mut command = command();
        command.current_dir(folder.path());
        command.env("XDG_CACHE_HOME", folder.path().join("cache"));
        let output = command.args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    };
    atomsan(&["cc", "prog.c", "-o", "program"]);
    let program = program.to_str().unwrap();
    let yields = |more: &[&str]| atomsan(&[&["yields", "--noise"], more, &[program]].concat()).1;
    // How often they are needed depends on the schedule.
    let text = yields(&[]);
    let steady: Vec<String> = (text.lines())
        .map(|line| match line.rsplit_once(", ") {
            Some((place, _)) if line.starts_with(' ') => place.to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    insta::assert_snapshot!("yields", steady.join("\n"));
    yields(&["--html", "-o", "page.html"]);
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    yields(&["--json", "-o", "yields.json"]);
    let json = std::fs::read_to_string(folder.path().join("yields.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(
        json["engines"][0]["product"]
            .as_str()
            .unwrap()
            .contains("prog.c:13"),
        "{json}"
    );
    let (page, _) = atomsan(&["report", "--html"]);
    assert!(page.contains("\"cooperative\":"), "the density is kept");
}

#[test]
fn codes_are_explained() {
    let list = atomsan(&["explain"]);
    assert_eq!(list.code, 0);
    for code in list
        .stdout
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
    {
        let said = atomsan(&["explain", code]);
        assert_eq!(said.code, 0);
        assert!(said.stdout.starts_with(code));
    }
    let misspelt = atomsan(&["explain", "lost-updates"]);
    assert_eq!(misspelt.code, 2);
    assert!(
        misspelt.stderr.contains("did you mean `lost-update`?"),
        "{}",
        misspelt.stderr
    );
}

/// Two shards that show the same mistake and one with another, merged; for a program and for a person.
#[test]
fn what_is_merged_and_told_again() {
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("all.json");
    let all = all.to_str().unwrap();
    let shards = ["withdraw-wrong", "c-append-wrong", "withdraw-wrong"];
    let shards = shards.map(|name| format!("crates/atomsan-report/tests/documents/{name}.json"));
    let merged = atomsan(&["merge", &shards[0], &shards[1], &shards[2], "-o", all]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(all).unwrap()).unwrap();
    let pretty = serde_json::to_string_pretty(&json).unwrap();
    insta::assert_snapshot!("merged-json", pretty);
    insta::assert_snapshot!("merged-text", atomsan(&["report", all]).stdout);
}

/// What is accepted from now on, as a file.
#[test]
fn a_baseline_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known.txt");
    let said = atomsan(&["check", TRACE, "--write-baseline", known.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    insta::assert_snapshot!("baseline", std::fs::read_to_string(known).unwrap());
}
