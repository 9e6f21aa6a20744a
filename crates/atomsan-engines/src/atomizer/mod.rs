//! Online reduction: the Atomizer (Flanagan, Freund).
//!
//! By Lipton's theory of reduction a block is atomic if it is a sequence of right-movers, then at
//! most one step that is neither, then left-movers: then all of it can be moved together to that
//! one step, its *commit point*, in this and in every execution that differs only in the schedule.
//! So a block is checked by classifying its steps as they happen:
//!
//! | step | mover |
//! |---|---|
//! | acquire, `Woken`, `Join` | right |
//! | release, `Wait`, `Fork` | left |
//! | access that locks protect (Fig. 15), or to thread-local or read-shared data (Fig. 13) | both |
//! | lock operation that is re-entrant, on a thread-local or on a protected lock (4.3) | both |
//! | any other access | none |
//!
//! An atomic operation is an access like others: it is not a race, but it does not commute either.
//!
//! A violation is a step that is no left-mover, in a block that has committed. A finding names
//! where the block was entered, where it committed and where it was violated (Fig. 2).
//!
//! Which locks protect what is learned on the way. What is learned later does not change how
//! earlier steps were classified (4.2): doing better needs the whole execution, which is what
//! [`crate::reduction`] has.
//!
//! A lock is treated like a variable that is only written: it is thread-local until a third thread
//! uses it, and then *protected* while each operation on it happens under some common lock, because
//! then no two threads can want it at the same time.
//!
//! A wait blocks for others, so no block is atomic across it: after `Wait`, and after a barrier's
//! `Arrive`, each open block begins anew, as in [`crate::regions`].

mod annotations;
mod blocks;

pub use annotations::{AnnotationError, Annotations, OfFunction};

use crate::dense::slot;
use crate::engine::{Context, Engine, Occurrence, Stat};
use crate::eraser::Eraser;
use crate::held::{Change, Held};
use crate::locksets::{LocksetId, Locksets};
use crate::objects::Objects;
use crate::protecting::Protecting;
use crate::regions::Regions;
use annotations::Annotated;
use atomsan_trace::finding::{
    Anomaly, Criterion, Culprit, Finding, Participant, Role, Status, Step,
};
use atomsan_trace::spec::Atomic;
use atomsan_trace::{FunctionId, LockId, Names, Op, ThreadId, VarId};
use blocks::{Block, Blocks};
use std::collections::HashSet;

/// Which blocks are expected to be atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Heuristic {
    /// Labelled regions, and the functions that the specification calls atomic.
    #[default]
    Regions,
    /// *Export+Synch*: those (a trace does not say which functions are exported, so by default
    /// all but entry points), and each synchronised block: from acquiring a lock to releasing it.
    ExportSynch,
    /// *Synch*: synchronised blocks; of regions only labelled ones and functions that the
    /// specification or an annotation names.
    Synch,
}

/// How the Atomizer classifies, and what it checks. The switches are the columns of Fig. 18.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which blocks are expected to be atomic.
    pub heuristic: Heuristic,
    /// What the programmer says.
    pub annotations: Annotations,
    /// Re-entrant lock operations are both-movers.
    pub reentrant_locks: bool,
    /// Operations on locks that one thread uses are both-movers.
    pub thread_local_locks: bool,
    /// Also when such a lock was handed over to a second thread.
    pub thread_local_2_locks: bool,
    /// Operations on protected locks are both-movers.
    pub protected_locks: bool,
    /// A read under a write-protecting lock is a both-mover.
    pub write_protected_data: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            heuristic: Heuristic::default(),
            annotations: Annotations::default(),
            reentrant_locks: true,
            thread_local_locks: true,
            thread_local_2_locks: true,
            protected_locks: true,
            write_protected_data: true,
        }
    }
}

/// The locks under which another lock is always used.
#[derive(Clone, Copy, Debug)]
struct Guards(LocksetId);

impl Default for Guards {
    fn default() -> Self {
        Guards(LocksetId::ALL)
    }
}

/// The online reduction engine.
#[derive(Debug, Default)]
pub struct Atomizer {
    options: Options,
    annotated: Annotated,
    regions: Regions,
    held: Held,
    locksets: Locksets,
    objects: Objects,
    vars: Vec<Eraser<ThreadId, Protecting>>,
    locks: Vec<Eraser<ThreadId, Guards>>,
    threads: Vec<Blocks>,
    max_held: usize,
    violated: u64,
}

impl Atomizer {
    /// An engine with these options.
    pub fn new(options: Options) -> Self {
        Atomizer {
            annotated: Annotated::new(options.annotations.clone()),
            options,
            ..Atomizer::default()
        }
    }

