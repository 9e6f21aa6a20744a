//! The multilockset algorithm against Fig. 3 as it stands, with all sets kept.

use crate::random::{Shape, traces};
use crate::trace::Trace;
use atomsan_engines::held::Held;
use atomsan_engines::locksets::Locksets;
use atomsan_engines::multilockset::{Concurrency, MultiLockset, Recent};
use atomsan_engines::periods::{PeriodId, Periods};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Set = BTreeSet<u32>;

/// Fig. 3, for one variable.
#[derive(Default)]
struct Figure3 {
    read_sets: BTreeSet<Set>,
    write_set: Option<Set>,
    read_threads: BTreeSet<PeriodId>,
    write_threads: BTreeSet<PeriodId>,
}

impl Figure3 {
    fn access(&mut self, write: bool, held: Set, period: PeriodId) {
        if write {
            let set = self.write_set.take().unwrap_or_else(|| held.clone());
            self.write_set = Some(set.intersection(&held).copied().collect());
            self.write_threads.insert(period);
        } else {
            self.read_sets.insert(held);
            let all = self.read_sets.clone();
            let smaller = |set: &Set| all.iter().any(|s| s != set && s.is_subset(set));
            self.read_sets.retain(|set| !smaller(set));
            self.read_threads.insert(period);
        }
    }

    fn contended(&self, time: &Periods) -> [bool; 2] {
        let pair = |a: &BTreeSet<PeriodId>, b: &BTreeSet<PeriodId>| {
            (a.iter()).any(|&a| b.iter().any(|&b| time.concurrent(a, b)))
        };
        [
            pair(&self.write_threads, &self.write_threads),
            pair(&self.write_threads, &self.read_threads),
        ]
    }

    fn races(&self, time: &Periods) -> bool {
        let [writes, read_write] = self.contended(time);
        match &self.write_set {
            None => false,
            Some(set) if set.is_empty() => writes || read_write,
            Some(set) => read_write && self.read_sets.iter().any(|read| read.is_disjoint(set)),
        }
    }
}

struct Time<'a>(&'a Periods);

impl Concurrency for Time<'_> {
    fn same_thread(&self, a: PeriodId, b: PeriodId) -> bool {
        self.0.thread(a) == self.0.thread(b)
    }

    fn concurrent(&self, a: PeriodId, b: PeriodId) -> bool {
        self.0.concurrent(a, b)
    }
}

/// Follows a trace both ways and compares them after each access.
fn compare(trace: &Trace) -> Result<(), TestCaseError> {
    let (mut held, mut sets) = (Held::default(), Locksets::default());
    let mut periods = Periods::default();
    let mut vars: BTreeMap<u32, (Recent, MultiLockset, Figure3)> = BTreeMap::new();
    for (index, event) in trace.events.iter().enumerate() {
        held.step(index as u64, event, &mut sets);
        periods.step(event);
        let Some(var) = event.op.var() else {
            continue;
        };
        let (recent, quick, slow) = vars.entry(var.0).or_default();
        let (period, locks) = (periods.current(event.thread), held.locks(event.thread));
        let write = event.op.writes();
        let content = |id| -> Set { sets.locks(id).map(|lock| lock.0).collect() };
        slow.access(write, content(locks.protecting(write)), period);
        if !recent.repeats(period, locks, write) {
            recent.remember(period, locks, write);
            if write {
                quick.write(period, locks, &mut sets, &Time(&periods));
            } else {
                quick.read(period, locks, &mut sets, &Time(&periods));
            }
        }
        prop_assert!(recent.repeats(period, locks, write));
        prop_assert_eq!(quick.races(&mut sets), slow.races(&periods));
        let contended = slow.contended(&periods);
        prop_assert_eq!(quick.is_contended(), contended[0] || contended[1]);
        let content = |&id| -> Set { sets.locks(id).map(|lock| lock.0).collect() };
        let read_sets: Vec<Set> = quick.read_sets().iter().map(content).collect();
        prop_assert_eq!(read_sets.len(), slow.read_sets.len());
        prop_assert_eq!(
            read_sets.into_iter().collect::<BTreeSet<_>>(),
            slow.read_sets.clone()
        );
        prop_assert_eq!(
            quick.write_set().as_ref().map(content),
            slow.write_set.clone()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn equals_figure_3(trace in traces(Shape { locks: 3, vars: 2, length: 60, ..Shape::small() })) {
        compare(&trace)?;
    }
}
