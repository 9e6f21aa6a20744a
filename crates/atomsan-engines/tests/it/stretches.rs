//! What the runtime leaves out of the logs of a single run (`atomsan_rt::thread::stretch`): an access that its
//! transaction has made before, while nobody else has accessed the variable in between, or has written to it if
//! it is read, and no conflict has come in that says something new. Traces with and without these have the same
//! functions to blame.
//!
//! What is new is told by conflicts alone. The runtime knows of more orders than these (readers of one lock, readers of
//! one variable, neighbours in a granule), and a thread that is after something by such an order only has
//! still to begin a stretch when it comes to be in conflict with it. Nothing is new but that a thread depends on a transaction that another one
//! is in: edges that close cycles lead to these. And it matters outside of regions only, where each access is a transaction of its
//! own. The runtime begins more stretches than that. The more there
//! are, the less is left out, and a cycle of what is left is one of the whole trace.

use crate::random::{self, Shape};
use crate::trace::Trace;
use atomsan_engines::doublechecker::{DoubleChecker, Options};
use atomsan_trace::{FunctionId, Op, ThreadId, VarId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A stretch of a thread, by its number. In a region all of the transaction is one; elsewhere, nothing new comes in before the
/// next one. So what is after a part of it is after all of it, also after what comes into it later.
type Stretch = (ThreadId, usize);

/// Which stretches come directly after which ones of other threads.
#[derive(Default)]
struct Dependences(BTreeMap<Stretch, BTreeSet<Stretch>>);

impl Dependences {
    fn add(&mut self, from: Stretch, to: Stretch) {
        self.0.entry(to).or_default().insert(from);
    }

    /// Whether one is the other, or comes after it in any number of steps.
    fn is_after(&self, stretch: Stretch, earlier: Stretch) -> bool {
        let (mut seen, mut next) = (BTreeSet::from([stretch]), vec![stretch]);
        while let Some(stretch) = next.pop() {
            let (thread, number) = stretch;
            if thread == earlier.0 && number >= earlier.1 {
                return true;
            }
            let of_others = self.0.get(&stretch).into_iter().flatten().copied();
            let own = number.checked_sub(1).map(|number| (thread, number));
            next.extend(of_others.chain(own).filter(|&before| seen.insert(before)));
        }
        false
    }
}

/// What ends a stretch, other than the end of its transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Nothing,
    /// What comes after something that it was not after, in whatever way.
    Orders,
    /// What depends on an open transaction that it was not after, by conflicts alone, outside of regions.
    Conflicts,
}

#[derive(Default)]
struct Thread {
    stretch: usize,
    depth: usize,
    /// Reads and writes of the stretch, by variable: how many accesses and how many writes of others it has had.
    made: BTreeMap<(VarId, bool), (usize, usize)>,
}

impl Thread {
    fn start_stretch(&mut self) {
        self.stretch += 1;
        self.made.clear();
    }
}

/// What an event does at a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    Read,
    Write,
    Acquire,
    AcquireShared,
    Release,
    ReleaseShared,
    Arrive,
    Leave,
}

impl Does {
    fn conflicts_with(self, earlier: Does) -> bool {
        use Does::*;
        match self {
            Read => earlier == Write,
            Write => matches!(earlier, Read | Write),
            Acquire => matches!(earlier, Release | ReleaseShared),
            AcquireShared => earlier == Release,
            Leave => earlier == Arrive,
            Release | ReleaseShared | Arrive => false,
        }
    }
}

/// Variables and locks.
type Name = (u8, u32);

