//! A finding as a story: its headline, its steps in the order they happened, what to do.
//!
//! All renderers tell the same story. A step of the culprit is told at its line in the culprit
//! function, though the access may be in something that this line calls; a step of another thread
//! at the nearest line that is not in a library.

use crate::resolve::{Place, Report, Step};
use crate::source::{bare_name, is_library};
use crate::subjects::Subjects;
pub use crate::subjects::about;
use crate::words;
use atomsan_trace::numbers::grouped;
use std::borrow::Cow;

/// One step, told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// Its number among all steps of all threads, from 1.
    pub number: usize,
    /// The thread.
    pub thread: String,
    /// Whether it is the culprit's.
    pub culprit: bool,
    /// What it does: ``reads `balance` ``.
    pub action: String,
    /// What that means, for the step that decides.
    pub meaning: String,
    /// The line that a person should look at.
    pub place: Place,
}

impl Told {
    /// The number as a sign: ①.
    pub fn sign(&self) -> String {
        sign(self.number)
    }
}

/// ① for 1.
pub(crate) fn sign(number: usize) -> String {
    match u32::try_from(number) {
        Ok(number @ 1..=20) => char::from_u32('①' as u32 + number - 1).map(String::from),
        _ => None,
    }
    .unwrap_or_else(|| format!("({number})"))
}

/// Who is wrong: `` `withdraw` ``, or a region without a name.
pub fn who(report: &Report) -> String {
    match (&report.culprit.function, report.transactions.first()) {
        (Some(function), _) => format!("`{function}`"),
        (None, Some(transaction)) => {
            let region = transaction.region.as_deref().unwrap_or("this step");
            format!("{region} of {}", named_thread(&transaction.thread))
        }
        (None, None) => "this region".to_owned(),
    }
}

/// What is wrong, in one sentence.
pub fn headline(report: &Report) -> String {
    // Where yields are missing, nobody has said that anything is atomic.
    let verdict = match report.anomaly.as_str() {
        words::MISSING_YIELD => "needs a yield",
        _ => "is not atomic",
    };
    format!("{} {verdict}: {}", who(report), report.message)
}

/// A trace may call its threads `7`, `worker` or `thread 7`.
pub fn named_thread(name: &str) -> Cow<'_, str> {
    if name.starts_with("thread") || name.starts_with("main") {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("thread {name}"))
    }
}

/// The steps, told in order.
pub fn tell(report: &Report) -> Vec<Told> {
    let subjects = Subjects::of(report);
    let culprit = |step: &Step| step.transaction == 0;
    let first = report.witness.iter().position(culprit);
    let last = report.witness.iter().rposition(culprit);
    let told = report.witness.iter().enumerate().map(|(at, step)| {
        let place = if culprit(step) {
            let given = match report.culprit.lines.as_slice() {
                [line, _] if Some(at) == first => Some(*line),
                [_, line] if Some(at) == last => Some(*line),
                _ => None,
            };
            in_culprit(report, step, given)
        } else {
            nearest(step)
        };
        let mut action = words::phrase(&step.op).to_owned();
        if let Some(target) = &step.target {
            action.push(' ');
            action.push_str(&subjects.say(target));
        }
        let inside = (step.place.function.as_deref())
            .filter(|_| place.function != step.place.function || place.line != step.place.line);
        // A closure of the function that is shown is no news.
        let news = |inside: &&str| {
            let shown = place.function.as_deref().unwrap_or("");
            inside
                .strip_prefix(shown)
                .is_none_or(|rest| !rest.starts_with("::{"))
        };
        if let Some(inside) = inside.filter(news) {
            action.push_str(&format!(" in `{}`", bare_name(inside)));
        }
        let meaning = match (&step.note, culprit(step), Some(at) == last && first != last) {
            (Some(note), ..) => note.clone(),
            (None, true, true) => meaning(report, first.unwrap_or(0), at),
            _ => String::new(),
        };
        Told {
            number: at + 1,
            thread: named_thread(&step.thread).into_owned(),
            culprit: culprit(step),
            action,
            meaning,
            place,
        }
    });
    told.collect()
}

