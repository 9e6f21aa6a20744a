//! `blocks` against the definition of atomicity, and on the paper's examples.

use crate::interleavings::{judge, judge_all_subsets};
use crate::random;
use crate::sets::{Shape, sets};
use crate::trace::{Trace, Verdict};
use atomsan_engines::blocks::{Access, Blocks, Options, Strength};
use atomsan_engines::held::HeldLocks;
use atomsan_engines::{Context, Engine, Findings, Occurrence};
use atomsan_trace::finding::{Anomaly, Criterion, Finding, Status, Step};
use atomsan_trace::names::{Definition, Frame, Site};
use atomsan_trace::{Event, FunctionId, Names, Op, SiteId, Stacks, ThreadId, VarId};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use std::cell::Cell;

fn check(trace: &Trace, strength: Strength) -> Verdict {
    trace.run(Blocks::new(Options {
        strength,
        ..Options::default()
    }))
}

/// How many sets were judged, and what they are.
#[derive(Debug, Default)]
struct Tally {
    judged: Cell<u32>,
    violated: Cell<u32>,
    /// Atomic sets of which a selection is not.
    hidden: Cell<u32>,
    /// Violations that only this strength sees.
    stronger: Cell<u32>,
}

/// The verdict equals the definition's: some selection of the transactions is not atomic.
/// If locks do not nest, there may be more reports.
fn agrees(trace: &Trace, strength: Strength, nested: bool, tally: &Tally) -> TestCaseResult {
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
    } else if reported && nested {
        let all = judge_all_subsets(trace);
        prop_assert_eq!(all, Some(false), "false alarm {:#?}", verdict.findings);
        tally.hidden.update(|count| count + 1);
    }
    Ok(())
}

/// Compares on that many random sets.
fn compare(cases: u32, shape: Shape, strength: Strength) {
    let tally = Tally::default();
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&sets(shape), |trace| {
            agrees(&trace, strength, shape.nested, &tally)
        })
        .unwrap();
    // Nearly all sets say something, they say both things, and the strength matters.
    let (judged, violated) = (tally.judged.get(), tally.violated.get());
    assert!(judged > cases / 10 * 9, "{tally:?}");
    let both = violated > judged / 20 && violated < judged / 20 * 19;
    assert!(both, "{tally:?}");
    let needed = strength == Strength::OneVar || tally.stronger.get() > judged / 1000;
    assert!(needed, "{tally:?}");
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
    nested: true,
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

/// The same with atomic read-modify-writes and shared locks, which the paper does not have.
#[test]
fn the_theorems_hold_for_shared_locks_and_read_modify_writes() {
    let one = Shape {
        exotic: true,
        ..SMALL
    };
    compare(10_000, one, Strength::OneVar);
    let two = Shape {
        vars: 3,
        threads: 2,
        locks: 3,
        transactions: (2, 2),
        length: 9,
        unary: false,
        ..one
    };
    compare(10_000, two, Strength::TwoVar);
    let any = Shape {
        vars: 3,
        threads: 4,
        transactions: (3, 4),
        ..one
    };
    compare(10_000, any, Strength::Cyclic);
}

/// Locks that do not nest are outside of the theorems; still nothing is missed.
#[test]
fn locks_that_do_not_nest_hide_nothing() {
    let any = Shape {
        vars: 2,
        locks: 3,
        length: 7,
        nested: false,
        ..SMALL
    };
    compare(6_000, any, Strength::Cyclic);
    let two = Shape {
        transactions: (2, 2),
        length: 9,
        unary: false,
        ..any
    };
    compare(6_000, two, Strength::TwoVar);
}

/// A trace in which sites are the lines of the text, and what the engine says about it.
fn lines(text: &str, strength: Strength) -> Vec<Vec<u32>> {
    let verdict = check(&Trace::parse(text), strength);
    let steps = |finding: &Finding| finding.witness.iter().map(|s| s.event.site.0).collect();
    verdict.findings.iter().map(steps).collect()
}

