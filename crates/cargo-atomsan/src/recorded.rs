//! Checking what the runtime recorded, and telling the user.

use crate::check;
use crate::destination::{self, Destination};
use crate::document::{About, document};
use crate::engines;
use crate::exit::Exit;
use crate::output::{self, Output};
use crate::products::Products;
use crate::render;
use crate::{online, watch};
use anyhow::Context as _;
use atomsan_engines::checker::Checker;
use atomsan_engines::cooperability::density::Density;
use atomsan_recording::file::Counters;
use atomsan_recording::{Events, Options, Recording};
use atomsan_report::{Rank, Report};
use atomsan_trace::{Names, Spec};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How the recordings of a program are checked.
#[derive(Debug, clap::Args)]
#[group(id = "recorded")]
pub(crate) struct Args {
    /// The engines to run, or `all`; by default, what was observed and what is predicted
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "doublechecker,blocks"
    )]
    pub(crate) engine: Vec<String>,

    /// Whose functions should be atomic
    #[arg(long, value_name = "WHOSE", default_value = "workspace")]
    pub(crate) regions: RegionsArg,

    /// Which functions should be atomic and which not
    #[arg(long, value_name = "FILE")]
    pub(crate) spec: Option<PathBuf>,

    /// The least rank that makes the exit status 66
    #[arg(long, value_name = "RANK", default_value = "medium")]
    pub(crate) fail_on: check::RankArg,

    /// Show findings of low rank too
    #[arg(long)]
    pub(crate) all: bool,

    /// How many bytes a recording may have
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,

    /// Let other threads in after one in N releases and atomic operations, to see more schedules
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    pub(crate) noise: Option<u64>,

    /// Keep the events of the program in a trace file
    #[arg(long, value_name = "FILE")]
    pub(crate) save_trace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) render: render::Flags,

    #[command(flatten)]
    pub(crate) watch: watch::Flags,

    #[command(flatten)]
    pub(crate) flags: engines::Flags,

    /// Whether yields are asked for, and not findings.
    #[arg(skip)]
    yields: bool,
}

impl Args {
    /// Asks for the places where other threads matter, and nothing else.
    pub(crate) fn ask_for_yields(&mut self) {
        self.engine = vec!["silver".to_owned()];
        self.yields = true;
    }

    /// Whether the program is checked while it runs.
    pub(crate) fn is_online(&self) -> bool {
        self.watch.online || self.flags.first_run.is_some()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum RegionsArg {
    /// The user's own.
    Workspace,
    /// All that are instrumented.
    All,
}

/// A number of bytes: `2G`, `512M`, `65536`.
fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.to_ascii_uppercase().as_bytes() {
        [.., b'K'] => (&text[..text.len() - 1], 1 << 10),
        [.., b'M'] => (&text[..text.len() - 1], 1 << 20),
        [.., b'G'] => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is not a size; expected for example 512M or 2G"))?;
    number
        .checked_mul(unit)
        .ok_or_else(|| format!("{text} is too much"))
}

/// What the runtime is told by the environment.
pub(crate) fn environment(args: &Args, recordings: &Path) -> Vec<(&'static str, OsString)> {
    let memory = match args.memory {
        _ if args.is_online() => online::LOGS,
        Some(memory) => memory,
        None => default_memory(),
    };
    let number = |flag: bool| OsString::from(u8::from(flag).to_string());
    vec![
        ("ATOMSAN_DIR", recordings.into()),
        ("ATOMSAN_FOLLOWED", number(args.is_online())),
        ("ATOMSAN_LOGS", number(args.flags.first_run.is_none())),
        ("ATOMSAN_MEMORY", memory.to_string().into()),
    ]
}

/// A directory for recordings, which goes away when it is dropped.
pub(crate) fn directory() -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("atomsan-")
        .tempdir()
        .context("cannot make a directory for recordings")
}

/// A quarter of the machine's memory.
fn default_memory() -> u64 {
    let total = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        });
    total.map_or(1 << 30, |kilobytes| kilobytes * 1024 / 4)
}

/// Check a recording of the runtime; for the runtime itself
#[derive(Debug, clap::Args)]
pub(crate) struct Recorded {
    #[command(flatten)]
    args: Args,

    /// The recording, which is removed
    file: PathBuf,
}

/// Checks the recording of a program that was started by itself.
pub(crate) fn run(recorded: &Recorded) -> anyhow::Result<Exit> {
    let exit = check_files(std::slice::from_ref(&recorded.file), &[], &recorded.args);
    let _ = std::fs::remove_file(&recorded.file);
    exit
}

/// Checks all recordings in a directory; `roots` are the user's sources.
pub(crate) fn check_all(directory: &Path, roots: &[PathBuf], args: &Args) -> anyhow::Result<Exit> {
    check_files(&recordings(directory)?, roots, args)
}

/// The recordings in a directory.
pub(crate) fn recordings(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "rec"))
        .collect();
    files.sort();
    Ok(files)
}

/// The specification that was asked for.
pub(crate) fn spec(args: &Args) -> anyhow::Result<Spec> {
    match &args.spec {
        Some(path) => check::read_spec(path),
        None => Ok(Spec::default()),
    }
}

/// Where results go.
pub(crate) fn destination(args: &Args) -> anyhow::Result<Output> {
    match &args.render.output {
        Some(path) if args.watch.has_run() => Output::append(path),
        Some(path) => Output::open(Some(path)),
        None => Ok(Output::stderr()),
    }
}

