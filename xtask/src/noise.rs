//! How much noise it takes to see what a quiet run misses.
//!
//! Every wrong program of `tests/programs` is built and run with doublechecker, which reports what was
//! observed and nothing else: some times quietly, and then with noise of one seed after the other
//! until the mistake is seen. Several series of seeds are tried. The table goes to standard output
//! and, if all programs were run, into `docs/QUALITY.md`; a program that needs more than [`MOST`] runs
//! in any series is an error. `$ATOMSAN` is the executable, if it is not to be built.

use crate::Result;
use crate::corpus;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many noisy runs a mistake may take.
const MOST: u32 = 20;
const QUIET: u32 = 5;
/// The first seed of each series.
const SERIES: [u32; 5] = [0, 100, 200, 300, 400];
const START: &str = "<!-- table: cargo xtask noise -->\n";

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    if let Some(option) = arguments.iter().find(|name| name.starts_with('-')) {
        return Err(format!("no option `{option}`; there are names of programs").into());
    }
    let atomsan = match std::env::var_os("ATOMSAN") {
        Some(given) => std::fs::canonicalize(given)?,
        None => corpus::build()?,
    };
    let scratch = std::env::temp_dir().join(format!("atomsan-noise-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let programs = programs(&atomsan, &scratch, arguments)?;
    let mut table = String::from(
        "| program | quiet runs that see it | noisy runs needed, for five series of seeds |\n|---|---|---|\n",
    );
    let mut too_many = Vec::new();
    for (name, program) in &programs {
        let quiet = (0..QUIET).try_fold(0, |sum, _| {
            Ok(sum + u32::from(sees(&atomsan, program, None)?))
        });
        let quiet: Result<u32> = quiet;
        let mut needed = Vec::new();
        for first in SERIES {
            let mut runs = 0;
            let seen = loop {
                if runs == MOST {
                    break false;
                }
                runs += 1;
                if sees(&atomsan, program, Some(first + runs))? {
                    break true;
                }
            };
            if !seen {
                too_many.push(name.as_str());
            }
            needed.push(if seen {
                runs.to_string()
            } else {
                format!(">{MOST}")
            });
        }
        let row = format!(
            "| {name} | {} of {QUIET} | {} |\n",
            quiet?,
            needed.join(", ")
        );
        print!("{row}");
        table.push_str(&row);
    }
    std::fs::remove_dir_all(&scratch)?;
    if arguments.is_empty() {
        corpus::keep(START, &table)?;
    }
    if !too_many.is_empty() {
        return Err(format!("not seen in {MOST} noisy runs: {}", too_many.join(", ")).into());
    }
    Ok(())
}

/// The wrong programs, built, by name.
fn programs(atomsan: &Path, scratch: &Path, names: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let root = Path::new("tests/programs");
    let mut programs = Vec::new();
    let mut add = |name: String, program: PathBuf| {
        if names.is_empty() || names.contains(&name.as_str()) {
            programs.push((name, program));
        }
    };
    for (folder, compiler) in [("c", "cc"), ("cpp", "c++")] {
        for source in wrong(&root.join(folder))? {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            let program = scratch.join(format!("{folder}-{stem}"));
            let mut command = Command::new(atomsan);
            command
                .args([compiler, "-O1", "-o"])
                .arg(&program)
                .arg(&source);
            succeeds(&mut command)?;
            add(format!("{folder}/{stem}"), program);
        }
    }
    for project in ["rust", "crates"] {
        let directory = root.join(project);
        let mut command = Command::new(atomsan);
        command
            .args(["cargo", "build", "--quiet"])
            .current_dir(&directory);
        succeeds(&mut command)?;
        for source in wrong(&directory.join("src/bin"))? {
            let stem = source.file_stem().unwrap_or_default();
            let built = "target/atomsan/x86_64-unknown-linux-gnu/debug";
            let name = format!("{project}/{}", stem.to_string_lossy());
            add(name, directory.join(built).join(stem));
        }
    }
    Ok(programs)
}

/// The sources that announce a finding which can be observed.
fn wrong(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if !path.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        if text.contains("finding: ") && !text.contains("only predicted") {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}

fn succeeds(command: &mut Command) -> Result<()> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed").into()),
    }
}

/// Whether a run sees the mistake.
fn sees(atomsan: &Path, program: &Path, seed: Option<u32>) -> Result<bool> {
    let mut command = Command::new(atomsan);
    command.args(["run", "--no-config", "--engine", "doublechecker"]);
    if let Some(seed) = seed {
        command.args(["--noise", "--noise-seed", &seed.to_string()]);
    }
    let nothing = || Stdio::null();
    command
        .arg(program)
        .stdin(nothing())
        .stdout(nothing())
        .stderr(nothing());
    match command.status()?.code() {
        Some(66) => Ok(true),
        Some(0) => Ok(false),
        _ => Err(format!("{command:?} failed").into()),
    }
}
