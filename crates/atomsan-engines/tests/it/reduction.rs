//! Offline reduction: its paper's examples, and never calling atomic what is not.

use crate::files;
use crate::interleavings;
use crate::random::{Shape, arbitrary, traces};
use crate::sets;
use crate::trace::{Trace, Verdict};
use atomsan_engines::reduction::{Options, Reduction, TABLE_2};
use atomsan_trace::finding::{Anomaly, Criterion, Status};
use atomsan_trace::{Event, FunctionId, LockId, Op, SiteId, ThreadId, VarId};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn run(text: &str) -> Verdict {
    Trace::parse(text).run(Reduction::default())
}

/// The column of Table 2 with this name.
fn column(name: &str) -> Options {
    TABLE_2.iter().find(|column| column.0 == name).unwrap().1
}

/// Fig. 4.
const T1: &str = "\
t1 begin t1
t1 acq o1
t1 acq o2
t1 w x
t1 w x
t1 rel o2
t1 rel o1
t1 end
";
const T2: &str = "t2 begin t2\nt2 acq o2\nt2 r x\nt2 rel o2\nt2 end\n";
const T3: &str = "t3 begin t3\nt3 acq o1\nt3 r x\nt3 rel o1\nt3 end\n";
const T4: &str = "\
t4 begin t4
t4 r x
t4 acq o1
t4 acq o2
t4 w x
t4 rel o2
t4 rel o1
t4 end
";

#[test]
fn figure_4_multilockset_is_quiet_on_t1_to_t3() {
    for order in [[T3, T2, T1], [T1, T2, T3]] {
        let verdict = run(&order.concat());
        assert_eq!(verdict.total, 0);
        assert_eq!(verdict.stat("variables with races"), 0);
    }
    // One lockset for all accesses is not enough, once all have been seen.
    let eraser = Trace::parse(&[T3, T2, T1, T3, T2].concat());
    let verdict = eraser.run(Reduction::new(column("happen-before")));
    assert_eq!(verdict.stat("variables with races"), 1);
}

/// "A potential data race is reported, but this is a false alarm, and it causes a false alarm in
/// atomicity checking."
#[test]
fn figure_4_reduction_alarms_on_t2_to_t4() {
    for order in [[T3, T2, T4], [T4, T2, T3]] {
        let text = order.concat();
        let trace = Trace::parse(&text);
        let verdict = trace.run(Reduction::default());
        assert_eq!(verdict.stat("variables with races"), 1);
        let begin = text.lines().position(|line| line == "t4 begin t4").unwrap() as u32 + 1;
        // N R R N L L: the read commits, and acquiring o2 is what leads to the write.
        assert_eq!(verdict.reduction_lines(), [[begin, begin + 1, begin + 2]]);
        assert!(interleavings::judge(&trace).unwrap().atomic);
    }
}

/// Fig. 1: `new Vector(v1)`, what it does to `v1`.
const NEW_VECTOR: &str = "\
t begin Vector
t acq v1
t r v1.elementCount
t rel v1
t acq v1
t r v1.elementCount
t r v1.elementData
t r v1.elementCount
t rel v1
t end
";
const REMOVE_ALL: &str = "\
u begin removeAllElements
u acq v1
u r v1.elementCount
u w v1.elementCount
u w v1.elementData
u rel v1
u end
";

/// Fig. 5: `new Vector(v1)` has the pattern RBLRBBBL, which does not match; `removeAllElements`
/// has RBBBL, which does.
#[test]
fn figure_5_vector_has_two_synchronised_blocks() {
    for order in [[NEW_VECTOR, REMOVE_ALL], [REMOVE_ALL, NEW_VECTOR]] {
        let text = order.concat();
        let trace = Trace::parse(&text);
        let verdict = trace.run(Reduction::default());
        let begin = text
            .lines()
            .position(|line| line == "t begin Vector")
            .unwrap() as u32
            + 1;
        assert_eq!(verdict.reduction_lines(), [[begin, begin + 3, begin + 4]]);
        let finding = &verdict.findings[0];
        assert_eq!(
            trace.names.function_name(finding.culprit.region.unwrap()),
            "Vector"
        );
        assert_eq!(finding.criterion, Criterion::Reducibility);
        assert_eq!(finding.status, Status::Predicted);
        assert_eq!(finding.anomaly, Anomaly::NotReducible);
        assert_eq!(
            finding.notes,
            ["committed by releasing v1", "violated by acquiring v1"]
        );
        assert_eq!(verdict.stat("variables with races"), 0);
        // Two roots; the two blocks of the constructor and the one of removeAllElements.
        assert_eq!(verdict.stat("tree nodes"), 5);
    }
}

