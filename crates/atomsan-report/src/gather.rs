//! One mistake, one finding.
//!
//! What a person has to mend is a *gap*: a point in a function at which others get in. One gap is
//! seen in many ways: by several engines, in several threads and processes, at the line that takes
//! a lock again and at the line that touches the data, at one variable and at two, with one
//! intruder or another. Each way is a report that says "`f` was split between lines a and b", and
//! the gap is somewhere between a and b.
//!
//! So the reports of a function are explained by the least number of gaps that has one between the
//! lines of each report; a piercing set of intervals, which is found by taking the interval that
//! ends first, again and again. Reports that can share a gap are one finding. Reports that cannot
//! (`[10, 12]` and `[12, 15]`) are two mistakes and stay two findings. Nothing is thrown away: the
//! clearest report stands for its gap and carries the others (`also`).
//!
//! A report whose second line is above its first (`[20, 19]`) has gone through a loop: its gap is behind the
//! first line or before the second, as far as the loop goes, which nobody knows. So a gap explains it if
//! one of the gap's reports touches its lines: `[14, 19]` may be split right before line 19, and so may
//! `[20, 19]`.
//!
//! What makes a gap known again is in [`fingerprint`].

use crate::accepted::Marks;
use crate::fingerprint;
use crate::rank::Rank;
use crate::resolve::Report;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
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

/// Makes one finding of all reports about one mistake, the worst first. Findings that were gathered
/// before, for instance in other processes, can be gathered again.
pub fn gather(reports: Vec<Report>) -> Vec<Report> {
    let marks = Marks::of(&reports);
    let mut functions: HashMap<Function, usize> = HashMap::new();
    let mut by_function: Vec<Vec<Report>> = Vec::new();
    for mut report in reports {
        let also = std::mem::take(&mut report.also);
        for report in [report].into_iter().chain(also) {
            match Function::of(&report) {
                Some(function) => {
                    let at = *functions.entry(function).or_insert(by_function.len());
                    by_function.resize_with(by_function.len().max(at + 1), Vec::new);
                    by_function[at].push(report);
                }
                None => by_function.push(vec![report]),
            }
        }
    }
    let mut findings: Vec<Report> = by_function.into_iter().flat_map(gaps).collect();
    findings.sort_by_key(|report| Reverse(report.rank));
    marks.put(&mut findings);
    findings
}

/// What reports must have in common to be about one mistake. Where there are no files, lines are
/// location numbers and nothing lies between them, so the pair itself is what they have in common.
#[derive(PartialEq, Eq, Hash)]
struct Function {
    family: &'static str,
    function: String,
    file: Option<String>,
    locations: Option<(u32, u32)>,
}

impl Function {
    /// `None` for a report that does not say where the program is wrong.
    fn of(report: &Report) -> Option<Function> {
        let culprit = &report.culprit;
        let lines = lines(report)?;
        Some(Function {
            family: family(report),
            function: culprit.function.clone()?,
            file: culprit.file.clone(),
            locations: culprit.file.is_none().then_some(lines),
        })
    }
}

/// A missing yield is no lack of atomicity.
fn family(report: &Report) -> &'static str {
    match report.criterion.as_str() {
        "cooperability" => "cooperability",
        _ => "atomicity",
    }
}

/// The two lines in the order of the file; in a loop, the second step may be at the earlier one.
fn lines(report: &Report) -> Option<(u32, u32)> {
    match *report.culprit.lines.as_slice() {
        [first, second] => Some((first.min(second), first.max(second))),
        // Only one of the two places is known.
        [only] => Some((only, only)),
        _ => None,
    }
}

/// Reports that one gap explains.
struct Gap {
    /// The line before which it lies.
    end: u32,
    reports: Vec<Report>,
}

impl Gap {
    fn of(end: u32, report: Report) -> Gap {
        let reports = vec![report];
        Gap { end, reports }
    }

    fn touches(&self, (first, last): (u32, u32)) -> bool {
        let mut all = self.reports.iter().filter_map(lines);
        all.any(|(start, end)| start <= last && first <= end)
    }
}

/// Whether the second step was at a later line than the first one.
fn is_straight(report: &Report) -> bool {
    matches!(*report.culprit.lines.as_slice(), [first, second] if first < second)
}