    #[inline]
    fn access(&mut self, at: &Occurrence, var: VarId, cx: &mut Context<'_>) {
        let (thread, write) = (at.event.thread, at.event.op.writes());
        let state = slot(&mut self.vars, var.index());
        if state.is_virgin()
            && let Some(creator) = self.objects.enter(var, cx.names)
        {
            *state = Eraser::ThreadLocal(creator);
        }
        let Some(protecting) = state.access(thread, write, true, |_, _| false) else {
            return;
        };
        let held = self.held.locks(thread);
        let mover = if write {
            protecting.write(held, &mut self.locksets)
        } else {
            let read = protecting.read(held, &mut self.locksets);
            read && (self.options.write_protected_data || !protecting.access.is_empty())
        };
        if !mover && !self.annotated.guarded(var, cx.names) {
            self.not_left(at, cx);
            self.commit(at);
        }
    }

    fn lock_operation(&mut self, at: &Occurrence, quiet: bool, cx: &mut Context<'_>) {
        let event = &at.event;
        let change = self.held.step(at.index, event, &mut self.locksets);
        if quiet {
            return;
        }
        match change {
            Change::Acquired(lock) => {
                self.max_held = self.max_held.max(self.held.holds(event.thread).len());
                self.open_synchronised(at, lock);
                if !self.is_both_mover(event.thread, lock) {
                    self.not_left(at, cx);
                }
            }
            Change::Released(lock) => {
                let both = self.is_both_mover(event.thread, lock);
                if !both {
                    self.commit(at);
                }
            }
            Change::Reentered(_) if !self.options.reentrant_locks => self.not_left(at, cx),
            Change::Kept(_) if !self.options.reentrant_locks => self.commit(at),
            // Whoever acquires it next comes after this one.
            Change::NotHeld(_) => self.commit(at),
            _ => {}
        }
        if let (Change::Released(lock), false) = (change, matches!(event.op, Op::Wait(_))) {
            slot(&mut self.threads, event.thread.index()).released(lock);
        }
    }

    /// Whether an operation of the thread on a lock it did not hold before, or does not hold
    /// afterwards, cannot interact with other threads.
    fn is_both_mover(&mut self, thread: ThreadId, lock: LockId) -> bool {
        let options = &self.options;
        let state = slot(&mut self.locks, lock.index());
        let transfer = options.thread_local_2_locks;
        let Some(guards) = state.access(thread, true, transfer, |_, _| false) else {
            return options.thread_local_locks;
        };
        let held = self.held.locks(thread).exclusive;
        let others = self.locksets.without(held, lock);
        guards.0 = self.locksets.intersection(guards.0, others);
        options.protected_locks && !guards.0.is_empty()
    }

    fn open_synchronised(&mut self, at: &Occurrence, lock: LockId) {
        if self.options.heuristic == Heuristic::Regions {
            return;
        }
        let thread = at.event.thread;
        let frames = self.regions.frames(thread);
        let region = frames.last().map(|frame| frame.function);
        let blocks = slot(&mut self.threads, thread.index());
        if !blocks.synchronised(lock) {
            blocks.open(region, Some(lock), frames.len(), *at);
        }
    }

    fn frame(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let event = &at.event;
        self.regions.step(at.index, event, cx.names);
        let depth = self.regions.frames(event.thread).len();
        let (Op::Begin(function) | Op::Enter(function)) = event.op else {
            return slot(&mut self.threads, event.thread.index()).left(depth);
        };
        let annotation = self.annotated.function(function, cx.names);
        match annotation {
            Some(OfFunction::AssumeAtomic) => {
                self.not_left(at, cx);
                self.commit(at);
                slot(&mut self.threads, event.thread.index()).hide(depth);
            }
            Some(OfFunction::AssumeMover) => {
                slot(&mut self.threads, event.thread.index()).hide(depth);
            }
            Some(OfFunction::Atomic) | None => {
                if annotation.is_some() || self.is_atomic(event.thread, function, cx.names) {
                    slot(&mut self.threads, event.thread.index()).open(
                        Some(function),
                        None,
                        depth,
                        *at,
                    );
                }
            }
        }
    }

    /// Whether the frame that was just opened is expected to be atomic.
    fn is_atomic(&self, thread: ThreadId, function: FunctionId, names: &Names) -> bool {
        let Some(frame) = self.regions.frames(thread).last() else {
            return false;
        };
        let named = || names.function(function).map(|f| f.atomic) == Some(Atomic::Yes);
        frame.atomic && (self.options.heuristic != Heuristic::Synch || frame.block || named())
    }

    #[inline]
    fn commit(&mut self, at: &Occurrence) {
        if let Some(blocks) = self.threads.get_mut(at.event.thread.index()) {
            blocks.commit(at);
        }
    }

    /// The step is no left-mover: it must not happen in a block that has committed.
    #[inline]
    fn not_left(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let Some(blocks) = self.threads.get_mut(at.event.thread.index()) else {
            return;
        };
        for block in blocks.violate() {
            self.violated += 1;
            let commit = block.committed();
            let key = (
                block.region,
                block.synchronised.map(|_| block.entered.event.site),
                commit.event.site,
                at.event.site,
            );
            let names = cx.names;
            cx.findings.report(key, || finding(block, at, names));
        }
    }
}

