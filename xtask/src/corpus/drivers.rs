//! Drivers of published bugs.
//!
//! They are looked for in `$ATOMSAN_CORPUS`, then in `../shared/known-bugs`: `buggy/NAME` and
//! `fixed/NAME`, each a package of its own whose first argument is the number of trials. Each is copied,
//! built without optimisation (as tests are) and run with the functions of its crate as regions, in
//! three [`MODES`], until a function to blame is named.

use super::bugs::{BUGS, Bug};
use super::{Found, copy, findings, keep, kept, process};
use crate::Result;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often a driver is run in each mode, at most.
const RUNS: u32 = 5;
const TIMEOUT: Duration = Duration::from_secs(20);
const MODES: [(&str, &[&str]); 3] = [
    ("quiet", &[]),
    ("noise", &["--noise"]),
    ("online", &["--online", "--noise"]),
];
const START: &str = "<!-- table: cargo xtask corpus -->\n";
const HEAD: &str = "\
| driver | mode | found | rank | anomaly | engines | function and lines | runs | too late | seconds a run | MB of the check | elsewhere: high, medium |
|---|---|---|---|---|---|---|---|---|---|---|---|
";

pub(super) fn run(atomsan: &Path, scratch: &Path, names: &[&str]) -> Result<()> {
    let corpus = std::env::var_os("ATOMSAN_CORPUS")
        .map_or_else(|| PathBuf::from("../shared/known-bugs"), PathBuf::from);
    if !corpus.is_dir() {
        return Err(format!("no corpus in {}; set ATOMSAN_CORPUS", corpus.display()).into());
    }
    print!("{HEAD}");
    for bug in BUGS {
        if !names.is_empty() && !names.contains(&bug.name) {
            continue;
        }
        for kind in ["buggy", "fixed"] {
            let from = corpus.join(kind).join(bug.name);
            if !from.is_dir() {
                continue;
            }
            let driver = Driver::build(atomsan, &from, &scratch.join(kind).join(bug.name), bug)?;
            let (mut rows, mut elsewhere) = (String::new(), String::new());
            for (mode, flags) in MODES {
                let seen = driver.look(flags, RUNS)?;
                let row = seen.row(kind, bug, mode);
                print!("{row}");
                rows.push_str(&row);
                seen.elsewhere(kind, bug, mode, &mut elsewhere)?;
            }
            driver.remove()?;
            let name = format!("{kind}/{}", bug.name);
            keep(START, &renewed(&kept(START)?, &name, &rows, &elsewhere))?;
        }
    }
    Ok(())
}

/// The table with other rows of a driver, and what they amount to.
fn renewed(table: &str, name: &str, rows: &str, elsewhere: &str) -> String {
    let those = |mark: &str, new: &str| -> Vec<String> {
        let own = format!("{mark}{name} ");
        let old = (table.lines()).filter(|line| line.starts_with(mark) && !line.starts_with(&own));
        let all = old.filter(|line| !HEAD.contains(line)).chain(new.lines());
        all.map(str::to_owned).collect()
    };
    let place = |line: &str| {
        let driver = line.split([' ', '/']).nth(2).unwrap_or_default();
        BUGS.iter().position(|bug| bug.name == driver)
    };
    let mut rows = those("| ", rows);
    rows.sort_by_key(|line| place(line));
    let mut elsewhere = those("- ", elsewhere);
    elsewhere.sort_by_key(|line| place(line));
    let is_found = |bug: &&Bug| {
        let own = format!("| buggy/{} ", bug.name);
        let mut own = rows.iter().filter(|row| row.starts_with(&own));
        own.any(|row| row.contains(" | yes | "))
    };
    let bugs = BUGS.iter().filter(|bug| !bug.culprits.is_empty());
    let found = bugs.clone().filter(is_found);
    let summary = format!(
        "{} of {} bugs are found, {} of them by the published gap itself. High findings elsewhere:",
        found.clone().count(),
        bugs.count(),
        found.filter(|bug| !bug.beside).count(),
    );
    let lines = |all: Vec<String>| all.join("\n");
    format!(
        "{HEAD}{}\n\n{summary}\n\n{}\n\n",
        lines(rows.clone()),
        lines(elsewhere)
    )
}

/// What the quick half is sure of: the driver, in `tests/corpus`, and the least and the highest rank of
/// what is found in a function to blame. Drivers that spin are not here: they may run out of time on a
/// busy machine, and then nothing is found.
const SURE: &[(&str, &str, &str)] = &[
    ("buggy/oneshot_drop", "medium", "high"),
    ("buggy/promclient_family", "", "high"),
    ("fixed/promclient_family", "", "medium"),
];

/// How often the quick half lets a driver run, with noise, before it gives up: as often as any mistake may need.
const PATIENCE: u32 = 20;

pub(super) fn quick(atomsan: &Path, scratch: &Path) -> Result<()> {
    let rank = |name: &str| {
        ["", "low", "medium", "high"]
            .iter()
            .position(|&rank| rank == name)
    };
    for (driver, least, most) in SURE {
        let (_, name) = driver.split_once('/').unwrap_or_default();
        let bug = BUGS.iter().find(|bug| bug.name == name);
        let bug = bug.ok_or("not in the corpus")?;
        let from = Path::new("tests/corpus").join(driver);
        let built = Driver::build(atomsan, &from, &scratch.join(driver), bug)?;
        let seen = built.look(&["--noise"], PATIENCE)?;
        built.remove()?;
        let found = seen.blamed.as_ref().map_or("", |found| &found.rank);
        println!(
            "{driver}: {}",
            if found.is_empty() { "quiet" } else { found }
        );
        if rank(found) < rank(least) || rank(found) > rank(most) {
            return Err(format!("{driver}: expected {least} to {most}, found `{found}`").into());
        }
    }
    Ok(())
}