/// The findings of one function, or the only one that is of none.
fn gaps(reports: Vec<Report>) -> Vec<Report> {
    if reports.iter().any(|report| Function::of(report).is_none()) {
        return vec![finding(reports)];
    }
    let of = |report: &Report| lines(report).unwrap_or_default();
    let mut reports = united(reports);
    reports.sort_by_key(|report| of(report).1);
    let (open, rest): (Vec<_>, Vec<_>) = reports.into_iter().partition(is_straight);
    let mut gaps: Vec<Gap> = Vec::new();
    for report in open {
        let (first, end) = of(&report);
        match gaps.last_mut() {
            Some(gap) if first < gap.end => gap.reports.push(report),
            _ => gaps.push(Gap::of(end, report)),
        }
    }
    // What was split between two turns of a loop, then what was split within one line.
    let (points, turns): (Vec<_>, Vec<_>) = rest
        .into_iter()
        .partition(|report| of(report).0 == of(report).1);
    for report in turns.into_iter().chain(points) {
        let lines = of(&report);
        match gaps.iter_mut().find(|gap| gap.touches(lines)) {
            Some(gap) => gap.reports.push(report),
            None => gaps.push(Gap::of(lines.1, report)),
        }
    }
    gaps.sort_by_key(|gap| gap.end);
    let findings = gaps.into_iter().map(|gap| finding(gap.reports));
    let mut findings: Vec<Report> = findings.collect();
    if let Some(family) = findings.first().map(family) {
        fingerprint::number(&mut findings, family);
    }
    findings
}

/// The same static violation, seen in several threads or processes, is counted.
fn united(reports: Vec<Report>) -> Vec<Report> {
    let mut united: Vec<Report> = Vec::with_capacity(reports.len());
    let mut known = HashMap::new();
    for report in reports {
        let regions = report.transactions.iter().map(|one| one.region.clone());
        let key = (
            report.engine.clone(),
            report.anomaly.clone(),
            report.culprit.clone(),
            regions.collect::<Vec<_>>(),
        );
        match known.get(&key) {
            Some(&at) => {
                let known: &mut Report = &mut united[at];
                known.count += report.count;
            }
            None => {
                known.insert(key, united.len());
                united.push(report);
            }
        }
    }
    united
}

/// The clearest report, with the others in it.
fn finding(mut reports: Vec<Report>) -> Report {
    reports.sort_by_key(clarity);
    let mut reports = reports.into_iter();
    let mut finding = reports.next().expect("a gap explains a report");
    finding.also = reports.collect();
    finding.total = finding.count;
    finding.agreeing.clear();
    for other in &finding.also {
        let same = |one: &&mut Agreeing| one.engine == other.engine && one.status == other.status;
        if other.engine == finding.engine && other.status == finding.status {
            finding.total += other.count;
        } else if let Some(agreeing) = finding.agreeing.iter_mut().find(same) {
            agreeing.count += other.count;
        } else {
            finding.agreeing.push(Agreeing {
                engine: other.engine.clone(),
                status: other.status.clone(),
                count: other.count,
            });
        }
    }
    finding
}

