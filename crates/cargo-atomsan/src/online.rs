//! Checking a program while it runs (`--online`).
//!
//! This process follows every recording that appears in the directory, so the program, its
//! children and their exits are left alone, and what was found before a crash has been told: in a
//! line as soon as it is found, and in full at the end.

use crate::document::{About, document};
use crate::exit::Exit;
use crate::recorded::{self, Seen};
use crate::{child, output, pass};
use anyhow::Context as _;
use atomsan_engines::checker::Checker;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_online::{Follower, Options};
use atomsan_recording::{Events, Options as Sources};
use atomsan_report::{Document, Rank, Report};
use atomsan_trace::Spec;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Room for logs on their way from the program to the check.
pub(crate) const LOGS: u64 = 64 << 20;
/// What is kept of the logs, unless `--memory` says something else.
const KEPT: u64 = 256 << 20;

/// All processes of a program.
struct Watch<'a> {
    directory: &'a Path,
    sources: &'a Sources,
    spec: Spec,
    args: &'a recorded::Args,
    processes: BTreeMap<PathBuf, Process>,
    started: Instant,
}

struct Process {
    follower: Follower,
    /// How many violations have been looked at.
    told: u64,
    /// Those that have been told.
    shown: HashSet<String>,
}

/// Runs a program and checks it meanwhile.
pub(crate) fn run(
    command: &mut Command,
    directory: &Path,
    sources: &Sources,
    args: &recorded::Args,
    last: &Path,
) -> anyhow::Result<(ExitStatus, Option<Exit>)> {
    let mut watch = Watch {
        directory,
        sources,
        spec: args.spec()?,
        args,
        processes: BTreeMap::new(),
        started: Instant::now(),
    };
    let status = child::run_while(command, directory, || watch.advance())
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    while watch.advance()? {}
    if watch.processes.is_empty() {
        return Ok((status, None));
    }
    let (documents, seen, first_run) = watch.finish()?;
    let exit = match &args.flags.first_run {
        Some(path) => write_first_run(path, first_run, args)?,
        None => recorded::conclude(documents, seen, args, last)?,
    };
    Ok((status, Some(exit)))
}

