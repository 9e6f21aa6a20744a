//! Checking a program while it runs (`--online`).
//!
//! This process follows every recording that appears in the directory, so the program, its
//! children and their exits are left alone, and what was found before a crash has been told: in a
//! line as soon as it is found, and in full at the end.

use crate::child::{self, Company};
use crate::document::{self, About, document};
use crate::engines::{self, Choices, Entry};
use crate::outcome::{self, Outcome};
use crate::products::{self, Products};
use crate::recorded;
use crate::{last, pass, program};
use anyhow::Context as _;
use atomsan_engines::checker::Checker;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_online::{Follower, Haste, Options};
use atomsan_recording::symbols::Symbols;
use atomsan_recording::{Events, Options as Sources};
use atomsan_report::{Document, unite};
use atomsan_trace::Spec;
use atomsan_trace::numbers::grouped;
use atomsan_trace::spec::Pattern;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};

/// Room for logs on their way from the program to the check: 64 MB at most unless `--memory` says something else, and
/// 128 KB for each thread. What is not needed costs nothing.
pub(crate) const LOGS: u64 = 512 << 20;
/// What is kept of the logs, unless `--memory` says something else.
const KEPT: u64 = 256 << 20;

/// How often what was found is looked at while it grows.
const OFTEN: Duration = Duration::from_millis(200);

/// Files that are changed so soon after each other may have the same time.
pub(crate) const COARSE: Duration = Duration::from_millis(50);

/// How often it is looked for another process, once there is one. One that asks something rings.
const FOR_PROCESSES: Duration = Duration::from_millis(10);

/// All processes of a program.
struct Watch<'a> {
    directory: &'a Path,
    sources: &'a Sources,
    spec: Spec,
    args: &'a recorded::Args,
    /// The engines that work on the stream of events; none for doublechecker on components.
    engines: Vec<&'static Entry>,
    choices: Choices,
    /// Where findings are kept while the program runs.
    last: &'a Path,
    processes: BTreeMap<PathBuf, Process>,
    /// The program's file, and what has been read of it before it asked anything.
    program: Option<PathBuf>,
    ahead: Option<Symbols>,
    /// When the directory was changed for the last time, if all that is in it is followed.
    complete: Option<SystemTime>,
    /// Somebody has rung who is none of them, or asked nothing.
    rung: bool,
    /// When it was looked for processes last.
    searched: Instant,
    /// Findings that have been told.
    told: HashSet<String>,
    looked: Instant,
    started: Instant,
}

struct Process {
    follower: Follower,
    /// How many violations had been found when last looked.
    violations: u64,
    /// What was found before the check started over.
    before: Option<Document>,
}

/// Runs a program and checks it meanwhile. What is found is kept in `last` as soon as it is found.
pub(crate) fn run(
    command: &mut Command,
    directory: &Path,
    sources: &Sources,
    args: &recorded::Args,
    last: &Path,
) -> anyhow::Result<(ExitStatus, Option<Outcome>)> {
    let mut watch = Watch {
        directory,
        sources,
        spec: args.spec()?,
        args,
        engines: engines::choose_online(&args.engine)?,
        choices: args.flags.choices()?,
        last: args.save.as_deref().unwrap_or(last),
        processes: BTreeMap::new(),
        program: program::instrumented(command),
        ahead: None,
        complete: None,
        rung: false,
        searched: Instant::now(),
        told: HashSet::new(),
        looked: Instant::now(),
        started: Instant::now(),
    };
    if watch.checks_components() {
        let keeps = args.watch.compare;
        command.env("ATOMSAN_LOGS", if keeps { "3" } else { "2" });
        if let Some(info) = args.flags.second_run()? {
            watch.spec = only(&info)?;
            if !info.unary {
                command.env("ATOMSAN_OUTSIDE", "0");
            }
        }
    }
    let status = child::run_while(command, directory, &mut watch)
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    while watch.advance()? == Haste::Now {}
    if watch.processes.is_empty() {
        return Ok((status, None));
    }
    Ok((status, Some(watch.finish()?)))
}

/// The specification of a second run: only what a first run has named should be atomic.
fn only(info: &StaticInfo) -> anyhow::Result<Spec> {
    let mut spec = Spec::default();
    // There is always a rule, so that what is not named is not atomic.
    let names = info.regions.iter().map(|name| Pattern::exactly(name));
    for name in names.chain(std::iter::once(Pattern::exactly(""))) {
        spec.add(Pattern::parse(&name).map_err(anyhow::Error::msg)?, true);
    }
    Ok(spec)
}