/// What a person understands best: the worst, then the most telling anomaly, then what happened
/// rather than what can happen, then the lines that enclose the others.
fn clarity(report: &Report) -> (Reverse<Rank>, usize, usize, Reverse<u32>) {
    const TELLING: [&str; 6] = [
        "lost-update",
        "overwritten",
        "intermediate-state",
        "non-repeatable-read",
        "inconsistent-pair",
        "cycle",
    ];
    const KNOWN: [&str; 2] = ["confirmed", "observed"];
    let place = |list: &[&str], word: &str| {
        let found = list.iter().position(|known| *known == word);
        found.unwrap_or(list.len())
    };
    let (first, last) = lines(report).unwrap_or_default();
    (
        Reverse(report.rank),
        place(&TELLING, &report.anomaly),
        place(&KNOWN, &report.status),
        Reverse(last - first),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::report;

    fn at(first: u32, last: u32) -> Report {
        let mut report = report();
        report.culprit.lines = vec![first, last];
        report
    }

    fn found(reports: Vec<Report>) -> Vec<Vec<u32>> {
        let findings = gather(reports);
        findings.into_iter().map(|one| one.culprit.lines).collect()
    }

    #[test]
    fn reports_that_can_share_a_gap_are_one_finding() {
        assert_eq!(found(vec![at(10, 15), at(10, 12), at(11, 14)]), [[10, 15]]);
        assert_eq!(found(vec![at(19, 19), at(14, 19)]), [[14, 19]]);
        assert_eq!(found(vec![at(14, 10), at(11, 12)]), [[14, 10]]);
    }

    #[test]
    fn reports_that_cannot_are_two() {
        assert_eq!(found(vec![at(10, 12), at(12, 15)]), [[10, 12], [12, 15]]);
        // The one in the middle shares a gap with each of the others, but not with both.
        let found = found(vec![at(1, 5), at(4, 9), at(8, 12)]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_loop_is_split_where_its_lines_are_or_between_its_turns() {
        // In whatever order they come.
        for (reports, expected) in [
            ([(14, 19), (20, 19)], 1),
            ([(14, 19), (20, 18)], 1),
            ([(20, 24), (20, 12)], 1),
            ([(22, 24), (20, 12)], 2),
            ([(8, 10), (20, 12)], 2),
            ([(20, 12), (18, 14)], 1),
            ([(20, 12), (28, 24)], 2),
        ] {
            let mut reports = reports.map(|(first, second)| at(first, second));
            assert_eq!(gather(reports.to_vec()).len(), expected, "{reports:?}");
            reports.reverse();
            let findings = gather(reports.to_vec());
            assert_eq!(findings.len(), expected, "{reports:?}");
            assert_eq!(gather(findings.clone()), findings, "gathered again");
        }
        // Where the gap of the others lies further up, and nothing else shows how far the loop goes.
        assert_eq!(found(vec![at(14, 18), at(14, 19), at(20, 19)]), [[14, 19]]);
        // What stands for all is what encloses most.
        assert_eq!(found(vec![at(20, 19), at(14, 19)]), [[14, 19]]);
    }

    #[test]
    fn another_function_file_or_family_is_another_mistake() {
        let mut other = [at(10, 15), at(10, 15), at(10, 15)];
        other[0].culprit.function = Some("deposit".to_owned());
        other[1].culprit.file = Some("src/other.rs".to_owned());
        other[2].criterion = "cooperability".to_owned();
        for other in other {
            assert_eq!(gather(vec![at(10, 15), other]).len(), 2);
        }
    }

    #[test]
    fn location_numbers_are_not_lines() {
        let bare = |first, last| {
            let mut report = at(first, last);
            report.culprit.file = None;
            report
        };
        assert_eq!(gather(vec![bare(10, 15), bare(11, 12)]).len(), 2);
        assert_eq!(gather(vec![bare(10, 15), bare(10, 15)]).len(), 1);
        let nowhere = || {
            let mut report = report();
            report.culprit.lines.clear();
            report
        };
        assert_eq!(gather(vec![nowhere(), nowhere()]).len(), 2);
    }

    #[test]
    fn the_clearest_stands_for_the_others_and_all_are_counted() {
        let mut pair = at(10, 12);
        pair.engine = "doublechecker".to_owned();
        pair.status = "observed".to_owned();
        pair.anomaly = "inconsistent-pair".to_owned();
        pair.rank = Rank::Medium;
        pair.count = 7;
        let mut update = at(10, 15);
        update.engine = "blocks".to_owned();
        update.status = "predicted".to_owned();
        update.count = 2;
        let mut intruder = update.clone();
        intruder.transactions[1].region = Some("forget".to_owned());
        let all = vec![pair.clone(), update.clone(), intruder, update, pair];
        let findings = gather(all);
        let [finding] = findings.as_slice() else {
            panic!("{findings:?}")
        };
        assert_eq!(
            (finding.engine.as_str(), finding.rank),
            ("blocks", Rank::High)
        );
        assert_eq!((finding.count, finding.total), (4, 6));
        assert_eq!(finding.also.len(), 2);
        let agreeing = Agreeing {
            engine: "doublechecker".to_owned(),
            status: "observed".to_owned(),
            count: 14,
        };
        assert_eq!(finding.agreeing, [agreeing]);
        assert_eq!(gather(findings.clone()), findings, "gathered again");
    }
}
