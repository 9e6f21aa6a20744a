//! What the runtime leaves out of the logs of a single run (`atomsan_rt::thread::stretch`): an access that its
//! transaction has made before, while nobody else has accessed the variable in between, or has written to it if
//! it is read, and no edge has come in. Traces with and without these have the same functions to blame.

use crate::random::{self, Shape};
use crate::trace::Trace;
use atomsan_engines::doublechecker::{DoubleChecker, Options};
use atomsan_trace::{FunctionId, Op, ThreadId, VarId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What a thread is after: how many events of each thread.
type Clock = BTreeMap<ThreadId, usize>;

fn join(clock: &mut Clock, other: &Clock) -> bool {
    let mut news = false;
    for (&thread, &time) in other {
        let known = clock.entry(thread).or_default();
        news |= *known < time;
        *known = time.max(*known);
    }
    news
}

#[derive(Default)]
struct Thread {
    clock: Clock,
    depth: usize,
    /// Reads and writes of the stretch, by variable: how many accesses and how many writes of others it has had.
    made: BTreeMap<(VarId, bool), (usize, usize)>,
}

/// Accesses of a variable, or of a lock.
#[derive(Default, Clone)]
struct Place {
    /// What each thread was after at its last access, and at its last write.
    last: BTreeMap<(ThreadId, bool), Clock>,
    /// Accesses and writes of each thread.
    counts: BTreeMap<ThreadId, (usize, usize)>,
}

impl Place {
    fn of_others(&self, thread: ThreadId) -> (usize, usize) {
        let others = self.counts.iter().filter(|(other, _)| **other != thread);
        others.fold((0, 0), |sum, (_, count)| (sum.0 + count.0, sum.1 + count.1))
    }
}

/// The trace without what repeats; whether `edges` end a stretch.
fn thinned(trace: &Trace, edges: bool) -> Trace {
    thinned_in(trace, edges, true)
}

/// The same; what is outside of regions only if that is asked for.
fn thinned_in(trace: &Trace, edges: bool, outside: bool) -> Trace {
    let mut threads: BTreeMap<ThreadId, Thread> = BTreeMap::new();
    let mut places: BTreeMap<(u8, u32), Place> = BTreeMap::new();
    let mut events = Vec::new();
    for event in &trace.events {
        let id = event.thread;
        let mut thread = threads.remove(&id).unwrap_or_default();
        *thread.clock.entry(id).or_default() += 1;
        let (place, write) = match event.op {
            Op::Read(var) | Op::AtomicLoad(var) | Op::AtomicRmwFailed(var) => ((0, var.0), false),
            Op::Write(var) | Op::AtomicStore(var) | Op::AtomicRmw(var) => ((0, var.0), true),
            Op::Acquire(lock)
            | Op::Release(lock)
            | Op::AcquireShared(lock)
            | Op::ReleaseShared(lock)
            | Op::Wait(lock)
            | Op::Woken(lock)
            | Op::Notify(lock)
            | Op::Arrive(lock)
            | Op::Leave(lock) => ((1, lock.0), true),
            Op::Fork(other) | Op::Join(other) => ((2, other.0), true),
            _ => ((3, id.0), true),
        };
        // The first event of a thread is after its start, the last one before its end.
        let mut of = vec![place, (2, id.0)];
        of.dedup();
        let mut news = false;
        for at in of {
            let place = places.entry(at).or_default();
            // Who starts a thread is not after it.
            let forks = matches!(event.op, Op::Fork(other) if at == (2, other.0));
            for (&(other, wrote), clock) in &place.last {
                if other != id && !forks && (write || wrote || at.0 == 2) {
                    news |= join(&mut thread.clock, clock);
                }
            }
            if !matches!(event.op, Op::Join(other) if at == (2, other.0)) {
                place.last.insert((id, write), thread.clock.clone());
            }
        }
        match event.op {
            Op::Begin(_) => {
                thread.depth += 1;
                if thread.depth == 1 {
                    thread.made.clear();
                }
            }
            Op::End => {
                thread.depth = thread.depth.saturating_sub(1);
                if thread.depth == 0 {
                    thread.made.clear();
                }
            }
            Op::Fork(_) | Op::Join(_) | Op::Wait(_) | Op::Arrive(_) | Op::Yield => {
                thread.made.clear();
            }
            _ => {}
        }
        if news && edges {
            thread.made.clear();
        }
        let mut left_out = false;
        if let Op::Read(var) | Op::Write(var) = event.op {
            let of_var = places.entry(place).or_default();
            let others = of_var.of_others(id);
            let own = of_var.counts.get(&id).map_or(0, |count| count.1);
            let same = |made: Option<&(usize, usize)>| made == Some(&(others.0, 0));
            let is_read = |made: Option<&(usize, usize)>| {
                made.is_some_and(|made| made.1 == others.1 + own + 1)
            };
            left_out = same(thread.made.get(&(var, true)))
                || !write && is_read(thread.made.get(&(var, false)));
            if write {
                thread.made.insert((var, true), (others.0, 0));
            } else {
                thread.made.insert((var, false), (0, others.1 + own + 1));
            }
        }
        if place.0 == 0 {
            let count = places.entry(place).or_default();
            let count = count.counts.entry(id).or_default();
            count.0 += 1;
            count.1 += usize::from(write);
        }
        let depth = thread.depth;
        threads.insert(id, thread);
        if !left_out || !outside && depth == 0 {
            events.push(*event);
        }
    }
    Trace {
        events,
        names: trace.names.clone(),
    }
}

fn culprits(trace: &Trace) -> BTreeSet<Option<FunctionId>> {
    let verdict = trace.run(DoubleChecker::new(Options::default()));
    verdict
        .findings
        .iter()
        .map(|finding| finding.culprit.region)
        .collect()
}

/// The trace with nothing but outermost regions: which of several functions is named that contain each other is
/// another matter.
fn flat(mut trace: Trace) -> Trace {
    let mut depths: BTreeMap<ThreadId, usize> = BTreeMap::new();
    trace.events.retain(|event| {
        let depth = depths.entry(event.thread).or_default();
        match event.op {
            Op::Begin(_) => {
                *depth += 1;
                *depth == 1
            }
            Op::End => {
                *depth = depth.saturating_sub(1);
                *depth == 0
            }
            _ => true,
        }
    });
    trace
}

fn shape() -> Shape {
    Shape {
        exotic: false,
        disciplined: true,
        forks: false,
        length: 60,
        ..Shape::small()
    }
}

/// `f` reads `x` before the other thread writes to it, and writes to `y` after that one has read it again.
#[test]
fn an_edge_ends_a_stretch() {
    let trace = Trace::parse("t1 begin f\n t2 r y\n t1 r x\n t2 w x\n t2 r y\n t1 w y\n t1 end\n");
    assert_eq!(culprits(&trace).len(), 1);
    assert_eq!(thinned(&trace, true).events.len(), trace.events.len());
    assert_eq!(culprits(&thinned(&trace, false)), BTreeSet::new());
}

/// The locks that are taken in between do not.
#[test]
fn a_lock_ends_no_stretch() {
    let trace = Trace::parse(
        "t1 begin f\n t1 w x\n t1 acq m\n t1 w x\n t1 r x\n t1 rel m\n t1 r x\n t1 end\n",
    );
    assert_eq!(thinned(&trace, true).events.len(), trace.events.len() - 3);
}

/// Each of `f` and `g` reads `x` before others write to it, and again after that. `f`'s violation comes first, and the edge
/// that closes its cycle is left out, and so is each path through it: `g`'s is seen only where another one is left.
#[test]
fn a_violation_may_hide_another_one() {
    let trace = Trace::parse(
        "t2 begin f\n t3 begin g\n t2 r x\n t3 r x\n t1 r x\n t0 w x\n t2 w x\n t2 r x\n t0 r x\n t2 r x\n t3 r x\n \
         t3 end\n t2 end\n",
    );
    let (all, thinned) = (culprits(&trace), culprits(&thinned(&trace, true)));
    assert_eq!((all.len(), thinned.len()), (1, 2));
    assert!(all.is_subset(&thinned));
}

/// What is known to be lost: two readers of a lock are in an order and not in conflict, so the one that comes later is after `f`
/// before it depends on it. What it reads outside of regions before that, and again after it, is left out the second time; only
/// that one is in a cycle with `f`.
#[test]
fn outside_of_regions_an_order_that_is_no_conflict_hides_a_repeat() {
    let trace = Trace::parse(
        "t0 begin f\n t0 w x\n t0 acqs m\n t3 acqs m\n t3 r y\n t3 r x\n t3 r y\n t0 w y\n t0 end\n",
    );
    assert_eq!(culprits(&trace).len(), 1);
    assert_eq!(culprits(&thinned(&trace, true)).len(), 0);
    assert_eq!(culprits(&thinned_in(&trace, true, false)).len(), 1);
}

/// An edge that closes a cycle is left out of the precise graph, so that a violation may hide others behind it, and
/// which ones depends on the paths that are left. Whether there is one does not; and one that hides all others is
/// shown.
fn adds_nothing(trace: Trace, outside: bool) -> Result<(), TestCaseError> {
    let trace = flat(trace);
    let thinned = thinned_in(&trace, true, outside);
    let (all, thinned) = (culprits(&trace), culprits(&thinned));
    prop_assert_eq!(all.is_empty(), thinned.is_empty());
    if all.len() == 1 {
        prop_assert!(all.is_subset(&thinned), "{:?} {:?}", all, thinned);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60_000, ..ProptestConfig::default() })]
    #[test]
    fn what_repeats_in_a_stretch_adds_nothing(trace in random::traces(shape())) {
        adds_nothing(trace, true)?;
    }
    #[test]
    fn nor_among_atomic_operations_and_waits(
        trace in random::traces(Shape { exotic: true, ..shape() })
    ) {
        adds_nothing(trace, false)?;
    }
}
