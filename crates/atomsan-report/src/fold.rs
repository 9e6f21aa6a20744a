//! One mistake, one report.
//!
//! A region that drops its lock and takes it again is caught twice: when it takes the lock, for
//! locks order transactions too, and when it touches the data. The second says what went wrong,
//! the first only that something did; so a finding that is completed by a synchronisation is
//! folded into one of the same engine, region and first place that is completed by an access.

use atomsan_trace::finding::Finding;

/// Leaves out the findings that another one tells better.
pub fn fold(findings: &[Finding]) -> Vec<&Finding> {
    let completed_by_access = |finding: &Finding| {
        let last = finding.witness.iter().rfind(|s| s.index == finding.index);
        last.is_some_and(|step| step.event.op.var().is_some())
    };
    let tells_better = |better: &Finding, finding: &Finding| {
        better.engine == finding.engine
            && better.culprit.region == finding.culprit.region
            && better.culprit.entered == finding.culprit.entered
            && better.culprit.between.0 == finding.culprit.between.0
            && completed_by_access(better)
    };
    let folded = |finding: &Finding| {
        !completed_by_access(finding) && findings.iter().any(|better| tells_better(better, finding))
    };
    findings.iter().filter(|finding| !folded(finding)).collect()
}
