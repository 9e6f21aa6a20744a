//! What a finding is about, shortly, and then in full.
//!
//! A program's data is often known by where it comes from: `field +16 of the 48 bytes allocated at
//! bank.rs:12`. That is too long to be said in every step. A step says what stands in front of the
//! first `of`, and the rest is told once. Where that would mean two different things, as much more is
//! said as tells them apart: `balance of element 1`. Things that have the same name altogether,
//! because the same line has allocated both, have numbers ([`tell_apart`]).

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
                let (short, whole) = parts(full, 1);
                known.push(Subject { full, short, whole });
            }
        }
        for words in 2.. {
            let same = |short: &str| known.iter().filter(|one| one.short == short).count() > 1;
            let ambiguous: Vec<bool> = known.iter().map(|one| same(one.short)).collect();
            if !ambiguous.contains(&true) {
                break;
            }
            for (one, _) in known.iter_mut().zip(ambiguous).filter(|(_, is)| *is) {
                (one.short, one.whole) = parts(one.full, words);
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
            // Numbers tell apart what has all of its name in common.
            let says = match parts.as_slice() {
                [_] => "belongs to",
                parts if parts.iter().any(|part| part.contains(" #")) => {
                    "are different ones, each of"
                }
                _ => "belong to",
            };
            format!("{} {says} {whole}", list(&parts))
        });
        told.collect()
    }
}

const OF: &str = " of ";

/// A part, by so many words, and what it is a part of.
fn parts(full: &str, words: usize) -> (&str, Option<&str>) {
    match full.match_indices(OF).nth(words - 1) {
        Some((at, _)) if !full.starts_with("a ") => (&full[..at], Some(&full[at + OF.len()..])),
        _ => (full, None),
    }
}

/// A name in quotes, a description as it is.
fn quoted(target: &str) -> Cow<'_, str> {
    let is_name = |name: &str| !name.contains(' ') || name.contains(['<', '(', '`']);
    let end = target.find(" #").or_else(|| target.find(OF));
    match end.map(|end| target.split_at(end)) {
        _ if is_name(target) && end.is_none() => Cow::Owned(format!("`{target}`")),
        Some((name, rest)) if is_name(name) => Cow::Owned(format!("`{name}`{rest}")),
        _ => Cow::Borrowed(target),
    }
}

/// Gives numbers to things of one name. `things` says what each target is.
pub(crate) fn tell_apart<T: Copy + Eq>(
    targets: &mut [Option<String>],
    things: impl Iterator<Item = Option<T>> + Clone,
) {
    let mut known: Vec<(String, Vec<T>)> = Vec::new();
    for (target, thing) in targets.iter().zip(things.clone()) {
        let (Some(target), Some(thing)) = (target, thing) else {
            continue;
        };
        match known.iter_mut().find(|(name, _)| name == target) {
            Some((_, things)) if things.contains(&thing) => {}
            Some((_, things)) => things.push(thing),
            None => known.push((target.clone(), vec![thing])),
        }
    }
    for (target, thing) in targets.iter_mut().zip(things) {
        let (Some(target), Some(thing)) = (target, thing) else {
            continue;
        };
        let things = known.iter().find(|(name, _)| name == target);
        let things = things.map_or(&[][..], |(_, things)| things);
        let place = things.iter().position(|one| *one == thing);
        if let Some(place) = place.filter(|_| things.len() > 1) {
            let (part, whole) = parts(target, 1);
            let whole = whole.map_or_else(String::new, |whole| format!("{OF}{whole}"));
            *target = format!("{part} #{}{whole}", place + 1);
        }
    }
}

/// A name without its number.
pub(crate) fn without_number(name: &str) -> Cow<'_, str> {
    let Some((part, rest)) = name.split_once(" #") else {
        return Cow::Borrowed(name);
    };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match after.len() < rest.len() && (after.is_empty() || after.starts_with(OF)) {
        true => Cow::Owned(format!("{part}{after}")),
        false => Cow::Borrowed(name),
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
    fn elements_are_told_apart_by_as_much_as_it_takes() {
        let element =
            |n| format!("Account::balance of element {n} of the 48 bytes allocated at bank.rs:12");
        let report = with_targets(&[&element(1), &element(2)]);
        let subjects = Subjects::of(&report);
        assert_eq!(subjects.say(&element(1)), "`Account::balance` of element 1");
        assert_eq!(
            subjects.told(),
            [
                "`Account::balance` of element 1 and `Account::balance` of element 2 belong to the 48 \
              bytes allocated at bank.rs:12"
            ]
        );
    }

    #[test]
    fn things_of_one_name_have_numbers() {
        let name = "Account::balance of the 32 bytes allocated at bank.rs:12";
        let targets = [Some(name), None, Some(name), Some("lock"), Some(name)];
        let mut targets = targets.map(|target| target.map(str::to_owned));
        let things = [Some(7), None, Some(9), Some(1), Some(7)];
        tell_apart(&mut targets, things.into_iter());
        let first = "Account::balance #1 of the 32 bytes allocated at bank.rs:12";
        assert_eq!(targets[0].as_deref(), Some(first));
        assert_eq!(targets[0], targets[4]);
        assert_ne!(targets[0], targets[2]);
        assert_eq!(targets[3].as_deref(), Some("lock"));
        assert_eq!(without_number(first), name);
        assert_eq!(quoted("Account::balance #1"), "`Account::balance` #1");
        assert_eq!(quoted("Map<K, V> #1"), "`Map<K, V>` #1");
        assert_eq!(quoted("field +16 #2"), "field +16 #2");
        let [one, _, other, ..] = targets.map(Option::unwrap_or_default);
        let told = Subjects::of(&with_targets(&[&one, &other])).told();
        assert_eq!(
            told,
            [
                "`Account::balance` #1 and `Account::balance` #2 are different ones, each of the 32 \
              bytes allocated at bank.rs:12"
            ]
        );
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
