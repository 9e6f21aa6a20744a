//! Bugs that people really shipped: are they found, and are the mended versions quiet?
//!
//! The drivers are looked for in `$ATOMSAN_CORPUS`, then in `../shared/known-bugs`: `buggy/NAME` and
//! `fixed/NAME`, each a package of its own whose first argument is the number of trials. Each is
//! copied, built and run under `cargo atomsan` with the functions of its crate as regions, quiet and
//! with noise, until the culprit is named; the table goes to standard output and, if all were run, into
//! `docs/QUALITY.md`. `$ATOMSAN` is the executable, if it is not to be built.

use crate::Result;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Bug {
    /// The folder.
    name: &'static str,
    /// The package whose functions are regions.
    package: &'static str,
    /// Parts of the names of the functions that are to blame; none in a trap.
    culprits: &'static [&'static str],
    trials: u32,
}

const BUGS: &[Bug] = &[
    bug(
        "promclient_family",
        "prometheus-client",
        &["::get_or_create"],
        40,
    ),
    bug("lasso_intern", "lasso", &["::try_get_or_intern"], 40),
    bug(
        "maitake_rwspin",
        "maitake-sync",
        &["::try_lock_shared"],
        300,
    ),
    bug(
        "lockapi_remutex",
        "lock_api",
        &["RawReentrantMutex<R,G>::unlock"],
        200,
    ),
    bug("rusty_pool_join", "rusty_pool", &["ThreadPool::join"], 20),
    bug(
        "tokio_oneshot",
        "tokio",
        &[
            "::Receiver<T>::try_recv",
            "::Receiver<T>::close",
            "::Sender<T>::send",
        ],
        200,
    ),
    bug(
        "cbc_init",
        "crossbeam-channel",
        &["list::Channel<T>::start_send", "::discard_all_messages"],
        200,
    ),
    bug(
        "i18n_atomicstr",
        "rust-i18n-support",
        &["AtomicStr::clone_string"],
        200,
    ),
    bug(
        "oneshot_drop",
        "oneshot",
        &["oneshot::Receiver<T> as core::ops::drop::Drop>::drop"],
        200,
    ),
    bug("serial_test_key", "serial_test", &["check_new_key"], 100),
    bug("ctrlc_init", "ctrlc", &["set_handler"], 1),
    bug("metrics_reservoir", "metrics-util", &[], 100),
];

const fn bug(
    name: &'static str,
    package: &'static str,
    culprits: &'static [&'static str],
    trials: u32,
) -> Bug {
    Bug {
        name,
        package,
        culprits,
        trials,
    }
}

/// How often a driver is run in each mode, at most.
const RUNS: u32 = 5;
const TIMEOUT: Duration = Duration::from_secs(120);
const MODES: [(&str, &[&str]); 2] = [("quiet", &[]), ("noise", &["--noise"])];
const START: &str = "<!-- table: cargo xtask corpus -->\n";
const END: &str = "<!-- end of the table -->\n";

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let quick = arguments.contains(&"--quick");
    let known = |name: &&&str| !name.starts_with('-') || **name == "--quick";
    if let Some(unknown) = arguments.iter().find(|name| !known(name)) {
        return Err(
            format!("no option `{unknown}`; there is --quick, and names of drivers").into(),
        );
    }
    let names: Vec<&str> = (arguments.iter().copied())
        .filter(|name| !name.starts_with("--"))
        .collect();
    let corpus = std::env::var_os("ATOMSAN_CORPUS")
        .map_or_else(|| PathBuf::from("../shared/known-bugs"), PathBuf::from);
    if !corpus.is_dir() {
        return Err(format!("no corpus in {}; set ATOMSAN_CORPUS", corpus.display()).into());
    }
    let atomsan = match std::env::var_os("ATOMSAN") {
        Some(given) => std::fs::canonicalize(given)?,
        None => build()?,
    };
    let scratch = std::env::temp_dir().join(format!("atomsan-corpus-{}", std::process::id()));
    let mut table = String::from(
        "| driver | mode | found | rank | engines | lines | runs | seconds | other findings: high, medium |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for bug in BUGS {
        if !names.is_empty() && !names.contains(&bug.name) {
            continue;
        }
        for kind in ["buggy", "fixed"] {
            let from = corpus.join(kind).join(bug.name);
            if !from.is_dir() {
                continue;
            }
            let to = scratch.join(kind).join(bug.name);
            copy(&from, &to)?;
            let rows = driver(&atomsan, &to, kind, bug, if quick { 1 } else { RUNS });
            // Built dependencies are large, and needed by nobody else.
            std::fs::remove_dir_all(&to)?;
            let rows = rows?;
            print!("{rows}");
            table.push_str(&rows);
        }
    }
    std::fs::remove_dir_all(&scratch)?;
    if names.is_empty() && !quick {
        keep(START, &table)?;
    }
    Ok(())
}