impl Company for Watch<'_> {
    /// Reads of the program what it takes to answer its first questions.
    fn prepare(&mut self) {
        self.ahead = self.program.as_deref().map(Symbols::ahead);
    }

    fn answer(&mut self) -> anyhow::Result<bool> {
        let mut asked = false;
        for process in self.processes.values_mut() {
            asked |= process.follower.answer()?;
        }
        // It may be a process that is not known yet.
        self.rung = !asked;
        Ok(asked)
    }

    /// Follows all processes.
    fn advance(&mut self) -> anyhow::Result<Haste> {
        self.find_processes()?;
        let mut haste = Haste::Later;
        for process in self.processes.values_mut() {
            haste = haste.max(process.follower.advance()?);
            process.turn_pages();
        }
        if self.looked.elapsed() >= OFTEN {
            self.tell()?;
            self.looked = Instant::now();
        }
        Ok(haste)
    }
}

impl Watch<'_> {
    /// Whether only components of transactions are checked, in a single run.
    fn checks_components(&self) -> bool {
        self.args.flags.first_run.is_none() && self.engines.is_empty()
    }

    fn find_processes(&mut self) -> anyhow::Result<()> {
        let rung = std::mem::take(&mut self.rung);
        if !rung && !self.processes.is_empty() && self.searched.elapsed() < FOR_PROCESSES {
            return Ok(());
        }
        self.searched = Instant::now();
        let changed = || std::fs::metadata(self.directory)?.modified();
        let changed = changed().unwrap_or_else(|_| SystemTime::now());
        if self.complete == Some(changed) {
            return Ok(());
        }
        // Times of files are coarse: there may be another change at the same time.
        let settled = changed.elapsed().is_ok_and(|time| time > COARSE);
        self.complete = settled.then_some(changed);
        for file in recorded::recordings(self.directory)? {
            if self.processes.contains_key(&file) {
                continue;
            }
            let options = Options {
                recording: self.args.options(self.sources),
                spec: self.spec.clone(),
                memory: self.args.memory.unwrap_or(KEPT) as usize,
                logs: self.args.memory.map_or(Options::default().logs, |memory| {
                    memory.min(LOGS / 4 * 3) as usize
                }),
                first_run: self.args.flags.first_run.is_some(),
                keep_all: self.args.watch.compare,
                // What is checked again as a recording is checked with one specification.
                demote: !self.args.watch.compare,
                ..Options::default()
            };
            let follower = Follower::open(&file, options)
                .with_context(|| format!("cannot follow {}", file.display()))?;
            let Some(mut follower) = follower else {
                self.complete = None;
                continue;
            };
            if !self.engines.is_empty() && self.args.flags.first_run.is_none() {
                let (entries, choices) = (self.engines.clone(), self.choices.clone());
                let make = move || entries.iter().map(|entry| entry.make(&choices)).collect();
                follower = follower.with_engines(Box::new(make));
            }
            if let Some(ahead) = self.ahead.take() {
                follower.knows(ahead);
            }
            let process = Process {
                follower,
                violations: 0,
                before: None,
            };
            self.processes.insert(file, process);
        }
        Ok(())
    }

    /// Says in a line each where other threads matter, as far as that is new.
    fn tell_yields(&mut self) -> anyhow::Result<()> {
        for process in self.processes.values() {
            for place in Products::of(process.follower.checker())?.places() {
                if self.told.insert(place.clone()) {
                    anstream::eprintln!("atomsan: while it runs: other threads matter at {place}");
                }
            }
        }
        Ok(())
    }

    /// Says in a line each what has been found since the last time, and keeps it.
    fn tell(&mut self) -> anyhow::Result<()> {
        if self.args.asks_for_yields() {
            return self.tell_yields();
        }
        let mut news = false;
        for process in self.processes.values_mut() {
            let violations = process.violations();
            news |= std::mem::replace(&mut process.violations, violations) != violations;
        }
        if !news {
            return Ok(());
        }
        let (args, started) = (self.args, self.started);
        let documents: Vec<Document> = (self.processes.values())
            .map(|process| process.document(args, started))
            .collect();
        let all = unite(documents.clone(), products::unite);
        let news = outcome::news(&all, &mut self.told, args);
        if !news.is_empty() {
            // What has been told has been kept.
            last::save(self.last, &documents)?;
        }
        if args.render.is_text() {
            outcome::tell(&news, "found while it runs");
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        for (file, process) in &mut self.processes {
            let follower = &mut process.follower;
            follower.finish()?;
            outcome.first_run.unite(follower.static_info());
            if self.args.asks_for_yields() {
                outcome.add_density(&follower.stats());
            }
            process.turn_pages();
            let follower = &process.follower;
            if self.args.watch.compare {
                compare(follower, self.sources, &self.spec, self.args)?;
            }
            let (counters, records) = (process.counters(), follower.summary().records);
            outcome.seen.add(&counters, records);
            outcome.seen.warn(counters.pid, process.warnings());
            let mut document = process.document(self.args, self.started);
            document.test = document::test(file);
            outcome.documents.push(document);
        }
        Ok(outcome)
    }
}

