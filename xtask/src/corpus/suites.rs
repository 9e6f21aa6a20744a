//! Test suites of well-tested crates: does each test end as it does without us, how long does it take,
//! and what is found in the crates' own functions?
//!
//! The sources come from the registry by `cargo metadata` of a package that depends on all of them, as
//! they come to everybody. Unit and integration tests are run, examples in the documentation are not.

use super::bugs::{SUITES, Suite};
use super::{Found, copy, findings, keep, kept, process};
use crate::Result;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const START: &str = "<!-- table: cargo xtask corpus --suites -->\n";
const HEAD: &str = "\
| crate | tests | end differently | seconds native | seconds checked | times | seconds of the check | MB of the check | events | findings: high, medium |
|---|---|---|---|---|---|---|---|---|---|
";
/// Recordings are kept small.
const MEMORY: &str = "300M";
const TIMEOUT: Duration = Duration::from_secs(600);

pub(super) fn run(atomsan: &Path, scratch: &Path, names: &[&str]) -> Result<()> {
    let suites: Vec<&Suite> = (SUITES.iter())
        .filter(|suite| names.is_empty() || names.contains(&suite.package))
        .collect();
    let sources = fetch(&suites, &scratch.join("sources"))?;
    print!("{HEAD}");
    for suite in suites {
        let mut found = String::new();
        let from = sources.get(suite.package).ok_or("not fetched")?;
        let directory = scratch.join(suite.package);
        let row = one(atomsan, suite, from, &directory, &mut found);
        if directory.is_dir() {
            std::fs::remove_dir_all(&directory)?;
        }
        let row = row?;
        print!("{row}");
        keep(START, &renewed(&kept(START)?, suite.package, &row, &found))?;
    }
    Ok(())
}

/// The table with another row and other findings of a crate: suites take long, and are run one by one.
fn renewed(table: &str, package: &str, row: &str, found: &str) -> String {
    let others = |start: &str, own: &str| -> String {
        let lines = table.lines().filter(|line| line.starts_with(start));
        let lines = lines.filter(|line| !line.starts_with(own) && !HEAD.contains(line));
        lines.map(|line| format!("{line}\n")).collect()
    };
    let rows = others("| ", &format!("| {package} |"));
    let findings = others("- ", &format!("- {package},"));
    format!("{HEAD}{rows}{row}\nFindings:\n\n{findings}{found}\n")
}

/// Where the sources of the newest versions are.
fn fetch(suites: &[&Suite], directory: &Path) -> Result<BTreeMap<String, PathBuf>> {
    std::fs::create_dir_all(directory.join("src"))?;
    std::fs::write(directory.join("src/lib.rs"), "")?;
    let mut manifest = String::from(
        "[package]\nname = \"suites\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n",
    );
    for Suite { package, features } in suites {
        writeln!(
            manifest,
            "{package} = {{ version = \"*\", features = {features:?} }}"
        )?;
    }
    std::fs::write(directory.join("Cargo.toml"), manifest)?;
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1"])
        .current_dir(directory)
        .stderr(Stdio::inherit())
        .output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let mut sources = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |name: &str| package[name].as_str().unwrap_or_default();
        if let Some(directory) = Path::new(text("manifest_path")).parent() {
            let newest = sources.entry(text("name").to_owned());
            newest.insert_entry(directory.to_owned());
        }
    }
    Ok(sources)
}

/// What a run of all tests was like.
#[derive(Default)]
struct Outcome {
    /// How each test ended, by binary and name.
    tests: BTreeMap<String, String>,
    /// What the test binaries say they took.
    seconds: f64,
    /// Whether it all ended in time.
    in_time: bool,
}

