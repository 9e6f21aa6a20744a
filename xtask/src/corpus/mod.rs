//! Bugs that people really shipped: are they found, and are the mended versions and well-tested crates
//! quiet?
//!
//! * `cargo xtask corpus` builds the drivers of published bugs, runs them and keeps the table in
//!   `docs/QUALITY.md` ([`drivers`]); with names, only their rows.
//! * `cargo xtask corpus --suites` runs the test suites of well-tested crates with and without us, and
//!   renews their rows in the other table ([`suites`]).
//! * `cargo xtask corpus --quick` is the part that CI runs: some drivers, which are in `tests/corpus`, and
//!   what is sure about them.
//!
//! `$ATOMSAN` is the executable, if it is not to be built.

mod bugs;
mod drivers;
mod outcome;
mod process;
mod suites;

use crate::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

const END: &str = "<!-- end of the table -->\n";

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        (arguments.iter()).partition(|argument| argument.starts_with('-'));
    let scratch = std::env::temp_dir().join(format!("atomsan-corpus-{}", std::process::id()));
    let done = match options.as_slice() {
        [] => drivers::run(&atomsan(build)?, &scratch, &names),
        ["--quick"] => drivers::quick(&atomsan(build_quickly)?, &scratch),
        ["--suites"] => suites::run(&atomsan(build)?, &scratch, &names),
        _ => return Err("there is --quick, --suites, and names of drivers or crates".into()),
    };
    if scratch.is_dir() {
        std::fs::remove_dir_all(&scratch)?;
    }
    done
}

/// The executable: the given one, or a new one.
fn atomsan(build: fn() -> Result<PathBuf>) -> Result<PathBuf> {
    match std::env::var_os("ATOMSAN") {
        Some(given) => Ok(std::fs::canonicalize(given)?),
        None => build(),
    }
}

/// Builds the executable as it is released.
pub(crate) fn build() -> Result<PathBuf> {
    built("release")
}

/// Builds it as the tests do, so that it is there already.
fn build_quickly() -> Result<PathBuf> {
    built("debug")
}

fn built(directory: &str) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "-p", "cargo-atomsan"]);
    if directory == "release" {
        cargo.arg("--release");
    }
    if !cargo.status()?.success() {
        return Err("atomsan does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    Ok(std::fs::canonicalize(
        target.join(directory).join("atomsan"),
    )?)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::write(&target, std::fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// A finding, as far as the tables show it.
struct Found {
    rank: String,
    anomaly: String,
    function: String,
    lines: String,
    engines: String,
}

/// The findings of a run, from the file that it wrote, the worst first.
fn findings(output: &Path) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for line in std::fs::read_to_string(output).unwrap_or_default().lines() {
        let document: serde_json::Value = serde_json::from_str(line)?;
        for finding in document["findings"].as_array().into_iter().flatten() {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let agreeing = finding["agreeing"].as_array().into_iter().flatten();
            let mut engines = vec![text(&finding["engine"])];
            engines.extend(agreeing.map(|other| text(&other["engine"])));
            engines.dedup();
            all.push(Found {
                rank: text(&finding["rank"]),
                anomaly: text(&finding["anomaly"]),
                function: text(&finding["culprit"]["function"]),
                lines: finding["culprit"]["lines"].to_string(),
                engines: engines.join(", "),
            });
        }
    }
    Ok(all)
}

/// The table that is kept behind the line that names it.
fn kept(start: &str) -> Result<String> {
    let text = std::fs::read_to_string("docs/QUALITY.md")?;
    let (_, rest) = text
        .split_once(start)
        .ok_or("no table in docs/QUALITY.md")?;
    let (table, _) = rest.split_once(END).ok_or("no end of the table")?;
    Ok(table.to_owned())
}

/// Puts a table where people look for it, behind the line that names it.
pub(crate) fn keep(start: &str, table: &str) -> Result<()> {
    let path = "docs/QUALITY.md";
    let text = std::fs::read_to_string(path)?;
    let (before, rest) = text
        .split_once(start)
        .ok_or("no table in docs/QUALITY.md")?;
    let (_, after) = rest.split_once(END).ok_or("no end of the table")?;
    std::fs::write(path, format!("{before}{start}{table}{END}{after}"))?;
    Ok(())
}