impl Watch<'_> {
    /// Follows all processes; whether there was anything new.
    fn advance(&mut self) -> anyhow::Result<bool> {
        self.find_processes()?;
        let mut news = false;
        for process in self.processes.values_mut() {
            news |= process.follower.advance()?;
            process.tell(self.args);
        }
        Ok(news)
    }

    fn find_processes(&mut self) -> anyhow::Result<()> {
        for file in recorded::recordings(self.directory)? {
            if self.processes.contains_key(&file) {
                continue;
            }
            let options = Options {
                recording: self.args.options(self.sources),
                spec: self.spec.clone(),
                memory: self.args.memory.unwrap_or(KEPT) as usize,
                first_run: self.args.flags.first_run.is_some(),
                keep_all: self.args.watch.compare,
                ..Options::default()
            };
            let follower = Follower::open(&file, options)
                .with_context(|| format!("cannot follow {}", file.display()))?;
            if let Some(follower) = follower {
                let process = Process {
                    follower,
                    told: 0,
                    shown: HashSet::new(),
                };
                self.processes.insert(file, process);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<(Vec<Document>, Seen, StaticInfo)> {
        let mut documents = Vec::new();
        let mut seen = Seen::default();
        let mut first_run = StaticInfo::default();
        for process in self.processes.values_mut() {
            process.follower.finish()?;
            first_run.unite(process.follower.static_info().clone());
            let summary = process.follower.summary();
            let mut counters = summary.counters;
            counters.dropped += summary.forgotten;
            let mut document = document(
                process.follower.checker(),
                About {
                    file: program(process.follower.maps()).unwrap_or_default(),
                    process: Some(counters.pid),
                    seconds: self.started.elapsed().as_secs_f64(),
                    warnings: recorded::warnings(&counters),
                    stats: false,
                },
            );
            document.events = summary.records;
            if let Some(engine) = document.engines.first_mut() {
                let stats = process.follower.stats().into_iter();
                engine.stats = stats
                    .map(|stat| (stat.name.to_owned(), stat.value.into()))
                    .collect();
            }
            if self.args.watch.compare {
                compare(&process.follower, self.sources, &self.spec, self.args)?;
            }
            let warnings = recorded::warnings(&counters);
            seen.add(&counters, summary.records, warnings);
            documents.push(document);
        }
        Ok((documents, seen, first_run))
    }
}

/// The program: the first file that is mapped.
fn program(maps: &str) -> Option<String> {
    let path = maps
        .lines()
        .find_map(|line| Some(&line[line.find('/')?..]))?;
    Some(path.to_owned())
}

/// Writes what a first run has found, with what the runs before it found.
fn write_first_run(
    path: &Path,
    mut found: StaticInfo,
    args: &recorded::Args,
) -> anyhow::Result<Exit> {
    if args.watch.has_run()
        && let Ok(text) = std::fs::read_to_string(path)
    {
        found.unite(StaticInfo::parse(path, &text)?);
    }
    std::fs::write(path, found.to_string())
        .with_context(|| format!("cannot write to {}", path.display()))?;
    let unary = if found.unary {
        " and accesses outside of regions"
    } else {
        ""
    };
    anstream::eprintln!(
        "atomsan: a first run: {} regions{unary} to check in a second run",
        output::grouped(found.regions.len() as u64)
    );
    Ok(Exit::Clean)
}

fn reports(checker: &Checker) -> Vec<Report> {
    let about = About {
        file: String::new(),
        process: None,
        seconds: 0.0,
        warnings: Vec::new(),
        stats: false,
    };
    document(checker, about).findings
}

impl Process {
    /// Says in a line each what has been found since the last time.
    fn tell(&mut self, args: &recorded::Args) {
        let checker = self.follower.checker();
        let total = checker.runs().iter().map(|run| run.findings.total()).sum();
        if !args.render.is_text() || std::mem::replace(&mut self.told, total) == total {
            return;
        }
        for report in reports(checker) {
            if (args.all || report.rank > Rank::Low)
                && self.shown.insert(report.fingerprint.clone())
            {
                let culprit = &report.culprit;
                anstream::eprintln!(
                    "atomsan: found while it runs: `{}` is not atomic, {} lines {:?}",
                    culprit.function.as_deref().unwrap_or("?"),
                    culprit.file.as_deref().unwrap_or("?"),
                    culprit.lines,
                );
            }
        }
    }
}

/// Checks the same run again, as a recording, and says in which findings the two differ.
fn compare(
    follower: &Follower,
    sources: &Sources,
    spec: &Spec,
    args: &recorded::Args,
) -> anyhow::Result<()> {
    let recording = follower.recording();
    let mut events = Events::new(&recording, args.options(sources));
    let offline = pass::check(&mut events, spec, args, None, &AtomicU64::new(0))?;
    let culprits = |checker: &Checker| -> Vec<String> {
        let mut culprits: Vec<String> = reports(checker)
            .into_iter()
            .map(|report| {
                let culprit = report.culprit;
                format!(
                    "{} {:?}",
                    culprit.function.unwrap_or_default(),
                    culprit.lines
                )
            })
            .collect();
        culprits.sort();
        culprits.dedup();
        culprits
    };
    let (online, offline) = (culprits(follower.checker()), culprits(&offline));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        let only = these.iter().filter(|this| !those.contains(this));
        only.cloned().collect()
    };
    anstream::eprintln!(
        "compared: both {}, only online {:?}, only offline {:?}",
        online.iter().filter(|one| offline.contains(one)).count(),
        only(&online, &offline),
        only(&offline, &online),
    );
    Ok(())
}
