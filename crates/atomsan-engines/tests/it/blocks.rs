//! `blocks` against the definition of atomicity, and on the paper's examples.

use crate::interleavings::{self, judge, judge_all_subsets};
use crate::sets::{Shape, sets};
use crate::trace::{Trace, Verdict};
use atomsan_engines::blocks::{Blocks, Options, Strength};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use std::cell::Cell;

fn check(trace: &Trace, strength: Strength) -> Verdict {
    trace.run(Blocks::new(Options {
        strength,
        ..Options::default()
    }))
}

/// How many sets were judged, and how many of them are not atomic.
#[derive(Debug, Default)]
struct Tally {
    judged: Cell<u32>,
    violated: Cell<u32>,
    hidden: Cell<u32>,
    /// Violations that only this strength sees.
    stronger: Cell<u32>,
}

/// The verdict equals the definition's: some selection of the transactions is not atomic.
fn agrees(trace: &Trace, strength: Strength, tally: &Tally) -> TestCaseResult {
    let Some(truth) = judge(trace).filter(|truth| !truth.deadlock) else {
        return Ok(());
    };
    tally.judged.update(|count| count + 1);
    tally
        .violated
        .update(|count| count + u32::from(!truth.atomic));
    let verdict = check(trace, strength);
    let reported = verdict.total > 0;
    if !truth.atomic {
        prop_assert!(reported, "missed");
        let weaker = match strength {
            Strength::OneVar => return Ok(()),
            Strength::TwoVar => Strength::OneVar,
            Strength::Cyclic => Strength::TwoVar,
        };
        let missed = check(trace, weaker).total == 0;
        tally.stronger.update(|count| count + u32::from(missed));
    } else if reported {
        let all = judge_all_subsets(trace);
        prop_assert_eq!(all, Some(false), "false alarm {:#?}", verdict.findings);
        tally.hidden.update(|count| count + 1);
    }
    Ok(())
}

/// Compares on that many random sets.
fn compare(cases: u32, shape: Shape, strength: Strength) {
    let scale = std::env::var("SCALE").map_or(1, |s| s.parse().unwrap());
    let cases = cases * scale;
    let tally = Tally::default();
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&sets(shape), |trace| agrees(&trace, strength, &tally))
        .unwrap();
    println!("{tally:?}");
    // Most sets say something, and they say both things.
    let (judged, violated) = (tally.judged.get(), tally.violated.get());
    assert!(judged > cases / 2, "{tally:?}");
    assert!(
        violated > judged / 20 && violated < judged / 20 * 19,
        "{tally:?}"
    );
}

const SMALL: Shape = Shape {
    threads: 3,
    vars: 1,
    locks: 2,
    transactions: (2, 3),
    length: 5,
    unary: true,
    orders: true,
    exotic: false,
};

#[test]
fn theorem_3_equals_the_definition() {
    compare(40_000, SMALL, Strength::OneVar);
}

#[test]
fn theorem_4_equals_the_definition() {
    let shape = Shape {
        vars: 2,
        threads: 2,
        transactions: (2, 2),
        length: 7,
        unary: false,
        ..SMALL
    };
    compare(40_000, shape, Strength::TwoVar);
}

#[test]
fn theorem_5_equals_the_definition() {
    let shape = Shape {
        vars: 3,
        transactions: (3, 4),
        length: 4,
        ..SMALL
    };
    compare(30_000, shape, Strength::Cyclic);
}

#[test]
fn exotic_3() {
    compare(
        40_000,
        Shape {
            exotic: true,
            transactions: (2, 4),
            ..SMALL
        },
        Strength::OneVar,
    );
}
#[test]
fn exotic_4() {
    let shape = Shape {
        vars: 3,
        threads: 2,
        transactions: (2, 2),
        length: 10,
        unary: false,
        exotic: true,
        locks: 3,
        ..SMALL
    };
    compare(40_000, shape, Strength::TwoVar);
}
#[test]
fn exotic_5() {
    let shape = Shape {
        vars: 3,
        threads: 4,
        transactions: (3, 4),
        length: 5,
        exotic: true,
        ..SMALL
    };
    compare(30_000, shape, Strength::Cyclic);
}
