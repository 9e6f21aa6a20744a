//! Checking what the runtime recorded, and telling the user.

use crate::accept::{self, Judge};
use crate::check;
use crate::destination::{self, Destination};
use crate::document::{About, document};
use crate::engines;
use crate::exit::Exit;
use crate::last;
use crate::output::{self, Output};
use crate::products;
use crate::progress::Progress;
use crate::render;
use anyhow::Context as _;
use atomsan_engines::checker::Checker;
use atomsan_recording::file::Counters;
use atomsan_recording::symbols;
use atomsan_recording::{Events, Options, Recording};
use atomsan_report::{Rank, Report, unite};
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

    /// Whose functions should be atomic, besides the user's own: workspace, direct, all, or names of
    /// crates (of directories, where cargo has not built the program)
    #[arg(
        long,
        value_name = "WHOSE",
        value_delimiter = ',',
        default_value = "workspace"
    )]
    pub(crate) regions: Vec<Whose>,

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

    /// Keep the result here for `atomsan report`
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) accept: accept::Args,

    #[command(flatten)]
    pub(crate) render: render::Flags,

    #[command(flatten)]
    flags: engines::Flags,
}

/// Whose functions should be atomic; the user's own always.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// The user's own.
    Workspace,
    /// Those of the packages that the user's own depend on directly.
    Direct,
    /// All that are instrumented.
    All,
    /// Those of a package; of a program that was not built by cargo, a directory.
    Named(String),
}

