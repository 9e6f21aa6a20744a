//! The Atomizer on its paper's examples, on random traces, and on a real program.

use crate::files;
use crate::random::{Shape, arbitrary, traces};
use crate::trace::{Trace, Verdict};
use atomsan_engines::atomizer::{Annotations, Atomizer, Heuristic, Options};
use atomsan_trace::SiteId;
use atomsan_trace::finding::{Anomaly, Criterion, Status};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

fn run(text: &str) -> Verdict {
    Trace::parse(text).run(Atomizer::default())
}

fn run_with(text: &str, options: Options) -> Verdict {
    Trace::parse(text).run(Atomizer::new(options))
}

fn annotated(text: &str, annotations: &str) -> Verdict {
    let annotations = Annotations::parse(Path::new("annotations"), annotations).unwrap();
    let options = Options {
        annotations,
        ..Options::default()
    };
    run_with(text, options)
}

/// Three threads use the lock and write what it protects, so that neither is thread-local.
const SHARE_SB: &str = "\
u acq sb
u w sb.count
u rel sb
v acq sb
v w sb.count
v rel sb
w acq sb
w w sb.count
w rel sb
";

/// Fig. 1: `append` holds its own lock throughout, but takes `sb`'s twice.
const APPEND: &str = "\
t enter main
t enter append
t acq this
t enter length
t acq sb
t r sb.count
t rel sb
t exit length
t r this.count
t enter getChars
t acq sb
t r sb.count
t rel sb
t exit getChars
t w this.count
t rel this
t exit append
t exit main";

#[test]
fn figure_1_and_2_string_buffer_append() {
    let trace = Trace::parse(&[SHARE_SB, APPEND].concat());
    let verdict = trace.run(Atomizer::default());
    // "Atomic block entered at append, commits at lock release in length, atomicity violation at
    // lock acquire in getChars."
    assert_eq!(verdict.reduction_lines(), [[11, 16, 20]]);
    let finding = &verdict.findings[0];
    let region = finding.culprit.region.unwrap();
    assert_eq!(trace.names.function_name(region), "append");
    assert_eq!(finding.culprit.between, (SiteId(16), SiteId(20)));
    assert_eq!(finding.criterion, Criterion::Reducibility);
    assert_eq!(finding.status, Status::Predicted);
    assert_eq!(finding.anomaly, Anomaly::NotReducible);
    assert_eq!(
        finding.notes,
        ["committed by releasing sb", "violated by acquiring sb"]
    );
    // The stacks of Fig. 2: main; main, append, length; main, append, getChars.
    let mut stacks = atomsan_trace::Stacks::default();
    for event in &trace.events {
        stacks.step(event);
    }
    let stack = |at: usize| -> Vec<_> {
        (stacks.frames(finding.witness[at].stack))
            .map(|(function, _)| trace.names.function_name(function).into_owned())
            .collect()
    };
    assert_eq!(stack(0), ["main"]);
    assert_eq!(stack(1), ["length", "append", "main"]);
    assert_eq!(stack(2), ["getChars", "append", "main"]);
}

/// 3.4: `synchronized (m) { t = x; x = 2 * t; }` is atomic while m protects x.
#[test]
fn double_it_is_atomic() {
    let double =
        |t: &str| format!("{t} begin doubleIt\n{t} acq m\n{t} r x\n{t} w x\n{t} rel m\n{t} end\n");
    let verdict = run(&["a", "b", "c", "a", "b"].map(double).concat());
    assert_eq!(verdict.reduction_lines(), [[0; 3]; 0]);
}

/// 3.4 and 4.2: when another thread makes φ(x) empty in between, the first access has already been
/// taken for a both-mover, so this run is not found; the next one is.
#[test]
fn double_it_is_found_at_the_next_execution() {
    let share = "a acq m\na w x\na rel m\nb acq m\nb w x\nb rel m\nc acq m\nc w x\nc rel m\n";
    let once = "t begin doubleIt\nt acq m\nt r x\nu w x\nt w x\nt rel m\nt end\n";
    assert_eq!(run(&[share, once].concat()).total, 0);
    let again = "t begin doubleIt\nt acq m\nt r x\nt w x\nt rel m\nt end\n";
    // The read commits, the write violates.
    let verdict = run(&[share, once, again].concat());
    assert_eq!(verdict.reduction_lines(), [[17, 19, 20]]);
}

