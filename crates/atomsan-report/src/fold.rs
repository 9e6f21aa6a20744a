//! One mistake, one report.
//!
//! A region that drops its lock and takes it again is caught twice: when it takes the lock, for
//! locks order transactions too, and when it touches the data. The second says what went wrong,
//! the first only that something did; so a finding that is completed by a synchronisation is
//! folded into one of the same engine, region and first place that is completed by an access.

use atomsan_trace::finding::Finding;
use std::collections::HashSet;

/// Leaves out the findings that another one tells better.
pub fn fold(findings: &[Finding]) -> Vec<&Finding> {
    let completed_by_access = |finding: &Finding| {
        let last = finding.witness.iter().rfind(|s| s.index == finding.index);
        last.is_some_and(|step| step.event.op.var().is_some())
    };
    let mistake = |finding: &Finding| {
        let culprit = &finding.culprit;
        let place = (culprit.region, culprit.entered, culprit.between.0);
        (finding.engine, place)
    };
    let told: HashSet<_> = (findings.iter())
        .filter(|finding| completed_by_access(finding))
        .map(mistake)
        .collect();
    let kept =
        |finding: &&Finding| completed_by_access(finding) || !told.contains(&mistake(finding));
    findings.iter().filter(kept).collect()
}
