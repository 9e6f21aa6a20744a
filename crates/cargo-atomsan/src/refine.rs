//! `atomsan refine`: iterative refinement (DoubleChecker, Fig. 6).
//!
//! ```text
//! all functions atomic ─► run ─► violations? ─yes─► their functions are not atomic ─┐
//!          ▲                         │ no                                           │
//!          │                         └─► none in N trials ─► the specification      │
//!          └──────────────────────────────────────────────────────────────────────◄┘
//! ```
//!
//! Each run is a process of `atomsan run` or `cargo atomsan` with the specification so far, whose
//! saved documents are read. So a run here is a run as a user has it.

mod history;

use crate::config::{self, Config};
use crate::exit::Exit;
use crate::{accept, check, child, merge, output};
use anyhow::{Context as _, bail};
use atomsan_report::{Document, Rank};
use atomsan_trace::spec::Pattern;
use history::{History, Removed, Subject, Trial};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Instant, SystemTime};

/// The status of who was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;
/// What `cargo atomsan` can run again and again.
const SUBCOMMANDS: [&str; 4] = ["run", "test", "nextest", "bench"];

const EXAMPLES: &str = "\
Examples:
  atomsan refine ./prog                      writes atomsan.spec and atomsan.spec.history
  atomsan refine --trials 20 --noise -- ./prog -v
  cargo atomsan refine test --lib
  atomsan run --spec atomsan.spec ./prog     what is left is atomic, as far as was seen

Our options come first, then those of `atomsan run` (of `cargo atomsan`: its subcommand and what
follows). A refinement that was interrupted goes on where it was.";

/// Find out which functions are atomic: run until there is no new violation in N trials
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many runs in a row must find nothing new
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    trials: u64,

    /// The specification to begin with, instead of that of `atomsan.toml`
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,

    /// Where the specification is written
    #[arg(short, long, value_name = "FILE", default_value = "atomsan.spec")]
    output: PathBuf,

    /// Where the runs are written down; by default beside the specification
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,

    /// Forget the history and begin again
    #[arg(long)]
    restart: bool,

    /// Show what the runs print
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    config: config::Args,

    /// The program and its arguments, after options of `atomsan run`
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROG"
    )]
    command: Vec<OsString>,
}

/// Whose runs they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// A program's: `atomsan run`.
    Program,
    /// A workspace's: `cargo atomsan`.
    Workspace,
}

pub(crate) fn run(args: &Args, of: Of) -> anyhow::Result<Exit> {
    let config = Config::find(&args.config, &std::env::current_dir()?)?;
    let base = match &args.spec {
        Some(path) => check::read_spec(path)?,
        None => config.spec.unwrap_or_default(),
    };
    let subject = Subject {
        refine: History::VERSION,
        command: (args.command.iter())
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        spec: base.to_string(),
    };
    let path = args.history.clone().unwrap_or_else(|| {
        let mut path = args.output.clone().into_os_string();
        path.push(".history");
        path.into()
    });
    let mut history = History::open(&path, &subject, args.restart)?;
    if !history.trials.is_empty() {
        let runs = output::counted(history.trials.len() as u64, "run");
        say(&format!("{} goes on after {runs}", path.display()));
    }
    while history.quiet() < args.trials {
        write_spec(&args.output, &path, &subject.spec, &history)?;
        let trial = one_trial(args, of, &history);
        if child::is_interrupted() {
            let runs = output::counted(history.trials.len() as u64, "run");
            say(&format!(
                "interrupted after {runs}; the same command goes on"
            ));
            return Ok(Exit::Program(INTERRUPTED));
        }
        let trial = trial?;
        tell(&trial, history.quiet() + 1, args.trials);
        history.add(trial)?;
    }
    write_spec(&args.output, &path, &subject.spec, &history)?;
    say(&format!(
        "no new violation in {}: {} not atomic, in {}; see {} and {}",
        output::counted(args.trials, "trial"),
        match history.removed().count() {
            1 => "1 function is".to_owned(),
            n => format!("{n} functions are"),
        },
        output::counted(history.trials.len() as u64, "run"),
        args.output.display(),
        path.display(),
    ));
    print!("{}", section(&base_patterns(&subject.spec), &history));
    Ok(Exit::Clean)
}

fn say(message: &str) {
    anstream::eprintln!("refine: {message}");
}

fn tell(trial: &Trial, quiet: u64, trials: u64) {
    let run = trial.run;
    let ended = match trial.status {
        Some(0 | 66) => String::new(),
        Some(status) => format!("; the program ended with status {status}"),
        None => "; the program was killed".to_owned(),
    };
    if trial.removed.is_empty() {
        say(&format!(
            "run {run}: nothing new, {quiet} of {trials}{ended}"
        ));
    }
    for removed in &trial.removed {
        let function = &removed.function;
        say(&format!(
            "run {run}: `{function}` is not atomic ({}){ended}",
            removed.why()
        ));
    }
}

