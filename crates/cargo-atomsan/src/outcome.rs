//! What all processes of all runs of a command have shown, and how it is told.
//!
//! A mistake that several processes or runs show is one finding; its counts are added, and it says
//! in how many runs it was seen and with which noise.

use crate::accept::{self, Judge};
use crate::exit::Exit;
use crate::last;
use crate::output::Output;
use crate::products::{self, Products};
use crate::recorded::{Args, warnings};
use crate::render;
use anyhow::Context as _;
use atomsan_engines::cooperability::density::Density;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_engines::engine::Stat;
use atomsan_recording::file::Counters;
use atomsan_report::{Document, Rank, Report, unite};
use atomsan_trace::numbers::grouped;
use std::collections::HashSet;
use std::io::{Read, Seek, Write};
use std::path::Path;

/// What one run has shown.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// One for each process.
    pub(crate) documents: Vec<Document>,
    pub(crate) seen: Seen,
    /// For yields: how exposed each process is.
    pub(crate) densities: Vec<Density>,
    /// Of a first run: what a second one should look at.
    pub(crate) first_run: StaticInfo,
}

impl Outcome {
    /// What engines say of themselves, if it is the interference density.
    pub(crate) fn add_density(&mut self, stats: &[Stat]) {
        let stat = |name: &str| {
            let found = stats.iter().find(|stat| stat.name == name);
            found.map_or(0, |stat| stat.value)
        };
        self.densities.push(Density {
            threads: stat("threads"),
            sites: stat("sites"),
            preemptive: stat("preemptive points"),
            atomic: stat("atomic points"),
            cooperative: stat("cooperative points"),
            inferred: stat("inferred points"),
        });
    }
}

/// How a run can be made again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    /// One in so many steps.
    pub(crate) one_in: u64,
    pub(crate) seed: u64,
}

/// What all runs have shown so far.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Each with what it has shown, all processes together; and with its noise, if it had one.
    documents: Vec<(Document, Option<Noise>)>,
    /// The processes of the only run.
    processes: Vec<Document>,
    seen: Seen,
    densities: Vec<Density>,
    first_run: StaticInfo,
    /// Whether the file of a first run has what others have found.
    adds: bool,
    told: HashSet<String>,
}

impl Runs {
    /// One of several processes that know nothing of each other.
    pub(crate) fn one_of_many() -> Runs {
        Runs {
            adds: true,
            ..Runs::default()
        }
    }

    /// Adds a run, one of `planned`, and says in a line each what it has shown first.
    pub(crate) fn add(&mut self, run: Outcome, noise: Option<Noise>, planned: u64, args: &Args) {
        let all = unite_processes(&run.documents);
        if planned > 1 && args.render.is_text() {
            let number = self.documents.len() + 1;
            let news = news(&all, &mut self.told, args);
            tell(&news, &format!("run {number} of {planned}"));
        }
        self.documents.push((all, noise));
        self.processes = run.documents;
        self.seen.unite(run.seen);
        self.densities.extend(run.densities);
        self.first_run.unite(run.first_run);
    }

    /// Whether nothing was seen at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Tells everything, and keeps it in `last`.
    pub(crate) fn conclude(self, args: &Args, last: &Path) -> anyhow::Result<Exit> {
        if let Some(path) = &args.flags.first_run {
            return write_first_run(path, self.first_run, self.adds, &self.seen.warnings);
        }
        if args.asks_for_yields() {
            return self.tell_yields(args, last);
        }
        let shown = |report: &Report| is_shown(report, args);
        let least = args.fail_on.into();
        if let Some(nextest) = &args.nextest {
            nextest.add_findings(&self.processes, |document| {
                Judge::new(&args.accept).judge(document, shown);
                (document.findings)
                    .retain(|report| report.accepted.is_none() && report.rank >= least);
            });
        }
        let several = self.documents.len() > 1;
        let mut documents = if several {
            vec![self.united()]
        } else {
            self.processes
        };
        let mut seen = self.seen;
        seen.runs = self.documents.len() as u64;
        let mut out = destination(args)?;
        let mut products = Products::default();
        for (document, _) in &self.documents {
            products.add_document(document)?;
        }
        let mut judge = Judge::new(&args.accept);
        for document in &mut documents {
            judge.judge(document, shown);
        }
        last::save(args.save.as_deref().unwrap_or(last), &documents)?;
        let accepted = judge.finish()?;
        for document in &mut documents {
            let all = document.findings.len();
            document.findings.retain(shown);
            seen.hidden += all - document.findings.len();
        }
        let found = documents.iter().any(|one| accept::counts(one, least));
        if !args.render.is_text() {
            render::documents(&mut out, &args.render, &documents)?;
            products.write(&args.flags, &mut out, true)?;
        } else {
            let all = unite_processes(&documents);
            let one = std::slice::from_ref(&all);
            render::findings(&mut out, accept::counting(&all), one)?;
            seen.findings = accept::counting(&all).count();
            products.write(&args.flags, &mut out, false)?;
            out.write(|out| writeln!(out, "{seen}"))?;
            if let [(_, Some(noise))] = self.documents.as_slice()
                && found
            {
                out.write(|out| writeln!(out, "atomsan: found with {noise}"))?;
            }
            for line in accepted {
                out.write(|out| writeln!(out, "atomsan: {line}"))?;
            }
        }
        Ok(if found { Exit::Findings } else { Exit::Clean })
    }

