//! What stays the same of a finding across runs, schedules, engines and edits.
//!
//! A gap is seen in ways ([`gather`](crate::gather())), and which of them a run sees depends on the
//! schedule. The print of a *way* is made of names: the function and its file, and for the
//! culprit's first and last step the data, and the function that was called there. No
//! lines, addresses, threads, operations or engines are in it; nor are numbers that another
//! run or an edit elsewhere may change, such as the line of an allocation or the index of an element.
//!
//! A finding has the prints of all its ways, the clearest first, which is *the* fingerprint. It is
//! the same finding as another one if they have one in common. So an accepted gap is known again
//! though it is seen differently, and a gap between accesses of other data, or in other calls, is
//! another one. Gaps of a function that look the same are counted, from the top: of two such gaps,
//! one is new to who has accepted one.

use crate::resolve::{Report, Step};
use crate::source::bare_name;
use crate::subjects::without_number;
use std::collections::HashMap;
use xxhash_rust::xxh3::Xxh3;

/// More ways are not remembered: the clearest are seen the most.
const MOST_WAYS: usize = 12;

impl Report {
    /// The fingerprints of all ways in which it was seen. A finding that has one of them is this
    /// one.
    pub fn prints(&self) -> impl Iterator<Item = &str> {
        let ways = self.ways.iter().map(String::as_str);
        [self.fingerprint.as_str()].into_iter().chain(ways)
    }

    /// Whether another finding is this one.
    pub fn is_same(&self, other: &Report) -> bool {
        self.prints()
            .any(|print| other.prints().any(|one| one == print))
    }
}

/// Gives the gaps of a function, from the top, their fingerprints.
pub(crate) fn number(gaps: &mut [Report], family: &str) {
    let mut seen: HashMap<u64, u64> = HashMap::new();
    for gap in gaps {
        let mut ways: Vec<u64> = Vec::new();
        for report in [&*gap].into_iter().chain(&gap.also) {
            let way = way(report, family);
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        ways.truncate(MOST_WAYS);
        let mut prints = ways.into_iter().map(|way| {
            let before = seen.entry(way).or_default();
            let print = way.wrapping_add(before.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            *before += 1;
            format!("{print:016x}")
        });
        gap.fingerprint = prints.next().unwrap_or_default();
        gap.ways = prints.collect();
        for report in &mut gap.also {
            report.ways.clear();
        }
    }
}

/// The print of one way.
fn way(report: &Report, family: &str) -> u64 {
    let culprit = &report.culprit;
    let file = culprit.file.as_deref().unwrap_or("");
    let mut hash = Xxh3::new();
    let mut add = |text: &str| {
        hash.update(text.as_bytes());
        hash.update(&[0]);
    };
    add(family);
    add(culprit.function.as_deref().unwrap_or(""));
    // Directories differ between machines.
    add(file.rsplit(['/', '\\']).next().unwrap_or(file));
    // Location numbers are all that a trace without files has.
    if culprit.file.is_none() {
        culprit.lines.iter().for_each(|line| add(&line.to_string()));
    }
    let mut own = report.witness.iter().filter(|step| step.transaction == 0);
    let (first, last) = (own.next(), own.next_back());
    for step in [first, last] {
        add(&step.map_or_else(String::new, |step| {
            steady(step.target.as_deref().unwrap_or(""))
        }));
        add(step.map_or("", |step| called(report, step)));
    }
    hash.digest()
}

/// The function that the culprit called to make a step; nothing if the step is its own.
fn called<'a>(report: &Report, step: &'a Step) -> &'a str {
    let function = &report.culprit.function;
    let mut inner = "";
    for place in [&step.place].into_iter().chain(&step.stack) {
        if place.function == *function {
            return inner;
        }
        inner = place.function.as_deref().map_or("", bare_name);
    }
    ""
}

