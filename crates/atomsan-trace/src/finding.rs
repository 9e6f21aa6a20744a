//! What an engine has found, in ids: the same structure for every engine.
//!
//! A finding names the region that is not atomic (the *culprit*), what kind of wrong it is (the
//! *anomaly*) and proves it with a *witness*: the steps of the threads involved, in order, and
//! the dependences between them. `atomsan-report` turns it into words.

use crate::event::{Event, FunctionId, Op, SiteId, ThreadId};
use crate::stacks::StackId;

/// The property that is violated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Criterion {
    /// The observed execution is not equivalent to one in which the transaction ran alone.
    ConflictSerializability,
    /// Some execution with the same synchronisation is not equivalent to a serial one.
    ViewSerializability,
    /// The region is not of the form right-movers, one step, left-movers.
    Reducibility,
    /// Another thread can interfere where the code has no yield.
    Cooperability,
    /// The accesses to one atomic set are not serializable by units of work.
    AtomicSetSerializability,
}

/// How the violation is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// It happened in this execution.
    Observed,
    /// It can happen in another schedule of this execution.
    Predicted,
    /// It was predicted and then happened when that schedule was forced.
    Confirmed,
}

/// What went wrong, in the words of databases. `'` marks the other thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Anomaly {
    /// R W′ W: wrote from a stale read. An atomic update does not: it reads again.
    LostUpdate,
    /// W R′ W: another thread saw the state in between.
    IntermediateState,
    /// W W′ R, W W′ W: own write was overwritten in the middle, and not only added to.
    Overwritten,
    /// R W′ R: two reads of one region disagree. An atomic update is a read too, as the second one, and as
    /// the first one, and what an atomic update has added to own write is not lost.
    NonRepeatableRead,
    /// Two variables, one dependence each way.
    InconsistentPair,
    /// A cycle through this many transactions.
    Cycle(u32),
    /// A cycle of which the engine keeps only the step that closes it.
    NotSerializable,
    /// A right-mover after the commit point.
    NotReducible,
    /// An interference without a yield.
    MissingYield,
}

impl Anomaly {
    /// Names the anomaly of a region that did `first`, then `second`, with `others` of other
    /// threads in between (the step that depends on `first`, then the one `second` depends on),
    /// in a cycle of `length` transactions.
    pub fn classify(first: Op, others: (Op, Op), second: Op, length: usize) -> Anomaly {
        if length > 2 {
            return Anomaly::Cycle(length.try_into().unwrap_or(u32::MAX));
        }
        let same = first.var().is_some()
            && first.var() == second.var()
            && first.var() == others.0.var()
            && others.0.var() == others.1.var();
        if !same {
            return Anomaly::InconsistentPair;
        }
        let others = [others.0, others.1];
        let interferes_by_write = others.iter().any(|other| other.writes());
        // An atomic update is made of what it finds.
        let builds_on = |op: &Op| matches!(op, Op::AtomicRmw(_)) || !op.writes();
        let added_to = builds_on(&first) || others.iter().all(builds_on);
        match (first.writes(), interferes_by_write, second.reads()) {
            (false, true, false) => Anomaly::LostUpdate,
            (false, true, true) => Anomaly::NonRepeatableRead,
            (true, true, true) if added_to => Anomaly::NonRepeatableRead,
            (true, true, _) => Anomaly::Overwritten,
            (true, false, _) => Anomaly::IntermediateState,
            // Two reads around a read do not conflict.
            (false, false, _) => Anomaly::InconsistentPair,
        }
    }
}

/// One transaction (unit of work, block, …) that takes part in a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Participant {
    /// Its thread.
    pub thread: ThreadId,
    /// The region it executes; `None` for a unary transaction.
    pub region: Option<FunctionId>,
    /// Where the region was entered.
    pub entered: SiteId,
    /// Whether it is not serializable itself: something of it came before the rest of the
    /// cycle, and something after.
    pub blamed: bool,
}

/// What a step is to the finding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// An access that takes part in a dependence.
    Access,
    /// Where the region was entered.
    Entered,
    /// The step that made the region commit.
    Committed,
    /// The step that is not allowed.
    Violated,
}

/// One step of a witness.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Which of the finding's participants makes it.
    pub participant: usize,
    /// Its position in the trace, from 0.
    pub index: u64,
    /// What happened.
    pub event: Event,
    /// The calls that led there.
    pub stack: StackId,
    /// What it is to the finding.
    pub role: Role,
}

/// Where the program is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Culprit {
    /// The function or region that is not atomic.
    pub region: Option<FunctionId>,
    /// Where it was entered.
    pub entered: SiteId,
    /// The two places between which it was split; the same one twice if it is one place.
    pub between: (SiteId, SiteId),
}

/// One violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The engine's name.
    pub engine: &'static str,
    /// What is violated.
    pub criterion: Criterion,
    /// How it is known.
    pub status: Status,
    /// What kind of wrong it is.
    pub anomaly: Anomaly,
    /// Where the program is wrong.
    pub culprit: Culprit,
    /// The transactions involved; the first is the culprit's.
    pub participants: Vec<Participant>,
    /// The steps, in the order they happened (or would have to happen, for a prediction).
    pub witness: Vec<Step>,
    /// Dependences, as pairs of positions in `witness`.
    pub edges: Vec<(usize, usize)>,
    /// The position in the trace at which the violation was complete, from 0.
    pub index: u64,
    /// What else there is to say.
    pub notes: Vec<String>,
    /// How often this static violation was seen.
    pub count: u64,
}