/// Fig. 1 and 5: `v2 = new Vector(v1)` reads `elementCount` of `v1` in `size()` and again in
/// `toArray()`, each under the lock of `v1`.
const VECTOR: &str = "
    thread_1 begin Vector(Collection)
    thread_1 acq v1
    thread_1 r v1.elementCount           // 4: size()
    thread_1 rel v1
    thread_1 acq v1
    thread_1 r v1.elementCount           // 7: toArray()
    thread_1 r v1.elementData
    thread_1 r v1.elementCount
    thread_1 rel v1
    thread_1 end
";

const REMOVE_ALL: &str = "
    thread_2 begin removeAllElements
    thread_2 acq v1
    thread_2 r v1.elementCount
    thread_2 w v1.elementData
    thread_2 w v1.elementCount           // 17
    thread_2 rel v1
    thread_2 end
";

const ADD: &str = "
    thread_2 begin add
    thread_2 acq v1
    thread_2 r v1.elementCount
    thread_2 w v1.elementData
    thread_2 r v1.elementCount
    thread_2 w v1.elementCount           // 18
    thread_2 rel v1
    thread_2 end
";

/// Fig. 7: `Thread_1: R @ 267; Thread_2: W @ 631; Thread_1: R @ 690`, VarName elementCount.
#[test]
fn figure_7_vector_against_remove_all_elements_and_add() {
    for (other, write) in [(REMOVE_ALL, 17), (ADD, 18)] {
        let trace = Trace::parse(&format!("{VECTOR}{other}"));
        let verdict = check(&trace, Strength::OneVar);
        let [finding] = &verdict.findings[..] else {
            panic!("{:?}", verdict.findings);
        };
        let steps: Vec<_> = (finding.witness.iter())
            .map(|step| {
                let var = step.event.op.var().map(|var| trace.names.var_name(var));
                assert_eq!(var.as_deref(), Some("v1.elementCount"));
                let thread = trace.names.thread(step.event.thread).into_owned();
                (thread, step.event.op.writes(), step.event.site.0)
            })
            .collect();
        let [one, two] = ["thread_1", "thread_2"].map(String::from);
        let expected = [(one.clone(), false, 4), (two, true, write), (one, false, 7)];
        assert_eq!(steps, expected);
        assert_eq!(finding.criterion, Criterion::ViewSerializability);
        assert_eq!(finding.status, Status::Predicted);
        assert_eq!(finding.anomaly, Anomaly::NonRepeatableRead);
        assert_eq!(finding.culprit.between, (SiteId(4), SiteId(7)));
        assert_eq!(finding.edges, [(0, 1), (1, 2)]);
        let blamed: Vec<bool> = finding.participants.iter().map(|p| p.blamed).collect();
        assert_eq!(blamed, [true, false]);
        let culprit = finding.culprit.region.unwrap();
        assert_eq!(trace.names.function_name(culprit), "Vector(Collection)");
    }
}

/// Fig. 4: threads t1 to t4. Neither t1–t3 nor t2–t4 can go wrong, whatever the order; the
/// multilockset algorithm is wrong about t4.
#[test]
fn figure_4_is_quiet_in_both_orders() {
    let t1 =
        "t1 begin f1\n t1 acq o1\n t1 acq o2\n t1 w x\n t1 w x\n t1 rel o2\n t1 rel o1\n t1 end\n";
    let t2 = "t2 begin f2\n t2 acq o2\n t2 r x\n t2 rel o2\n t2 end\n";
    let t3 = "t3 begin f3\n t3 acq o1\n t3 r x\n t3 rel o1\n t3 end\n";
    let t4 =
        "t4 begin f4\n t4 r x\n t4 acq o1\n t4 acq o2\n t4 w x\n t4 rel o2\n t4 rel o1\n t4 end\n";
    for text in [[t3, t2, t1], [t1, t2, t3], [t3, t2, t4], [t4, t2, t3]] {
        let text = text.concat();
        assert_eq!(judge(&Trace::parse(&text)).map(|t| t.atomic), Some(true));
        assert!(lines(&text, Strength::Cyclic).is_empty(), "{text}");
    }
}