/// Theorem 2: a block with only read-only and thread-local variables can be left out, whatever
/// its lock does elsewhere.
#[test]
fn acq_a_rel_is_left_out() {
    let text = "\
t begin f
t acq l
t r config
t acq m
t r mine
t rel m
t rel l
t acq l
t w x
t rel l
t end
u acq l
u r config
u w x
u rel l
u acq m
u rel m
";
    assert_eq!(run(text).total, 0);
    let theorem_1 = Trace::parse(text).run(Reduction::new(column("multilockset")));
    assert_eq!(theorem_1.reduction_lines(), [[1, 7, 8]]);
    // Written concurrently, `config` is race-free but not read-only.
    let written = text.replace("u r config", "u w config");
    assert_eq!(run(&written).reduction_lines(), [[1, 7, 8]]);
}

#[test]
fn one_non_mover_is_allowed_and_two_are_not() {
    let other = "u w x\nu w y\n";
    assert_eq!(run(&["t begin f\nt w x\nt end\n", other].concat()).total, 0);
    let twice = run(&["t begin f\nt r x\nt w x\nt end\n", other].concat());
    assert_eq!(twice.reduction_lines(), [[1, 2, 3]]);
    assert!(twice.findings[0].notes[1].contains("a write of x, which races"));
    let two = run(&["t begin f\nt w x\nt w y\nt end\n", other].concat());
    assert_eq!(two.reduction_lines(), [[1, 2, 3]]);
    // Earlier than the race was known: the Atomizer misses this one.
    let locked = "t begin f\nt acq l\nt r x\nt w x\nt rel l\nt end\nu w x";
    assert_eq!(run(locked).reduction_lines(), [[1, 3, 4]]);
}

#[test]
fn a_non_mover_and_a_block_exclude_each_other() {
    let other = "u w x\nu acq l\nu w y\nu rel l\n";
    let before = "t begin f\nt w x\nt acq l\nt w y\nt rel l\nt end\n";
    assert_eq!(
        run(&[before, other].concat()).reduction_lines(),
        [[1, 2, 3]]
    );
    let after = "t begin f\nt acq l\nt w y\nt rel l\nt w x\nt end\n";
    assert_eq!(run(&[after, other].concat()).reduction_lines(), [[1, 4, 5]]);
    let inside = "t begin f\nt acq l\nt w y\nt w x\nt rel l\nt end\n";
    assert_eq!(run(&[inside, other].concat()).total, 0);
}

/// 5.5: operations on protected locks and on locks of one thread are both-movers, judged by the
/// whole execution.
#[test]
fn protected_and_thread_local_locks_are_both_movers() {
    let block = |t: &str, guard: bool| {
        let twice = format!("{t} acq m\n{t} w x\n{t} rel m\n{t} acq m\n{t} w x\n{t} rel m\n");
        if guard {
            format!("{t} begin f\n{t} acq g\n{twice}{t} rel g\n{t} end\n")
        } else {
            format!("{t} begin f\n{twice}{t} end\n")
        }
    };
    assert_eq!(run(&block("t", false)).total, 0, "thread-local");
    assert_eq!(
        run(&[block("t", true), block("u", true)].concat()).total,
        0,
        "protected"
    );
    // Unprotected at the very end: that changes everything before.
    let verdict = run(&[block("t", true), block("u", true), block("v", false)].concat());
    assert_eq!(verdict.stat("violating transactions"), 3);
    // The trees of t and u are the same; the lines are those of t.
    assert_eq!(verdict.reduction_lines(), [[1, 5, 6], [21, 24, 25]]);
    assert_eq!(verdict.findings[0].count, 2);
}

#[test]
fn happens_before_orders_initialisation() {
    let text = "m begin init\nm w x\nm w x\nm end\nm fork t\nt begin use\nt r x\nt r x\nt end";
    assert_eq!(run(text).total, 0);
    let without = Options {
        happens_before: false,
        ..Options::default()
    };
    assert_eq!(
        Trace::parse(text)
            .run(Reduction::new(without))
            .stat("violating regions"),
        2
    );
}