impl Engine for Atomizer {
    fn name(&self) -> &'static str {
        "atomizer"
    }

    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let event = &at.event;
        let quiet = self.annotated.no_warn(event.site, cx.names);
        match event.op {
            Op::Read(var)
            | Op::Write(var)
            | Op::AtomicLoad(var)
            | Op::AtomicStore(var)
            | Op::AtomicRmw(var)
            | Op::AtomicRmwFailed(var)
                if !quiet =>
            {
                self.access(at, var, cx)
            }
            Op::Begin(_) | Op::End | Op::Enter(_) | Op::Exit(_) => self.frame(at, cx),
            Op::Acquire(_)
            | Op::AcquireShared(_)
            | Op::Release(_)
            | Op::ReleaseShared(_)
            | Op::Woken(_) => self.lock_operation(at, quiet, cx),
            Op::Wait(_) => {
                self.lock_operation(at, quiet, cx);
                slot(&mut self.threads, event.thread.index()).split();
            }
            Op::Arrive(_) | Op::Yield => slot(&mut self.threads, event.thread.index()).split(),
            Op::Fork(_) if !quiet => self.commit(at),
            Op::Join(_) if !quiet => self.not_left(at, cx),
            Op::Alloc(object) => {
                let vars = &mut self.vars;
                let forget = |var: VarId| vars[var.index()] = Eraser::Virgin;
                self.objects.alloc(object, event.thread, forget);
            }
            Op::Free(object) => {
                let vars = &mut self.vars;
                let forget = |var: VarId| vars[var.index()] = Eraser::Virgin;
                self.objects.free(object, forget);
            }
            _ => {}
        }
    }

    fn stats(&self) -> Vec<Stat> {
        let shared = || self.vars.iter().filter_map(Eraser::shared);
        let pairs: HashSet<&Protecting> = shared().collect();
        let racy = shared().filter(|pair| pair.access.is_empty()).count();
        let locks = self.locks.iter().filter(|lock| !lock.is_virgin()).count();
        let stat = |name, value| Stat { name, value };
        vec![
            stat("locks", locks as u64),
            stat("max locks held", self.max_held as u64),
            stat("lockset pairs", pairs.len() as u64),
            stat("shared variables", shared().count() as u64),
            stat("unprotected variables", racy as u64),
            stat("violated blocks", self.violated),
        ]
    }
}

fn finding(block: &Block, at: &Occurrence, names: &Names) -> Finding {
    let entered = block.entered;
    let commit = *block.committed();
    let steps = [
        (entered, Role::Entered),
        (commit, Role::Committed),
        (*at, Role::Violated),
    ];
    let mut notes = vec![
        format!("committed by {}", describe(commit.event.op, names)),
        format!("violated by {}", describe(at.event.op, names)),
    ];
    if let Some(lock) = block.synchronised {
        notes.push(format!("the block synchronised on {}", names.lock(lock)));
    }
    Finding {
        engine: "atomizer",
        criterion: Criterion::Reducibility,
        status: Status::Predicted,
        anomaly: Anomaly::NotReducible,
        culprit: Culprit {
            region: block.region,
            entered: entered.event.site,
            between: (commit.event.site, at.event.site),
        },
        participants: vec![Participant {
            thread: at.event.thread,
            region: block.region,
            entered: entered.event.site,
            blamed: true,
        }],
        witness: steps
            .map(|(step, role)| Step {
                participant: 0,
                index: step.index,
                event: step.event,
                stack: step.stack,
                role,
            })
            .into(),
        edges: Vec::new(),
        index: at.index,
        notes,
        count: 1,
    }
}

/// Why a step is not the mover that the block would need.
fn describe(op: Op, names: &Names) -> String {
    match op {
        Op::Read(x) | Op::AtomicLoad(x) | Op::AtomicRmwFailed(x) => {
            format!(
                "a read of {} without a write-protecting lock",
                names.var_name(x)
            )
        }
        Op::Write(x) | Op::AtomicStore(x) | Op::AtomicRmw(x) => {
            format!(
                "a write of {} without an access-protecting lock",
                names.var_name(x)
            )
        }
        Op::Acquire(l) | Op::AcquireShared(l) | Op::Woken(l) => {
            format!("acquiring {}", names.lock(l))
        }
        Op::Release(l) | Op::ReleaseShared(l) | Op::Wait(l) => {
            format!("releasing {}", names.lock(l))
        }
        Op::Fork(child) => format!("starting {}", names.thread(child)),
        Op::Join(child) => format!("joining {}", names.thread(child)),
        Op::Begin(f) | Op::Enter(f) => {
            format!("calling {}, assumed atomic", names.function_name(f))
        }
        other => format!("{other:?}"),
    }
}