/// Runs an engine and keeps it.
fn blocks_of(text: &str) -> Blocks {
    let trace = Trace::parse(text);
    let mut engine = Blocks::default();
    let (mut findings, mut stacks) = (Findings::default(), Stacks::default());
    for (index, event) in trace.events.iter().enumerate() {
        let stack = stacks.step(event);
        let mut cx = Context {
            names: &trace.names,
            stacks: &stacks,
            findings: &mut findings,
        };
        let index = index as u64;
        let event = *event;
        engine.event(
            &Occurrence {
                index,
                stack,
                event,
            },
            &mut cx,
        );
    }
    engine
}

/// The 1v-blocks in the paper's notation.
fn tuples(engine: &Blocks) -> Vec<String> {
    let locks = |held: HeldLocks| {
        let set = engine.locksets().locks(held.exclusive);
        set.map(|lock| lock.0).collect::<Vec<_>>()
    };
    let op = |access| match access {
        Access::Read => "R",
        Access::Write => "W",
    };
    let mut tuples: Vec<String> = engine
        .blocks()
        .map(|(_, b, _)| {
            format!(
                "{} {} {} {} {:?} {:?} {:?}",
                op(b.first),
                b.second.map_or("dummy", op),
                b.final_writes.0,
                b.final_writes.1,
                locks(b.held.0),
                locks(b.held.1),
                locks(b.across),
            )
        })
        .collect();
    tuples.sort();
    tuples
}

/// (1) and (2): `acq(l1) R(v) acq(l2) W(v) R(v) rel(l2) rel(l1)` has two 1v-blocks.
#[test]
fn the_blocks_of_example_1() {
    let engine = blocks_of(
        "t begin f\n t acq l1\n t r v\n t acq l2\n t w v\n t r v\n t rel l2\n t rel l1\n t end",
    );
    let expected = [
        "R W false true [0] [0, 1] [0]",
        "W R true false [0, 1] [0, 1] [0, 1]",
    ];
    assert_eq!(tuples(&engine), expected);
}

/// (4): `W(v) R(v) R(v) R(v)` has one 1v-block.
#[test]
fn the_block_of_example_4() {
    let engine = blocks_of("t begin f\n t w v\n t r v\n t r v\n t r v\n t end");
    assert_eq!(tuples(&engine), ["W R true false [] [] []"]);
}

/// Section 6.5: the 1v-blocks of Fig. 4, with dummies.
#[test]
fn the_blocks_of_figure_4() {
    let engine = blocks_of(
        "t2 begin f\n t2 acq o2\n t2 r x\n t2 rel o2\n t2 end
        t4 begin g\n t4 r x\n t4 acq o1\n t4 acq o2\n t4 w x\n t4 rel o2\n t4 rel o1\n t4 end",
    );
    let expected = [
        "R W false true [] [0, 1] []",
        "R dummy false false [0] [] []",
    ];
    assert_eq!(tuples(&engine), expected);
}

/// Between (2) and (3): b′ is a write without locks, b″ a read, against the blocks of (1).
#[test]
fn a_bare_write_violates_example_1_and_a_bare_read_does_not() {
    let t =
        "t begin f\n t acq l1\n t r v\n t acq l2\n t w v\n t r v\n t rel l2\n t rel l1\n t end\n";
    let write = lines(&format!("{t} u w v"), Strength::OneVar);
    assert_eq!(write, [[3, 10, 5], [5, 10, 6]]);
    assert!(lines(&format!("{t} u r v"), Strength::OneVar).is_empty());
}

/// (3): the access cannot get in between, because the locks would deadlock; the condition does not
/// see that, so the potential for deadlock is said.
#[test]
fn the_deadlock_of_example_3() {
    let text = "t begin f\n t acq l1\n t acq l2\n t rel l2\n t w x\n t rel l1\n t end
        u begin g\n u acq l2\n u acq l1\n u rel l1\n u r x\n u r x\n u rel l2\n u end";
    let trace = Trace::parse(text);
    let truth = judge(&trace).unwrap();
    assert!(truth.atomic && truth.deadlock);
    let verdict = check(&trace, Strength::OneVar);
    assert_eq!(verdict.stat("potential deadlocks"), 1);
    assert_eq!(verdict.findings.len(), 1);
    assert!(verdict.findings[0].notes[0].contains("deadlock"));
}

