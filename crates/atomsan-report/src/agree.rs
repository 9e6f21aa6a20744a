//! Several engines that say the same are one report that says so.

use crate::resolve::Report;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Another engine that found the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Agreeing {
    /// Its name.
    pub engine: String,
    /// How it knows.
    pub status: String,
    /// How often it saw it.
    pub count: u64,
}

/// Merges reports of different engines about the same lines of the same function and the same
/// kind of mistake. The first one of them stays, so the order says whose witness is shown.
pub fn agree(reports: Vec<Report>) -> Vec<Report> {
    let mut merged: Vec<Report> = Vec::with_capacity(reports.len());
    let mut known = HashMap::new();
    for report in reports {
        let culprit = &report.culprit;
        let same = culprit.function.is_some() && culprit.lines.len() == 2;
        let key = (report.anomaly.clone(), culprit.clone());
        match known.get(&key).map(|&at: &usize| &mut merged[at]) {
            Some(first) if same && first.engine != report.engine => first.agreeing.push(Agreeing {
                engine: report.engine,
                status: report.status,
                count: report.count,
            }),
            _ => {
                known.entry(key).or_insert(merged.len());
                merged.push(report);
            }
        }
    }
    merged
}
