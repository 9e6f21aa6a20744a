//! Suppressions and the baseline.

use crate::support::{Said, command, root};
use std::fs;
use std::path::Path;

/// The example's finding is a lost update in `bank/Account.withdraw(I)Z` of `Account.java`.
fn check(directory: &Path, arguments: &[&str]) -> Said {
    command()
        .current_dir(directory)
        .arg("check")
        .arg(root().join("examples/withdraw.rr").canonicalize().unwrap())
        .args(arguments)
        .output()
        .unwrap()
        .into()
}

fn suppressed(what: &str) -> Said {
    let out = tempfile::tempdir().unwrap();
    let config = format!("[[suppress]]\n{what}\nreason = \"known since 2019\"\n");
    fs::write(out.path().join("atomsan.toml"), config).unwrap();
    let said = check(out.path(), &["--json"]);
    let text = check(out.path(), &[]);
    assert_eq!(said.code, text.code);
    let finding = &said.json()["findings"][0];
    let accepted = &finding["accepted"];
    if said.code == 0 {
        assert_eq!(accepted["by"], "suppression");
        assert_eq!(accepted["place"], "atomsan.toml:1");
        assert_eq!(accepted["reason"], "known since 2019");
        assert!(
            text.stdout.contains("not counted: 1 suppressed"),
            "{}",
            text.stdout
        );
        assert!(!text.stdout.contains("error["), "{}", text.stdout);
        assert!(!text.stderr.contains("not used"), "{}", text.stderr);
    } else {
        assert!(accepted.is_null());
        assert!(text.stdout.contains("error[lost-update]"));
        assert!(
            text.stderr
                .contains("warning: atomsan.toml:1: this suppression is not used"),
            "{}",
            text.stderr
        );
    }
    text
}

#[test]
fn each_criterion_of_a_suppression() {
    for (what, code) in [
        ("function = \"bank/*withdraw*\"", 0),
        ("function = \"withdraw\"", 66),
        ("file = \"Account.java\"", 0),
        ("file = \"*/Account.java\"", 66),
        ("anomaly = \"lost-update\"", 0),
        ("anomaly = \"cycle\"", 66),
        ("engine = \"velodrome\"", 0),
        ("engine = \"blocks\"", 66),
        ("fingerprint = \"0123456789abcdef\"", 66),
        ("anomaly = \"lost-update\"\nengine = \"velodrome\"", 0),
        ("anomaly = \"lost-update\"\nengine = \"blocks\"", 66),
    ] {
        assert_eq!(suppressed(what).code, code, "{what}");
    }
    let out = tempfile::tempdir().unwrap();
    let json = check(out.path(), &["--json"]).json();
    let fingerprint = json["findings"][0]["fingerprint"].as_str().unwrap();
    assert_eq!(
        suppressed(&format!("fingerprint = \"{fingerprint}\"")).code,
        0
    );
}

/// What several engines have found is not the business of one.
#[test]
fn an_engine_is_suppressed_alone() {
    let out = tempfile::tempdir().unwrap();
    let config = "[[suppress]]\nengine = \"velodrome\"\nreason = \"r\"\n";
    fs::write(out.path().join("atomsan.toml"), config).unwrap();
    let said = check(out.path(), &["--engine=velodrome,aerodrome"]);
    assert_eq!(said.code, 66, "{}", said.stdout);
}

#[test]
fn a_baseline_makes_only_new_findings_count() {
    let out = tempfile::tempdir().unwrap();
    let said = check(out.path(), &["--write-baseline", "known.txt"]);
    assert_eq!(
        said.code, 0,
        "what is accepted does not fail: {}",
        said.stdout
    );
    assert!(
        said.stdout.contains("known.txt: 1 finding accepted"),
        "{}",
        said.stdout
    );
    let text = fs::read_to_string(out.path().join("known.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "# atomsan baseline 1");
    assert!(
        lines[1].ends_with(" lost-update bank/Account.withdraw(I)Z (Account.java)"),
        "{text}"
    );
    assert_eq!(lines.len(), 2);

    let said = check(out.path(), &["--baseline", "known.txt"]);
    assert_eq!(said.code, 0);
    assert!(
        said.stdout.contains("not counted: 1 in the baseline"),
        "{}",
        said.stdout
    );
    let json = check(out.path(), &["--baseline", "known.txt", "--json"]).json();
    let accepted = &json["findings"][0]["accepted"];
    assert_eq!(
        (&accepted["by"], &accepted["place"]),
        (&"baseline".into(), &"known.txt".into())
    );

    // Another one is in it, and this one is not: it is new, and the other one is gone.
    let other = "# atomsan baseline 1\n00000000000000aa lost-update bank::audit (src/bank.rs)\n";
    fs::write(out.path().join("other.txt"), other).unwrap();
    let said = check(out.path(), &["--baseline", "other.txt"]);
    assert_eq!(said.code, 66);
    assert!(
        said.stdout.contains(
            "1 of 1 findings in the baseline were not seen this time:\n  lost-update bank::audit"
        ),
        "{}",
        said.stdout
    );
    // Both: what was accepted stays accepted.
    let both = ["--baseline", "other.txt", "--write-baseline", "other.txt"];
    assert_eq!(check(out.path(), &both).code, 0);
    let text = fs::read_to_string(out.path().join("other.txt")).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn a_baseline_named_in_the_configuration() {
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("atomsan.toml"), "baseline = \"known.txt\"").unwrap();
    let said = check(out.path(), &[]);
    assert_eq!(said.code, 1);
    assert!(
        said.stderr.contains("--write-baseline makes one"),
        "{}",
        said.stderr
    );
    assert_eq!(check(out.path(), &["--write-baseline=known.txt"]).code, 0);
    fs::create_dir(out.path().join("inner")).unwrap();
    assert_eq!(
        check(&out.path().join("inner"), &[]).code,
        0,
        "beside the configuration"
    );
}

#[test]
fn a_file_that_is_no_baseline() {
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("known.txt"), "{}").unwrap();
    let said = check(out.path(), &["--baseline=known.txt"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("known.txt:1: this is not a baseline"),
        "{}",
        said.stderr
    );
}