/// Runs once, and looks for functions that are not known yet not to be atomic.
fn one_trial(args: &Args, of: Of, history: &History) -> anyhow::Result<Trial> {
    let at = timestamp(SystemTime::now());
    let started = Instant::now();
    let (status, documents) = observe(args, of)?;
    let mut known: HashSet<&str> = history.removed().map(|(_, one)| &*one.function).collect();
    let mut removed = Vec::new();
    for report in documents.iter().flat_map(accept::counting) {
        // A missing yield is no lack of atomicity, and a loop may be split between two turns.
        if report.criterion == "cooperability" || report.rank == Rank::Low {
            continue;
        }
        if let Some(function) = &report.culprit.function
            && known.insert(function)
        {
            removed.push(Removed::new(function, report));
        }
    }
    Ok(Trial {
        run: history.trials.len() as u64 + 1,
        at,
        seconds: started.elapsed().as_secs_f64(),
        status: status.code(),
        events: documents.iter().map(|document| document.events).sum(),
        removed,
    })
}

fn observe(args: &Args, of: Of) -> anyhow::Result<(ExitStatus, Vec<Document>)> {
    let directory = tempfile::tempdir().context("cannot make a directory")?;
    let saved = directory.path().join("run.json");
    let mut command = Command::new(std::env::current_exe().context("cannot find this executable")?);
    let rest = match of {
        Of::Program => {
            command.arg("run");
            args.command.as_slice()
        }
        Of::Workspace => {
            let at = subcommand(&args.command);
            command.arg("cargo").arg(&args.command[at]);
            command.args(&args.command[..at]);
            &args.command[at + 1..]
        }
    };
    command
        .arg("--save")
        .arg(&saved)
        .arg("--spec")
        .arg(&args.output);
    command
        .args(args.config.passed_on(of == Of::Workspace))
        .args(rest);
    command.stdin(Stdio::null());
    let errors = directory.path().join("said");
    if !args.verbose {
        let file = File::create(&errors).context("cannot make a file")?;
        command.stdout(Stdio::null()).stderr(file);
    }
    let status = child::run(&mut command, directory.path());
    let status = status.context("cannot run this executable again")?;
    let said = std::fs::read(&errors).unwrap_or_default();
    match std::fs::read_to_string(&saved) {
        Ok(text) if text.is_empty() => bail!(
            "nothing was seen of it: is it built by `atomsan cc` or `cargo atomsan`?\n{}",
            String::from_utf8_lossy(&said).trim_end()
        ),
        Ok(text) => Ok((status, merge::read(&saved, &text)?)),
        Err(_) => bail!(
            "the run failed\n{}",
            String::from_utf8_lossy(&said).trim_end()
        ),
    }
}

/// Where the subcommand is among the words for `cargo atomsan`: options may come first.
fn subcommand(words: &[OsString]) -> usize {
    let known = |word: &OsString| SUBCOMMANDS.iter().any(|one| word == one);
    words.iter().position(known).unwrap_or(0)
}

/// The specification so far: what it began with, and what was removed.
fn write_spec(
    path: &Path,
    history_path: &Path,
    base: &str,
    history: &History,
) -> anyhow::Result<()> {
    let mut text = format!(
        "# Written by `atomsan refine` after {}; the history is {}.\n{base}",
        output::counted(history.trials.len() as u64, "run"),
        history_path.display()
    );
    for (trial, removed) in history.removed() {
        text.push_str(&format!(
            "# run {}, {}: {}\n",
            trial.run,
            trial.at,
            removed.why()
        ));
        text.push_str(&format!("!{}\n", Pattern::exactly(&removed.function)));
    }
    crate::products::write_file(path, &text)
}

/// Patterns of the specification at the beginning, and whether they are for atomic functions.
fn base_patterns(base: &str) -> Vec<(&str, bool)> {
    (base.lines())
        .map(|line| match line.strip_prefix('!') {
            Some(rest) => (rest, false),
            None => (line, true),
        })
        .collect()
}

/// The same for `atomsan.toml`.
fn section(base: &[(&str, bool)], history: &History) -> String {
    let mut text = "[spec]\n".to_owned();
    let removed: Vec<String> = (history.removed())
        .map(|(_, removed)| Pattern::exactly(&removed.function))
        .collect();
    for (key, atomic) in [("atomic", true), ("not-atomic", false)] {
        let patterns = base
            .iter()
            .filter(|(_, one)| *one == atomic)
            .map(|(text, _)| *text);
        let removed = removed.iter().filter(|_| !atomic).map(String::as_str);
        let patterns: Vec<&str> = patterns.chain(removed).collect();
        if !patterns.is_empty() {
            text.push_str(&format!("{key} = [\n"));
            for pattern in patterns {
                text.push_str(&format!("  {},\n", toml_string(pattern)));
            }
            text.push_str("]\n");
        }
    }
    text
}

/// A TOML string. JSON's escapes are TOML's, too.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A point in time as people write it, in UTC.
fn timestamp(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let (mut days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (month, day) = (month + 1, days + 1);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn options_may_come_before_the_subcommand() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(Into::into).collect() };
        for (command, at) in [
            ("test --lib", 0),
            ("--noise run", 1),
            ("--engine blocks run", 2),
        ] {
            assert_eq!(subcommand(&words(command)), at, "{command}");
        }
    }

    #[test]
    fn points_in_time() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_794_787_200, "2026-11-16T00:00:00Z"),
        ] {
            assert_eq!(
                timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
                text
            );
        }
    }
}
