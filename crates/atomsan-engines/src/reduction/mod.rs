//! Offline reduction (Wang–Stoller, section 5).
//!
//! While the program runs, each transaction becomes a tree of its synchronised blocks and of the
//! variables accessed in them (`trees`), and locksets are refined. When it has ended, it is known
//! for the whole execution which variables race and which locks are thread-local or protected, and
//! the trees are held against Theorem 2: a set of transactions without potential for deadlock is
//! atomic if each has the form (R + AcqA*Rel)* N? (L + AcqA*Rel)* (`theorem`).
//!
//! Unlike the Atomizer, nothing is classified before everything is known, so the answer is
//! conservative: a transaction that is not reported is atomic with respect to all others, in every
//! schedule that is consistent with the synchronisation seen, unless there is potential for
//! deadlock ([`crate::deadlocks`] counts them).
//!
//! Starting and joining threads, waiting and barriers end a transaction in the middle of its
//! region (section 4).
//!
//! The improvements of Table 2 can be switched off one by one ([`Options`]); [`TABLE_2`] has its
//! columns. Memory follows the number of different trees, not of events.

mod races;
mod theorem;
mod trees;

use crate::deadlocks::{Deadlocks, GIVEN_UP};
use crate::dense::slot;
use crate::engine::{Context, Engine, Occurrence, Stat};
use crate::escape::{Escape, Escapes};
use crate::held::{Change, Held};
use crate::locksets::{LocksetId, Locksets};
use crate::objects::Objects;
use crate::periods::Periods;
use crate::regions::{Boundary, Regions};
use atomsan_trace::finding::{
    Anomaly, Criterion, Culprit, Finding, Participant, Role, Status, Step,
};
use atomsan_trace::{Event, FunctionId, LockId, Names, Op, ThreadId, VarId};
use races::{Commutes, Races};
use std::collections::HashSet;
use theorem::{Facts, Verdicts, Violation};
use trees::{Builder, NodeId, Trees};

/// The improvements of Table 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Accesses before a variable escapes from its thread do not count.
    pub escape: bool,
    /// Accesses in ordered thread periods do not race.
    pub happens_before: bool,
    /// The multilockset algorithm instead of Eraser's with ownership transfer.
    pub multilockset: bool,
    /// Theorem 2 instead of Theorem 1.
    pub acq_a_rel: bool,
}

impl Default for Options {
    fn default() -> Self {
        TABLE_2[4].1
    }
}

const NONE: Options = Options {
    escape: false,
    happens_before: false,
    multilockset: false,
    acq_a_rel: false,
};
const ESCAPE: Options = Options {
    escape: true,
    ..NONE
};
const HAPPENS_BEFORE: Options = Options {
    happens_before: true,
    ..ESCAPE
};
const MULTILOCKSET: Options = Options {
    multilockset: true,
    ..HAPPENS_BEFORE
};

/// The columns of Table 2: each improvement on top of those before.
pub const TABLE_2: [(&str, Options); 5] = [
    ("none", NONE),
    ("escape", ESCAPE),
    ("happen-before", HAPPENS_BEFORE),
    ("multilockset", MULTILOCKSET),
    (
        "AcqA*Rel",
        Options {
            acq_a_rel: true,
            ..MULTILOCKSET
        },
    ),
];

/// How a lock is used.
#[derive(Clone, Copy, Debug)]
struct LockUse {
    user: Option<ThreadId>,
    /// More than one thread uses it.
    shared: bool,
    /// Held exclusively whenever it is acquired or released.
    guards: LocksetId,
}

impl Default for LockUse {
    fn default() -> Self {
        LockUse {
            user: None,
            shared: false,
            guards: LocksetId::ALL,
        }
    }
}

#[derive(Debug, Default)]
struct Thread {
    builder: Builder,
    /// The region it is in, and where that was entered.
    region: Option<(FunctionId, Occurrence)>,
}