/// (6): three transactions that are atomic two by two. Theorem 4 is quiet, Theorem 5 reports.
#[test]
fn the_three_transactions_of_example_6() {
    let text = "t1 begin a\n t1 w x\n t1 w y\n t1 end
        t2 begin b\n t2 r x\n t2 w z\n t2 end
        t3 begin c\n t3 r z\n t3 r y\n t3 end";
    assert!(lines(text, Strength::TwoVar).is_empty());
    let verdict = check(&Trace::parse(text), Strength::Cyclic);
    // W(x) R(x) W(z) R(z) R(y) W(y), as the paper draws it; and the cycle the other way round.
    let found = lines(text, Strength::Cyclic);
    assert_eq!(found, [[2, 6, 7, 10, 11, 3], [10, 6, 2, 3, 11, 7]]);
    let finding = &verdict.findings[0];
    assert_eq!(finding.anomaly, Anomaly::Cycle(3));
    assert_eq!(finding.edges, [(0, 1), (2, 3), (4, 5)]);
    assert_eq!(finding.participants.len(), 3);
    assert_eq!(finding.culprit.between, (SiteId(2), SiteId(3)));
    assert_eq!(verdict.stat("limit reached"), 0);
}

/// 8.2: `modCount++` against a read of `modCount` is serializable.
#[test]
fn mod_count_is_quiet() {
    let text = "m1 begin update\n m1 r modCount\n m1 w modCount\n m1 end
        m2 begin check\n m2 r modCount\n m2 end";
    assert!(lines(text, Strength::Cyclic).is_empty());
}

/// Section 6.2, the table: two variables, no, one and two reads.
#[test]
fn the_interleavings_of_section_6_2() {
    for (t, u) in [
        ("w x\n a w y", "w y\n b w x"),
        ("w x\n a w y", "w x\n b w y"),
        ("r x\n a w y", "w x\n b w y"),
        ("r x\n a w y", "w x\n b r y"),
        ("r x\n a w y", "r y\n b w x"),
    ] {
        let text = format!("a begin f\n a {t}\n a end\n b begin g\n b {u}\n b end");
        let found = check(&Trace::parse(&text), Strength::TwoVar);
        assert_eq!(found.findings.len(), 1, "{text}");
        assert_eq!(found.findings[0].anomaly, Anomaly::InconsistentPair);
        assert_eq!(found.findings[0].edges.len(), 2, "{:?}", found.findings);
        assert!(lines(&text, Strength::OneVar).is_empty());
    }
}

/// `heldmid`: the inner transaction needs a lock on its way that the outer one holds throughout.
#[test]
fn a_lock_taken_on_the_way_keeps_a_block_out() {
    let outer = "a begin f\n a acq m\n a r x\n a r y\n a rel m\n a end\n";
    let inner = |way| format!("{outer} b begin g\n b w x\n {way} b w y\n b end");
    assert_eq!(lines(&inner(""), Strength::TwoVar).len(), 1);
    let text = inner("b acq m\n b rel m\n");
    // It cannot be inside, and the other way round is still possible.
    assert_eq!(lines(&text, Strength::TwoVar), [[8, 3, 4, 11]]);
    let both = "b begin g\n b acq m\n b w x\n b w y\n b rel m\n b end";
    assert!(lines(&format!("{outer}{both}"), Strength::TwoVar).is_empty());
}

/// A result: Theorem 3 calls this set not atomic, by definition it is. A later write of the thread
/// hides which write was overwritten. The engine stays on the conservative side.
#[test]
fn theorem_3_is_wrong_about_a_hidden_overwrite() {
    let text = "a begin f\n a r x\n a w x\n a end\n a w x\n b w x";
    let trace = Trace::parse(text);
    assert!(judge(&trace).unwrap().atomic);
    assert_eq!(judge_all_subsets(&trace), Some(false));
    assert_eq!(lines(text, Strength::OneVar), [[2, 6, 3]]);
}