/// What the culprit's last step means after what others did in between.
fn meaning(report: &Report, first: usize, last: usize) -> String {
    let before = |to: usize| {
        report
            .edges
            .iter()
            .find(|(_, at)| *at == to)
            .map(|edge| edge.0)
    };
    let (one, other) = (sign(first + 1), before(last).map(|at| sign(at + 1)));
    let other = other.unwrap_or_else(|| "another thread".to_owned());
    match report.anomaly.as_str() {
        "lost-update" => format!("but {one} is out of date since {other}"),
        "overwritten" => format!("but {other} has overwritten {one}"),
        "intermediate-state" => format!("but {other} has seen the state between"),
        "non-repeatable-read" => format!("but {other} has changed it since {one}"),
        _ => format!("but after {other}, so {one} is out of date"),
    }
}

/// The step's line in the culprit function.
fn in_culprit(report: &Report, step: &Step, line: Option<u32>) -> Place {
    let culprit = &report.culprit;
    let frames = [&step.place].into_iter().chain(&step.stack);
    let mut frames =
        frames.filter(|place| culprit.function.is_some() && place.function == culprit.function);
    let found = match line {
        Some(_) => frames.find(|place| place.line == line).cloned(),
        None => frames.next().cloned(),
    };
    let given = line.filter(|_| culprit.file.is_some()).map(|line| Place {
        function: culprit.function.clone(),
        file: culprit.file.clone(),
        line: Some(line),
    });
    found.or(given).unwrap_or_else(|| nearest(step))
}

/// The nearest line that is not in a library.
fn nearest(step: &Step) -> Place {
    let users = |place: &&Place| place.file.as_deref().is_some_and(|file| !is_library(file));
    let frames = [&step.place].into_iter().chain(&step.stack);
    frames
        .into_iter()
        .find(users)
        .unwrap_or(&step.place)
        .clone()
}

