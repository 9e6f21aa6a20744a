//! Several processes that show the same are one report that says so.

use crate::resolve::Report;
use std::collections::HashMap;

/// Merges what was found in several processes, given as the reports of each. The same finding of
/// the same engine is one report: the first witness stays, the counts are added up.
pub fn merge(processes: impl IntoIterator<Item = Vec<Report>>) -> Vec<Report> {
    let mut merged: Vec<(Report, u64)> = Vec::new();
    let mut known = HashMap::new();
    for reports in processes {
        for report in reports {
            let key = (
                report.fingerprint.clone(),
                report.engine.clone(),
                report.culprit.clone(),
            );
            let at = *known.entry(key).or_insert(merged.len());
            let Some((first, processes)) = merged.get_mut(at) else {
                merged.push((report, 1));
                continue;
            };
            *processes += 1;
            first.count += report.count;
            for other in report.agreeing {
                match first
                    .agreeing
                    .iter_mut()
                    .find(|known| (&known.engine, &known.status) == (&other.engine, &other.status))
                {
                    Some(known) => known.count += other.count,
                    None => first.agreeing.push(other),
                }
            }
        }
    }
    let mut merged: Vec<Report> = merged
        .into_iter()
        .map(|(mut report, processes)| {
            if processes > 1 {
                report.notes.push(format!("in {processes} processes"));
            }
            report
        })
        .collect();
    merged.sort_by_key(|report| std::cmp::Reverse(report.rank));
    merged
}