const INC_AND_READ: &str = "\
a begin inc
a acq lock
a r x
a w x
a rel lock
a end
b begin inc
b acq lock
b r x
b w x
b rel lock
b end
c begin inc
c acq lock
c r x
c w x
c rel lock
c end
d begin read
d r x
d end
a begin inc
a acq lock
a r x
a w x
a rel lock
a end";

/// 4.4: x is written under the lock and read without. Both methods are atomic.
#[test]
fn inc_and_read_are_atomic() {
    assert_eq!(run(INC_AND_READ).total, 0);
}

#[test]
fn without_write_protected_data_inc_is_an_alarm() {
    let options = Options {
        write_protected_data: false,
        ..Options::default()
    };
    // After `read`, the read in `inc` commits and the write violates.
    assert_eq!(
        run_with(INC_AND_READ, options).reduction_lines(),
        [[22, 24, 25]]
    );
}

#[test]
fn two_unprotected_accesses_are_not_reducible() {
    let share = "u w x\nv w x\nw w x\n";
    let verdict = run(&[share, "t begin f\nt r x\nt w x\nt end"].concat());
    assert_eq!(verdict.reduction_lines(), [[4, 5, 6]]);
    assert!(verdict.findings[0].notes[1].contains("a write of x"));
    assert_eq!(run(&[share, "t begin f\nt w x\nt end"].concat()).total, 0);
}

/// A block that takes the lock twice, by threads a, b and c in turn, the rest inside.
fn twice(threads: &[&str], open: &str, close: &str) -> String {
    let block = |t: &&str| {
        let inner = format!("{t} acq m\n{t} rel m\n{t} acq m\n{t} rel m\n");
        let line = |text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                format!("{t} {text}\n")
            }
        };
        format!("{t} begin f\n{}{inner}{}{t} end\n", line(open), line(close))
    };
    threads.iter().map(block).collect()
}

/// 4.3: a lock that one thread uses, or that was handed over once, is a both-mover.
#[test]
fn thread_local_locks_are_both_movers() {
    assert_eq!(run(&twice(&["a", "a"], "", "")).total, 0);
    assert_eq!(run(&twice(&["a", "b", "b"], "", "")).total, 0);
    assert_eq!(run(&twice(&["a", "b", "a"], "", "")).total, 1);
    assert_eq!(run(&twice(&["a", "b", "c"], "", "")).total, 1);
    let no_transfer = Options {
        thread_local_2_locks: false,
        ..Options::default()
    };
    assert_eq!(run_with(&twice(&["a", "b"], "", ""), no_transfer).total, 1);
    let not_local = Options {
        thread_local_locks: false,
        ..Options::default()
    };
    assert_eq!(run_with(&twice(&["a"], "", ""), not_local).total, 1);
}

/// 4.3: "Suppose each thread always holds some lock m1 before acquiring lock m2."
#[test]
fn protected_locks_are_both_movers() {
    let text = twice(&["a", "b", "c"], "acq m1", "rel m1");
    assert_eq!(run(&text).total, 0);
    let unprotected = Options {
        protected_locks: false,
        ..Options::default()
    };
    assert!(run_with(&text, unprotected).total > 0);
}

#[test]
fn a_lock_held_by_readers_protects_no_other_lock() {
    assert_eq!(run(&twice(&["a", "b", "c"], "acqs m1", "rels m1")).total, 1);
}

/// 4.3: re-entrant acquires and releases are both-movers.
#[test]
fn reentrant_locks_are_both_movers() {
    let text = twice(&["a", "b", "c"], "acq m", "rel m");
    assert_eq!(run(&text).total, 0);
    let not_reentrant = Options {
        reentrant_locks: false,
        ..Options::default()
    };
    assert!(run_with(&text, not_reentrant).total > 0);
}

/// "Since the Atomizer supports nested atomic blocks, a single operation could result in multiple
/// atomicity violations."
#[test]
fn nested_blocks_have_their_own_commit_points() {
    let share = "u w x\nv w x\nw w x\n";
    let inner = "\
t begin outer
t w x
t begin inner
t w x
t w x
t end
t end";
    // The first write commits outer, the second violates it and commits inner, the third violates
    // inner.
    let verdict = run(&[share, inner].concat());
    assert_eq!(verdict.reduction_lines(), [[4, 5, 7], [6, 7, 8]]);
    let both = "t begin outer\nt begin inner\nt w x\nt w x\nt end\nt end";
    let verdict = run(&[share, both].concat());
    assert_eq!(verdict.reduction_lines(), [[4, 6, 7], [5, 6, 7]]);
}