/// The offline reduction engine.
#[derive(Debug)]
pub struct Reduction {
    options: Options,
    regions: Regions,
    held: Held,
    locksets: Locksets,
    periods: Periods,
    escapes: Escapes,
    objects: Objects,
    races: Races,
    /// Variables that are entered in `objects`.
    entered: Vec<bool>,
    locks: Vec<LockUse>,
    deadlocks: Deadlocks,
    threads: Vec<Thread>,
    trees: Trees,
    /// How many transactions have this root.
    transactions: Vec<u64>,
    last: Option<Occurrence>,
    figures: Figures,
}

/// What is counted; see [`Reduction::stats`].
#[derive(Debug, Default)]
struct Figures {
    transactions: u64,
    unescaped: u64,
    racing_variables: u64,
    racing_fields: u64,
    violating_transactions: u64,
    violating_regions: u64,
    potential_deadlocks: u64,
    /// There may be more of those.
    given_up: bool,
}

impl Default for Reduction {
    fn default() -> Self {
        Reduction::new(Options::default())
    }
}

impl Reduction {
    /// An engine with these options.
    pub fn new(options: Options) -> Self {
        Reduction {
            options,
            regions: Regions::default(),
            held: Held::default(),
            locksets: Locksets::default(),
            periods: Periods::default(),
            escapes: Escapes::default(),
            objects: Objects::default(),
            races: Races::new(&options),
            entered: Vec::new(),
            locks: Vec::new(),
            deadlocks: Deadlocks::default(),
            threads: Vec::new(),
            trees: Trees::default(),
            transactions: Vec::new(),
            last: None,
            figures: Figures::default(),
        }
    }

    #[inline]
    fn access(&mut self, at: &Occurrence, var: VarId, names: &Names) {
        let (thread, write) = (at.event.thread, at.event.op.writes());
        let period = self.periods.current(thread);
        let held = self.held.locks(thread);
        if !self.races.repeats(var, period, held, write) {
            if !std::mem::replace(slot(&mut self.entered, var.index()), true) {
                self.objects.enter(var, names);
            }
            if self.options.escape && self.escapes.touch(thread, var, names) == Escape::Local {
                self.figures.unescaped += 1;
                return;
            }
            let (periods, locksets) = (&self.periods, &mut self.locksets);
            self.races
                .access(var, period, held, write, periods, locksets);
        }
        if let Some(thread) = self.threads.get_mut(thread.index()) {
            thread.builder.access(var, at, &mut self.trees);
        }
    }

    fn lock_operation(&mut self, at: &Occurrence) {
        let event = &at.event;
        let before = self.held.locks(event.thread);
        let change = self.held.step(at.index, event, &mut self.locksets);
        if let (Change::Acquired(lock), false) = (change, before.any.is_empty()) {
            let exclusive = !matches!(event.op, Op::AcquireShared(_));
            let period = self.periods.current(event.thread);
            self.deadlocks
                .acquire(at, (lock, exclusive), before, period);
        }
        let (Change::Acquired(lock) | Change::Released(lock) | Change::NotHeld(lock)) = change
        else {
            return;
        };
        self.use_lock(event.thread, lock);
        let thread = slot(&mut self.threads, event.thread.index());
        let Some((region, entered)) = &thread.region else {
            return;
        };
        if let Change::Acquired(_) = change {
            thread.builder.acquire(lock, at, &mut self.trees);
        } else {
            let (builder, trees) = (&mut thread.builder, &mut self.trees);
            builder.release(lock, *region, entered, at, trees);
        }
    }

    fn use_lock(&mut self, thread: ThreadId, lock: LockId) {
        let state = slot(&mut self.locks, lock.index());
        state.shared |= state.user.is_some_and(|user| user != thread);
        state.user = Some(thread);
        let held = self.held.locks(thread).exclusive;
        let others = self.locksets.without(held, lock);
        state.guards = self.locksets.intersection(state.guards, others);
    }