struct Driver<'a> {
    atomsan: &'a Path,
    directory: PathBuf,
    bug: &'a Bug,
}

/// What the runs of a driver in one mode have shown.
#[derive(Default)]
struct Seen {
    /// The clearest finding in a function to blame.
    blamed: Option<Found>,
    others: Vec<Found>,
    runs: u32,
    /// Those that did not end in time.
    late: u32,
    seconds: f64,
    /// The most memory that the check had.
    megabytes: u64,
}

impl<'a> Driver<'a> {
    fn build(atomsan: &'a Path, from: &Path, to: &Path, bug: &'a Bug) -> Result<Driver<'a>> {
        copy(from, to)?;
        let driver = Driver {
            atomsan,
            directory: to.to_owned(),
            bug,
        };
        let built = driver.command("build").status()?;
        if !built.success() {
            return Err(format!("{} does not build", from.display()).into());
        }
        Ok(driver)
    }

    /// Built dependencies are large, and needed by nobody else.
    fn remove(self) -> Result<()> {
        Ok(std::fs::remove_dir_all(self.directory)?)
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(self.atomsan);
        command
            .args(["cargo", subcommand])
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("CARGO_INCREMENTAL", "0")
            .env_remove("CARGO_TARGET_DIR")
            // By which cargo would have its own directory searched for the runtime.
            .env_remove("LD_LIBRARY_PATH")
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if subcommand == "build" {
            command.arg("--quiet");
        }
        command
    }

    /// Runs the driver until a function to blame is named; whether it ended.
    fn look(&self, flags: &[&str], runs: u32) -> Result<Seen> {
        let mut seen = Seen::default();
        let started = Instant::now();
        while seen.runs < runs && seen.blamed.is_none() {
            seen.runs += 1;
            for found in self.once(flags, &mut seen)? {
                if !self.bug.is(&found.function, &found.lines) {
                    seen.others.push(found);
                } else if seen.blamed.is_none() {
                    seen.blamed = Some(found);
                }
            }
        }
        seen.seconds = started.elapsed().as_secs_f64() / f64::from(seen.runs);
        Ok(seen)
    }

    fn once(&self, flags: &[&str], seen: &mut Seen) -> Result<Vec<Found>> {
        let output = self.directory.join("findings.json");
        let _ = std::fs::remove_file(&output);
        let log = self.directory.join("stderr.log");
        let mut command = self.command("run");
        command
            .args(["--regions", self.bug.package, "--json", "-o"])
            .arg(&output)
            .args(flags)
            .args(["--quiet", "--"])
            .arg(self.bug.trials.to_string())
            .stderr(std::fs::File::create(&log)?);
        let ended = process::run(&mut command, TIMEOUT)?;
        seen.megabytes = ended.megabytes.max(seen.megabytes);
        seen.late += u32::from(!ended.in_time);
        // Silence is a result, nothing is none.
        if ended.in_time && !output.exists() {
            let said = std::fs::read_to_string(&log)?;
            return Err(format!("{}: no result: {said}", self.bug.name).into());
        }
        findings(&output)
    }
}

impl Seen {
    fn count(&self, rank: &str) -> usize {
        let mut all: Vec<_> = (self.others.iter().filter(|found| found.rank == rank))
            .map(|found| (&found.function, &found.lines))
            .collect();
        all.sort();
        all.dedup();
        all.len()
    }

    fn row(&self, kind: &str, bug: &Bug, mode: &str) -> String {
        let cell = |take: fn(&Found) -> String| self.blamed.as_ref().map_or(String::new(), take);
        let found = match (&self.blamed, bug.culprits) {
            (_, []) => "–",
            (Some(_), _) => "yes",
            (None, _) => "no",
        };
        format!(
            "| {kind}/{} | {mode} | {found} | {} | {} | {} | {} | {} | {} | {:.1} | {} | {}, {} |\n",
            bug.name,
            cell(|found| found.rank.clone()),
            cell(|found| found.anomaly.clone()),
            cell(|found| found.engines.clone()),
            cell(|found| format!("`{}` {}", found.function, found.lines)),
            self.runs,
            self.late,
            self.seconds,
            self.megabytes,
            self.count("high"),
            self.count("medium"),
        )
    }

    /// The high findings in other functions, one line each.
    fn elsewhere(&self, kind: &str, bug: &Bug, mode: &str, out: &mut String) -> Result<()> {
        let high = self.others.iter().filter(|found| found.rank == "high");
        let mut lines: Vec<_> = high
            .map(|found| format!("`{}` {}: {}", found.function, found.lines, found.anomaly))
            .collect();
        lines.sort();
        lines.dedup();
        for line in lines {
            writeln!(out, "- {kind}/{} {mode}: {line}", bug.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_renewed_and_counted() {
        let row = |name: &str, found: &str| format!("| {name} | quiet | {found} | |\n");
        let first = renewed(
            "",
            "buggy/oneshot_drop",
            &row("buggy/oneshot_drop", "no"),
            "",
        );
        let second = row("buggy/rusty_pool_join", "yes");
        let other = "- buggy/rusty_pool_join quiet: `f`";
        let both = renewed(&first, "buggy/rusty_pool_join", &second, other);
        assert!(
            both.contains("\n1 of 11 bugs are found, 0 of them"),
            "{both}"
        );
        assert!(both.find("rusty_pool_join") < both.find("oneshot_drop") && both.contains(other));
        let again = renewed(
            &both,
            "buggy/oneshot_drop",
            &row("buggy/oneshot_drop", "yes"),
            "",
        );
        assert!(
            again.contains("\n2 of 11 bugs are found, 1 of them"),
            "{again}"
        );
        assert_eq!(again.matches("oneshot_drop").count(), 1);
    }
}