/// What an event does, and where. Threads are there from the start, and none is waited for.
fn does(op: Op) -> Option<(Name, Does)> {
    Some(match op {
        Op::Read(var) | Op::AtomicLoad(var) | Op::AtomicRmwFailed(var) => ((0, var.0), Does::Read),
        Op::Write(var) | Op::AtomicStore(var) | Op::AtomicRmw(var) => ((0, var.0), Does::Write),
        Op::Acquire(lock) | Op::Woken(lock) => ((1, lock.0), Does::Acquire),
        Op::AcquireShared(lock) => ((1, lock.0), Does::AcquireShared),
        Op::Release(lock) | Op::Wait(lock) => ((1, lock.0), Does::Release),
        Op::ReleaseShared(lock) => ((1, lock.0), Does::ReleaseShared),
        Op::Arrive(lock) => ((1, lock.0), Does::Arrive),
        Op::Leave(lock) => ((1, lock.0), Does::Leave),
        _ => return None,
    })
}

/// Accesses of a variable.
#[derive(Default, Clone)]
struct Accesses {
    /// Accesses and writes of each thread.
    counts: BTreeMap<ThreadId, (usize, usize)>,
}

impl Accesses {
    fn of_others(&self, thread: ThreadId) -> (usize, usize) {
        let others = self.counts.iter().filter(|(other, _)| **other != thread);
        others.fold((0, 0), |sum, (_, count)| (sum.0 + count.0, sum.1 + count.1))
    }
}

