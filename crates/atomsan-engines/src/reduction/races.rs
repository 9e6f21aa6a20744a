//! Which variables race, and which commute with everything.
//!
//! Two detectors, so that the columns of Table 2 can be compared: the multilockset algorithm, and
//! Eraser's states with one lockset (von Praun and Gross, "none" in the table). Where the escape
//! analysis says when a variable's initialisation ended, Eraser's states need no second owner.
//!
//! A variable id whose object died is another variable. Its transactions stay in the trees under
//! the same id, so the worst of its lives counts: that can only add alarms.

use super::Options;
use crate::dense::slot;
use crate::eraser::Eraser;
use crate::held::HeldLocks;
use crate::locksets::Locksets;
use crate::multilockset::{Concurrency, MultiLockset, Recent};
use crate::periods::{PeriodId, Periods};
use crate::protecting::Protecting;
use atomsan_trace::VarId;

/// How the accesses to a variable commute with what other threads do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Commutes {
    /// With everything: it is thread-local or read-only (*A* of Theorem 2).
    #[default]
    Always,
    /// With everything that the locks allow: it is race-free (*B*).
    UnderLocks,
    /// Not: it races (*N*).
    Not,
}

/// Periods as far as the options allow to look at them.
struct Time<'a> {
    periods: &'a Periods,
    happens_before: bool,
}

impl Concurrency for Time<'_> {
    #[inline]
    fn same_thread(&self, a: PeriodId, b: PeriodId) -> bool {
        self.periods.thread(a) == self.periods.thread(b)
    }

    #[inline]
    fn concurrent(&self, a: PeriodId, b: PeriodId) -> bool {
        if self.happens_before {
            self.periods.concurrent(a, b)
        } else {
            !self.same_thread(a, b)
        }
    }
}

#[derive(Debug)]
enum Detector {
    MultiLockset(Vec<Recent>, Vec<MultiLockset>),
    Eraser(Vec<Eraser<PeriodId, Protecting>>),
}

/// What is known about all variables.
#[derive(Debug)]
pub(super) struct Races {
    detector: Detector,
    happens_before: bool,
    /// Ownership is transferred once; not if the escape analysis knows better.
    transfer: bool,
    /// The worst of the lives that are over.
    before: Vec<Commutes>,
}

impl Races {
    pub(super) fn new(options: &Options) -> Self {
        Races {
            detector: if options.multilockset {
                Detector::MultiLockset(Vec::new(), Vec::new())
            } else {
                Detector::Eraser(Vec::new())
            },
            happens_before: options.happens_before,
            transfer: !options.escape,
            before: Vec::new(),
        }
    }

    /// Whether such an access was the last of its kind, so that nothing can be learned from it.
    #[inline]
    pub(super) fn repeats(
        &self,
        var: VarId,
        period: PeriodId,
        held: HeldLocks,
        write: bool,
    ) -> bool {
        match &self.detector {
            Detector::MultiLockset(recent, _) => {
                (recent.get(var.index())).is_some_and(|recent| recent.repeats(period, held, write))
            }
            Detector::Eraser(_) => false,
        }
    }

    /// One access to a variable that may have escaped.
    pub(super) fn access(
        &mut self,
        var: VarId,
        period: PeriodId,
        held: HeldLocks,
        write: bool,
        periods: &Periods,
        locksets: &mut Locksets,
    ) {
        let time = Time {
            periods,
            happens_before: self.happens_before,
        };
        match &mut self.detector {
            Detector::MultiLockset(recent, vars) => {
                slot(recent, var.index()).remember(period, held, write);
                let var = slot(vars, var.index());
                if write {
                    var.write(period, held, locksets, &time);
                } else {
                    var.read(period, held, locksets, &time);
                }
            }
            Detector::Eraser(vars) => {
                let handed = |owner, by| {
                    time.same_thread(owner, by) || time.happens_before && periods.before(owner, by)
                };
                let state = slot(vars, var.index());
                match state.access(period, write, self.transfer, handed) {
                    Some(protecting) if write => {
                        protecting.write(held, locksets);
                    }
                    Some(protecting) => {
                        protecting.read(held, locksets);
                    }
                    None => {}
                }
            }
        }
    }

    /// The life of a variable is over.
    pub(super) fn forget(&mut self, var: VarId, locksets: &mut Locksets) {
        let commutes = self.commutes(var, locksets);
        *slot(&mut self.before, var.index()) = commutes;
        match &mut self.detector {
            Detector::MultiLockset(recent, vars) => {
                *slot(recent, var.index()) = Recent::default();
                *slot(vars, var.index()) = MultiLockset::default();
            }
            Detector::Eraser(vars) => *slot(vars, var.index()) = Eraser::Virgin,
        }
    }

    /// What all accesses so far say about a variable.
    pub(super) fn commutes(&self, var: VarId, locksets: &mut Locksets) -> Commutes {
        let before = self.before.get(var.index()).copied().unwrap_or_default();
        let now = match &self.detector {
            Detector::MultiLockset(_, vars) => match vars.get(var.index()) {
                Some(var) if var.races(locksets) => Commutes::Not,
                Some(var) if var.is_contended() => Commutes::UnderLocks,
                _ => Commutes::Always,
            },
            Detector::Eraser(vars) => match vars.get(var.index()).and_then(Eraser::shared) {
                Some(protecting) if protecting.access.is_empty() => Commutes::Not,
                Some(_) => Commutes::UnderLocks,
                None => Commutes::Always,
            },
        };
        before.max(now)
    }

    /// How many variables there are.
    pub(super) fn len(&self) -> usize {
        match &self.detector {
            Detector::MultiLockset(_, vars) => vars.len(),
            Detector::Eraser(vars) => vars.len(),
        }
    }
}