/// Where, and who got in: `src/bank.rs, between lines 14 and 17; …`.
pub fn between(report: &Report, file: Option<&str>) -> Option<String> {
    let lines = report.culprit.lines.as_slice();
    let mut text = match (file, lines) {
        (Some(file), [first, second]) if first != second => {
            format!("{file}, between lines {first} and {second}")
        }
        (Some(file), [line, ..]) => format!("{file}, around line {line}"),
        (Some(file), []) => file.to_owned(),
        (None, [first, second]) if first != second => {
            format!("between locations {first} and {second}")
        }
        (None, [line, ..]) => format!("at location {line}"),
        (None, []) => String::new(),
    };
    if let Some(other) = report.transactions.get(1) {
        if !text.is_empty() {
            text.push_str("; ");
        }
        let thread = named_thread(&other.thread);
        match &other.region {
            Some(region) => text.push_str(&format!("`{region}` of {thread} got in")),
            None => text.push_str(&format!("{thread} got in")),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// What to do about it.
pub fn help(report: &Report) -> String {
    let lines = match report.culprit.lines.as_slice() {
        [first, second] if first != second && report.culprit.file.is_some() => {
            let (first, second) = (first.min(second), first.max(second));
            format!("from line {first} to line {second}")
        }
        [_, ..] if report.culprit.file.is_some() => "for the whole of it".to_owned(),
        _ => "from the first step to the last".to_owned(),
    };
    match report.anomaly.as_str() {
        "lost-update" => format!(
            "hold the lock {lines}, or read again after taking it, or use one atomic read-modify-write"
        ),
        "overwritten" => format!("hold the lock {lines}, so that nobody writes before it is done"),
        "intermediate-state" => {
            format!("hold the lock {lines}, so that nobody sees the first write without the second")
        }
        "non-repeatable-read" => {
            format!("hold the lock {lines}, or read once and work on the copy")
        }
        "inconsistent-pair" => format!(
            "hold one lock {lines}; what belongs together is read and written under the same lock"
        ),
        words::MISSING_YIELD => {
            "if others may interfere here, say so with a yield; if not, hold the lock".to_owned()
        }
        _ => format!("hold one lock {lines}, or declare the function not atomic"),
    }
}

/// Why it may be harmless; only where honest code has the same shape.
pub fn doubt(report: &Report) -> Option<&'static str> {
    match (report.rank, report.anomaly.as_str()) {
        (crate::Rank::Medium, "non-repeatable-read" | "inconsistent-pair") => Some(
            "honest code has this shape too: look, miss, take the lock, and look again; \
             if it does look again before it acts, this is harmless",
        ),
        (crate::Rank::Low, _) if is_one_line(report) => Some(
            "both steps are at one line, in two turns of a loop most likely: others may run between \
             them, unless the whole loop should be in one piece",
        ),
        _ => None,
    }
}

fn is_one_line(report: &Report) -> bool {
    matches!(report.culprit.lines.as_slice(), [first, second] if first == second)
}

/// How it is known, by whom, and how often.
pub fn evidence(report: &Report) -> String {
    let times = |count: u64| match count {
        1 => "once".to_owned(),
        count => format!("{} times", grouped(count)),
    };
    let mut text = format!(
        "{} {} by {}",
        report.status,
        times(report.total.max(report.count)),
        report.engine
    );
    for other in &report.agreeing {
        let (engine, status) = (&other.engine, &other.status);
        text.push_str(&format!(", {status} {} by {engine}", times(other.count)));
    }
    text
}

/// The other ways in which the mistake was seen, each once.
pub fn also(report: &Report) -> Vec<String> {
    let way = |other: &Report| {
        let at = match other.culprit.lines.as_slice() {
            [first, second] if first != second => format!("between lines {first} and {second}"),
            [line, ..] => format!("at line {line}"),
            [] => "elsewhere".to_owned(),
        };
        let by = match other
            .transactions
            .get(1)
            .and_then(|one| one.region.as_ref())
        {
            Some(region) => format!(", `{region}` got in"),
            None => String::new(),
        };
        format!("{} {at}{by}", other.anomaly)
    };
    let own = way(report);
    let mut ways: Vec<String> = Vec::new();
    for way in report.also.iter().map(way) {
        if way != own && !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::report;

    #[test]
    fn numbers_as_people_write_them() {
        let numbers = [7, 123, 1904, 1_234_567].map(grouped);
        assert_eq!(numbers, ["7", "123", "1,904", "1,234,567"]);
    }

    #[test]
    fn two_turns_of_a_loop_are_said_to_be_such() {
        let mut report = report();
        report.rank = crate::Rank::Low;
        assert_eq!(doubt(&report), None);
        report.culprit.lines = vec![10, 10];
        assert!(doubt(&report).is_some_and(|doubt| doubt.contains("two turns of a loop")));
    }

    #[test]
    fn signs() {
        let signs = [1, 9, 20, 21].map(sign);
        assert_eq!(signs, ["①", "⑨", "⑳", "(21)"]);
    }

    #[test]
    fn a_step_in_a_callee_is_told_at_the_culprits_line() {
        let mut report = report();
        let place = |function: &str, file: &str, line| Place {
            function: Some(function.to_owned()),
            file: Some(file.to_owned()),
            line: Some(line),
        };
        let step = &mut report.witness[0];
        step.place = place("Vec::len", "/rustc/abc/library/alloc/vec.rs", 99);
        step.stack = vec![place("withdraw", "src/bank.rs", 10)];
        let other = &mut report.witness[1];
        other.place = place("Vec::push", "/rustc/abc/library/alloc/vec.rs", 7);
        other.stack = vec![place("deposit", "src/bank.rs", 33)];
        let told = tell(&report);
        assert_eq!(told[0].place.line, Some(10));
        assert_eq!(told[0].action, "reads `balance` in `len`");
        assert_eq!(told[1].place, place("deposit", "src/bank.rs", 33));
        assert_eq!(told[2].meaning, "but ① is out of date since ②");
    }
}
