//! Cooperability: is every interference of threads documented by a yield?
//!
//! (Yi, Sadowski, Flanagan: *Cooperative Reasoning for Preemptive Execution*, PPoPP 2011.)
//!
//! A program is cooperable if its threads, though they run preemptively, behave as if the
//! processor were given away at yields only. Yields cut each thread into transactions, and a
//! trace is cooperable if it is equivalent to one in which the transactions run one after the
//! other: if the graph of their conflicts has no cycle.
//!
//! * [`copper`] checks: an operation that would close a cycle lacks a yield somewhere between the
//!   transaction's first part in the cycle and itself.
//! * [`silver`] infers: it puts a yield right before such an operation. With all of its yields
//!   the trace is cooperable, and without any one of them it is not: the cycle that asked for the
//!   yield consists of what happened before it, and later yields do not cut that.
//! * [`yields`] is what Silver inferred, as places in the program, and its file format.
//! * [`density`] counts how many places of the program are exposed to interference under
//!   preemptive, atomic and cooperative semantics.
//!
//! # What is a yield
//!
//! `Yield` itself; it is a mark between two transactions and not an operation. Blocking is one
//! too, because others are meant to run meanwhile: `Wait` and the barrier's `Arrive` belong to
//! the transaction that they end; `Join` starts one, and ends the joined thread's last. A yield
//! can also be *assumed* ([`Options::assumed`]): then each event at its place starts a
//! transaction. More yields never do harm: a cycle among the parts of transactions is a cycle
//! among the transactions.
//!
//! # Yields and atomic regions
//!
//! An atomic region (`Begin`/`End`, or a function that the specification calls atomic) promises
//! that nobody interferes inside. Cooperative semantics promises that already, of all code
//! between two yields, so a region adds no obligation and its borders are not yields: that would
//! allow interference before and after each call of an atomic function, which is what yields are
//! there to avoid (section 2 of the paper). Where the two meet,
//!
//! * a yield inside of an open region cuts the transaction as it does anywhere, just as waiting
//!   cuts the region for every other engine. It says why the region is not atomic (section 9);
//! * a missing yield inside of a region is reported as that region's, and Silver says which
//!   region the yield that it puts there contradicts.
//!
//! A program that documents interference with atomic regions alone has no yields between them. For
//! it, [`Options::regions_yield`] makes the borders of outermost regions yields: what is in one
//! region must be serializable, and so must be what lies between two regions.

mod core;

pub mod copper;
pub mod density;
pub mod silver;
pub mod yields;

use atomsan_trace::{FunctionId, Names};

/// A region's name; some traces mark regions without naming them.
fn region_name(region: FunctionId, names: &Names) -> Box<str> {
    match names.function_name(region) {
        name if name.is_empty() => "(unnamed)".into(),
        name => name.into(),
    }
}

/// What can be chosen, the same for Copper and Silver.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether synchronisation makes dependences, or memory accesses only.
    pub sync_edges: bool,
    /// Whether an outermost atomic region has a yield before and after it.
    pub regions_yield: bool,
    /// Places at which a yield is taken to be, for instance those that an earlier run inferred.
    pub assumed: yields::Yields,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sync_edges: true,
            regions_yield: false,
            assumed: yields::Yields::default(),
        }
    }
}
