//! How tests ended, and how long they took, natively and with us.

use std::collections::{BTreeMap, BTreeSet};

/// A test that takes less than so many seconds with us is no reason to complain.
const SHORT: f64 = 1.0;
/// So many times longer than natively is too long.
const LONG: f64 = 20.0;

/// What a run of the tests of some files was like, or several runs.
#[derive(Default)]
pub(super) struct Outcome {
    /// How each test ended, by file and name.
    pub(super) tests: BTreeMap<String, Test>,
    /// What the test binaries say they took.
    pub(super) seconds: f64,
    /// The files that were not over in time.
    pub(super) late: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Test {
    end: String,
    seconds: f64,
}

impl Outcome {
    /// What a test binary said.
    pub(super) fn read(file: &str, log: &str) -> Outcome {
        let mut outcome = Outcome::default();
        for line in log.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let seconds = |word: &str| -> f64 {
                let number = word.trim_matches(['<', '>', 's']);
                number.parse().unwrap_or(0.0)
            };
            let (name, end, took) = match words.as_slice() {
                ["test", "result:", .., took] => {
                    outcome.seconds += seconds(took);
                    continue;
                }
                ["test", name, .., end, took] if took.starts_with('<') => (name, end, *took),
                ["test", name, .., end] => (name, end, ""),
                _ => continue,
            };
            if line.contains(" ... ") {
                let test = Test {
                    end: (*end).to_owned(),
                    seconds: seconds(took),
                };
                outcome.tests.insert(format!("{file} {name}"), test);
            }
        }
        outcome
    }

    /// Adds another file's.
    pub(super) fn add(&mut self, other: Outcome) {
        self.tests.extend(other.tests);
        self.seconds += other.seconds;
        self.late.extend(other.late);
    }
}

/// Several runs of one file as one: the median of each time; if they did not end in the same way, how
/// often in which.
pub(super) fn combined(mut runs: Vec<Outcome>) -> Outcome {
    if runs.len() == 1 {
        return runs.swap_remove(0);
    }
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.tests.keys()).collect();
    let tests = names.into_iter().map(|name| {
        let tests: Vec<_> = runs.iter().map(|run| run.tests.get(name)).collect();
        let ends = tests
            .iter()
            .map(|test| test.map_or("missing", |test| &test.end));
        let test = Test {
            end: counted(ends.collect()),
            seconds: median(tests.iter().flatten().map(|test| test.seconds).collect()),
        };
        (name.clone(), test)
    });
    Outcome {
        tests: tests.collect(),
        seconds: median(runs.iter().map(|run| run.seconds).collect()),
        late: runs.iter().flat_map(|run| run.late.clone()).collect(),
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// `ok`, or `FAILED 1 of 5, ok 4 of 5`.
fn counted(ends: Vec<&str>) -> String {
    let mut counts = BTreeMap::new();
    for end in &ends {
        *counts.entry(*end).or_insert(0) += 1;
    }
    let all = ends.len();
    let parts = counts.iter().map(|(end, &count)| match count {
        _ if count == all => (*end).to_owned(),
        _ => format!("{end} {count} of {all}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Whether a test did not end as it does without us, or took too long, so that another run may tell more.
pub(super) fn is_remarkable(native: &Outcome, checked: &Outcome) -> bool {
    let is_slow = || times(native, checked).any(|(_, times, _)| times > LONG);
    differences(native, checked) != "none" || is_slow()
}

/// Which tests do not end as they do without us.
pub(super) fn differences(native: &Outcome, checked: &Outcome) -> String {
    let late = (checked.late.iter()).map(|file| format!("{file}: not over in time"));
    let differ = native.tests.iter().filter_map(|(name, test)| {
        let now = checked.tests.get(name).map_or("missing", |test| &test.end);
        (now != test.end).then(|| format!("{name}: {}; with us {now}", test.end))
    });
    let all: Vec<String> = late.chain(differ).collect();
    match all.as_slice() {
        [] => "none".to_owned(),
        all => all.join("; "),
    }
}

/// The tests that are not short, with their times as multiples of those without us, and in seconds.
fn times<'a>(
    native: &'a Outcome,
    checked: &'a Outcome,
) -> impl Iterator<Item = (&'a str, f64, f64)> {
    checked.tests.iter().filter_map(|(name, test)| {
        let without = native.tests.get(name)?.seconds.max(0.001);
        (test.seconds >= SHORT).then_some((&**name, test.seconds / without, test.seconds))
    })
}

/// The test that takes longest with us, compared with the time that it takes without us.
pub(super) fn slowest(native: &Outcome, checked: &Outcome) -> String {
    let slowest = times(native, checked).max_by(|(_, a, _), (_, b, _)| a.total_cmp(b));
    slowest.map_or("–".to_owned(), |(name, times, seconds)| {
        format!("{times:.1} × ({seconds:.1} s): {name}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NATIVE: &str = "\
running 4 tests
test quick ... ok <0.001s>
test slow - should panic ... ok <0.500s>
test skipped ... ignored
test wrong ... FAILED <0.100s>
test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.60s
";

    #[test]
    fn what_tests_say_is_read_and_compared() {
        let native = Outcome::read("list", NATIVE);
        assert_eq!(native.tests.len(), 4);
        assert_eq!(native.seconds, 0.6);
        assert_eq!(native.tests["list skipped"].end, "ignored");
        assert_eq!(differences(&native, &native), "none");
        assert_eq!(slowest(&native, &native), "–");
        assert!(!is_remarkable(&native, &native));
        let mut checked = Outcome::read(
            "list",
            "\
test quick ... ok <0.900s>
test slow - should panic ... ok <2.000s>
test skipped ... ignored
",
        );
        assert_eq!(
            differences(&native, &checked),
            "list wrong: FAILED; with us missing"
        );
        assert!(is_remarkable(&native, &checked));
        assert_eq!(slowest(&native, &checked), "4.0 × (2.0 s): list slow");
        checked.late.push("list".to_owned());
        assert!(differences(&native, &checked).starts_with("list: not over in time; "));
    }

    #[test]
    fn a_test_that_takes_too_long_is_remarkable() {
        let native = Outcome::read("list", NATIVE);
        for (seconds, expected) in [("9.900", false), ("10.100", true)] {
            let checked = NATIVE.replace("0.500", seconds);
            let checked = Outcome::read("list", &checked);
            assert_eq!(is_remarkable(&native, &checked), expected);
        }
    }

    #[test]
    fn the_median_of_several_runs_counts() {
        let runs = ["0.500", "9.000", "0.700"].map(|took| NATIVE.replace("0.500", took));
        let once = runs[1].replace("test slow - should panic ... ok", "test slow ... FAILED");
        let runs = [&runs[0], &once, &runs[2]].map(|run| Outcome::read("list", run));
        let all = combined(runs.into());
        let slow = &all.tests["list slow"];
        assert_eq!(
            (&*slow.end, slow.seconds),
            ("FAILED 1 of 3, ok 2 of 3", 0.7)
        );
        assert_eq!(all.tests["list quick"].end, "ok");
        assert_eq!(all.seconds, 0.6);
        let native = Outcome::read("list", NATIVE);
        assert_eq!(
            differences(&native, &all),
            "list slow: ok; with us FAILED 1 of 3, ok 2 of 3"
        );
    }
}
