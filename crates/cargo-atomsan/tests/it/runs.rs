//! Several runs with another noise each are one result: a mistake is one finding, whichever runs show
//! it, and says which.

use crate::online::{compile, run};
use crate::support::command;

/// The number in front of a word.
fn number(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap();
    let digits = before.split_whitespace().last().unwrap();
    digits.replace(',', "").parse().unwrap()
}

#[test]
fn a_mistake_in_several_runs_is_one_finding() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(out.path(), "once-wrong");
    let all = [
        "--engine",
        "doublechecker",
        "--runs",
        "8",
        "--noise-seed",
        "1",
    ];
    let said = run(&program, &all);
    assert_eq!(said.code, 66, "{}", said.stderr);
    let shown = said.stderr.matches("`take_seat` is not atomic:").count();
    assert_eq!(shown, 1, "{}", said.stderr);
    let note = said.stderr.split("seen in ").nth(1).unwrap();
    let note = note.split_whitespace().collect::<Vec<_>>().join(" ");
    let seen = number(&note, " of 8 runs");
    assert!((1..=8).contains(&seen), "{note}");
    let seeds = note.split("--noise-seed ").nth(1).unwrap();
    let seeds: Vec<u64> = seeds
        .split(|other: char| !other.is_ascii_digit())
        .map_while(|seed| match seed {
            "" => Some(0),
            seed => seed.parse().ok(),
        })
        .filter(|seed| (1..=8).contains(seed))
        .take(seen as usize)
        .collect();
    assert_eq!(seeds.len() as u64, seen, "{note}");
    let last = (said.stderr.lines()).rfind(|line| line.starts_with("atomsan: 1 finding"));
    let last = last.unwrap_or_else(|| panic!("{}", said.stderr));
    assert!(
        last.ends_with("of 24 threads in 8 processes of 8 runs"),
        "{last}"
    );
    let first = (said.stderr.lines()).find(|line| line.starts_with("atomsan: run "));
    let first = first.unwrap_or_else(|| panic!("{}", said.stderr));
    assert!(
        first.contains(&format!("run {} of 8: `take_seat`", seeds[0])),
        "{first}"
    );

    // What the line says makes the same noise again; the system's part in the schedule is its own.
    let seed = seeds[0].to_string();
    let again = (0..20).any(|_| {
        let arguments = [
            "--engine",
            "doublechecker",
            "--noise=16",
            "--noise-seed",
            &seed,
        ];
        let said = run(&program, &arguments);
        let repeats = said
            .stderr
            .contains(&format!("--noise=16 --noise-seed {seed}"));
        assert_eq!(said.code == 66, repeats, "{}", said.stderr);
        said.code == 66
    });
    assert!(again);
}

#[test]
fn counts_add_up_in_documents() {
    let out = tempfile::tempdir().unwrap();
    let program = compile(out.path(), "counter-wrong");
    for online in [&["--online"][..], &[]] {
        let said = command()
            .args([
                "run",
                "--runs",
                "3",
                "--engine",
                "doublechecker",
                "--json",
                "-o",
                "-",
            ])
            .args(online)
            .arg(&program)
            .output()
            .unwrap();
        let text = String::from_utf8(said.stdout).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).expect("one document");
        assert_eq!(document["merged"]["processes"], 3);
        let findings = document["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1, "{text}");
        let notes = findings[0]["notes"].to_string();
        assert!(
            notes.contains(" of 3 runs, with --noise=16 --noise-seed "),
            "{notes}"
        );
        let violations = &document["engines"][0]["violations"];
        let total = &findings[0]["total"];
        assert!(total.as_u64() >= Some(1) && violations.as_u64() >= total.as_u64());
        assert_eq!(said.status.code(), Some(66));
    }
}