    /// All runs as one document; each finding says in which of them it was seen.
    fn united(&self) -> Document {
        let documents = self.documents.iter().map(|(document, _)| document.clone());
        let mut all = unite(documents.collect(), products::unite);
        for finding in &mut all.findings {
            // Each run has said of how many processes it knows it from.
            finding.notes.retain(|note| !note.starts_with("in "));
            let shows = |(document, _): &&(Document, _)| shows(document, finding);
            let runs: Vec<_> = self.documents.iter().filter(shows).collect();
            let noises = runs.iter().filter_map(|(_, noise)| *noise);
            let mut note = format!("seen in {} of {} runs", runs.len(), self.documents.len());
            if let Some(again) = again(noises.collect()) {
                note.push_str(&format!(", with {again}"));
            }
            finding.notes.push(note);
        }
        all
    }

    /// Prints silver's yields and the interference density, and keeps them in `last`.
    fn tell_yields(self, args: &Args, last: &Path) -> anyhow::Result<Exit> {
        let mut out = destination(args)?;
        let mut products = Products::default();
        for (document, _) in &self.documents {
            products.add_document(document)?;
        }
        let documents = match self.documents.len() {
            0 | 1 => self.processes,
            _ => self.documents.into_iter().map(|(one, _)| one).collect(),
        };
        last::save(args.save.as_deref().unwrap_or(last), &documents)?;
        if !args.render.is_text() {
            render::documents(&mut out, &args.render, &documents)?;
            products.write(&args.flags, &mut out, true)?;
            return Ok(Exit::Clean);
        }
        products.write(&args.flags, &mut out, false)?;
        out.write(|out| writeln!(out, "interference density:"))?;
        let several = self.densities.len() > 1;
        for (number, density) in self.densities.iter().enumerate() {
            let heading = match several {
                true => format!("{} of {}:\n", number + 1, self.densities.len()),
                false => String::new(),
            };
            out.write(|out| write!(out, "{heading}{density}"))?;
        }
        Ok(Exit::Clean)
    }
}

impl std::fmt::Display for Noise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--noise={} --noise-seed {}", self.one_in, self.seed)
    }
}

/// How to see something again: the noise, with the seeds of the first few runs that had it.
fn again(noises: Vec<Noise>) -> Option<String> {
    const NAMED: usize = 8;
    let mut text = noises.first()?.to_string();
    for noise in noises.iter().take(NAMED).skip(1) {
        text.push_str(&format!(", {}", noise.seed));
    }
    if noises.len() > NAMED {
        text.push_str(", …");
    }
    Some(text)
}

/// Whether a document has the mistake that a finding is about. Fingerprints count the gaps of a
/// function, and a run that sees fewer gaps counts otherwise; so it is the reports that are compared.
pub(crate) fn shows(document: &Document, finding: &Report) -> bool {
    let same = |one: &Report, other: &Report| {
        one.engine == other.engine && one.anomaly == other.anomaly && one.culprit == other.culprit
    };
    let mut reports = document.findings.iter().flat_map(all_of);
    reports.any(|report| all_of(finding).any(|one| same(one, report)))
}

fn all_of(finding: &Report) -> impl Iterator<Item = &Report> {
    [finding].into_iter().chain(&finding.also)
}

