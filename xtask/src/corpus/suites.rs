//! Test suites of well-tested crates: does each test end as it does without us, how long does it take,
//! and what is found in the crates' own functions?
//!
//! The sources come from the registry by `cargo metadata` of a package that depends on all of them, as
//! they come to everybody. Unit and integration tests are run, examples in the documentation are not.
//!
//! One file of tests is run at a time, natively and then with us, each with a time limit of its own: one that
//! hangs is named, and the others go on. Tests that spin or measure time take ten times as long as
//! the last time, or fail, natively too. So a file in which a test ends differently, or takes too long, is run
//! some more times both ways, and the medians are compared.

use super::bugs::{SUITES, Suite};
use super::outcome::{Outcome, combined, differences, is_remarkable, slowest};
use super::{Found, copy, findings, keep, kept, process};
use crate::Result;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const START: &str = "<!-- table: cargo xtask corpus --suites -->\n";
const HEAD: &str = "\
| crate | files | tests | end differently | seconds native | seconds checked | times | slowest test | seconds of the check | MB of the check | events | findings: high, medium |
|---|---|---|---|---|---|---|---|---|---|---|---|
";
/// Recordings are kept small.
const MEMORY: &str = "300M";
/// How long one file of tests may take, with its check.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How often a file is run, each way, if one of its tests ends differently or takes long.
const RUNS: usize = 5;

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

fn one(
    atomsan: &Path,
    suite: &Suite,
    from: &Path,
    directory: &Path,
    findings_of: &mut String,
) -> Result<String> {
    prepare(from, directory)?;
    let atomsan = [atomsan.as_os_str(), "cargo".as_ref()];
    build(&["cargo".as_ref()], suite, directory)?;
    build(&atomsan, suite, directory)?;
    let (mut native, mut checked) = (Outcome::default(), Outcome::default());
    let (mut found, mut check) = (Vec::new(), Check::default());
    let files = files(directory)?;
    for file in &files {
        let output = directory.join("findings.json");
        let ours = ["--memory", MEMORY, "--json", "-o"].map(OsStr::new);
        let ours = [&ours[..], &[output.as_os_str()]].concat();
        let (mut without, mut with) = (Vec::new(), Vec::new());
        while without.len() < RUNS {
            without.push(tests(&["cargo".as_ref()], &[], suite, file, directory)?);
            with.push(tests(&atomsan, &ours, suite, file, directory)?);
            let new = findings(&output)?;
            if new.iter().any(|found| found.rank == "high") {
                let kept = format!("target/corpus/{}-{}.json", suite.package, file.name);
                std::fs::create_dir_all("target/corpus")?;
                std::fs::copy(&output, &kept)?;
                eprintln!("high findings: `atomsan report {kept}` shows them");
            }
            found.extend(new);
            if with.len() == 1 {
                check.add(&output)?;
            }
            if output.is_file() {
                std::fs::remove_file(&output)?;
            }
            if !is_remarkable(&without[0], &with[0]) {
                break;
            }
        }
        let runs = without.len();
        let (without, with) = (combined(without), combined(with));
        eprintln!(
            "{} {}: {} tests, {:.1} s, with us {:.1} s; {runs} runs",
            suite.package,
            file.name,
            without.tests.len(),
            without.seconds,
            with.seconds,
        );
        native.add(without);
        checked.add(with);
    }
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
    Ok(format!(
        "| {} | {} | {} | {} | {:.2} | {:.2} | {:.1} | {} | {:.0} | {} | {} | {}, {} |\n",
        suite.package,
        files.len(),
        native.tests.len(),
        differences(&native, &checked),
        native.seconds,
        checked.seconds,
        checked.seconds / native.seconds.max(0.01),
        slowest(&native, &checked),
        check.seconds,
        check.bytes >> 20,
        check.events,
        count("high"),
        count("medium"),
    ))
}

/// Makes a copy of a package that can be built by itself.
fn prepare(from: &Path, directory: &Path) -> Result<()> {
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
    Ok(())
}

/// A file with tests.
struct File {
    name: String,
    /// How cargo is told to run it.
    arguments: Vec<String>,
}

/// The files with unit and integration tests.
fn files(directory: &Path) -> Result<Vec<File>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(directory)
        .stderr(Stdio::inherit())
        .output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let targets = metadata["packages"][0]["targets"].as_array();
    let files = targets.into_iter().flatten().filter_map(|target| {
        let name = target["name"].as_str()?.to_owned();
        let arguments = match target["kind"][0].as_str()? {
            _ if target["test"] == false => return None,
            "test" => vec!["--test".to_owned(), name.clone()],
            "lib" | "rlib" => vec!["--lib".to_owned()],
            _ => return None,
        };
        Some(File { name, arguments })
    });
    Ok(files.collect())
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
    fn add(&mut self, output: &Path) -> Result<()> {
        for line in std::fs::read_to_string(output).unwrap_or_default().lines() {
            let document: serde_json::Value = serde_json::from_str(line)?;
            let number = |name: &str| document[name].as_u64().unwrap_or(0);
            self.events += number("events");
            self.seconds += document["seconds"].as_f64().unwrap_or(0.0);
            self.bytes = self.bytes.max(number("peak_memory"));
        }
        Ok(())
    }
}

/// `cargo test` for a suite, natively or with us.
fn command(cargo: &[&OsStr], options: &[&OsStr], suite: &Suite, directory: &Path) -> Command {
    let mut command = Command::new(cargo[0]);
    let features = suite.features.iter();
    command
        .args(&cargo[1..])
        .arg("test")
        .args(options)
        .args(features.map(|feature| format!("--features={feature}")))
        .current_dir(directory)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("LD_LIBRARY_PATH")
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null());
    command
}

/// Builds all tests.
fn build(cargo: &[&OsStr], suite: &Suite, directory: &Path) -> Result<()> {
    let mut command = command(cargo, &[], suite, directory);
    command.args(["--lib", "--tests", "--no-run"]);
    if command.stderr(Stdio::null()).status()?.success() {
        return Ok(());
    }
    Err(format!("{} does not build", suite.package).into())
}

/// Runs the tests of one file.
fn tests(
    cargo: &[&OsStr],
    options: &[&OsStr],
    suite: &Suite,
    file: &File,
    directory: &Path,
) -> Result<Outcome> {
    let log = directory.join("tests.log");
    let output = std::fs::File::create(&log)?;
    let mut command = command(cargo, options, suite, directory);
    command
        .args(&file.arguments)
        // Only so does the harness say how long each test took.
        .args(["--", "-Zunstable-options", "--report-time"])
        .env("RUSTC_BOOTSTRAP", "1")
        .stderr(output.try_clone()?)
        .stdout(output);
    let ended = process::run(&mut command, TIMEOUT)?;
    let said = std::fs::read_to_string(&log)?;
    let mut outcome = Outcome::read(&file.name, &said);
    if !said.contains("test result:") && ended.in_time {
        eprintln!("{} {} has no result:\n{said}", suite.package, file.name);
    }
    if !ended.in_time {
        outcome.late.push(file.name.clone());
    }
    Ok(outcome)
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
