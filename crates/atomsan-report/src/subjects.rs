//! What a finding is about, shortly, and then in full.
//!
//! A program's data is often known by where it comes from: `field +16 of the 48 bytes allocated at
//! bank.rs:12`. That is too long to be said in every step. A step says what stands in front of the
//! first `of`, and the rest is told once. Where that would mean two different things, all is said.

use crate::resolve::Report;
use crate::story::named_thread;
use std::borrow::Cow;

/// The short names of a report.
pub(crate) struct Subjects<'a> {
    /// Each target once, as short as possible, and what it belongs to.
    known: Vec<Subject<'a>>,
}

struct Subject<'a> {
    full: &'a str,
    short: &'a str,
    whole: Option<&'a str>,
}

impl<'a> Subjects<'a> {
    pub(crate) fn of(report: &'a Report) -> Subjects<'a> {
        let mut known: Vec<Subject<'a>> = Vec::new();
        for step in &report.witness {
            let Some(full) = step.target.as_deref() else {
                continue;
            };
            if known.iter().all(|one| one.full != full) {
                let (short, whole) = parts(full);
                known.push(Subject { full, short, whole });
            }
        }
        let same = |short: &str| known.iter().filter(|one| one.short == short).count() > 1;
        let ambiguous: Vec<bool> = known.iter().map(|one| same(one.short)).collect();
        for (one, ambiguous) in known.iter_mut().zip(ambiguous) {
            if ambiguous {
                (one.short, one.whole) = (one.full, None);
            }
        }
        Subjects { known }
    }

    /// A target as a step says it: a name in quotes, a description as it is.
    pub(crate) fn say(&self, target: &'a str) -> Cow<'a, str> {
        let known = self.known.iter().find(|one| one.full == target);
        quoted(known.map_or(target, |one| one.short))
    }

    /// What the steps do not say.
    fn told(&self) -> Vec<String> {
        let mut wholes: Vec<(&str, Vec<Cow<'_, str>>)> = Vec::new();
        for one in &self.known {
            let Some(whole) = one.whole else {
                continue;
            };
            let short = quoted(one.short);
            match wholes.iter_mut().find(|(known, _)| *known == whole) {
                Some((_, parts)) => parts.push(short),
                None => wholes.push((whole, vec![short])),
            }
        }
        let told = wholes.into_iter().map(|(whole, parts)| {
            let verb = if parts.len() == 1 {
                "belongs"
            } else {
                "belong"
            };
            format!("{} {verb} to {whole}", list(&parts))
        });
        told.collect()
    }
}

/// A part and what it is a part of.
fn parts(full: &str) -> (&str, Option<&str>) {
    match full.split_once(" of ") {
        Some((part, whole)) if !part.starts_with("a ") => (part, Some(whole)),
        _ => (full, None),
    }
}

/// A name in quotes, a description as it is.
fn quoted(target: &str) -> Cow<'_, str> {
    if target.contains(' ') && !target.contains(['<', '(', '`']) {
        Cow::Borrowed(target)
    } else {
        Cow::Owned(format!("`{target}`"))
    }
}

/// What there is to know of the data and the threads of a finding besides its steps: what the data
/// is a part of, and where the threads were started.
pub fn about(report: &Report) -> Vec<String> {
    let mut about = Subjects::of(report).told();
    let mut starts: Vec<(String, Vec<Cow<'_, str>>)> = Vec::new();
    for transaction in &report.transactions {
        let place = transaction.spawned.as_ref();
        let place = place.and_then(|place| Some((place.file.as_deref()?, place.line?)));
        let Some((file, line)) = place else {
            continue;
        };
        let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let (at, name) = (format!("{file}:{line}"), named_thread(&transaction.thread));
        match starts.iter_mut().find(|(place, _)| *place == at) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => starts.push((at, vec![name])),
        }
    }
    for (at, names) in starts {
        let verb = if names.len() == 1 { "was" } else { "were" };
        about.push(format!("{} {verb} started at {at}", list(&names)));
    }
    about
}

/// `a, b and c`.
fn list(names: &[Cow<'_, str>]) -> String {
    match names {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::report;
    use crate::resolve::Place;

    fn with_targets(targets: &[&str]) -> Report {
        let mut report = report();
        let step = report.witness[0].clone();
        let witness = targets.iter().map(|target| {
            let mut step = step.clone();
            step.target = Some((*target).to_owned());
            step
        });
        report.witness = witness.collect();
        report
    }

    #[test]
    fn what_a_part_belongs_to_is_told_once() {
        let field = "field +16 of the 48 bytes allocated at bank.rs:12";
        let member = "Account::balance of the 48 bytes allocated at bank.rs:9";
        let report = with_targets(&[field, member, "a local of thread 1", "COUNTER", field]);
        let subjects = Subjects::of(&report);
        assert_eq!(subjects.say(field), "field +16");
        assert_eq!(subjects.say(member), "`Account::balance`");
        assert_eq!(subjects.say("a local of thread 1"), "a local of thread 1");
        assert_eq!(subjects.say("COUNTER"), "`COUNTER`");
        let told = [
            "field +16 belongs to the 48 bytes allocated at bank.rs:12",
            "`Account::balance` belongs to the 48 bytes allocated at bank.rs:9",
        ];
        assert_eq!(subjects.told(), told);
    }

    #[test]
    fn parts_of_one_thing_are_told_together() {
        let report = with_targets(&[
            "a.x of main (a.c:1)",
            "b of f (a.c:9)",
            "a.y of main (a.c:1)",
        ]);
        let told = Subjects::of(&report).told();
        assert_eq!(
            told,
            [
                "`a.x` and `a.y` belong to main (a.c:1)",
                "`b` belongs to f (a.c:9)"
            ]
        );
    }

    #[test]
    fn two_things_are_not_called_the_same() {
        let one = "field +16 of the 48 bytes allocated at bank.rs:12";
        let other = "field +16 of the 48 bytes allocated at bank.rs:13";
        let report = with_targets(&[one, other]);
        let subjects = Subjects::of(&report);
        assert_eq!(subjects.say(one), one);
        assert_eq!(subjects.say(other), other);
        assert!(subjects.told().is_empty());
    }

    #[test]
    fn threads_of_one_place_are_told_together() {
        let mut report = report();
        let place = |line| Place {
            file: Some("src/bank.rs".to_owned()),
            line: Some(line),
            ..Place::default()
        };
        let mut third = report.transactions[0].clone();
        report.transactions[0].thread = "thread 1".to_owned();
        report.transactions[0].spawned = Some(place(30));
        report.transactions[1].thread = "thread \"clerk\"".to_owned();
        report.transactions[1].spawned = Some(place(30));
        third.thread = "thread 3".to_owned();
        third.spawned = Some(place(31));
        report.transactions.push(third);
        let told = [
            "thread 1 and thread \"clerk\" were started at bank.rs:30",
            "thread 3 was started at bank.rs:31",
        ];
        assert_eq!(about(&report), told);
    }
}