fn one(
    atomsan: &Path,
    suite: &Suite,
    from: &Path,
    directory: &Path,
    findings_of: &mut String,
) -> Result<String> {
    copy(from, directory)?;
    // The toolchain is ours, whatever its authors use.
    for pinned in ["rust-toolchain", "rust-toolchain.toml"] {
        let pinned = directory.join(pinned);
        if pinned.exists() {
            std::fs::remove_file(pinned)?;
        }
    }
    let manifest = directory.join("Cargo.toml");
    let mut text = std::fs::read_to_string(&manifest)?;
    if !text.contains("[workspace]") {
        text.push_str("\n[workspace]\n");
        std::fs::write(&manifest, text)?;
    }
    let output = directory.join("findings.json");
    let native = tests(Command::new("cargo").arg("test"), suite, directory)?;
    let mut checked = Command::new(atomsan);
    checked.args(["cargo", "test", "--memory", MEMORY, "--json", "-o"]);
    let checked = tests(checked.arg(&output), suite, directory)?;
    let differ: Vec<_> = (native.tests.iter())
        .filter(|(name, end)| checked.tests.get(*name) != Some(end))
        .map(|(name, end)| {
            let now = checked.tests.get(name).map_or("missing", |end| end);
            format!("{name}: {end}, {now}")
        })
        .collect();
    let mut found = findings(&output)?;
    found.sort_by(|a, b| (&a.rank, &a.function, &a.lines).cmp(&(&b.rank, &b.function, &b.lines)));
    found.dedup_by(|a, b| (&a.rank, &a.function, &a.lines) == (&b.rank, &b.function, &b.lines));
    let count = |rank: &str| found.iter().filter(|found| found.rank == rank).count();
    for Found {
        rank,
        function,
        lines,
        anomaly,
        ..
    } in &found
    {
        let line = format!(
            "- {}, {rank}: `{function}` {lines}: {anomaly}",
            suite.package
        );
        println!("{line}");
        writeln!(findings_of, "{line}")?;
    }
    let check = Check::read(&output)?;
    Ok(format!(
        "| {} | {} | {} | {:.2} | {:.2} | {:.1} | {:.0} | {} | {} | {}, {} |\n",
        suite.package,
        native.tests.len(),
        match (checked.in_time, differ.is_empty()) {
            (true, true) => "none".to_owned(),
            (true, false) => differ.join("; "),
            (false, _) => format!("not over in time; {}", differ.join("; ")),
        },
        native.seconds,
        checked.seconds,
        checked.seconds / native.seconds.max(0.01),
        check.seconds,
        check.bytes >> 20,
        check.events,
        count("high"),
        count("medium"),
    ))
}

/// What the check of all test binaries was like.
#[derive(Default)]
struct Check {
    events: u64,
    seconds: f64,
    /// The most memory it had.
    bytes: u64,
}

impl Check {
    fn read(output: &Path) -> Result<Check> {
        let mut check = Check::default();
        for line in std::fs::read_to_string(output).unwrap_or_default().lines() {
            let document: serde_json::Value = serde_json::from_str(line)?;
            let number = |name: &str| document[name].as_u64().unwrap_or(0);
            check.events += number("events");
            check.seconds += document["seconds"].as_f64().unwrap_or(0.0);
            check.bytes = check.bytes.max(number("peak_memory"));
        }
        Ok(check)
    }
}

/// Builds and runs the unit and integration tests.
fn tests(command: &mut Command, suite: &Suite, directory: &Path) -> Result<Outcome> {
    let mut arguments = vec![
        "--lib".to_owned(),
        "--tests".into(),
        "--no-fail-fast".into(),
    ];
    arguments.extend(
        suite
            .features
            .iter()
            .map(|feature| format!("--features={feature}")),
    );
    command
        .args(&arguments)
        .current_dir(directory)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("LD_LIBRARY_PATH")
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null());
    let log = directory.join("tests.log");
    // Once to build, and once to measure.
    let mut build = Command::new(command.get_program());
    let first: Vec<_> = (command.get_args())
        .filter(|argument| {
            !matches!(
                argument.to_str(),
                Some("--json" | "-o" | "--memory" | MEMORY)
            )
        })
        .filter(|argument| !argument.to_string_lossy().ends_with("findings.json"))
        .collect();
    let built = build
        .args(first)
        .arg("--no-run")
        .current_dir(directory)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("LD_LIBRARY_PATH")
        .env("CARGO_INCREMENTAL", "0")
        .stderr(Stdio::null())
        .status()?;
    if !built.success() {
        return Err(format!("{} does not build", suite.package).into());
    }
    let file = std::fs::File::create(&log)?;
    command.stderr(file.try_clone()?).stdout(file);
    let ended = process::run(command, TIMEOUT)?;
    let mut outcome = read(&std::fs::read_to_string(&log)?);
    outcome.in_time = ended.in_time;
    Ok(outcome)
}

/// What the test binaries said.
fn read(log: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut binary = String::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Running", name @ .., _] => binary = name.join(" "),
            ["test", name, rest @ ..] if rest.contains(&"...") => {
                let end = rest.last().copied().unwrap_or_default().to_owned();
                outcome.tests.insert(format!("{binary} {name}"), end);
            }
            ["test", "result:", .., seconds] => {
                let seconds = seconds.trim_end_matches('s').parse().unwrap_or(0.0);
                outcome.seconds += seconds;
            }
            _ => {}
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_renewed_and_the_others_stay() {
        let first = renewed("", "a", "| a | 1 |\n", "- a, high: f\n");
        let both = renewed(&first, "b", "| b | 1 |\n", "");
        let again = renewed(&both, "a", "| a | 2 |\n", "");
        assert_eq!(
            again,
            format!("{HEAD}| b | 1 |\n| a | 2 |\n\nFindings:\n\n\n")
        );
        assert!(both.contains("| a | 1 |") && both.contains("- a, high: f"));
    }
}