#[test]
fn a_block_is_violated_once_and_a_static_violation_reported_once() {
    let share = "u w x\nv w x\nw w x\n";
    let verdict = run(&[share, "t begin f\nt w x\nt w x\nt w x\nt end"].concat());
    assert_eq!(verdict.total, 1);
    let mut trace = Trace::parse(&[share, "t begin f\nt w x\nt w x\nt end"].concat());
    let block = trace.events[3..].to_vec();
    trace.events.extend(block);
    let verdict = trace.run(Atomizer::default());
    assert_eq!((verdict.findings.len(), verdict.total), (1, 2));
    assert_eq!(verdict.findings[0].count, 2);
    assert_eq!(verdict.stat("violated blocks"), 2);
}

#[test]
fn read_shared_data_is_a_both_mover() {
    assert_eq!(
        run("u r x\nv r x\nw r x\nt begin f\nt r x\nt r x\nt end").total,
        0
    );
}

#[test]
fn a_wait_splits_the_block() {
    let share = "u acq m\nu rel m\nv acq m\nv rel m\nw acq m\nw rel m\n";
    let wait = "t begin f\nt acq m\nt wait m\nt woken m\nt rel m\nt end";
    assert_eq!(run(&[share, wait].concat()).total, 0);
    let after = "t begin f\nt acq m\nt wait m\nt woken m\nt rel m\nt acq m\nt rel m\nt end";
    assert_eq!(
        run(&[share, after].concat()).reduction_lines(),
        [[7, 11, 12]]
    );
}

#[test]
fn reused_memory_is_new() {
    let share = "u w o.x\nv w o.x\nw w o.x\n";
    let twice = "t begin f\nt w o.x\nt w o.x\nt end";
    assert_eq!(run(&[share, twice].concat()).total, 1);
    assert_eq!(run(&[share, "w free o\n", twice].concat()).total, 0);
}

/// Fig. 13: Thread-Local belongs to the thread that made the object, not to the first that uses it.
#[test]
fn the_creating_thread_is_the_first_owner() {
    let uses = "t w o.x\nu begin f\nu w o.x\nu w o.x\nu end";
    assert_eq!(run(uses).total, 0);
    assert_eq!(run(&["m alloc o\n", uses].concat()).total, 1);
}

#[test]
fn starting_and_joining_are_left_and_right_movers() {
    assert_eq!(run("t begin f\nt join u\nt fork v\nt end").total, 0);
    assert_eq!(
        run("t begin f\nt fork v\nt join v\nt end").reduction_lines(),
        [[1, 2, 3]]
    );
}

const CALL: &str = "\
u w x
v w x
w w x
t begin outer
t enter helper
t w x
t w x
t exit helper
t w x
t end";

#[test]
fn assume_atomic_is_one_step_and_assume_mover_none() {
    assert_eq!(annotated(CALL, "").total, 2, "outer and helper");
    // The call commits, the write after it violates.
    assert_eq!(
        annotated(CALL, "assume_atomic help*").reduction_lines(),
        [[4, 5, 9]]
    );
    assert_eq!(annotated(CALL, "assume_mover helper").total, 0);
    assert_eq!(annotated(CALL, "assume_mover other").total, 2);
}

#[test]
fn assume_guarded_never_races() {
    assert_eq!(annotated(CALL, "assume_guarded x # benign").total, 0);
    assert_eq!(annotated(CALL, "assume_guarded y").total, 2);
}

#[test]
fn no_warn_is_about_one_line() {
    assert_eq!(
        annotated(CALL, "no_warn test:6").reduction_lines(),
        [[4, 7, 9]]
    );
    assert_eq!(annotated(CALL, "no_warn test:6\nno_warn test:7").total, 0);
}

#[test]
fn an_annotation_makes_a_function_atomic() {
    let text = "u w x\nv w x\nw w x\nt enter f\nt w x\nt w x\nt exit f";
    assert_eq!(run(text).total, 0, "the entry point of its thread");
    assert_eq!(annotated(text, "atomic f").reduction_lines(), [[4, 5, 6]]);
}

/// Two synchronised blocks in one exported function, and one with two unprotected accesses.
const SYNCHRONISED: &str = "\
u acq m
u rel m
u w x
v acq m
v rel m
v w x
w acq m
w rel m
w w x
t enter run
t enter f
t acq m
t rel m
t acq m
t w x
t w x
t rel m
t exit f
t exit run";