impl Process {
    /// Keeps what was found before the check started over.
    fn turn_pages(&mut self) {
        for chapter in self.follower.take_chapters() {
            let chapter = document(&chapter, About::nothing());
            let before = self.before.take().into_iter();
            let all = before.chain([chapter]).collect();
            self.before = Some(unite(all, products::unite));
        }
    }

    fn violations(&self) -> u64 {
        let of = |checker: &Checker| -> u64 {
            let runs = checker.runs().iter();
            runs.map(|run| run.findings.total()).sum()
        };
        let before = self.before.iter().flat_map(|document| &document.engines);
        before.map(|engine| engine.violations).sum::<u64>() + of(self.follower.checker())
    }

    fn counters(&self) -> atomsan_recording::file::Counters {
        let summary = self.follower.summary();
        let mut counters = summary.counters;
        counters.dropped += summary.forgotten;
        counters
    }

    /// What a reader of the result must know.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.before.is_some() {
            let warning =
                "the check started over, because there were too many variables for --memory";
            warnings.push(warning.to_owned());
        }
        let unasked = self.follower.summary().unasked;
        if unasked > 0 {
            warnings.push(format!(
                "{} calls counted as no region, because there were too many to ask for, or nobody answered",
                grouped(unasked)
            ));
        }
        warnings
    }

    /// What has been found so far.
    fn document(&self, args: &recorded::Args, started: Instant) -> Document {
        let counters = self.counters();
        let mut document = document(
            self.follower.checker(),
            About {
                file: first_mapped(self.follower.maps()).unwrap_or_default(),
                process: Some(counters.pid),
                seconds: started.elapsed().as_secs_f64(),
                warnings: recorded::warnings(&counters),
                stats: args.render.html || args.asks_for_yields(),
            },
        );
        if let Some(engine) = document.engines.first_mut()
            && !self.follower.is_streaming()
        {
            let stats = self.follower.stats().into_iter();
            engine.stats = stats
                .map(|stat| (stat.name.to_owned(), stat.value.into()))
                .collect();
        }
        if let Some(before) = &self.before {
            let (file, process) = (document.file.clone(), document.process);
            document = unite(vec![before.clone(), document], products::unite);
            (document.file, document.process, document.merged) = (file, process, None);
        }
        document.warnings.extend(self.warnings());
        document.events = self.follower.summary().records;
        document
    }
}

/// The program: the first file that is mapped.
fn first_mapped(maps: &str) -> Option<String> {
    let path = maps
        .lines()
        .find_map(|line| Some(&line[line.find('/')?..]))?;
    Some(path.to_owned())
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
    let online = document(follower.checker(), About::nothing());
    let offline = document(&offline, About::nothing());
    // A mistake can be seen in several ways, and who sees it first need not see it in the same one.
    let all = unite(vec![online.clone(), offline.clone()], products::unite);
    let shown_by = |online_shows: bool, offline_shows: bool| -> Vec<String> {
        let findings = all.findings.iter().filter(|finding| {
            let shown = [&online, &offline].map(|document| outcome::shows(document, finding));
            shown == [online_shows, offline_shows]
        });
        let culprits = findings.map(|finding| &finding.culprit);
        culprits
            .map(|culprit| {
                let function = culprit.function.as_deref().unwrap_or_default();
                format!("{function} {:?}", culprit.lines)
            })
            .collect()
    };
    anstream::eprintln!(
        "compared: both {}, only online {:?}, only offline {:?}",
        shown_by(true, true).len(),
        shown_by(true, false),
        shown_by(false, true),
    );
    Ok(())
}
