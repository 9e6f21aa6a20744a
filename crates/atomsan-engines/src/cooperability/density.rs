//! Interference density: how many places of a program are exposed to other threads (Fig. 7).
//!
//! An *interference point* is a place in the program where other threads may get in between, as
//! far as a reader knows:
//!
//! * under *preemptive* semantics, every place that accesses a variable or acquires a lock;
//! * under *atomic* semantics, those of them that are executed outside of all atomic regions, and
//!   the places outside where an atomic region is entered: interference may come just before it.
//!   Which regions are atomic is the specification's business; to get the paper's figure, exclude
//!   from it what an atomicity checker blames;
//! * under *cooperative* semantics, the yields: those that are written, those that blocking
//!   implies, and those that Silver infers.
//!
//! The paper divides by the lines of code that were loaded; a trace knows the places that were
//! executed, so the density here is the share of them. A place that was executed both inside and
//! outside of atomic regions counts as exposed.

use atomsan_trace::{Event, Op, SiteId};
use std::fmt;

/// One row of Fig. 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Density {
    /// Threads that did something.
    pub threads: u64,
    /// Places that were executed.
    pub sites: u64,
    /// Interference points under preemptive semantics.
    pub preemptive: u64,
    /// Interference points under atomic semantics.
    pub atomic: u64,
    /// Interference points under cooperative semantics.
    pub cooperative: u64,
    /// Those of the cooperative points that were inferred.
    pub inferred: u64,
}

impl Density {
    /// The share of the places that are such points.
    pub fn share(&self, points: u64) -> f64 {
        points as f64 / self.sites.max(1) as f64
    }
}

impl fmt::Display for Density {
    /// The row, under a heading.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>7} {:>8} {:>18} {:>18} {:>18}",
            "threads", "sites", "preemptive", "atomic", "cooperative"
        )?;
        write!(f, "{:>7} {:>8}", self.threads, self.sites)?;
        for points in [self.preemptive, self.atomic, self.cooperative] {
            write!(f, " {points:>9} {:>7.2}%", 100.0 * self.share(points))?;
        }
        writeln!(f)
    }
}

const EXECUTED: u8 = 1;
const PREEMPTIVE: u8 = 2;
const ATOMIC: u8 = 4;
const COOPERATIVE: u8 = 8;
const INFERRED: u8 = 16;

/// What each place is, as far as seen.
#[derive(Debug, Default)]
pub(super) struct Points {
    sites: Vec<u8>,
    threads: Vec<bool>,
}

impl Points {
    /// An event, and whether it is inside of an atomic region.
    #[inline]
    pub(super) fn observe(&mut self, event: &Event, inside: bool) {
        let mut marks = EXECUTED;
        if event.op.var().is_some() || matches!(event.op, Op::Acquire(_) | Op::AcquireShared(_)) {
            marks |= if inside {
                PREEMPTIVE
            } else {
                PREEMPTIVE | ATOMIC
            };
        }
        self.mark(event.site, marks);
        let thread = event.thread.index();
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, false);
        }
        self.threads[thread] = true;
    }

    /// An outermost atomic region is entered.
    pub(super) fn entered(&mut self, site: SiteId) {
        self.mark(site, ATOMIC);
    }

    /// There is a yield.
    pub(super) fn yielded(&mut self, site: SiteId) {
        self.mark(site, COOPERATIVE);
    }

    /// A yield is needed.
    pub(super) fn inferred(&mut self, site: SiteId) {
        self.mark(site, COOPERATIVE | INFERRED);
    }

    #[inline]
    fn mark(&mut self, site: SiteId, marks: u8) {
        if self.sites.len() <= site.index() {
            self.sites.resize(site.index() + 1, 0);
        }
        self.sites[site.index()] |= marks;
    }

    /// What was counted.
    pub(super) fn density(&self) -> Density {
        let count = |mark| {
            self.sites
                .iter()
                .filter(|&&marks| marks & mark != 0)
                .count() as u64
        };
        Density {
            threads: self.threads.iter().filter(|&&seen| seen).count() as u64,
            sites: count(EXECUTED),
            preemptive: count(PREEMPTIVE),
            atomic: count(ATOMIC),
            cooperative: count(COOPERATIVE),
            inferred: count(INFERRED),
        }
    }
}
