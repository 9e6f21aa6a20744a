//! Checking what the runtime recorded, and telling the user.

use crate::accept;
use crate::check;
use crate::document::{self, About, document, further};
use crate::engines;
use crate::exit::Exit;
use crate::last;
use crate::nextest::Nextest;
use crate::outcome::{Outcome, Runs};
use crate::products::Products;
use crate::progress::Progress;
use crate::render;
use crate::{child, interrupt, online, pass, watch};
use anyhow::Context as _;
use atomsan_engines::demotion::demote;
use atomsan_recording::file::Counters;
use atomsan_recording::{Events, Options, Recording};
use atomsan_recording::{symbols, vectors};
use atomsan_report::Document;
use atomsan_trace::Spec;
use atomsan_trace::numbers::grouped;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
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
        default_values = engines::DEFAULT
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

    /// How many bytes a recording may have; with --online, the logs of a program (by default 64M)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,

    /// Let other threads in after one in N releases and atomic operations, to see more schedules
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    pub(crate) noise: Option<u64>,

    /// Keep the events of the program in a trace file; of several processes, in one each, with the
    /// number of the process in its name
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
    pub(crate) watch: watch::Flags,

    #[command(flatten)]
    pub(crate) flags: engines::Flags,

    /// Whether yields are asked for, and not findings.
    #[arg(skip)]
    yields: bool,

    /// What nextest writes about the tests that it runs.
    #[arg(skip)]
    pub(crate) nextest: Option<Nextest>,
}

impl Args {
    /// Asks for the places where other threads matter, and nothing else.
    pub(crate) fn ask_for_yields(&mut self) {
        self.engine = vec!["silver".to_owned()];
        self.yields = true;
    }

    /// Whether yields are asked for, and not findings.
    pub(crate) fn asks_for_yields(&self) -> bool {
        self.yields
    }

    /// Whether the program is checked while it runs.
    pub(crate) fn is_online(&self) -> bool {
        self.watch.online || self.flags.first_run.is_some()
    }

    /// Refuses engines that are not there, or cannot do what is asked.
    pub(crate) fn check_engines(&self) -> anyhow::Result<()> {
        self.flags.choices()?;
        match self.is_online() {
            true => engines::choose_online(&self.engine)?,
            false => engines::choose(&self.engine)?,
        };
        Ok(())
    }

    /// Which functions are the user's, and which are synchronisation.
    pub(crate) fn options(&self, sources: &Options) -> Options {
        Options {
            models: self.accept.config.models.clone(),
            ..sources.clone()
        }
    }

    /// The specification that was asked for.
    pub(crate) fn spec(&self) -> anyhow::Result<Spec> {
        check::spec(self.spec.as_deref(), &self.accept)
    }
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
    let memory = match args.memory {
        _ if args.is_online() => online::LOGS,
        Some(memory) => memory,
        None => default_memory(),
    };
    let follower = match args.is_online() {
        true => std::process::id(),
        false => 0,
    };
    let number = |flag: bool| OsString::from(u8::from(flag).to_string());
    vec![
        ("ATOMSAN_DIR", recordings.into()),
        ("ATOMSAN_FOLLOWED", follower.to_string().into()),
        ("ATOMSAN_LOGS", number(args.flags.first_run.is_none())),
        ("ATOMSAN_MEMORY", memory.to_string().into()),
        ("ATOMSAN_NOISE", args.noise.unwrap_or(0).to_string().into()),
    ]
}

/// A directory for recordings, which goes away when it is dropped. Logs that are read while they
/// are written, and are used again, are kept off the disk.
pub(crate) fn directory(online: bool) -> anyhow::Result<tempfile::TempDir> {
    let make = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("atomsan-");
        builder
    };
    if online && let Ok(directory) = make().tempdir_in("/dev/shm") {
        return Ok(directory);
    }
    make()
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

/// Check a recording that a program has left behind
#[derive(Debug, clap::Args)]
pub(crate) struct Recorded {
    #[command(flatten)]
    pub(crate) args: Args,

    /// The recording, which is removed
    file: PathBuf,
}

/// Checks the recording of a program that was started by itself.
pub(crate) fn run(recorded: &Recorded) -> anyhow::Result<Exit> {
    child::watch_signals()?;
    let args = &recorded.args;
    let files = std::slice::from_ref(&recorded.file);
    let outcome = check_files(files, &Options::default(), args);
    let _ = std::fs::remove_file(&recorded.file);
    for (process, left) in left_behind(&recorded.file) {
        eprintln!(
            "atomsan: process {process} ended without a check, killed perhaps; `atomsan recorded {}` \
             checks what it has recorded, and removes it",
            left.display()
        );
    }
    let mut runs = Runs::one_of_many();
    runs.add(outcome?, None, 1, args);
    runs.conclude(args, &last::place()?)
}

/// Recordings beside another one whose processes are gone: a crash leaves one behind, because nobody
/// was there to check it.
fn left_behind(recording: &Path) -> Vec<(u32, PathBuf)> {
    let Some(entries) = recording.parent().and_then(|folder| folder.read_dir().ok()) else {
        return Vec::new();
    };
    let own = |path: &Path| {
        let file = std::fs::metadata(path).ok()?;
        (file.uid() == rustix::process::getuid().as_raw()).then_some(())
    };
    let mut left: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?;
            let process = name.strip_prefix("atomsan-")?.strip_suffix(".rec")?;
            let process = process.split('-').next()?.parse().ok()?;
            own(&path)?;
            let runs = Path::new("/proc").join(format!("{process}")).exists();
            (!runs).then_some((process, path))
        })
        .collect();
    left.sort();
    left
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

