//! Several documents as one: the shards of a test suite, several runs of a program.
//!
//! What was counted is added up, and the same mistake is one finding ([`gather()`]).

use crate::gather::gather;
use crate::json::{Document, EngineSummary, Merged, Thread};
use crate::resolve::Report;
use crate::source::Excerpt;

/// Unites documents; `product` unites what two runs of an engine inferred, given its name.
pub fn unite(
    documents: Vec<Document>,
    mut product: impl FnMut(&str, &str, &str) -> Option<String>,
) -> Document {
    let mut united = Document {
        version: Document::VERSION,
        ..Document::default()
    };
    let mut merged = Merged::default();
    let mut files: Vec<String> = Vec::new();
    let mut engines: Vec<String> = Vec::new();
    let mut threads: Vec<Thread> = Vec::new();
    let mut findings = Vec::new();
    let several = documents.len() > 1;
    for mut document in documents {
        let of = document.merged.take();
        merged.documents += of.as_ref().map_or(1, |of| of.documents);
        merged.processes += of.as_ref().map_or(1, |of| of.processes);
        merged.threads += of.map_or(document.threads.len() as u64, |of| of.threads);
        united.events += document.events;
        united.seconds += document.seconds;
        united.peak_memory = united.peak_memory.max(document.peak_memory);
        united.process = document.process.filter(|_| !several);
        united.test = document.test.filter(|_| !several);
        let name = match document.process {
            Some(process) if several => format!("{} (process {process})", document.file),
            _ => document.file.clone(),
        };
        for warning in document.warnings {
            // What was united before says already where its warnings are from.
            let warning = match several && !warning.starts_with(&document.file) {
                true => format!("{name}: {warning}"),
                false => warning,
            };
            add(&mut united.warnings, warning);
        }
        add(&mut files, document.file);
        for engine in document.engine.split(',').filter(|name| !name.is_empty()) {
            add(&mut engines, engine.to_owned());
        }
        for thread in document.threads {
            match threads.iter_mut().find(|known| known.name == thread.name) {
                Some(known) if known.spawned != thread.spawned => known.spawned = None,
                Some(_) => {}
                None => threads.push(thread),
            }
        }
        for summary in document.engines {
            match (united.engines.iter_mut()).find(|known| known.name == summary.name) {
                Some(known) => unite_summaries(known, summary, &mut product),
                None => united.engines.push(summary),
            }
        }
        for excerpt in document.sources {
            unite_sources(&mut united.sources, excerpt);
        }
        findings.extend(document.findings);
    }
    united.file = files.join(", ");
    united.engine = engines.join(",");
    united.threads = threads;
    united.findings = gather(findings);
    for engine in &mut united.engines {
        let by = |report: &Report| report.engine == engine.name;
        let ways = |one: &Report| [one].into_iter().chain(&one.also).filter(|r| by(r)).count();
        engine.findings = united.findings.iter().map(ways).sum();
    }
    united.merged = Some(merged);
    united
}

/// Adds what is not there yet.
fn add(list: &mut Vec<String>, one: String) {
    if !list.contains(&one) {
        list.push(one);
    }
}

fn unite_summaries(
    known: &mut EngineSummary,
    other: EngineSummary,
    product: &mut impl FnMut(&str, &str, &str) -> Option<String>,
) {
    known.clean &= other.clean;
    known.violations += other.violations;
    for remark in other.remarks {
        add(&mut known.remarks, remark);
    }
    known.product = match (known.product.take(), other.product) {
        (Some(known_text), Some(text)) => product(&known.name, &known_text, &text),
        (one, other) => one.or(other),
    };
    for (name, value) in other.stats {
        let both = match (known.stats.get(&name), value.as_u64()) {
            (Some(known), Some(value)) => {
                known.as_u64().map(|known| match name.starts_with(MOST) {
                    true => known.max(value),
                    false => known + value,
                })
            }
            _ => None,
        };
        known.stats.insert(name, both.map_or(value, Into::into));
    }
    // A share is no sum: it is that of all places in all of them.
    let count = |name: &str| known.stats.get(name).and_then(serde_json::Value::as_u64);
    let sites = count("sites").unwrap_or(0).max(1);
    let shares = known.stats.keys().filter_map(|name| {
        let points = count(&format!("{} points", name.strip_suffix(DENSITY)?))?;
        Some((name.clone(), points * 10_000 / sites))
    });
    for (name, share) in shares.collect::<Vec<_>>() {
        known.stats.insert(name, share.into());
    }
}

/// How the name of a count begins that is the most there was at a time.
const MOST: &str = "most ";
/// How the name of a share of all sites ends; its count has the same beginning.
const DENSITY: &str = " density (per 10,000)";