/// A result: Theorem 3 reports a read between two writes even if it reads its own transaction's
/// write; by definition no trace goes wrong, not even of a selection.
#[test]
fn theorem_3_is_wrong_about_reading_ones_own_write() {
    let text = "a begin f\n a acq l\n a w x\n a rel l\n a acq l\n a w x\n a rel l\n a end
        b begin g\n b acq l\n b w x\n b r x\n b rel l\n b end";
    assert_eq!(judge_all_subsets(&Trace::parse(text)), Some(true));
    assert!(lines(text, Strength::Cyclic).is_empty());
}

/// Locks that do not nest are outside of the theorems: at each moment one of them keeps the write
/// out, none does all the way. Reported, on the conservative side.
#[test]
fn hand_over_hand_locking_is_a_false_alarm() {
    let text = "a begin f\n a acq l\n a r x\n a acq m\n a rel l\n a r x\n a rel m\n a end
        b begin g\n b acq l\n b acq m\n b w x\n b rel m\n b rel l\n b end";
    let trace = Trace::parse(text);
    assert_eq!(judge_all_subsets(&trace), Some(true));
    assert_eq!(lines(text, Strength::OneVar).len(), 1);
}

/// Start, join and barrier order; and they end a transaction in the middle of its region.
#[test]
fn ordered_periods_do_not_interleave() {
    let two_reads = "a begin f\n a r x\n a r x\n a end\n";
    let forked = format!("b w x\n b fork a\n {two_reads}");
    assert!(lines(&forked, Strength::Cyclic).is_empty());
    assert_eq!(
        lines(&format!("b fork a\n b w x\n {two_reads}"), Strength::Cyclic).len(),
        1
    );
    let split = "a begin f\n a r x\n a join c\n a r x\n a end\n b w x";
    assert!(lines(split, Strength::Cyclic).is_empty());
    let waited =
        "a begin f\n a acq l\n a r x\n a wait l\n a woken l\n a r x\n a rel l\n a end\n b w x";
    assert!(lines(waited, Strength::Cyclic).is_empty());
}

/// What happens to an object before it escapes does not count.
#[test]
fn accesses_before_the_escape_are_forgotten() {
    let before = "a alloc o\n a begin f\n a w o.x\n a w o.x\n a ref s o\n a end\n b r o.x";
    let verdict = check(&Trace::parse(before), Strength::Cyclic);
    assert!(verdict.findings.is_empty());
    assert_eq!(verdict.stat("accesses before escape"), 2);
    let after = "a alloc o\n a begin f\n a ref s o\n a w o.x\n a w o.x\n a end\n b r o.x";
    assert_eq!(lines(after, Strength::Cyclic), [[4, 7, 5]]);
    // The same access outside of regions, before and after.
    let later = "a alloc o\n a w o.x\n a ref s o\n a w o.x\n b begin f\n b r o.x\n b r o.x\n b end";
    assert_eq!(lines(later, Strength::OneVar), [[6, 4, 7]]);
}

/// A loop that makes the same accesses many thousand times leaves what a few turns leave.
#[test]
fn cost_follows_distinct_blocks() {
    let turn = "a r x\n a w y\n a acq l\n a w x\n a r y\n a rel l\n a acq m\n a rel m\n";
    let other = "b begin g\n b w x\n b acq l\n b r y\n b rel l\n b end\n";
    let figures = |inside: usize, outside: usize| {
        let transaction = format!("a begin f\n{}a end\n{other}", turn.repeat(inside));
        let trace = Trace::parse(&transaction.repeat(outside));
        let verdict = check(&trace, Strength::TwoVar);
        let mut stats = verdict.stats;
        stats.retain(|stat| stat.name != "transactions");
        stats
    };
    let few = figures(4, 2);
    assert_eq!(figures(40_000, 2), few, "turns inside of a transaction");
    assert_eq!(figures(4, 4_000), few, "transactions");
    assert!(
        few.iter()
            .any(|stat| stat.name == "1v-blocks" && stat.value > 4)
    );
}