    fn frame(&mut self, at: &Occurrence, names: &Names) {
        match self.regions.step(at.index, &at.event, names) {
            Boundary::Begin(region) => {
                let thread = slot(&mut self.threads, at.event.thread.index());
                thread.region = Some((region, *at));
                thread.builder.begin(at, &mut self.trees);
            }
            Boundary::End => {
                self.end(at.event.thread, at);
                slot(&mut self.threads, at.event.thread.index()).region = None;
            }
            _ => {}
        }
    }

    /// The transaction ends and another one of the same region follows.
    fn split(&mut self, at: &Occurrence) {
        self.end(at.event.thread, at);
        let thread = slot(&mut self.threads, at.event.thread.index());
        if thread.region.is_some() {
            thread.builder.begin(at, &mut self.trees);
        }
    }

    fn end(&mut self, thread: ThreadId, at: &Occurrence) {
        let thread = slot(&mut self.threads, thread.index());
        let Some((region, entered)) = &thread.region else {
            return;
        };
        self.figures.transactions += 1;
        let trees = &mut self.trees;
        if let Some(NodeId(root)) = thread.builder.end(*region, entered, at, trees) {
            *slot(&mut self.transactions, root as usize) += 1;
        }
    }

    fn facts(&mut self) -> Facts {
        let vars = (0..self.races.len() as u32).map(VarId);
        let vars = vars.map(|var| self.races.commutes(var, &mut self.locksets));
        Facts {
            vars: vars.collect(),
            both_movers: (self.locks.iter())
                .map(|lock| !lock.shared || !lock.guards.is_empty())
                .collect(),
            acq_a_rel: self.options.acq_a_rel,
        }
    }

    fn report(&mut self, facts: &Facts, cx: &mut Context<'_>) {
        let verdicts = Verdicts::new(&self.trees, facts);
        let mut regions = HashSet::new();
        for (root, &count) in self.transactions.iter().enumerate() {
            if count == 0 {
                continue;
            }
            let root = NodeId(root as u32);
            let Some(violation) = verdicts.violation(root) else {
                continue;
            };
            let region = self.trees.node(root).region;
            regions.insert(region);
            self.figures.violating_transactions += count;
            let key = (
                region,
                violation.committed.event.site,
                violation.violated.event.site,
            );
            for _ in 0..count {
                cx.findings
                    .report(key, || finding(region, &violation, facts, cx.names));
                if cx.findings.full() {
                    break;
                }
            }
        }
        self.figures.violating_regions = regions.len() as u64;
    }

    fn count_races(&mut self, facts: &Facts, names: &Names) {
        let mut fields = HashSet::new();
        for (var, _) in (facts.vars.iter().enumerate()).filter(|(_, c)| **c == Commutes::Not) {
            self.figures.racing_variables += 1;
            fields.insert(field(VarId(var as u32), names));
        }
        self.figures.racing_fields = fields.len() as u64;
    }
}

