//! Checking a program while it runs (`--online`).
//!
//! This process follows every recording that appears in the directory, so the program, its
//! children and their exits are left alone, and what was found before a crash has been told.

use crate::document::{About, document};
use crate::exit::Exit;
use crate::output::{self, Output};
use crate::recorded::{self, Seen};
use crate::render;
use anyhow::Context as _;
use atomsan_engines::checker::Checker;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_online::{Follower, Options};
use atomsan_report::{Rank, Report};
use atomsan_trace::Spec;
use std::collections::BTreeMap;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Room for logs on their way from the program to the check.
pub(crate) const LOGS: u64 = 64 << 20;
/// What is kept of the logs, unless `--memory` says something else.
const KEPT: u64 = 256 << 20;

/// All processes of a program.
struct Watch<'a> {
    directory: &'a Path,
    roots: &'a [PathBuf],
    spec: &'a Spec,
    args: &'a recorded::Args,
    processes: BTreeMap<PathBuf, Process>,
    out: Output,
}

struct Process {
    follower: Follower,
    /// How many violations have been looked at.
    told: u64,
    /// Those that have been shown.
    shown: HashSet<String>,
}

/// Runs a program and checks it meanwhile.
pub(crate) fn run(
    command: &mut Command,
    directory: &Path,
    roots: &[PathBuf],
    args: &recorded::Args,
) -> anyhow::Result<(ExitStatus, Exit)> {
    let spec = recorded::spec(args)?;
    let mut watch = Watch {
        directory,
        roots,
        spec: &spec,
        args,
        processes: BTreeMap::new(),
        out: recorded::destination(args)?,
    };
    let started = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let mut idle = Duration::ZERO;
    let status = loop {
        if watch.advance()? {
            idle = Duration::ZERO;
            continue;
        }
        if let Some(status) = child.try_wait().context("cannot wait for the program")? {
            break status;
        }
        idle = (idle + Duration::from_micros(100)).min(Duration::from_millis(2));
        std::thread::sleep(idle);
    };
    let exit = watch.finish(started)?;
    Ok((status, exit))
}

impl Watch<'_> {
    /// Follows all processes; whether there was anything new.
    fn advance(&mut self) -> anyhow::Result<bool> {
        self.find_processes()?;
        let mut news = false;
        for process in self.processes.values_mut() {
            news |= process.follower.advance()?;
            process.tell(&mut self.out, self.args)?;
        }
        Ok(news)
    }

    fn find_processes(&mut self) -> anyhow::Result<()> {
        for file in recorded::recordings(self.directory)? {
            if self.processes.contains_key(&file) {
                continue;
            }
            let options = Options {
                recording: recorded::options(self.roots, self.args),
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

    fn finish(&mut self, started: Instant) -> anyhow::Result<Exit> {
        while self.advance()? {}
        let mut seen = Seen::default();
        let mut exit = Exit::Clean;
        let mut first_run = StaticInfo::default();
        for process in self.processes.values_mut() {
            process.follower.finish()?;
            process.tell(&mut self.out, self.args)?;
            first_run.unite(process.follower.static_info().clone());
            let summary = process.follower.summary();
            let mut warnings = recorded::warnings(&summary.counters);
            if summary.forgotten > 0 {
                warnings.push(format!(
                    "{} events did not fit into --memory; the oldest were forgotten",
                    output::grouped(summary.forgotten)
                ));
            }
            let mut document = document(
                process.follower.checker(),
                About {
                    file: recorded::program(process.follower.maps()).unwrap_or_default(),
                    process: Some(summary.counters.pid),
                    seconds: started.elapsed().as_secs_f64(),
                    warnings,
                    stats: false,
                },
            );
            document.events = summary.records;
            if let Some(summary) = document.engines.first_mut() {
                let stats = process.follower.stats().into_iter();
                summary.stats = stats
                    .map(|stat| (stat.name.to_owned(), stat.value.into()))
                    .collect();
            }
            document
                .findings
                .retain(|report| is_shown(report, self.args));
            let fails = |report: &Report| report.rank >= self.args.fail_on.into();
            if document.findings.iter().any(fails) {
                exit = Exit::Findings;
            }
            if self.args.render.json {
                render::json(&mut self.out, std::slice::from_ref(&document))?;
            }
            if self.args.watch.compare {
                compare(&process.follower, self.roots, self.spec, self.args)?;
            }
            let forgotten = summary.forgotten;
            let mut counters = summary.counters;
            counters.dropped += forgotten;
            seen.add(&counters, summary.records, document.findings.len());
        }
        if let Some(path) = &self.args.flags.first_run {
            return self.first_run(path, first_run);
        }
        if !self.args.render.json && !self.processes.is_empty() {
            self.out.write(|out| writeln!(out, "{seen}"))?;
        }
        Ok(exit)
    }
}

impl Watch<'_> {
    /// Writes what a first run has found, with what the runs before it found.
    fn first_run(&mut self, path: &Path, mut found: StaticInfo) -> anyhow::Result<Exit> {
        if self.args.watch.has_run()
            && let Ok(text) = std::fs::read_to_string(path)
        {
            found.unite(StaticInfo::parse(path, &text)?);
        }
        std::fs::write(path, found.to_string())
            .with_context(|| format!("cannot write to {}", path.display()))?;
        let regions = found.regions.len();
        let unary = if found.unary {
            " and accesses outside of regions"
        } else {
            ""
        };
        self.out.write(|out| {
            writeln!(
                out,
                "atomsan: a first run: {regions} regions{unary} to check in a second run"
            )
        })?;
        Ok(Exit::Clean)
    }
}

fn is_shown(report: &Report, args: &recorded::Args) -> bool {
    args.all || report.rank > Rank::Low
}

impl Process {
    /// Tells what has been found since the last time.
    fn tell(&mut self, out: &mut Output, args: &recorded::Args) -> anyhow::Result<()> {
        let checker = self.follower.checker();
        let total = checker.runs().iter().map(|run| run.findings.total()).sum();
        if args.render.json || std::mem::replace(&mut self.told, total) == total {
            return Ok(());
        }
        for report in reports(checker) {
            if is_shown(&report, args)
                && self.shown.insert(report.fingerprint.clone())
                && (args.watch.runs == 1 || args.watch.is_new(&report))
            {
                render::findings(out, std::slice::from_ref(&report))?;
            }
        }
        Ok(())
    }
}

fn reports(checker: &Checker) -> Vec<Report> {
    crate::document::reports(checker)
}

/// Checks the same run again, as a recording, and says in which findings the two differ.
fn compare(
    follower: &Follower,
    roots: &[PathBuf],
    spec: &Spec,
    args: &recorded::Args,
) -> anyhow::Result<()> {
    let recording = follower.recording();
    let options = recorded::options(roots, args);
    let offline = recorded::check(&recording, options, spec, args)?;
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