/// Table 3: without escape and happen-before analysis there are false alarms.
#[test]
fn the_improvements_can_be_switched_off() {
    let escape = "a alloc o\n a begin f\n a w o.x\n a w o.x\n a ref s o\n a end\n b r o.x";
    let order = "b w x\n b fork a\n a begin f\n a r x\n a r x\n a end";
    for (text, options) in [
        (
            escape,
            Options {
                escape: false,
                ..Options::default()
            },
        ),
        (
            order,
            Options {
                happen_before: false,
                ..Options::default()
            },
        ),
    ] {
        let trace = Trace::parse(text);
        assert_eq!(trace.run(Blocks::default()).findings.len(), 0);
        assert_eq!(trace.run(Blocks::new(options)).findings.len(), 1);
    }
}

/// Starting or joining a thread that runs ends its transaction: it goes on in another period.
#[test]
fn being_joined_while_running_splits_too() {
    let text = "a begin f\n a r x\n b fork a\n a r x\n a end\n c w x";
    assert!(lines(text, Strength::Cyclic).is_empty());
}

/// The search for cycles stops at its limit, and says so.
#[test]
fn the_limit_is_said() {
    let text = "t1 begin a\n t1 w x\n t1 w y\n t1 end
        t2 begin b\n t2 r x\n t2 w z\n t2 end
        t3 begin c\n t3 r z\n t3 r y\n t3 end";
    let options = Options {
        strength: Strength::Cyclic,
        limit: 3,
        ..Options::default()
    };
    let verdict = Trace::parse(text).run(Blocks::new(options));
    assert_eq!(verdict.stat("limit reached"), 1);
    assert!(verdict.findings.is_empty());
}

/// What does not fit is left out, and that is said; what fits is compared.
#[test]
fn the_room_is_said() {
    let text = "t1 begin a\n t1 r x\n t1 w x\n t1 end
        t2 begin b\n t2 w x\n t2 end
        t3 begin c\n t3 r y\n t3 w y\n t3 end
        t4 begin d\n t4 w y\n t4 end";
    let findings = |room| {
        let verdict = Trace::parse(text).run(Blocks::new(Options {
            room,
            ..Options::default()
        }));
        (verdict.findings.len(), verdict.remarks.len())
    };
    assert_eq!(findings(Options::default().room), (2, 0));
    assert_eq!(findings(100), (1, 1));
    assert_eq!(findings(0), (0, 1));
}

/// As many locks as transactions, each variable under all of them: neither the sets of locks nor the
/// comparisons grow with the square.
#[test]
fn many_dynamic_locks_cost_what_their_transactions_cost() {
    let mut text = String::new();
    for thread in ["t1", "t2"] {
        for turn in 0..3_000 {
            let lock = format!("l{thread}{turn}");
            text += &format!("{thread} begin f\n {thread} acq {lock}\n {thread} r x\n");
            text += &format!("{thread} rel {lock}\n {thread} acq m{turn}\n {thread} w y\n");
            text += &format!("{thread} rel m{turn}\n {thread} end\n");
        }
    }
    let limit = 100_000;
    let mut engine = Blocks::new(Options {
        limit,
        ..Options::default()
    });
    let verdict = Trace::parse(&text).feed(&mut engine);
    assert!(verdict.stat("1v-block comparisons") <= 10 * limit);
    assert!(engine.locksets().size() < 20_000);
}