fn unite_sources(known: &mut Vec<Excerpt>, other: Excerpt) {
    match known.iter_mut().find(|one| one.file == other.file) {
        Some(one) => one.lines.extend(other.lines),
        None => known.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accepted::{Accepted, AcceptedBy};
    use crate::examples::report;

    fn document(file: &str, findings: Vec<Report>) -> Document {
        let engine = EngineSummary {
            name: "velodrome".to_owned(),
            clean: findings.is_empty(),
            findings: findings.len(),
            violations: findings.len() as u64,
            stats: [("nodes".to_owned(), 5.into())].into_iter().collect(),
            ..EngineSummary::default()
        };
        let spawned = |name: &str, line| Thread {
            name: name.to_owned(),
            spawned: Some(crate::Place {
                line: Some(line),
                ..crate::Place::default()
            }),
        };
        Document {
            version: Document::VERSION,
            file: file.to_owned(),
            engine: "velodrome".to_owned(),
            events: 100,
            seconds: 0.5,
            peak_memory: Some(1000),
            warnings: vec!["something was left out".to_owned()],
            threads: vec![
                spawned("thread 1", 1),
                spawned("thread 2", file.len() as u32),
            ],
            engines: vec![engine],
            findings: gather(findings),
            ..Document::default()
        }
    }

    fn united(documents: Vec<Document>) -> Document {
        unite(documents, |_, _, _| None)
    }

    #[test]
    fn shares_and_peaks_are_no_sums() {
        let with = |sites: u64, points: u64, most: u64| {
            let mut one = document("a", vec![]);
            let stats = [
                ("sites", sites),
                ("atomic points", points),
                ("atomic density (per 10,000)", points * 10_000 / sites),
                ("most transactions kept", most),
            ];
            let stats = stats.into_iter();
            one.engines[0].stats = stats
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect();
            one
        };
        let all = united(vec![with(10, 5, 7), with(30, 5, 3)]);
        let stats = &all.engines[0].stats;
        assert_eq!(stats["sites"], 40);
        assert_eq!(stats["atomic points"], 10);
        assert_eq!(stats["atomic density (per 10,000)"], 2_500);
        assert_eq!(stats["most transactions kept"], 7);
    }

    #[test]
    fn counts_are_added_and_one_mistake_is_one_finding() {
        let parts = vec![
            document("a", vec![report()]),
            document("b", vec![]),
            document("long", vec![report(), report()]),
        ];
        let all = united(parts.clone());
        assert_eq!(all.findings.len(), 1);
        assert_eq!(all.findings[0].count, 3);
        assert_eq!(all.findings[0].rank, parts[0].findings[0].rank);
        assert_eq!((all.events, all.seconds), (300, 1.5));
        assert_eq!(all.file, "a, b, long");
        assert_eq!(all.engine, "velodrome");
        let merged = all.merged.as_ref().unwrap();
        assert_eq!(
            (merged.documents, merged.processes, merged.threads),
            (3, 3, 6)
        );
        let engine = &all.engines[0];
        assert_eq!(
            (engine.clean, engine.findings, engine.violations),
            (false, 1, 3)
        );
        assert_eq!(engine.stats["nodes"], 15);
        assert_eq!(all.warnings.len(), 3);
        // Where the second thread was started differs between the parts.
        assert!(all.threads[0].spawned.is_some() && all.threads[1].spawned.is_none());
        assert_eq!(all.threads.len(), 2);
    }

    #[test]
    fn it_does_not_matter_in_how_many_steps() {
        let parts = [
            document("a", vec![report()]),
            document("b", vec![]),
            document("c", vec![report(), report()]),
        ];
        let [a, b, c] = parts.clone();
        let steps = united(vec![united(vec![a, b]), c]);
        let at_once = united(parts.to_vec());
        assert_eq!(steps.findings, at_once.findings);
        assert_eq!(steps.merged, at_once.merged);
        assert_eq!(
            (steps.events, steps.engines),
            (at_once.events, at_once.engines)
        );
    }

    #[test]
    fn accepted_is_what_everybody_accepts() {
        let mut accepted = document("a", vec![report()]);
        accepted.findings[0].accepted = Some(Accepted {
            by: AcceptedBy::Baseline,
            place: "known.txt".to_owned(),
            reason: None,
        });
        let other = document("b", vec![report()]);
        let both = united(vec![accepted.clone(), accepted.clone()]);
        assert!(both.findings[0].accepted.is_some());
        let one = united(vec![accepted, other]);
        assert!(one.findings[0].accepted.is_none());
    }

    #[test]
    fn products_are_united_by_those_who_know_them() {
        let mut parts = [document("a", vec![]), document("b", vec![])];
        parts[0].engines[0].product = Some("x".to_owned());
        parts[1].engines[0].product = Some("y".to_owned());
        let all = unite(parts.to_vec(), |engine, one, two| {
            Some(format!("{engine} {one}{two}"))
        });
        assert_eq!(all.engines[0].product.as_deref(), Some("velodrome xy"));
    }
}