#[test]
fn heuristics_choose_the_blocks() {
    let with = |heuristic| {
        let options = Options {
            heuristic,
            ..Options::default()
        };
        run_with(SYNCHRONISED, options).reduction_lines()
    };
    let function = [11, 13, 14];
    let block = [14, 15, 16];
    assert_eq!(with(Heuristic::Regions), [function]);
    assert_eq!(with(Heuristic::ExportSynch), [function, block]);
    assert_eq!(with(Heuristic::Synch), [block]);
}

#[test]
fn a_synchronised_block_ends_with_its_lock() {
    let options = || Options {
        heuristic: Heuristic::Synch,
        ..Options::default()
    };
    let share = "u acq m\nu rel m\nv acq m\nv rel m\nw acq m\nw rel m\nu w x\nv w x\nw w x\n";
    // f returns with the lock held; the block goes on until its release.
    let text = "t enter run\nt enter f\nt acq m\nt w x\nt exit f\nt w x\nt rel m\nt w x";
    let verdict = run_with(&[share, text].concat(), options());
    assert_eq!(verdict.reduction_lines(), [[12, 13, 15]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// No sequence of events makes it panic, and a finding has its three steps in order in one
    /// thread.
    #[test]
    fn witnesses_are_in_order(trace in arbitrary(80)) {
        for heuristic in [Heuristic::Regions, Heuristic::ExportSynch, Heuristic::Synch] {
            let options = Options { heuristic, ..Options::default() };
            for finding in trace.run(Atomizer::new(options)).findings {
                let indices: Vec<u64> = finding.witness.iter().map(|step| step.index).collect();
                prop_assert_eq!(indices.len(), 3);
                // The acquire that opens a synchronised block is its first step.
                prop_assert!(indices.is_sorted_by(|a, b| a < b), "{:?}", indices);
                prop_assert_eq!(finding.index, indices[2]);
                for step in &finding.witness {
                    prop_assert_eq!(step.event, trace.events[step.index as usize]);
                    prop_assert_eq!(step.event.thread, finding.participants[0].thread);
                }
            }
        }
    }

    /// The refinements of 4.3 and 4.4 only take violated blocks away (Fig. 18).
    #[test]
    fn refinements_only_remove_alarms(trace in traces(Shape { locks: 3, ..Shape::small() })) {
        let full = trace.run(Atomizer::default());
        let basic = trace.run(Atomizer::new(Options {
            reentrant_locks: false,
            thread_local_locks: false,
            thread_local_2_locks: false,
            protected_locks: false,
            write_protected_data: false,
            ..Options::default()
        }));
        let blocks = |verdict: &Verdict| -> BTreeSet<u64> {
            verdict.findings.iter().map(|finding| finding.witness[0].index).collect()
        };
        prop_assert!(blocks(&full).is_subset(&blocks(&basic)));
    }
}

/// "The published Atomizer, run on this program, blames exactly `Controls.claimUp`,
/// `Controls.claimDown`, `Lift.doMoving`, `Lift.doIdle`, `Elevator.begin`."
#[test]
fn elevator_blames_the_five_methods_of_the_published_tool() {
    let Some(trace) = files::load("elevator.rr.zst", "") else {
        return;
    };
    let verdict = trace.run(Atomizer::default());
    let blamed: BTreeSet<String> = (verdict.findings.iter())
        .map(|finding| finding.culprit.region.unwrap())
        .map(|region| trace.names.function_name(region).into_owned())
        .map(|name| name.split('(').next().unwrap().to_owned())
        .collect();
    let expected = [
        "elevator/Controls.claimDown",
        "elevator/Controls.claimUp",
        "elevator/Elevator.begin",
        "elevator/Lift.doIdle",
        "elevator/Lift.doMoving",
    ];
    assert_eq!(blamed, expected.map(String::from).into());
}

/// Fig. 17: no warnings for elevator if only synchronised blocks are expected to be atomic.
#[test]
fn elevator_is_quiet_under_synch() {
    let Some(trace) = files::load("elevator.rr.zst", "") else {
        return;
    };
    let with = |heuristic| {
        let options = Options {
            heuristic,
            ..Options::default()
        };
        trace.run(Atomizer::new(options)).total
    };
    assert_eq!(with(Heuristic::Synch), 0);
    assert_eq!(with(Heuristic::ExportSynch), with(Heuristic::Regions));
}