impl Engine for Reduction {
    fn name(&self) -> &'static str {
        "reduction"
    }

    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let event = &at.event;
        match event.op {
            Op::Read(var)
            | Op::Write(var)
            | Op::AtomicLoad(var)
            | Op::AtomicStore(var)
            | Op::AtomicRmw(var)
            | Op::AtomicRmwFailed(var) => self.access(at, var, cx.names),
            Op::Begin(_) | Op::End | Op::Enter(_) | Op::Exit(_) => self.frame(at, cx.names),
            Op::Acquire(_)
            | Op::AcquireShared(_)
            | Op::Release(_)
            | Op::ReleaseShared(_)
            | Op::Woken(_) => self.lock_operation(at),
            Op::Wait(_) => {
                self.lock_operation(at);
                self.split(at);
            }
            Op::Fork(_) | Op::Join(_) | Op::Arrive(_) | Op::Leave(_) => {
                self.split(at);
                self.periods.step(event);
                self.escapes.step(event, cx.names);
            }
            Op::Alloc(object) | Op::Free(object) => {
                self.escapes.step(event, cx.names);
                let (races, locksets) = (&mut self.races, &mut self.locksets);
                let entered = &mut self.entered;
                self.objects.free(object, |var| {
                    races.forget(var, locksets);
                    entered[var.index()] = false;
                });
            }
            Op::RefStore { .. } => self.escapes.step(event, cx.names),
            Op::Yield => self.split(at),
            Op::Notify(_) => {}
        }
        self.last = Some(*at);
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        if let Some(last) = self.last {
            for thread in 0..self.threads.len() as u32 {
                self.end(ThreadId(thread), &last);
            }
        }
        let facts = self.facts();
        self.count_races(&facts, cx.names);
        let deadlocks = self.deadlocks.potential(&self.periods, &self.locksets);
        self.figures.potential_deadlocks = deadlocks.cycles.len() as u64;
        self.figures.given_up = deadlocks.given_up;
        self.report(&facts, cx);
    }

    fn remarks(&self) -> Vec<String> {
        let given_up = self.figures.given_up.then(|| GIVEN_UP.to_owned());
        given_up.into_iter().collect()
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        let figures = &self.figures;
        let trees = self.transactions.iter().filter(|count| **count > 0);
        vec![
            stat("transactions", figures.transactions),
            stat("different transactions", trees.count() as u64),
            stat("tree nodes", self.trees.len() as u64),
            stat("unescaped accesses", figures.unescaped),
            stat("variables with races", figures.racing_variables),
            stat("fields with races", figures.racing_fields),
            stat("violating transactions", figures.violating_transactions),
            stat("violating regions", figures.violating_regions),
            stat("potential deadlocks", figures.potential_deadlocks),
        ]
    }
}

/// A variable's name without the object it is in: what Table 2 counts once.
fn field(var: VarId, names: &Names) -> String {
    let name = names.var_name(var);
    let object = names.var(var).and_then(|var| var.object);
    let object = object.map(|object| names.object(object));
    let rest = object.and_then(|object| name.strip_prefix(&*object).map(str::to_owned));
    rest.unwrap_or_else(|| name.into_owned())
}

fn finding(region: FunctionId, violation: &Violation, facts: &Facts, names: &Names) -> Finding {
    let Violation {
        entered,
        committed,
        violated,
    } = violation;
    let step = |at: &Occurrence, role| Step {
        participant: 0,
        index: at.index,
        event: at.event,
        stack: at.stack,
        role,
    };
    Finding {
        engine: "reduction",
        criterion: Criterion::Reducibility,
        status: Status::Predicted,
        anomaly: Anomaly::NotReducible,
        culprit: Culprit {
            region: Some(region),
            entered: entered.event.site,
            between: (committed.event.site, violated.event.site),
        },
        participants: vec![Participant {
            thread: entered.event.thread,
            region: Some(region),
            entered: entered.event.site,
            blamed: true,
        }],
        witness: vec![
            step(entered, Role::Entered),
            step(committed, Role::Committed),
            step(violated, Role::Violated),
        ],
        edges: Vec::new(),
        index: violated.index,
        notes: vec![
            format!("committed by {}", describe(&committed.event, facts, names)),
            format!("violated by {}", describe(&violated.event, facts, names)),
        ],
        count: 1,
    }
}

/// Why a step is one of those of which there may be one only.
fn describe(event: &Event, facts: &Facts, names: &Names) -> String {
    match (event.op, event.op.var()) {
        (op, Some(var)) => {
            let kind = if op.writes() { "a write" } else { "a read" };
            let races = facts.vars.get(var.index()) == Some(&Commutes::Not);
            let why = if races { ", which races" } else { "" };
            format!("{kind} of {}{why}", names.var_name(var))
        }
        (Op::Acquire(lock) | Op::AcquireShared(lock) | Op::Woken(lock), _) => {
            format!("acquiring {}", names.lock(lock))
        }
        (Op::Release(lock) | Op::ReleaseShared(lock) | Op::Wait(lock), _) => {
            format!("releasing {}", names.lock(lock))
        }
        (other, _) => format!("{other:?}"),
    }
}
