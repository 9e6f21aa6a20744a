//! `blocks` against the definition of atomicity, and on the paper's examples.

use crate::interleavings::{self, judge, judge_all_subsets};
use crate::sets::{Shape, sets};
use crate::trace::{Trace, Verdict};
use atomsan_engines::blocks::{Blocks, Options, Strength};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};

fn check(trace: &Trace, strength: Strength) -> Verdict {
    trace.run(Blocks::new(Options {
        strength,
        ..Options::default()
    }))
}

/// The verdict equals the definition's: some selection of the transactions is not atomic.
fn agrees(trace: &Trace, strength: Strength) -> TestCaseResult {
    let Some(truth) = judge(trace) else {
        return Ok(());
    };
    if truth.deadlock {
        return Ok(());
    }
    let verdict = check(trace, strength);
    let reported = verdict.total > 0;
    if !truth.atomic {
        prop_assert!(reported, "missed");
    } else if reported {
        let all = judge_all_subsets(trace);
        prop_assert_eq!(all, Some(false), "false alarm {:#?}", verdict.findings);
    }
    Ok(())
}

/// Runs a test on that many random sets.
fn compare(cases: u32, shape: Shape, strength: Strength) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&sets(shape), |trace| agrees(&trace, strength))
        .unwrap();
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
