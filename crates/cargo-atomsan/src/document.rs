//! From what was checked to the document that all formats are rendered from.

use crate::memory;
use atomsan_engines::checker::{Checker, Run};
use atomsan_recording::TestName;
use atomsan_report::json::{Document, EngineSummary, Test, Thread};
use atomsan_report::{Report, fold, gather, resolve, resolve_call};
use atomsan_trace::ThreadId;
use atomsan_trace::finding::Finding;
use std::path::Path;

/// What is known besides what the engines say.
#[derive(Debug)]
pub(crate) struct About {
    /// The trace or program.
    pub(crate) file: String,
    /// The process, if it was one.
    pub(crate) process: Option<u64>,
    /// How long the check took.
    pub(crate) seconds: f64,
    /// What was left out, or is odd.
    pub(crate) warnings: Vec<String>,
    /// Whether the engines' counts are wanted.
    pub(crate) stats: bool,
}

impl About {
    /// Nothing.
    pub(crate) fn nothing() -> About {
        About {
            file: String::new(),
            process: None,
            seconds: 0.0,
            warnings: Vec::new(),
            stats: false,
        }
    }
}

/// All of it.
pub(crate) fn document(checker: &Checker, about: About) -> Document {
    let runs = checker.runs();
    let names: Vec<&str> = runs.iter().map(|run| run.engine.name()).collect();
    let summary = |run: &Run| EngineSummary {
        name: run.engine.name().to_owned(),
        clean: run.findings.list().is_empty(),
        findings: fold(run.findings.list()).len(),
        violations: run.findings.total(),
        remarks: run.engine.remarks(),
        product: run.engine.product(checker.names()),
        // The interference density is part of the result.
        stats: if about.stats || run.engine.name() == "silver" {
            let stats = run.engine.stats().into_iter();
            stats
                .map(|stat| (stat.name.to_owned(), stat.value.into()))
                .collect()
        } else {
            serde_json::Map::new()
        },
    };
    let threads = threads(checker);
    Document {
        version: Document::VERSION,
        file: about.file,
        engine: names.join(","),
        events: checker.events(),
        seconds: about.seconds,
        peak_memory: memory::peak(),
        process: about.process,
        test: None,
        merged: None,
        warnings: about.warnings,
        findings: reports(checker, &threads),
        threads,
        engines: runs.iter().map(summary).collect(),
        sources: Vec::new(),
    }
}

/// The test that a process was that recorded into a file.
pub(crate) fn test(recording: &Path) -> Option<Test> {
    let TestName { binary, test } = TestName::of(recording)?;
    Some(Test { binary, name: test })
}

/// Adds what was found in functions that nothing had been found in, when what had been found was
/// taken as not atomic ([`atomsan_engines::demotion`]).
pub(crate) fn further(document: &mut Document, checker: &Checker) {
    let known = |report: &Report| {
        let function = &report.culprit.function;
        let mut findings = document.findings.iter();
        findings.any(|finding| finding.culprit.function == *function)
    };
    let mut new = reports(checker, &document.threads);
    new.retain(|report| report.culprit.function.is_some() && !known(report));
    document.findings.append(&mut new);
    document
        .findings
        .sort_by_key(|report| std::cmp::Reverse(report.rank));
}

/// All findings by name, the worst first.
fn reports(checker: &Checker, threads: &[Thread]) -> Vec<Report> {
    let findings = (checker.runs().iter()).flat_map(|run| fold(run.findings.list()));
    let report = |finding: &Finding| {
        let mut report = resolve(finding, checker.names(), checker.stacks());
        for (transaction, one) in report.transactions.iter_mut().zip(&finding.participants) {
            let thread = threads.get(one.thread.index());
            transaction.spawned = thread.and_then(|thread| thread.spawned.clone());
        }
        report
    };
    gather(findings.map(report).collect())
}

fn threads(checker: &Checker) -> Vec<Thread> {
    let names = checker.names();
    let ids = (0..names.threads().len() as u32).map(ThreadId);
    ids.map(|id| Thread {
        name: names.thread(id).into_owned(),
        spawned: checker
            .spawned(id)
            .map(|(site, stack)| resolve_call(site, stack, names, checker.stacks()))
            .filter(|place| place.line.is_some()),
    })
    .collect()
}
