//! Several findings about one stretch of a function are one mistake.
//!
//! A function that lets go of a lock in the middle is not atomic in as many ways as there are
//! variables on both sides of the middle. Whoever mends it mends all of them; so of the reports
//! about one function that have a line in common, the one that matters most stays: of the highest
//! rank, then what was observed, then the one that is seen most often.

use crate::resolve::Report;
use std::cmp::Reverse;

/// One report for each mistake, in the order of the reports that stay.
pub fn one_each(mut reports: Vec<Report>) -> Vec<Report> {
    let weight = |report: &Report| (report.rank, report.status == "observed", report.count);
    // The order within equal weight stays, so that the result does not depend on anything else.
    let mut order: Vec<usize> = (0..reports.len()).collect();
    order.sort_by_key(|&at| Reverse(weight(&reports[at])));
    let mut kept: Vec<usize> = Vec::new();
    let mut folded: Vec<(usize, usize)> = Vec::new();
    for at in order {
        match kept
            .iter()
            .find(|&&to| same_mistake(&reports[at], &reports[to]))
        {
            Some(&to) => folded.push((at, to)),
            None => kept.push(at),
        }
    }
    for (_, to) in &folded {
        let report = &mut reports[*to];
        report.notes.retain(|note| !note.ends_with(ALSO));
        let also = folded.iter().filter(|(_, into)| into == to).count();
        report.notes.push(format!("{also} {ALSO}"));
    }
    kept.sort_unstable();
    let mut at = 0;
    reports.retain(|_| {
        at += 1;
        kept.binary_search(&(at - 1)).is_ok()
    });
    reports
}

const ALSO: &str = "more ways in which these lines are not atomic are not shown";

fn same_mistake(one: &Report, other: &Report) -> bool {
    let (one, other) = (&one.culprit, &other.culprit);
    one.function.is_some()
        && one.function == other.function
        && one.file == other.file
        && one.lines.iter().any(|line| other.lines.contains(line))
}