impl From<&str> for Whose {
    fn from(name: &str) -> Whose {
        match name {
            "workspace" => Whose::Workspace,
            "direct" => Whose::Direct,
            "all" => Whose::All,
            _ => Whose::Named(name.to_owned()),
        }
    }
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
    let memory = args.memory.unwrap_or_else(default_memory);
    vec![
        ("ATOMSAN_DIR", recordings.into()),
        ("ATOMSAN_MEMORY", memory.to_string().into()),
        ("ATOMSAN_NOISE", args.noise.unwrap_or(0).to_string().into()),
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
    pub(crate) args: Args,

    /// The recording, which is removed
    file: PathBuf,
}

/// Checks the recording of a program that was started by itself.
pub(crate) fn run(recorded: &Recorded) -> anyhow::Result<Exit> {
    let files = std::slice::from_ref(&recorded.file);
    let exit = check_files(files, &Options::default(), &recorded.args, &last::place()?);
    let _ = std::fs::remove_file(&recorded.file);
    exit
}

/// Checks all recordings in a directory; `sources` says which functions are the user's. The result
/// is kept in `last`, unless the user has another place for it.
pub(crate) fn check_all(
    directory: &Path,
    sources: &Options,
    args: &Args,
    last: &Path,
) -> anyhow::Result<Exit> {
    check_files(&recordings(directory)?, sources, args, last)
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

fn check_files(
    files: &[PathBuf],
    sources: &Options,
    args: &Args,
    last: &Path,
) -> anyhow::Result<Exit> {
    let spec = check::spec(args.spec.as_deref(), &args.accept)?;
    let mut judge = Judge::new(&args.accept);
    let shown = |report: &Report| args.all || report.rank > Rank::Low;
    let mut out = match &args.render.output {
        Some(path) => Output::open(Some(path))?,
        None => Output::stderr(),
    };
    let mut seen = Seen::default();
    let mut documents = Vec::new();
    let mut progress = Progress::new("checking");
    for (at, file) in files.iter().enumerate() {
        let recording = Recording::open(file)?;
        let started = Instant::now();
        let (before, total) = (seen.events, files.len() as u64);
        let total = (total > 1).then_some(total);
        let checker = check(&recording, sources, &spec, args, |events| {
            progress.update(before + events, at as u64, total);
        })?;
        let counters = recording.counters();
        let mut document = document(
            &checker,
            About {
                file: program(&recording).unwrap_or_else(|| file.display().to_string()),
                process: Some(counters.pid),
                seconds: started.elapsed().as_secs_f64(),
                warnings: [warnings(&counters), unseen_libraries(&recording)].concat(),
                stats: args.render.html,
            },
        );
        judge.judge(&mut document, shown);
        seen.add(&counters, checker.events());
        seen.warn(counters.pid, unseen_libraries(&recording));
        documents.push(document);
    }
    drop(progress);
    last::save(args.save.as_deref().unwrap_or(last), &documents)?;
    let accepted = judge.finish()?;
    for document in &mut documents {
        let all = document.findings.len();
        document.findings.retain(shown);
        seen.hidden += all - document.findings.len();
    }
    let least = args.fail_on.into();
    let found = documents.iter().any(|one| accept::counts(one, least));
    if !args.render.is_text() {
        render::documents(&mut out, &args.render, &documents)?;
    } else if !files.is_empty() {
        let all = unite(documents, products::unite);
        let one = std::slice::from_ref(&all);
        render::findings(&mut out, accept::counting(&all), one)?;
        seen.findings = accept::counting(&all).count();
        out.write(|out| writeln!(out, "{seen}"))?;
        for line in accepted {
            out.write(|out| writeln!(out, "atomsan: {line}"))?;
        }
    }
    Ok(if found { Exit::Findings } else { Exit::Clean })
}

/// `progress` is told how many events there were.
fn check(
    recording: &Recording,
    sources: &Options,
    spec: &Spec,
    args: &Args,
    mut progress: impl FnMut(u64),
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
    let options = Options {
        models: args.accept.config.models.clone(),
        ..sources.clone()
    };
    for mut batch in Events::new(recording, options) {
        if let Some(kept) = &mut kept {
            kept.write(&batch)?;
        }
        checker.batch(&mut batch);
        progress(checker.events());
    }
    checker.finish();
    if let Some(kept) = kept {
        kept.finish()?;
    }
    Ok(checker)
}

/// The program that was recorded: the first file that is mapped.
fn program(recording: &Recording) -> Option<String> {
    let maps = recording.maps().next()?;
    let path = maps
        .lines()
        .find_map(|line| Some(&line[line.find('/')?..]))?;
    Some(path.to_owned())
}

/// What could not be recorded.
fn warnings(counters: &Counters) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |count: u64, what: &str| {
        if count > 0 {
            warnings.push(format!("{} {what}", output::grouped(count)));
        }
    };
    warn(
        counters.dropped,
        "events did not fit into --memory and were not recorded",
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

/// Libraries that nothing was seen of.
fn unseen_libraries(recording: &Recording) -> Vec<String> {
    const NAMED: usize = 3;
    let libraries = symbols::uninstrumented(recording);
    let named = libraries[..libraries.len().min(NAMED)].join(", ");
    match libraries.len() {
        0 => Vec::new(),
        count @ 1..=NAMED => vec![format!(
            "{named} {} not instrumented; what happens there is not seen",
            if count == 1 { "is" } else { "are" }
        )],
        count => vec![format!(
            "{named} and {} other libraries are not instrumented; what happens there is not seen",
            count - NAMED
        )],
    }
}

/// How much was seen, over all processes.
#[derive(Default)]
struct Seen {
    processes: u64,
    threads: u64,
    events: u64,
    findings: usize,
    /// Findings of low rank that nobody asked for.
    hidden: usize,
    warnings: Vec<String>,
}

impl Seen {
    fn add(&mut self, counters: &Counters, events: u64) {
        self.processes += 1;
        self.threads += counters.threads;
        self.events += events;
        self.warn(counters.pid, warnings(counters));
    }

    fn warn(&mut self, process: u64, warnings: Vec<String>) {
        let named = warnings.into_iter();
        self.warnings
            .extend(named.map(|warning| format!("process {process}: {warning}")));
    }
}

fn counted(count: u64, what: &str, plural: &str) -> String {
    let ending = if count == 1 { "" } else { plural };
    format!("{} {what}{ending}", output::grouped(count))
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = match self.findings {
            0 => "nothing found".to_owned(),
            1 => "1 finding".to_owned(),
            n => format!("{n} findings"),
        };
        let hidden = match self.hidden {
            0 => String::new(),
            n => format!(" ({n} of low rank not shown; --all shows them)"),
        };
        write!(
            f,
            "atomsan: {verdict}{hidden} in {} of {} in {}",
            counted(self.events, "shared event", "s"),
            counted(self.threads, "thread", "s"),
            counted(self.processes, "process", "es"),
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
