//! Potential for deadlock against the definition: some trace ends with every thread waiting.

use crate::interleavings::judge;
use crate::sets::{Shape, sets};
use crate::trace::Trace;
use atomsan_engines::blocks::{Blocks, Options, Strength};
use proptest::prelude::*;

fn deadlocks(trace: &Trace) -> u64 {
    let options = Options {
        strength: Strength::OneVar,
        ..Options::default()
    };
    trace.run(Blocks::new(options)).stat("potential deadlocks")
}

fn count(text: &str) -> u64 {
    deadlocks(&Trace::parse(text))
}

const A: &str = "a acq l\n a acq m\n a rel m\n a rel l\n";

#[test]
fn opposite_orders_of_two_threads() {
    assert_eq!(
        count(&format!("{A} b acq m\n b acq l\n b rel l\n b rel m")),
        1
    );
    assert_eq!(
        count(&format!("{A} b acq l\n b acq m\n b rel m\n b rel l")),
        0
    );
    assert_eq!(
        count(&format!("{A} a acq m\n a acq l\n a rel l\n a rel m")),
        0
    );
}

#[test]
fn a_gate_lock_lets_one_in_at_a_time() {
    let gated = |thread: &str, first: &str, second: &str| {
        format!(
            "{thread} acq g\n {thread} acq {first}\n {thread} acq {second}\n {thread} rel {second}\n {thread} rel {first}\n {thread} rel g\n"
        )
    };
    assert_eq!(count(&(gated("a", "l", "m") + &gated("b", "m", "l"))), 0);
}

#[test]
fn periods_that_are_ordered_do_not_meet() {
    assert_eq!(count(&format!("{A} a fork b\n b acq m\n b acq l")), 0);
    assert_eq!(count(&format!("a fork b\n {A} b acq m\n b acq l")), 1);
}

#[test]
fn readers_do_not_wait_for_each_other() {
    let readers = "a acqs l\n a acqs m\n a rels m\n a rels l\n b acqs m\n b acqs l";
    assert_eq!(count(readers), 0);
    assert_eq!(
        count("a acqs l\n a acq m\n a rel m\n a rels l\n b acqs m\n b acq l"),
        1
    );
}

#[test]
fn three_philosophers() {
    let philosopher = |thread: &str, left: &str, right: &str| {
        format!(
            "{thread} acq {left}\n {thread} acq {right}\n {thread} rel {right}\n {thread} rel {left}\n"
        )
    };
    let two = philosopher("a", "1", "2") + &philosopher("b", "2", "3");
    assert_eq!(count(&(two.clone() + &philosopher("c", "3", "1"))), 1);
    assert_eq!(count(&(two + &philosopher("c", "1", "3"))), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever can deadlock is said to. (The other direction does not hold: an earlier section may
    /// keep the threads from ever meeting.)
    #[test]
    fn no_deadlock_is_missed(trace in sets(Shape {
        threads: 3, vars: 1, locks: 3, transactions: (2, 3), length: 8,
        unary: false, orders: true, exotic: true, nested: true,
    })) {
        if let Some(truth) = judge(&trace) && truth.deadlock {
            prop_assert!(deadlocks(&trace) > 0);
        }
    }
}

/// Two threads nest many locks, in these orders.
fn nests(orders: [&mut dyn Iterator<Item = u32>; 2]) -> Trace {
    let mut text = String::new();
    for (thread, order) in ["a", "b"].iter().zip(orders) {
        for lock in order {
            text += &format!("{thread} acq l{lock}\n");
        }
    }
    Trace::parse(&text)
}

/// Two million pairs of nested locks for each thread, none of them on a cycle: nothing is searched,
/// so nothing is given up.
#[test]
fn one_order_of_many_locks_needs_no_search() {
    let trace = nests([&mut (0..2000), &mut (0..2000)]);
    let verdict = trace.run(Blocks::default());
    assert_eq!(verdict.stat("potential deadlocks"), 0);
    assert!(verdict.remarks.is_empty());
}

/// One pair of locks the other way round, outside of many that are not.
#[test]
fn a_cycle_is_found_among_many_locks() {
    let order = || (0..600).chain([601, 600]);
    let trace = nests([&mut (600..1200), &mut (601..1200).chain([600])]);
    let verdict = trace.run(Blocks::default());
    assert_eq!(verdict.stat("potential deadlocks"), 1);
    // With a gate around it, it is none.
    assert_eq!(deadlocks(&nests([&mut (0..602), &mut order()])), 0);
}

/// Opposite orders of many locks have too many cycles to look at all, and that is said.
#[test]
fn a_search_that_is_given_up_says_so() {
    let trace = nests([&mut (0..2000), &mut (0..2000).rev()]);
    let verdict = trace.run(Blocks::default());
    assert!(verdict.stat("potential deadlocks") > 0);
    assert_eq!(verdict.remarks.len(), 1);
}