#[test]
fn what_has_not_escaped_does_not_count() {
    let text = "\
t begin f
t alloc o
t w o.x
t w o.x
t ref global.o o
t end
u begin g
u r o.x
u end";
    let verdict = run(text);
    assert_eq!(verdict.total, 0);
    assert_eq!(verdict.stat("unescaped accesses"), 2);
    let without = Options {
        escape: false,
        ..Options::default()
    };
    assert_eq!(
        Trace::parse(text)
            .run(Reduction::new(without))
            .reduction_lines(),
        [[1, 3, 4]]
    );
}

/// A freed object's variables are new ones, but the trees cannot tell them apart: the worst counts.
#[test]
fn reused_memory_is_new() {
    let first = "t begin f\nt w o.x\nt w o.x\nt end\nt free o\n";
    let second = "u begin g\nu w o.x\nu end\n";
    assert_eq!(run(&[first, second].concat()).total, 0);
    let raced = "v w o.x\nv free o\n";
    let verdict = run(&[first, second, raced, "t r o.x\n"].concat());
    assert_eq!(verdict.stat("variables with races"), 1);
}

#[test]
fn waits_starts_joins_and_barriers_split_transactions() {
    let other = "u w x\nu w x\n";
    for boundary in ["fork v", "join v", "arrive z", "leave z", "yield"] {
        let text = format!("t begin f\nt w x\nt {boundary}\nt w x\nt end\n{other}");
        let verdict = run(&text);
        assert_eq!(
            (verdict.total, verdict.stat("transactions")),
            (0, 2),
            "{boundary}"
        );
    }
    let wait = "t begin f\nt acq l\nt w y\nt wait l\nt woken l\nt w y\nt rel l\nt end\n";
    let uses = "u acq l\nu w y\nu rel l\n";
    assert_eq!(run(&[wait, uses].concat()).total, 0);
}

/// Locks of other languages than Java need not nest.
#[test]
fn locks_released_out_of_order() {
    let other = "u acq a\nu acq b\nu w x\nu w y\nu rel b\nu rel a\nu w z\n";
    let with = |text: &str| run(&[text, other].concat()).reduction_lines();
    // R R L L.
    let fine = "t begin f\nt acq a\nt acq b\nt w x\nt rel a\nt w y\nt rel b\nt end\n";
    assert_eq!(with(fine), [[0; 3]; 0]);
    // R R L N L.
    let late = "t begin f\nt acq a\nt acq b\nt w y\nt rel a\nt w z\nt rel b\nt end\n";
    assert_eq!(with(late), [[1, 5, 6]]);
    // R R N L L.
    let early = "t begin f\nt acq a\nt acq b\nt w z\nt rel a\nt w y\nt rel b\nt end\n";
    assert_eq!(with(early), [[0; 3]; 0]);
    // R R L R L L: hand over hand.
    let hand =
        "t begin f\nt acq a\nt acq b\nt w y\nt rel a\nt acq a\nt w x\nt rel b\nt rel a\nt end\n";
    assert_eq!(with(hand), [[1, 5, 6]]);
}

#[test]
fn locks_held_across_the_ends_of_a_transaction() {
    let other = "u acq a\nu w x\nu rel a\nu w z\n";
    let with = |text: &str| run(&[text, other].concat()).reduction_lines();
    // L only, then a both-mover; L R; N L; L N.
    assert_eq!(
        with("t acq a\nt begin f\nt w x\nt rel a\nt end\n"),
        [[0; 3]; 0]
    );
    assert_eq!(
        with("t acq a\nt begin f\nt rel a\nt acq a\nt w x\nt end\nt rel a\n"),
        [[2, 3, 4]]
    );
    assert_eq!(
        with("t acq a\nt begin f\nt w z\nt rel a\nt end\n"),
        [[0; 3]; 0]
    );
    assert_eq!(
        with("t acq a\nt begin f\nt rel a\nt w z\nt end\n"),
        [[2, 3, 4]]
    );
    // R that is never released: N R.
    assert_eq!(
        with("t begin f\nt w z\nt acq a\nt w x\nt end\nt rel a\n"),
        [[1, 2, 3]]
    );
}