/// What was found in any process, each mistake once.
fn unite_processes(documents: &[Document]) -> Document {
    let mut all = unite(documents.to_vec(), products::unite);
    for finding in &mut all.findings {
        let processes = documents.iter().filter(|one| shows(one, finding)).count();
        if processes > 1 {
            finding.notes.push(format!("in {processes} processes"));
        }
    }
    all
}

fn is_shown(report: &Report, args: &Args) -> bool {
    args.all || report.rank > Rank::Low
}

/// The findings of a document that have not been told yet; from now on they have.
pub(crate) fn news<'a>(
    document: &'a Document,
    told: &mut HashSet<String>,
    args: &Args,
) -> Vec<&'a Report> {
    let mut news = Vec::new();
    for report in &document.findings {
        let known = report.prints().any(|print| told.contains(print));
        told.extend(report.prints().map(str::to_owned));
        if is_shown(report, args) && !known {
            news.push(report);
        }
    }
    news
}

/// Says in a line each what was found, and when.
pub(crate) fn tell(reports: &[&Report], when: &str) {
    for report in reports {
        let culprit = &report.culprit;
        let lines: Vec<String> = culprit.lines.iter().map(u32::to_string).collect();
        anstream::eprintln!(
            "atomsan: {when}: `{}` {} ({}), {}:{}",
            culprit.function.as_deref().unwrap_or("?"),
            match report.criterion.as_str() {
                "cooperability" => "lacks a yield",
                _ => "is not atomic",
            },
            report.anomaly,
            culprit.file.as_deref().unwrap_or("?"),
            lines.join("-"),
        );
    }
}

/// Where results go.
fn destination(args: &Args) -> anyhow::Result<Output> {
    match &args.render.output {
        Some(path) => Output::open(Some(path)),
        None => Ok(Output::stderr()),
    }
}

/// Writes what first runs have found; `adds` to what is in the file.
fn write_first_run(
    path: &Path,
    mut found: StaticInfo,
    adds: bool,
    warnings: &[String],
) -> anyhow::Result<Exit> {
    let mut write = || -> anyhow::Result<()> {
        let mut file = std::fs::File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)?;
        file.lock()?;
        let mut before = String::new();
        if adds {
            file.read_to_string(&mut before)?;
        }
        if !before.is_empty() {
            found.unite(StaticInfo::parse(path, &before)?);
        }
        file.rewind()?;
        let text = found.to_string();
        file.write_all(text.as_bytes())?;
        // Most files stay as long as they are, or grow; to cut one off takes longer than all that this run has to say.
        if file.metadata()?.len() > text.len() as u64 {
            file.set_len(text.len() as u64)?;
        }
        Ok(())
    };
    write().with_context(|| format!("cannot write to {}", path.display()))?;
    let unary = if found.unary {
        " and accesses outside of regions"
    } else {
        ""
    };
    anstream::eprintln!(
        "atomsan: a first run: {}{unary} to check in a second run",
        counted(found.regions.len() as u64, "region", "s")
    );
    for warning in warnings {
        anstream::eprintln!("atomsan: {warning}");
    }
    Ok(Exit::Clean)
}

/// How much was seen, over all processes.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    processes: u64,
    threads: u64,
    pub(crate) events: u64,
    findings: usize,
    /// Findings of low rank that nobody asked for.
    hidden: usize,
    runs: u64,
    warnings: Vec<String>,
}

impl Seen {
    pub(crate) fn add(&mut self, counters: &Counters, events: u64) {
        self.processes += 1;
        self.threads += counters.threads;
        self.events += events;
        self.warn(counters.pid, warnings(counters));
    }

    pub(crate) fn warn(&mut self, process: u64, warnings: Vec<String>) {
        let named = warnings.into_iter();
        self.warnings
            .extend(named.map(|warning| format!("process {process}: {warning}")));
    }

    fn unite(&mut self, other: Seen) {
        self.processes += other.processes;
        self.threads += other.threads;
        self.events += other.events;
        self.warnings.extend(other.warnings);
    }
}

fn counted(count: u64, what: &str, plural: &str) -> String {
    let ending = if count == 1 { "" } else { plural };
    format!("{} {what}{ending}", grouped(count))
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
        if self.runs > 1 {
            write!(f, " of {} runs", self.runs)?;
        }
        self.warnings
            .iter()
            .try_for_each(|warning| write!(f, "\natomsan: {warning}"))
    }
}