/// Checks recordings; `sources` says which functions are the user's.
pub(crate) fn check_files(
    files: &[PathBuf],
    sources: &Options,
    args: &Args,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut progress = Progress::new("checking");
    let total = files.iter().map(|file| pass::work(file)).sum();
    let (mut done, count) = (0, AtomicU64::new(0));
    for file in files {
        let recording = &Recording::open(file)?;
        let trace = args.save_trace.as_ref().map(|path| match files {
            [_] => path.clone(),
            _ => numbered(path, recording.counters().pid),
        });
        let whole = (done, total);
        pass::watched(recording, &mut progress, whole, &count, || {
            let mut document = check_file(recording, sources, args, trace, &count, &mut outcome)?;
            if document.file.is_empty() {
                document.file = file.display().to_string();
            }
            document.test = document::test(file);
            outcome.documents.push(document);
            Ok::<_, anyhow::Error>(())
        })?;
        if interrupt::is_wanted() {
            break;
        }
        done += pass::work(file);
    }
    Ok(outcome)
}

fn check_file(
    recording: &Recording,
    sources: &Options,
    args: &Args,
    trace: Option<PathBuf>,
    count: &AtomicU64,
    outcome: &mut Outcome,
) -> anyhow::Result<Document> {
    let started = Instant::now();
    let counters = recording.counters();
    let spec = args.spec()?;
    let mut events = Events::new(recording, args.options(sources));
    let program = program(recording).unwrap_or_default();
    let trace = trace.map(|path| (path, program.clone()));
    let mut checker = pass::check(&mut events, &spec, args, trace, count)?;
    if args.flags.first_run.is_some() {
        let products = Products::of(&checker)?;
        outcome.first_run.unite(products.first_run());
        return Ok(Document::default());
    }
    if args.yields {
        let engines = checker.runs().iter();
        let stats: Vec<_> = engines.flat_map(|run| run.engine.stats()).collect();
        outcome.add_density(&stats);
    }
    let not_seen = [unseen_code(recording), not_looked_at(recording, &events)].concat();
    let mut document = document(
        &checker,
        About {
            file: program,
            process: Some(counters.pid),
            seconds: started.elapsed().as_secs_f64(),
            warnings: [&warnings(&counters)[..], &not_seen].concat(),
            stats: args.render.html || args.asks_for_yields(),
        },
    );
    outcome.seen.add(&counters, checker.events());
    outcome.seen.warn(counters.pid, not_seen);
    for run in checker.runs() {
        let name = run.engine.name();
        let remarks = run.engine.remarks().into_iter();
        let remarks = remarks.map(|remark| format!("{name}: {remark}")).collect();
        outcome.seen.warn(counters.pid, remarks);
    }
    let mut refined = spec;
    for _ in 1..PASSES {
        if recording.is_stopped() || !demote(&checker, &mut refined) {
            break;
        }
        events = events.again();
        checker = pass::check(&mut events, &refined, args, None, &AtomicU64::new(0))?;
        further(&mut document, &checker);
    }
    Ok(document)
}

/// How often a recording is checked: once, and again while what was found shows functions not to be
/// atomic that were expected to be. Nested mistakes are rare.
pub(crate) const PASSES: usize = 3;

/// A name with a number in front of its endings, which say the format.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (name, endings) = name.split_once('.').unwrap_or((&name, ""));
    path.with_file_name(format!("{name}.{number}.{endings}"))
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
pub(crate) fn warnings(counters: &Counters) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |count: u64, what: &str| {
        if count > 0 {
            warnings.push(format!("{} {what}", grouped(count)));
        }
    };
    warn(
        counters.dropped,
        "events did not fit into --memory; the oldest were forgotten, transactions without their beginning \
         are not checked, and what one thread had to itself was left out",
    );
    warn(
        counters.unseen_threads,
        "threads were too many at once and were not recorded",
    );
    warn(
        counters.interrupted,
        "events in signal handlers were not recorded",
    );
    if counters.window > 0 {
        warnings.push(format!(
            "the process may have few addresses (`ulimit -v`): accesses {} MB apart were not told \
             from each other, and some may be missing",
            counters.window >> 20
        ));
    }
    warnings
}

/// What of the program was not seen because of how it was compiled.
fn unseen_code(recording: &Recording) -> Vec<String> {
    let mut unseen = unseen_libraries(recording);
    let wide = vectors::wide_vectors(recording);
    if !wide.is_empty() {
        unseen.push(format!(
            "clang compiled {} for vectors of more than 16 bytes; their accesses are not seen",
            wide.join(", ")
        ));
    }
    unseen
}

/// What was recorded and not looked at.
fn not_looked_at(recording: &Recording, events: &Events<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if recording.is_stopped() {
        warnings.push("the check was interrupted; what comes later was not looked at".to_owned());
    }
    if events.left_out() > 0 {
        warnings.push(format!(
            "the program accessed more memory than is looked at; {} bytes were left out",
            grouped(events.left_out())
        ));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_of_several_processes_keep_their_format() {
        let path = Path::new("out/t.std.zst");
        assert_eq!(numbered(path, 42), Path::new("out/t.42.std.zst"));
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert_eq!(parse_size("512m"), Ok(512 << 20));
        assert!(parse_size("much").is_err() && parse_size("99999999999G").is_err());
    }
}