/// The same blocks a million times cost no more memory than twice.
#[test]
fn repetition_makes_no_new_trees() {
    let block = "t begin f\nt acq l\nt w x\nt rel l\nt acq l\nt w x\nt rel l\nt end\n";
    let trace = |times: usize| {
        let mut trace = Trace::parse(&["u acq l\nu w x\nu rel l\n", block].concat());
        let events = trace.events[3..].to_vec();
        for _ in 1..times {
            trace.events.extend_from_slice(&events);
        }
        trace.run(Reduction::default())
    };
    let (few, many) = (trace(2), trace(10_000));
    assert_eq!(few.stat("tree nodes"), many.stat("tree nodes"));
    assert_eq!(many.findings[0].count, 10_000);
    assert_eq!(many.findings.len(), 1);
    // The loop inside one transaction, too.
    let inner = "t acq l\nt w x\nt rel l\n".repeat(1000);
    let verdict = run(&format!(
        "u acq l\nu w x\nu rel l\nt begin f\n{inner}t end\n"
    ));
    assert_eq!(verdict.stat("tree nodes"), 2);
    assert_eq!(verdict.reduction_lines(), [[4, 7, 8]]);
}

/// Threads that take turns with a variable make each other forget that they have seen it.
#[test]
fn taking_turns_with_variables_keeps_trees_small() {
    let mut text = String::from("t begin f\nu begin f\n");
    for at in 0..2000 {
        text.push_str(&format!("t w v{}\nu w v{}\n", at % 10, at % 10));
    }
    text.push_str("t end\nu end\n");
    let verdict = run(&text);
    assert_eq!(verdict.stat("tree nodes"), 1, "the same for both");
    assert_eq!(verdict.stat("violating transactions"), 2);
    assert_eq!(verdict.reduction_lines(), [[1, 3, 5]]);
}

#[test]
fn a_trace_may_stop_in_the_middle() {
    let verdict = run("u w x\nt begin f\nt r x\nt w x");
    assert_eq!(verdict.reduction_lines(), [[2, 3, 4]]);
}

/// Starting and joining end transactions, but not the oracle's, so they are ended in the trace. A thread that is started while it runs, or runs on after it was joined, has a transaction
/// that cannot be serial by what that orders; those events are left out.
fn proper(trace: &Trace) -> Trace {
    let mut depth = vec![0; 256];
    let mut events = Vec::new();
    for (at, event) in trace.events.iter().enumerate() {
        let acts = |child, events: &[Event]| events.iter().any(|event| event.thread == child);
        let depth = &mut depth[event.thread.index()];
        let add = |op| Event { op, ..*event };
        match event.op {
            Op::Begin(_) => *depth += 1,
            Op::End => *depth -= 1,
            Op::Fork(child) if acts(child, &trace.events[..=at]) => continue,
            Op::Join(child) if acts(child, &trace.events[at..]) => continue,
            _ => {}
        }
        if matches!(event.op, Op::Fork(_) | Op::Join(_)) {
            events.extend((0..*depth).map(|_| add(Op::End)));
            events.push(*event);
            events.extend((0..*depth).map(|_| add(Op::Begin(FunctionId(0)))));
        } else {
            events.push(*event);
        }
    }
    Trace::new(events)
}

/// All options under which the answer is conservative: with Eraser's states it is not.
fn conservative() -> impl Iterator<Item = Options> {
    (0..8).map(|bits| Options {
        escape: bits & 1 == 0,
        happens_before: bits & 2 == 0,
        acq_a_rel: bits & 4 == 0,
        multilockset: true,
    })
}

fn never_misses(trace: &Trace) -> Result<(), TestCaseError> {
    let alarms: Vec<(Options, u64)> = conservative()
        .map(|options| (options, trace.run(Reduction::new(options)).total))
        .collect();
    // Each improvement only takes alarms away.
    let best = alarms[0].1;
    for (options, total) in &alarms {
        prop_assert!(best <= *total, "{:?} has fewer alarms", options);
    }
    if best == 0
        && let Some(truth) = interleavings::judge(trace)
    {
        prop_assert!(truth.atomic || truth.deadlock, "not atomic");
    }
    Ok(())
}