/// The trace without what repeats.
fn thinned(trace: &Trace, ends: Ends) -> Trace {
    let mut threads: BTreeMap<ThreadId, Thread> = BTreeMap::new();
    // The stretch in which each thread last did something at a place.
    let mut last: BTreeMap<Name, BTreeMap<(ThreadId, Does), Stretch>> = BTreeMap::new();
    let mut dependences = Dependences::default();
    let mut accesses: BTreeMap<VarId, Accesses> = BTreeMap::new();
    let mut events = Vec::new();
    for event in &trace.events {
        let id = event.thread;
        let mut thread = threads.remove(&id).unwrap_or_default();
        if let Op::Begin(_) = event.op {
            thread.depth += 1;
            if thread.depth == 1 {
                thread.start_stretch();
            }
        }
        let does = does(event.op);
        let mut sources = Vec::new();
        if let Some((place, this)) = does {
            for (&(other, earlier), &stretch) in last.get(&place).into_iter().flatten() {
                // The runtime puts all who come to a place in an order.
                let counts = ends == Ends::Orders || this.conflicts_with(earlier);
                if other != id && counts {
                    sources.push(stretch);
                }
            }
        }
        let own = (id, thread.stretch);
        let is_news = |source: Stretch| !dependences.is_after(own, source);
        let is_new = match ends {
            Ends::Nothing => false,
            Ends::Orders => sources.iter().copied().any(is_news),
            Ends::Conflicts => {
                let open = threads.iter().filter(|(_, other)| other.depth > 0);
                let mut open = open.map(|(&id, other)| (id, other.stretch));
                open.any(|open| {
                    let leads_to = |&source: &Stretch| dependences.is_after(source, open);
                    sources.iter().any(leads_to) && is_news(open)
                })
            }
        };
        if is_new && thread.depth == 0 {
            thread.start_stretch();
        }
        let own = (id, thread.stretch);
        for source in sources {
            dependences.add(source, own);
        }
        if let Some((place, this)) = does {
            last.entry(place).or_default().insert((id, this), own);
        }
        let var = event.op.var();
        let write = event.op.writes();
        let mut left_out = false;
        if let Op::Read(var) | Op::Write(var) = event.op {
            let of_var = accesses.entry(var).or_default();
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
        if let Some(var) = var {
            let count = accesses.entry(var).or_default();
            let count = count.counts.entry(id).or_default();
            count.0 += 1;
            count.1 += usize::from(write);
        }
        let is_over = match event.op {
            Op::End => {
                thread.depth = thread.depth.saturating_sub(1);
                thread.depth == 0
            }
            Op::Wait(_) | Op::Arrive(_) | Op::Yield => thread.depth > 0,
            _ => false,
        };
        if is_over {
            thread.start_stretch();
        }
        threads.insert(id, thread);
        if !left_out {
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
    assert_eq!(
        thinned(&trace, Ends::Conflicts).events.len(),
        trace.events.len()
    );
    assert_eq!(culprits(&thinned(&trace, Ends::Nothing)), BTreeSet::new());
}

/// The locks that are taken in between do not.
#[test]
fn a_lock_ends_no_stretch() {
    let trace = Trace::parse(
        "t1 begin f\n t1 w x\n t1 acq m\n t1 w x\n t1 r x\n t1 rel m\n t1 r x\n t1 end\n",
    );
    assert_eq!(
        thinned(&trace, Ends::Conflicts).events.len(),
        trace.events.len() - 3
    );
}

/// Each of `f` and `g` reads `x` before others write to it, and again after that. `f`'s violation comes first, and the edge
/// that closes its cycle is left out, and so is each path through it: `g`'s is seen only where another one is left.
#[test]
fn a_violation_may_hide_another_one() {
    let trace = Trace::parse(
        "t2 begin f\n t3 begin g\n t2 r x\n t3 r x\n t1 r x\n t0 w x\n t2 w x\n t2 r x\n t0 r x\n t2 r x\n t3 r x\n \
         t3 end\n t2 end\n",
    );
    let (all, thinned) = (
        culprits(&trace),
        culprits(&thinned(&trace, Ends::Conflicts)),
    );
    assert_eq!((all.len(), thinned.len()), (1, 2));
    assert!(all.is_subset(&thinned));
}

/// Two readers of a lock are in an order and not in conflict, so the one that comes later is after `f` before it depends
/// on it. What it reads outside of regions before that, and again after it, is in a cycle with `f` the second time only.
#[test]
fn outside_of_regions_an_order_that_is_no_conflict_hides_no_repeat() {
    let trace = Trace::parse(
        "t0 begin f\n t0 w x\n t0 acqs m\n t3 acqs m\n t3 r y\n t3 r x\n t3 r y\n t0 w y\n t0 end\n",
    );
    assert_eq!(culprits(&trace).len(), 1);
    assert_eq!(culprits(&thinned(&trace, Ends::Conflicts)).len(), 1);
    // It would, if the order alone began a stretch.
    assert_eq!(culprits(&thinned(&trace, Ends::Orders)).len(), 0);
}

/// `f` comes before `g`, which is over when it turns out that a third thread comes after what `g` did before that: so that thread
/// is after `f`, and what it reads again is in a cycle.
#[test]
fn what_is_after_a_part_of_a_transaction_is_after_all_of_it() {
    let trace = Trace::parse(
        "t3 begin g\n t1 begin f\n t1 r x\n t3 r z\n t2 r y\n t3 w x\n t3 end\n t2 w z\n t2 r y\n t1 w y\n",
    );
    assert_eq!(culprits(&trace).len(), 1);
    assert_eq!(culprits(&thinned(&trace, Ends::Conflicts)).len(), 1);
    assert_eq!(culprits(&thinned(&trace, Ends::Nothing)).len(), 0);
}

/// The same for two readers of a variable.
#[test]
fn nor_does_one_of_two_readers() {
    let trace = Trace::parse(
        "t0 begin f\n t0 w x\n t0 r z\n t3 r z\n t3 r y\n t3 r x\n t3 r y\n t0 w y\n t0 end\n",
    );
    assert_eq!(culprits(&trace).len(), 1);
    assert_eq!(culprits(&thinned(&trace, Ends::Conflicts)).len(), 1);
    assert_eq!(culprits(&thinned(&trace, Ends::Orders)).len(), 0);
}

/// An edge that closes a cycle is left out of the precise graph, so that a violation may hide others behind it, and
/// which ones depends on the paths that are left. Whether there is one does not; and one that hides all others is
/// shown.
fn adds_nothing(trace: Trace) -> Result<(), TestCaseError> {
    let trace = flat(trace);
    let (all, thinned) = (
        culprits(&trace),
        culprits(&thinned(&trace, Ends::Conflicts)),
    );
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
        adds_nothing(trace)?;
    }
    #[test]
    fn nor_among_atomic_operations_and_waits(
        trace in random::traces(Shape { exotic: true, ..shape() })
    ) {
        adds_nothing(trace)?;
    }
}
