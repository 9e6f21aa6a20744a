//! Are the right programs silent? Every program of `tests/programs` whose name ends in `-right`,
//! built once as a developer builds it and once optimised, is run many times through the front door;
//! each finding of rank medium or high is a false alarm.
//!
//! `cargo xtask silence [--runs N] [--noise] [NAME…]`: names are parts of what the first column of
//! the table shows, such as `c/` or `tokio`. `$ATOMSAN` is the executable, if it is not to be built.

use crate::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PROGRAMS: &str = "tests/programs";
/// A program that takes longer does not come to an end.
const PATIENCE: Duration = Duration::from_secs(120);

struct Options {
    runs: u32,
    noise: bool,
    names: Vec<String>,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let atomsan = match std::env::var_os("ATOMSAN") {
        Some(given) => std::fs::canonicalize(given)?,
        None => crate::corpus::build()?,
    };
    let scratch = std::env::temp_dir().join(format!("atomsan-silence-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let done = every_program(&atomsan, &scratch, &options);
    std::fs::remove_dir_all(&scratch)?;
    match done? {
        0 => Ok(()),
        alarms => Err(format!("{alarms} runs were not silent").into()),
    }
}

fn parse(arguments: &[&str]) -> Result<Options> {
    let mut options = Options {
        runs: 100,
        noise: false,
        names: Vec::new(),
    };
    let mut arguments = arguments.iter();
    while let Some(&argument) = arguments.next() {
        match argument {
            "--noise" => options.noise = true,
            "--runs" => options.runs = arguments.next().ok_or("--runs needs a number")?.parse()?,
            _ if argument.starts_with('-') => {
                return Err(
                    format!("no option `{argument}`; there is --runs N and --noise").into(),
                );
            }
            name => options.names.push(name.to_owned()),
        }
    }
    Ok(options)
}

/// Runs all that were asked for; how many runs were not silent.
fn every_program(atomsan: &Path, scratch: &Path, options: &Options) -> Result<u32> {
    println!("| program | build | runs | not silent | seconds a run | findings |");
    println!("|---|---|--:|--:|--:|---|");
    let mut alarms = 0;
    let wanted = |name: &str| {
        options.names.is_empty()
            || options
                .names
                .iter()
                .any(|part| name.contains(part.as_str()))
    };
    for (language, compiler, flags) in [("c", "cc", "-O0"), ("c", "cc", "-O2")]
        .into_iter()
        .chain([("cpp", "c++", "-O0"), ("cpp", "c++", "-O2")])
    {
        for source in right_programs(&Path::new(PROGRAMS).join(language))? {
            let stem = stem(&source);
            let name = format!("{language}/{stem}");
            if wanted(&name) {
                let program = scratch.join(&stem);
                let mut build = Command::new(atomsan);
                build.args([compiler, flags]).args(own_flags(&source)?);
                succeed(build.arg(&source).arg("-o").arg(&program))?;
                alarms += program_runs(atomsan, &program, &name, flags, options)?;
                std::fs::remove_file(&program)?;
            }
        }
    }
    for (project, profile, directory) in [
        ("rust", "dev", "debug"),
        ("rust", "release", "release"),
        ("crates", "dev", "debug"),
        ("crates", "release", "release"),
    ] {
        let folder = Path::new(PROGRAMS).join(project);
        let programs: Vec<String> = right_programs(&folder.join("src/bin"))?
            .iter()
            .map(|source| stem(source))
            .filter(|stem| wanted(&format!("{project}/{stem}")))
            .collect();
        if programs.is_empty() {
            continue;
        }
        let mut build = Command::new(atomsan);
        build.args(["cargo", "build", "--quiet", "--profile", profile]);
        succeed(build.current_dir(&folder))?;
        let built = folder.join("target/atomsan/x86_64-unknown-linux-gnu");
        for stem in programs {
            let program = std::fs::canonicalize(built.join(directory).join(&stem))?;
            let name = format!("{project}/{stem}");
            alarms += program_runs(atomsan, &program, &name, profile, options)?;
        }
    }
    Ok(alarms)
}

fn right_programs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if stem(&path).ends_with("-right") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// What a source asks of its compiler: `// flags: …`.
fn own_flags(source: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(source)?;
    let flags = text
        .lines()
        .next()
        .and_then(|line| line.split_once("flags: "));
    Ok(flags.map_or_else(Vec::new, |(_, flags)| {
        flags.split(' ').map(str::to_owned).collect()
    }))
}

fn succeed(command: &mut Command) -> Result<()> {
    if command.status()?.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed").into())
    }
}

/// Runs a program as often as asked for and prints its row; how many runs were not silent.
fn program_runs(
    atomsan: &Path,
    program: &Path,
    name: &str,
    build: &str,
    options: &Options,
) -> Result<u32> {
    let started = Instant::now();
    let mut alarms = 0;
    let mut findings = BTreeMap::<String, u32>::new();
    for _ in 0..options.runs {
        let found = once(atomsan, program, options.noise)?;
        alarms += u32::from(!found.is_empty());
        for finding in found {
            *findings.entry(finding).or_default() += 1;
        }
    }
    let seconds = started.elapsed().as_secs_f64() / f64::from(options.runs.max(1));
    let findings: Vec<String> = findings
        .iter()
        .map(|(finding, count)| format!("{count} × {finding}"))
        .collect();
    println!(
        "| {name} | {build} | {} | {alarms} | {seconds:.2} | {} |",
        options.runs,
        findings.join("; ")
    );
    Ok(alarms)
}

/// What one run has found.
fn once(atomsan: &Path, program: &Path, noise: bool) -> Result<Vec<String>> {
    let output = program.with_extension("findings");
    let mut child = Command::new(atomsan)
        .args(["run", "--json", "-o"])
        .arg(&output)
        .args(noise.then_some("--noise"))
        .arg(program)
        .stderr(std::process::Stdio::null())
        .spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(vec!["does not come to an end".to_owned()]);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(&output)?)?;
    std::fs::remove_file(&output)?;
    let mut found: Vec<String> = document["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|finding| finding["rank"] != "low")
        .map(|finding| {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let (rank, anomaly) = (text(&finding["rank"]), text(&finding["anomaly"]));
            let culprit = &finding["culprit"];
            let function = text(&culprit["function"]);
            format!("{rank} {anomaly} `{function}` {}", culprit["lines"])
        })
        .collect();
    if found.is_empty() && !status.success() {
        found.push(format!("{status}"));
    }
    Ok(found)
}