/// A set of transactions from choices, as in [`sets`], but with locks that are re-entrant and
/// released in any order.
fn crossed(transactions: &[(u8, Vec<(u8, u8)>)]) -> Trace {
    let mut events = Vec::new();
    for (thread, steps) in transactions {
        let mut push = |op| {
            events.push(Event {
                thread: ThreadId((*thread).into()),
                site: SiteId(events.len() as u32 + 1),
                op,
            });
        };
        let mut held: Vec<LockId> = Vec::new();
        push(Op::Begin(FunctionId(0)));
        for &(what, target) in steps {
            let (var, lock) = (VarId((target % 2).into()), LockId((target % 3).into()));
            match what % 8 {
                0 | 1 => push(Op::Read(var)),
                2 | 3 => push(Op::Write(var)),
                4 | 5 => {
                    held.push(lock);
                    push(Op::Acquire(lock));
                }
                6 if !held.is_empty() => push(Op::Release(held.remove(0))),
                _ => held
                    .pop()
                    .into_iter()
                    .for_each(|lock| push(Op::Release(lock))),
            }
        }
        held.iter().rev().for_each(|&lock| push(Op::Release(lock)));
        push(Op::End);
    }
    Trace::new(events)
}

fn crossed_sets() -> impl Strategy<Value = Trace> {
    let steps = prop::collection::vec((any::<u8>(), any::<u8>()), 1..7);
    prop::collection::vec((0..3u8, steps), 2..5).prop_map(|transactions| crossed(&transactions))
}

const NESTED: sets::Shape = sets::Shape {
    threads: 3,
    vars: 2,
    locks: 3,
    transactions: (2, 4),
    length: 6,
    unary: true,
    orders: true,
    exotic: true,
    nested: true,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60_000))]

    /// Offline reduction is conservative: what the definition calls non-atomic, it never calls
    /// atomic. With start, join, barriers, shared locks and atomics.
    #[test]
    fn never_calls_atomic_what_is_not(trace in sets::sets(NESTED)) {
        never_misses(&trace)?;
    }

    #[test]
    fn never_calls_atomic_what_is_not_if_locks_do_not_nest(trace in crossed_sets()) {
        never_misses(&trace)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// With everything: also waits, and locks that are held across the ends of transactions.
    #[test]
    fn never_calls_atomic_what_is_not_in_any_trace(
        trace in traces(Shape {
            threads: 3,
            vars: 2,
            length: 18,
            disciplined: true,
            ..Shape::small()
        }),
    ) {
        never_misses(&proper(&trace))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// No sequence of events makes it panic, and its witnesses are steps of one transaction in
    /// their order.
    #[test]
    fn witnesses_are_in_order(trace in arbitrary(80)) {
        for (_, options) in TABLE_2 {
            let verdict = trace.run(Reduction::new(options));
            prop_assert_eq!(verdict.total, verdict.stat("violating transactions"));
            for finding in &verdict.findings {
                let indices: Vec<u64> = finding.witness.iter().map(|step| step.index).collect();
                prop_assert!(indices.is_sorted_by(|a, b| a < b), "{:?}", indices);
                for step in &finding.witness {
                    prop_assert_eq!(step.event, trace.events[step.index as usize]);
                    prop_assert_eq!(step.event.thread, finding.participants[0].thread);
                }
            }
        }
    }
}

/// Table 2 for this program: regions with alarms, fields with races. The log has no references, so
/// without happen-before what `main` prepared counts as shared. Of the methods that the Atomizer
/// blames, these are the outermost: only those are transactions.
#[test]
fn elevator_table_2() {
    let Some(trace) = files::load("elevator.rr.zst", "") else {
        return;
    };
    let rows: Vec<(u64, u64)> = (TABLE_2.iter())
        .map(|&(_, options)| trace.run(Reduction::new(options)))
        .map(|verdict| {
            (
                verdict.stat("violating regions"),
                verdict.stat("fields with races"),
            )
        })
        .collect();
    assert_eq!(rows, [(3, 0), (3, 14), (3, 0), (3, 4), (3, 4)]);
    let verdict = trace.run(Reduction::default());
    let blamed: BTreeSet<String> = (verdict.findings.iter())
        .map(|finding| finding.culprit.region.unwrap())
        .map(|region| trace.names.function_name(region).into_owned())
        .map(|name| name.split('(').next().unwrap().to_owned())
        .collect();
    let expected = ["Elevator.begin", "Lift.doIdle", "Lift.doMoving"];
    assert_eq!(
        blamed,
        expected.map(|name| format!("elevator/{name}")).into()
    );
}

#[test]
fn potential_deadlocks_are_counted() {
    let crossed = "a acq l\na acq m\na rel m\na rel l\nb acq m\nb acq l\nb rel l\nb rel m";
    assert_eq!(run(crossed).stat("potential deadlocks"), 1);
    assert_eq!(
        run("a acq l\na acq m\na rel m\na rel l").stat("potential deadlocks"),
        0
    );
}