/// The executable.
pub(crate) fn build() -> Result<PathBuf> {
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--release", "-p", "cargo-atomsan"])
        .status()?;
    if !built.success() {
        return Err("atomsan does not build".into());
    }
    Ok(std::fs::canonicalize("target/release/atomsan")?)
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

/// What one run has found.
#[derive(Default)]
struct Found {
    /// Rank, engines and lines of the best finding in a culprit.
    culprit: Option<(String, String, String)>,
    high: usize,
    medium: usize,
}

fn driver(atomsan: &Path, directory: &Path, kind: &str, bug: &Bug, runs: u32) -> Result<String> {
    let mut rows = String::new();
    let built = Command::new(atomsan)
        .args(["cargo", "build", "--quiet"])
        .current_dir(directory)
        .status()?;
    if !built.success() {
        return Err(format!("{kind}/{} does not build", bug.name).into());
    }
    for (mode, flags) in MODES {
        let started = Instant::now();
        let mut best = Found::default();
        let mut needed = 0;
        for _ in 0..runs {
            needed += 1;
            let found = once(atomsan, directory, bug, flags)?;
            best.high = best.high.max(found.high);
            best.medium = best.medium.max(found.medium);
            if found.culprit.is_some() {
                best.culprit = found.culprit;
                break;
            }
        }
        let seconds = started.elapsed().as_secs_f64() / f64::from(needed);
        let (found, (rank, engines, lines)) = match best.culprit {
            Some(culprit) => ("yes", culprit),
            None => ("no", Default::default()),
        };
        writeln!(
            rows,
            "| {kind}/{} | {mode} | {found} | {rank} | {engines} | {lines} | {needed} | {seconds:.1} | {}, {} |",
            bug.name, best.high, best.medium
        )?;
    }
    Ok(rows)
}

fn once(atomsan: &Path, directory: &Path, bug: &Bug, flags: &[&str]) -> Result<Found> {
    let output = directory.join("findings.json");
    let _ = std::fs::remove_file(&output);
    let mut child = Command::new(atomsan)
        .args(["cargo", "run", "--regions", bug.package, "--json", "-o"])
        .arg(&output)
        .args(flags)
        .args(["--quiet", "--"])
        .arg(bug.trials.to_string())
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > TIMEOUT {
            child.kill()?;
            child.wait()?;
            return Ok(Found::default());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut found = Found::default();
    for line in std::fs::read_to_string(&output).unwrap_or_default().lines() {
        let document: serde_json::Value = serde_json::from_str(line)?;
        for finding in document["findings"].as_array().into_iter().flatten() {
            note(&mut found, finding, bug);
        }
    }
    Ok(found)
}

/// Findings come with the highest rank first.
fn note(found: &mut Found, finding: &serde_json::Value, bug: &Bug) {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let culprit = &finding["culprit"];
    let function = text(&culprit["function"]);
    let rank = text(&finding["rank"]);
    if !bug.culprits.iter().any(|part| function.contains(part)) {
        match rank.as_str() {
            "high" => found.high += 1,
            "medium" => found.medium += 1,
            _ => {}
        }
        return;
    }
    if found.culprit.is_none() {
        let agreeing = finding["agreeing"].as_array();
        let mut engines = vec![text(&finding["engine"])];
        engines.extend((agreeing.into_iter().flatten()).map(|other| text(&other["engine"])));
        engines.dedup();
        let lines = format!("`{function}` {}", culprit["lines"]);
        found.culprit = Some((rank, engines.join(", "), lines));
    }
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
