//! Running a program under a runtime, and what that took.

use super::build::{Build, Workshop};
use super::programs::Program;
use crate::Result;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// A way to run a program.
#[derive(Debug)]
pub(crate) struct Mode {
    /// Its name in the tables.
    pub(crate) name: &'static str,
    /// What is run.
    pub(crate) build: Build,
    /// Which runtime it finds.
    pub(crate) runtime: Runtime,
    /// Arguments of `atomsan`, which starts the program; none if it is started by itself.
    pub(crate) command: &'static [&'static str],
    /// What the runtime is told by the environment.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// What is behind the hooks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runtime {
    /// The compiler's, or none.
    Own,
    /// The one that does nothing.
    Empty,
    /// Ours.
    Atomsan,
}

/// All of them. The first three are what ours are compared with.
pub(crate) const MODES: &[Mode] = &[
    Mode {
        name: "native",
        build: Build::Native,
        runtime: Runtime::Own,
        command: &[],
        environment: &[],
    },
    Mode {
        name: "empty",
        build: Build::Instrumented,
        runtime: Runtime::Empty,
        command: &[],
        environment: &[],
    },
    Mode {
        name: "TSan",
        build: Build::Tsan,
        runtime: Runtime::Own,
        command: &[],
        // All checks, but no reports, which would be about the precompiled standard library; and no second of sleep at the end,
        // which is there for other threads to come to their reports.
        environment: &[("TSAN_OPTIONS", "report_bugs=0 exitcode=0 atexit_sleep_ms=0")],
    },
    Mode {
        name: "record",
        build: Build::Instrumented,
        runtime: Runtime::Atomsan,
        command: &[],
        environment: &[],
    },
    // The first of two runs, with the process that follows it, which is measured too.
    Mode {
        name: "first",
        build: Build::Instrumented,
        runtime: Runtime::Atomsan,
        command: &["run", "--first-run", FIRST, "--"],
        environment: &[],
    },
    // A single run, checked by another process while it lasts, which is measured too.
    Mode {
        name: "online",
        build: Build::Instrumented,
        runtime: Runtime::Atomsan,
        command: &["run", "--online", "--engine", "doublechecker", "--"],
        environment: &[],
    },
    // The second of two runs, of what the first has found.
    Mode {
        name: "second",
        build: Build::Instrumented,
        runtime: Runtime::Atomsan,
        command: &[
            "run",
            "--online",
            "--engine",
            "doublechecker",
            "--second-run",
            FIRST,
            "--",
        ],
        environment: &[],
    },
];

/// Stands for the file that a first run writes and a second one reads.
const FIRST: &str = "FIRST";

/// How many of the modes are not ours.
pub(crate) const OTHERS: usize = 3;

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Seconds on the clock.
    pub(crate) wall: f64,
    /// Seconds of processors.
    pub(crate) cpu: f64,
    /// Megabytes of memory at most, the mapped recording and the process that checks included.
    pub(crate) memory: f64,
    /// Megabytes that were recorded.
    pub(crate) recorded: f64,
    /// Events that did not fit into the recording.
    pub(crate) dropped: u64,
}

/// Runs a program once.
pub(crate) fn run(workshop: &Workshop, program: &Program, mode: &Mode, quick: bool) -> Result<Run> {
    let executable = workshop.executable(program, mode.build);
    run_program(
        workshop,
        program.name,
        mode,
        &executable,
        &workshop.arguments(program, quick),
    )
}

/// Runs an executable once.
pub(crate) fn run_program(
    workshop: &Workshop,
    name: &str,
    mode: &Mode,
    executable: &Path,
    arguments: &[OsString],
) -> Result<Run> {
    let first = workshop.directory.join(format!("{name}.first"));
    if mode.name == "second"
        && !first.exists()
        && let Some(mode) = MODES.iter().find(|mode| mode.name == "first")
    {
        run_program(workshop, name, mode, executable, arguments)?;
    }
    let recordings = workshop.directory.join("recordings");
    if recordings.exists() {
        std::fs::remove_dir_all(&recordings)?;
    }
    std::fs::create_dir_all(&recordings)?;
    let (outer, inner) = (
        workshop.directory.join("outer"),
        workshop.directory.join("inner"),
    );
    let mut command = Command::new(workshop.launcher());
    command.arg(&outer);
    if !mode.command.is_empty() {
        let words = mode.command.iter().map(|&word| {
            if word == FIRST {
                first.as_os_str()
            } else {
                word.as_ref()
            }
        });
        command
            .arg(workshop.atomsan())
            .args(words)
            .arg(workshop.launcher())
            .arg(&inner);
    }
    command
        .arg(executable)
        .args(arguments)
        .envs(mode.environment.iter().copied())
        .env("XDG_CACHE_HOME", workshop.cache())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    match mode.runtime {
        Runtime::Own => {}
        Runtime::Empty => {
            command.env("LD_LIBRARY_PATH", workshop.empty_runtime());
        }
        Runtime::Atomsan => {
            command
                .env("LD_LIBRARY_PATH", workshop.runtime()?)
                .env("ATOMSAN_DIR", &recordings);
        }
    }
    let failed = |what: &str, stderr: &[u8]| {
        let said = String::from_utf8_lossy(stderr);
        format!("{name} ({}) {what}\n{}", mode.name, said.trim_end())
    };
    let output = command.output()?;
    if !output.status.success() {
        return Err(failed("was not run", &output.stderr).into());
    }
    let [wall, user, system, mut memory, status, _] = figures(&outer)?;
    // Findings are no failure, and there may be some.
    let fine = status == 0.0 || status == FINDINGS && !mode.command.is_empty();
    if !fine {
        return Err(failed(&format!("ended with status {status}"), &output.stderr).into());
    }
    if !mode.command.is_empty() {
        let [.., program, _, parent] = figures(&inner)?;
        memory = program + parent;
    }
    let (recorded, dropped) = recording(&recordings)?;
    Ok(Run {
        wall: wall / 1e6,
        cpu: (user + system) / 1e6,
        memory: memory / 1e3,
        recorded,
        dropped,
    })
}

/// The exit status of `atomsan` when there are findings.
const FINDINGS: f64 = 66.0;

/// What the launcher wrote.
fn figures(path: &Path) -> Result<[f64; 6]> {
    let text = std::fs::read_to_string(path)?;
    let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    let numbers: Vec<f64> = numbers.collect();
    let wrong = |_| format!("the launcher wrote {text:?}").into();
    numbers.try_into().map_err(wrong)
}

/// What is in the recordings of a directory: megabytes, and events that did not fit.
fn recording(directory: &Path) -> Result<(f64, u64)> {
    const TOP: usize = 16;
    const DROPPED: usize = 32;
    let (mut size, mut dropped) = (0.0, 0);
    for entry in std::fs::read_dir(directory)? {
        let mut header = [0u8; 64];
        let path = entry?.path();
        if path.extension() != Some(&OsString::from("rec")) {
            continue;
        }
        std::io::Read::read_exact(&mut std::fs::File::open(path)?, &mut header)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(word)
        };
        size += word(TOP) as f64 / 1e6;
        dropped += word(DROPPED);
    }
    Ok((size, dropped))
}