/// Whose functions are regions.
pub(crate) fn options(roots: &[PathBuf], args: &Args) -> Options {
    Options {
        roots: if args.regions == RegionsArg::All {
            vec!["/".into()]
        } else {
            roots.to_vec()
        },
    }
}

fn check_files(files: &[PathBuf], roots: &[PathBuf], args: &Args) -> anyhow::Result<Exit> {
    let spec = spec(args)?;
    let mut out = destination(args)?;
    let mut exit = Exit::Clean;
    let mut seen = Seen::default();
    let mut products = Products::default();
    let mut densities = Vec::new();
    for file in files {
        let recording = Recording::open(file)?;
        let started = Instant::now();
        let checker = check(&recording, options(roots, args), &spec, args)?;
        let counters = recording.counters();
        let mut document = document(
            &checker,
            About {
                file: recording
                    .maps()
                    .next()
                    .and_then(program)
                    .unwrap_or_else(|| file.display().to_string()),
                process: Some(counters.pid),
                seconds: started.elapsed().as_secs_f64(),
                warnings: warnings(&counters),
                stats: false,
            },
        );
        products.add(&checker)?;
        if args.yields {
            densities.push(density(&checker));
            document.findings.clear();
        }
        let shown = |report: &Report| {
            (args.all || report.rank > Rank::Low)
                && (args.watch.runs == 1 || args.watch.is_new(report))
        };
        document.findings.retain(shown);
        let reports = &document.findings;
        if reports
            .iter()
            .any(|report| report.rank >= args.fail_on.into())
        {
            exit = Exit::Findings;
        }
        if args.render.json {
            render::json(&mut out, std::slice::from_ref(&document))?;
        } else {
            render::findings(&mut out, reports)?;
        }
        seen.add(&counters, checker.events(), reports.len());
    }
    products.write(&args.flags, &mut out, args.render.json)?;
    if !args.render.json && !files.is_empty() {
        for density in densities {
            out.write(|out| write!(out, "interference density:\n{density}"))?;
        }
        if !args.yields {
            out.write(|out| writeln!(out, "{seen}"))?;
        }
    }
    Ok(exit)
}

/// The interference density that silver has counted.
fn density(checker: &Checker) -> Density {
    let stats: Vec<_> = (checker.runs().iter())
        .flat_map(|run| run.engine.stats())
        .collect();
    let stat = |name: &str| {
        let found = stats.iter().find(|stat| stat.name == name);
        found.map_or(0, |stat| stat.value)
    };
    Density {
        threads: stat("threads"),
        sites: stat("sites"),
        preemptive: stat("preemptive points"),
        atomic: stat("atomic points"),
        cooperative: stat("cooperative points"),
        inferred: stat("inferred points"),
    }
}

/// Checks a recording.
pub(crate) fn check(
    recording: &Recording,
    options: Options,
    spec: &Spec,
    args: &Args,
) -> anyhow::Result<Checker> {
    let choices = args.flags.choices()?;
    let entries = engines::choose(&args.engine)?;
    let engines = entries.iter().map(|entry| entry.make(&choices)).collect();
    let mut checker = Checker::new(Names::new(spec.clone()), engines, false);
    let mut kept = match &args.save_trace {
        Some(path) => Some(Destination::open(
            Some(path),
            &destination::Flags::default(),
        )?),
        None => None,
    };
    for mut batch in Events::new(recording, options) {
        if let Some(kept) = &mut kept {
            kept.write(&batch)?;
        }
        checker.batch(&mut batch);
    }
    checker.finish();
    if let Some(kept) = kept {
        kept.finish()?;
    }
    Ok(checker)
}

/// The program that was recorded: the first file that is mapped.
pub(crate) fn program(maps: &str) -> Option<String> {
    let path = maps
        .lines()
        .find_map(|line| Some(&line[line.find('/')?..]))?;
    Some(path.to_owned())
}

/// What could not be recorded.
pub(crate) fn warnings(counters: &Counters) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |count: u64, what: &str| {
        if count > 0 {
            warnings.push(format!("{} {what}", output::grouped(count)));
        }
    };
    warn(
        counters.dropped,
        "events did not fit into --memory; the oldest were forgotten",
    );
    warn(
        counters.unseen_threads,
        "threads were too many at once and were not recorded",
    );
    warn(
        counters.interrupted,
        "events in signal handlers were not recorded",
    );
    warnings
}

/// How much was seen, over all processes.
#[derive(Default)]
pub(crate) struct Seen {
    processes: u64,
    threads: u64,
    events: u64,
    findings: usize,
    warnings: Vec<String>,
}

impl Seen {
    pub(crate) fn add(&mut self, counters: &Counters, events: u64, findings: usize) {
        self.processes += 1;
        self.threads += counters.threads;
        self.events += events;
        self.findings += findings;
        let process = counters.pid;
        let named = warnings(counters).into_iter();
        self.warnings
            .extend(named.map(|warning| format!("process {process}: {warning}")));
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = match self.findings {
            0 => "nothing found".to_owned(),
            1 => "1 finding".to_owned(),
            n => format!("{n} findings"),
        };
        write!(
            f,
            "atomsan: {verdict} in {} shared events of {} threads in {} processes",
            output::grouped(self.events),
            output::grouped(self.threads),
            output::grouped(self.processes),
        )?;
        self.warnings
            .iter()
            .try_for_each(|warning| write!(f, "\natomsan: {warning}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert_eq!(parse_size("512m"), Ok(512 << 20));
        assert!(parse_size("much").is_err() && parse_size("99999999999G").is_err());
    }
}
