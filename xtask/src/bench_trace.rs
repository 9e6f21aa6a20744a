//! How fast traces are checked: real ones from compressed text and from our binary format, and
//! generated ones from 10⁵ to 10⁸ events to see how time and memory grow.
//!
//! The real traces are looked for in `$ATOMSAN_TRACES`, then in `../shared/traces`. Each figure is
//! the best of several runs of the whole command, one process from file to verdict.

use crate::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

const ENGINES: &[&str] = &[
    "velodrome",
    "aerodrome",
    "doublechecker",
    "atomizer",
    "reduction",
    "blocks",
    "copper",
    "silver",
    "marathon",
];
/// The engines whose growth is looked at.
const GROWING: &[&str] = &["velodrome", "aerodrome", "doublechecker", "atomizer"];
const TRACES: &[&str] = &["elevator", "tsp", "lufact"];
const RUNS: usize = 5;

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let quick = match arguments {
        [] => false,
        ["--quick"] => true,
        _ => return Err("expected nothing or --quick (no trace of 10^8 events)".into()),
    };
    let atomsan = build()?;
    let scratch = std::env::temp_dir().join(format!("atomsan-bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let done = real(&atomsan, &scratch).and_then(|()| growth(&atomsan, &scratch, quick));
    std::fs::remove_dir_all(&scratch)?;
    done
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--bin", "atomsan"])
        .status()?;
    if !status.success() {
        return Err("the release build failed".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    Ok(target.join("release/atomsan"))
}

fn traces() -> Option<PathBuf> {
    let given = std::env::var_os("ATOMSAN_TRACES").map(PathBuf::from);
    given
        .into_iter()
        .chain([PathBuf::from("../shared/traces")])
        .find(|path| path.is_dir())
}

/// One figure: the best of several runs.
struct Figure {
    events: u64,
    seconds: f64,
    megabytes: f64,
    findings: usize,
}

fn measure(atomsan: &Path, trace: &Path, engine: &str, runs: usize) -> Result<Figure> {
    let mut best: Option<Figure> = None;
    for _ in 0..runs {
        let output = Command::new(atomsan)
            .args(["check", "--json", "--engine", engine])
            .arg(trace)
            .output()?;
        if !matches!(output.status.code(), Some(0 | 66)) {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| json[name].as_f64().unwrap_or(f64::NAN);
        let figure = Figure {
            events: json["events"].as_u64().unwrap_or(0),
            seconds: number("seconds"),
            megabytes: number("peak_memory") / 1e6,
            findings: json["findings"].as_array().map_or(0, Vec::len),
        };
        if best
            .as_ref()
            .is_none_or(|best| figure.seconds < best.seconds)
        {
            best = Some(figure);
        }
    }
    best.ok_or_else(|| "no run".into())
}

fn header(title: &str) {
    println!("\n{title}\n");
    println!("| trace | engine | events | findings | seconds | M events/s | MB resident |");
    println!("|---|---|--:|--:|--:|--:|--:|");
}

fn row(trace: &str, engine: &str, figure: &Figure) {
    println!(
        "| {trace} | {engine} | {} | {} | {:.3} | {:.1} | {:.0} |",
        figure.events,
        figure.findings,
        figure.seconds,
        figure.events as f64 / figure.seconds / 1e6,
        figure.megabytes
    );
}

fn atomsan_quietly(atomsan: &Path, arguments: &[&std::ffi::OsStr]) -> Result<()> {
    let output = Command::new(atomsan).args(arguments).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
    }
}

fn real(atomsan: &Path, scratch: &Path) -> Result<()> {
    let Some(folder) = traces() else {
        println!("No real traces: set ATOMSAN_TRACES to the folder that has them.");
        return Ok(());
    };
    header("From zstd-compressed text:");
    for trace in TRACES {
        for engine in ENGINES {
            let file = folder.join(format!("{trace}.std.zst"));
            row(trace, engine, &measure(atomsan, &file, engine, RUNS)?);
        }
    }
    header("From the binary format:");
    for trace in TRACES {
        let file = scratch.join(format!("{trace}.atrace"));
        let text = folder.join(format!("{trace}.std.zst"));
        atomsan_quietly(
            atomsan,
            &["convert".as_ref(), text.as_os_str(), file.as_os_str()],
        )?;
        for engine in ENGINES {
            row(trace, engine, &measure(atomsan, &file, engine, RUNS)?);
        }
    }
    Ok(())
}

fn growth(atomsan: &Path, scratch: &Path, quick: bool) -> Result<()> {
    header("Generated, at a constant number of variables:");
    let sizes = [100_000u64, 1_000_000, 10_000_000, 100_000_000];
    for size in &sizes[..sizes.len() - usize::from(quick)] {
        let file = scratch.join("generated.atrace");
        let events = size.to_string();
        atomsan_quietly(
            atomsan,
            &[
                "gen".as_ref(),
                "--events".as_ref(),
                events.as_ref(),
                "-o".as_ref(),
                file.as_os_str(),
            ],
        )?;
        for engine in GROWING {
            let runs = if *size > 10_000_000 { 1 } else { RUNS };
            row(
                &format!("{size:.0e}"),
                engine,
                &measure(atomsan, &file, engine, runs)?,
            );
        }
    }
    Ok(())
}