/// A name without the numbers that may change though nothing has happened to what it names: lines,
/// indices, identities of objects, places in a frame, threads.
fn steady(name: &str) -> String {
    if name.starts_with("a local of ") {
        return "a local".to_owned();
    }
    let name = &*without_number(name);
    let mut steady = String::with_capacity(name.len());
    let mut rest = name.strip_prefix("local +").unwrap_or(name);
    if rest.len() != name.len() {
        steady.push_str("local ");
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    // An element of a list, by its number.
    let rest = match rest.split_once(" of element ") {
        Some((part, list)) => {
            steady.push_str(part);
            list.trim_start_matches(|c: char| c.is_ascii_digit())
        }
        None => rest,
    };
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        steady.push(c);
        if matches!(c, ':' | '[' | '@') {
            while chars.peek().is_some_and(char::is_ascii_digit) {
                chars.next();
            }
        }
    }
    steady
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::report;
    use crate::gather::gather;
    use crate::resolve::Place;

    /// A gap between two lines, and what is accessed at them.
    fn at(first: u32, last: u32, targets: [&str; 2]) -> Report {
        let mut report = report();
        report.culprit.lines = vec![first, last];
        report.witness[0].target = Some(targets[0].to_owned());
        report.witness[2].target = Some(targets[1].to_owned());
        report
    }

    fn prints(reports: Vec<Report>) -> Vec<Vec<String>> {
        let findings = gather(reports).into_iter();
        findings
            .map(|one| one.prints().map(str::to_owned).collect())
            .collect()
    }

    #[test]
    fn an_edit_elsewhere_keeps_it() {
        let before = prints(vec![at(10, 12, ["balance", "balance"])]);
        let mut after = at(31, 35, ["balance", "balance"]);
        after.culprit.file = Some("/elsewhere/src/bank.rs".to_owned());
        assert_eq!(prints(vec![after]), before);
    }

    #[test]
    fn the_engine_the_anomaly_and_the_threads_are_not_in_it() {
        let before = prints(vec![at(10, 12, ["balance", "balance"])]);
        let mut other = at(10, 12, ["balance", "balance"]);
        other.engine = "blocks".to_owned();
        other.anomaly = "non-repeatable-read".to_owned();
        for step in &mut other.witness {
            step.thread.push('7');
            step.op = "read".to_owned();
        }
        assert_eq!(prints(vec![other]), before);
    }

    /// The gap that was accepted is mended, and there is another one.
    #[test]
    fn another_gap_is_another_finding() {
        let accepted = at(10, 12, ["balance", "balance"]);
        let data = at(10, 12, ["limit", "limit"]);
        let mut call = accepted.clone();
        call.witness[2].stack = vec![call.witness[2].place.clone()];
        call.witness[2].place.function = Some("Account::set(int)".to_owned());
        let known = gather(vec![accepted]).remove(0);
        for other in [data, call] {
            assert!(!known.is_same(&gather(vec![other]).remove(0)));
        }
    }

    /// Two gaps between accesses of the same data: one of them is new.
    #[test]
    fn gaps_that_look_the_same_are_counted() {
        let one = at(10, 12, ["balance", "balance"]);
        let two = at(20, 22, ["balance", "balance"]);
        let known = gather(vec![one.clone()]).remove(0);
        let both = gather(vec![two, one]);
        let same: Vec<bool> = both.iter().map(|one| known.is_same(one)).collect();
        assert_eq!(same.iter().filter(|same| **same).count(), 1, "{same:?}");
    }

    /// What a run sees of a gap depends on the schedule.
    #[test]
    fn a_gap_is_known_again_by_any_of_its_ways() {
        let ways = [
            at(10, 15, ["balance", "balance"]),
            at(11, 14, ["lock", "lock"]),
        ];
        let accepted = gather(ways.to_vec()).remove(0);
        assert_eq!(accepted.prints().count(), 2);
        for way in ways {
            let seen = gather(vec![way]).remove(0);
            assert!(accepted.is_same(&seen) && seen.is_same(&accepted));
        }
        assert_eq!(gather(vec![accepted.clone()]), [accepted], "gathered again");
    }

    #[test]
    fn the_called_function_is_the_outermost_below_the_culprit() {
        let mut report = report();
        let place = |function: &str| Place {
            function: Some(function.to_owned()),
            ..Place::default()
        };
        let step = &mut report.witness[0];
        step.place = place("core::ptr::write");
        step.stack = vec![place("Vec::push"), place("withdraw"), place("main")];
        assert_eq!(called(&report, &report.witness[0]), "push");
        assert_eq!(called(&report, &report.witness[2]), "");
    }

    #[test]
    fn numbers_that_change_are_not_in_names() {
        for (name, expected) in [
            ("COUNTER", "COUNTER"),
            ("accounts[17].balance", "accounts[].balance"),
            ("@01.bank/Account.balance_I", "@.bank/Account.balance_I"),
            (
                "field +16 of the 48 bytes allocated at bank.rs:12",
                "field +16 of the 48 bytes allocated at bank.rs:",
            ),
            ("local +24 of main (bank.c:20)", "local  of main (bank.c:)"),
            ("a local of thread \"worker\" (3)", "a local"),
            ("A::b of element 12 of the 9 bytes", "A::b of the 9 bytes"),
        ] {
            assert_eq!(steady(name), expected);
        }
    }
}