/// Long transactions: the search for an interleaving goes as deep as they are long.
#[test]
fn long_transactions_do_not_exhaust_the_stack() {
    let body = |thread: &str, op: &str| -> String {
        let line = |var| format!("{thread} {op} v{var}\n");
        (0..3_000).map(line).collect()
    };
    let (writes, reads, again) = (body("t1", "w"), body("t2", "r"), body("t3", "r"));
    let text = format!(
        "t1 begin a\n t1 w x\n {writes} t1 w y\n t1 end
        t2 begin b\n t2 r x\n {reads} t2 w z\n t2 end
        t3 begin c\n t3 r z\n {again} t3 r y\n t3 end"
    );
    let options = Options {
        strength: Strength::Cyclic,
        limit: 200_000,
        ..Options::default()
    };
    let verdict = Trace::parse(&text).run(Blocks::new(options));
    assert!(
        verdict
            .findings
            .iter()
            .any(|f| f.anomaly == Anomaly::InconsistentPair)
    );
    assert!(verdict.stat("trace prefixes tried") > 3_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// No sequence of events is illegal.
    #[test]
    fn odd_streams_do_no_harm(trace in random::traces(random::Shape::small())) {
        let options = Options { strength: Strength::Cyclic, limit: 2_000, ..Options::default() };
        let verdict = trace.run(Blocks::new(options));
        for finding in &verdict.findings {
            prop_assert!(finding.participants.iter().any(|p| p.blamed), "{finding:#?}");
            prop_assert!(finding.participants[0].blamed, "{finding:#?}");
            prop_assert!(finding.culprit.region.is_some());
        }
    }
}

/// Threads that call functions (1 and 2 are regions when something calls them), read and write.
fn calls() -> impl Strategy<Value = Trace> {
    let steps = prop::collection::vec((0..2u32, 0..10u32, 0..3u32, 1..6u32), 4..60);
    steps.prop_map(|steps| {
        let mut events: Vec<Event> = Vec::new();
        let mut open: [Vec<FunctionId>; 2] = Default::default();
        for (thread, choice, target, site) in steps {
            let stack = &mut open[thread as usize];
            let op = match choice {
                0..=2 => {
                    let function = FunctionId(target);
                    stack.push(function);
                    Op::Enter(function)
                }
                3..=5 => match stack.pop() {
                    Some(function) => Op::Exit(function),
                    None => continue,
                },
                6..=7 => Op::Read(VarId(target)),
                _ => Op::Write(VarId(target)),
            };
            let (thread, site) = (ThreadId(thread), SiteId(site));
            events.push(Event { thread, site, op });
        }
        let mut names = Names::default();
        for site in 1..6 {
            names.define(Definition::Site(Site {
                frames: vec![Frame {
                    line: site,
                    ..Frame::default()
                }],
                ..Site::default()
            }));
        }
        Trace { events, names }
    })
}

/// The innermost function that was open before the first event and still is at the second, and
/// where it was at each: in its own line, or at a call.
fn innermost(trace: &Trace, first: u64, second: u64) -> (FunctionId, SiteId, SiteId) {
    let open = |end: u64| {
        let mut open: Vec<(usize, Event)> = Vec::new();
        let events = trace.events[..end as usize].iter().enumerate();
        let thread = trace.events[end as usize].thread;
        for (index, event) in events.filter(|(_, event)| event.thread == thread) {
            match event.op {
                Op::Enter(_) => open.push((index, *event)),
                Op::Exit(_) => drop(open.pop()),
                _ => {}
            }
        }
        open
    };
    let (before, after) = (open(first), open(second));
    let common = before
        .iter()
        .zip(&after)
        .take_while(|(a, b)| a == b)
        .count();
    let line = |open: &[(usize, Event)], at: u64| match open.get(common) {
        Some((_, call)) => call.site,
        None => trace.events[at as usize].site,
    };
    let Op::Enter(function) = after[common - 1].1.op else {
        unreachable!("only calls are open");
    };
    (function, line(&before, first), line(&after, second))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_culprit_is_the_innermost_invocation_that_spans_both_accesses(trace in calls()) {
        let options = Options { strength: Strength::Cyclic, limit: 20_000, ..Options::default() };
        for finding in &trace.run(Blocks::new(options)).findings {
            let own = |step: &&Step| step.participant == 0;
            let first = finding.witness.iter().find(own).unwrap();
            let second = finding.witness.iter().rfind(own).unwrap();
            let (function, from, to) = innermost(&trace, first.index, second.index);
            prop_assert_eq!(finding.culprit.region, Some(function));
            prop_assert_eq!(finding.culprit.between, (from, to));
        }
    }
}
