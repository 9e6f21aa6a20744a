//! Several processes that show the same are one report that says so.

use crate::agree::Agreeing;
use crate::resolve::Report;
use std::collections::HashMap;

/// Merges what was found in several processes, given as the reports of each. The same kind of
/// mistake on the same lines of the same function is one report: one witness stays, of a process
/// in which it was observed if there is one, and the counts are added up.
pub fn merge(processes: impl IntoIterator<Item = Vec<Report>>) -> Vec<Report> {
    // With the process it was last found in, and how many there were.
    let mut merged: Vec<(Report, usize, u64)> = Vec::new();
    let mut known = HashMap::new();
    for (process, reports) in processes.into_iter().enumerate() {
        for report in reports {
            let culprit = report.culprit.clone();
            let same = culprit.function.is_some() && culprit.lines.len() == 2;
            let key = (report.anomaly.clone(), culprit);
            let at = match known.get(&key) {
                Some(&at) if same => at,
                _ => merged.len(),
            };
            known.insert(key, at);
            match merged.get_mut(at) {
                Some((first, last, processes)) => {
                    absorb(first, report);
                    *processes += u64::from(*last != process);
                    *last = process;
                }
                None => merged.push((report, process, 1)),
            }
        }
    }
    let noted = |(mut report, _, processes): (Report, usize, u64)| {
        if processes > 1 {
            report.notes.push(format!("in {processes} processes"));
        }
        report
    };
    let mut merged: Vec<Report> = merged.into_iter().map(noted).collect();
    merged.sort_by_key(|report| std::cmp::Reverse(report.rank));
    merged
}

fn absorb(first: &mut Report, mut other: Report) {
    if other.status == "observed" && first.status != "observed" {
        std::mem::swap(first, &mut other);
    }
    let own = Agreeing {
        engine: other.engine,
        status: other.status,
        count: other.count,
    };
    for voice in other.agreeing.into_iter().chain([own]) {
        let is = |engine: &str, status: &str| voice.engine == engine && voice.status == status;
        if is(&first.engine, &first.status) {
            first.count += voice.count;
            continue;
        }
        let known = (first.agreeing.iter_mut()).find(|known| is(&known.engine, &known.status));
        match known {
            Some(known) => known.count += voice.count,
            None => first.agreeing.push(voice),
        }
    }
}
