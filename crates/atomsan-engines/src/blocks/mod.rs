//! `blocks`: Wang and Stoller's block-based algorithm.
//!
//! Predicts violations that did not happen in the observed execution: could the threads, with the
//! same locks and the same starts, joins and barriers, have interleaved the same accesses so that
//! no serial execution of the transactions has the same view (each read the same write-predecessor,
//! each variable the same final write)? Instead of trying interleavings, what each transaction did
//! is boiled down to *blocks*, pairs of accesses with the locks around them, and blocks are
//! compared (`one`, `two`); only cyclic dependencies of three and more transactions are
//! searched for (`cyclic`).
//!
//! | strength | theorem | finds |
//! |---|---|---|
//! | [`Strength::OneVar`] | 3 | patterns on one variable |
//! | [`Strength::TwoVar`] | 4 | and those of two transactions on two variables |
//! | [`Strength::Cyclic`] | 5 | and cyclic dependencies of any number of transactions |
//!
//! # What is kept
//!
//! While a transaction runs, its 1v-blocks (`transaction`) and its `skeleton`; when it has ended,
//! what of them was not known yet (`table`). Everything else waits for the end of the trace, when
//! it is known which variables are shared at all. So cost and memory follow the number of distinct
//! blocks: a loop costs at the end what its first two turns cost.
//!
//! Start, join, barrier, wait and yield end a transaction in the middle of its region. Accesses outside of
//! all regions are transactions by themselves: they get between others, nothing gets between them.
//!
//! # The theorems and the truth
//!
//! The theorems are compared with an oracle that enumerates all traces of small sets. They were
//! proven for sets without potential for deadlock and for nested (`synchronized`) locks; the engine
//! counts potential deadlocks ([`crate::deadlocks`]) and says so in every finding if there are any.
//! Where the published theorems and the definition disagree:
//!
//! * *A later write can hide a violation.* `t: R W`, `t′: W`, and then another write of `t`'s thread:
//!   the pattern R W′ W is possible, yet every trace of all three is serializable, because nobody
//!   sees which write was overwritten last. Theorem 3 is wrong about the set but right about its
//!   subset {t, t′}. The engine takes the conservative side and reports: its verdict is that *some
//!   selection* of the transactions is not atomic.
//! * *A read of one's own write* between two writes is no violation (see `one`).
//! * With selections in mind, Theorem 5's test of each trace for view serializability (which is
//!   NP-complete) is the same as looking for a cycle of conflicts among initial reads, final
//!   writes and the order of threads (see `cyclic`).
//!
//! With locks that do not nest (hand over hand), an access may count as possible between two
//! others although at each moment some lock keeps it out: the locks held *all* the way are none.
//! That is reported, on the conservative side.

mod cyclic;
mod moments;
mod one;
mod report;
mod skeleton;
mod table;
mod transaction;
mod two;

use crate::deadlocks::{Deadlocks, GIVEN_UP, Potential};
use crate::engine::{Context, Engine, Occurrence, Stat};
use crate::escape::{Escape, Escapes};
use crate::held::{Change, Held, HeldLocks};
use crate::locksets::Locksets;
use crate::periods::{PeriodId, Periods};
use crate::regions::{Boundary, Regions};
use atomsan_trace::{FunctionId, Names, Op, ThreadId, VarId};
use hashbrown::HashMap;
use moments::Moments;
use rustc_hash::FxBuildHasher;
use skeleton::{Piece, Spot};
use table::{BlockTable, Entry, KindTable, Mark, Owner};
pub use transaction::{Access, Block};
use transaction::{Running, dummy};

const NAME: &str = "blocks";

/// Which theorem decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Strength {
    /// Theorem 3: one variable at a time.
    OneVar,
    /// Theorem 4: two transactions at a time.
    #[default]
    TwoVar,
    /// Theorem 5: cyclic dependencies of any number of transactions.
    Cyclic,
}

/// What may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Which theorem decides.
    pub strength: Strength,
    /// How many comparisons and trace prefixes the checks of several variables may try, in all; and how
    /// many the check of each single one, and a few times as many all of these.
    pub limit: u64,
    /// How much may be kept of distinct blocks, in words of 4 bytes; half as much of distinct transactions.
    pub room: usize,
    /// Forget what happens to objects before they escape.
    pub escape: bool,
    /// Use the order of thread periods.
    pub happen_before: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            strength: Strength::default(),
            limit: 20_000_000,
            room: 48 << 20,
            escape: true,
            happen_before: true,
        }
    }
}

/// The engine.
#[derive(Debug)]
pub struct Blocks {
    options: Options,
    regions: Regions,
    held: Held,
    locksets: Locksets,
    periods: Periods,
    /// Unary accesses seen lately, of all threads (a period is of one); repeating one of them adds nothing.
    lately: Vec<Option<Lately>>,
    escapes: Escapes,
    deadlocks: Deadlocks,
    threads: Vec<Thread>,
    table: BlockTable,
    kinds: KindTable,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Thread {
    running: Option<Running>,
    /// A transaction that has ended, kept for its memory.
    spare: Option<Running>,
    moments: Moments,
}

/// An access outside of all regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lately {
    var: VarId,
    reads: bool,
    writes: bool,
    held: HeldLocks,
    period: PeriodId,
}

/// How many variables may cost as much as one may.
const VARS: u64 = 10;

/// How many unary accesses are remembered; a power of two.
const LATELY: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    transactions: u64,
    local: u64,
    blocks: u64,
    shared: u64,
    compared: u64,
    pairs: u64,
    prefixes: u64,
    limit_reached: bool,
    deadlocks: u64,
    /// There may be more of those.
    given_up: bool,
}

/// What the checks share.
#[derive(Debug)]
struct Search<'a> {
    periods: &'a Periods,
    locksets: &'a mut Locksets,
    notes: Vec<String>,
    compared: u64,
    tried: u64,
    left: u64,
    exhausted: bool,
}

impl Search<'_> {
    /// Pays for work; says whether there was enough left.
    fn spend(&mut self, amount: u64) -> bool {
        self.tried += amount;
        match self.left.checked_sub(amount) {
            Some(left) => self.left = left,
            None => self.exhausted = true,
        }
        !self.exhausted
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks::new(Options::default())
    }
}

impl Blocks {
    /// An engine with these options.
    pub fn new(options: Options) -> Self {
        Blocks {
            regions: Regions::default(),
            held: Held::default(),
            locksets: Locksets::default(),
            periods: Periods::default(),
            lately: Vec::new(),
            escapes: Escapes::default(),
            deadlocks: Deadlocks::default(),
            threads: Vec::new(),
            table: BlockTable::new(options.room),
            kinds: KindTable::new(options.room / 2),
            counts: Counts::default(),
            options,
        }
    }

    /// The distinct 1v-blocks so far, of transactions that have ended, with their variables and
    /// periods.
    pub fn blocks(&self) -> impl Iterator<Item = (VarId, Block, &[PeriodId])> {
        (self.table.uses.iter()).map(|u| (u.var, u.found.block, &u.periods[..]))
    }

    /// The sets of locks that blocks refer to.
    pub fn locksets(&self) -> &Locksets {
        &self.locksets
    }

    /// The potential deadlocks. If there are any, the theorems may report too much.
    pub fn potential_deadlocks(&self) -> Potential {
        self.deadlocks.potential(&self.periods, &self.locksets)
    }

    fn thread(&mut self, thread: ThreadId) -> &mut Thread {
        if self.threads.len() <= thread.index() {
            self.threads
                .resize_with(thread.index() + 1, Thread::default);
        }
        &mut self.threads[thread.index()]
    }

    fn begin(&mut self, thread: ThreadId, region: FunctionId, entered: Entry, start: u64) {
        let whole = self.options.strength == Strength::Cyclic;
        let thread = self.thread(thread);
        let spare = thread.spare.take();
        let mut running = spare.unwrap_or_else(|| Running::new(whole));
        running.start(region, entered, start, thread.moments.held());
        thread.running = Some(running);
    }

    /// Ends the running transaction, and returns its region and where that was entered.
    fn end(&mut self, thread: ThreadId) -> Option<(FunctionId, Entry)> {
        let mut running = self.thread(thread).running.take()?;
        let (region, entered) = (running.region, running.entered);
        if running.vars() > 0 {
            self.counts.transactions += 1;
            let period = self.periods.current(thread);
            let owner = Owner {
                thread,
                region: Some(region),
            };
            running.blocks(|var, found| self.table.add(var, owner, entered, period, found));
            let needed = match self.options.strength {
                Strength::OneVar => usize::MAX,
                Strength::TwoVar => 2,
                Strength::Cyclic => 1,
            };
            if running.vars() >= needed {
                let execution = (period, running.start);
                self.kinds
                    .add(owner, entered, execution, running.skeleton());
            }
        }
        self.thread(thread).spare = Some(running);
        Some((region, entered))
    }

    /// A thread's transaction ends here and another one of the same region begins.
    fn split(&mut self, thread: ThreadId, at: &Occurrence) {
        if let Some((region, entered)) = self.end(thread) {
            self.begin(thread, region, entered, at.index);
        }
    }

    fn lock_operation(&mut self, at: &Occurrence) {
        let thread = at.event.thread;
        let before = self.held.locks(thread);
        if let Op::Acquire(lock) | Op::AcquireShared(lock) | Op::Woken(lock) = at.event.op {
            let holds = self.held.holds(thread);
            if holds.iter().any(|hold| hold.lock != lock)
                && !holds.iter().any(|hold| hold.lock == lock)
            {
                let exclusive = !matches!(at.event.op, Op::AcquireShared(_));
                let period = self.periods.current(thread);
                self.deadlocks
                    .acquire(at, (lock, exclusive), before, period);
            }
        }
        let change = self.held.step(at.index, &at.event, &mut self.locksets);
        if let Change::Acquired(lock) | Change::Released(lock) = change {
            self.thread(thread);
            let Thread {
                running, moments, ..
            } = &mut self.threads[thread.index()];
            let held = self.held.locks(thread);
            moments.change(lock, self.held.holds(thread), held);
            if let Some(running) = running {
                running.held(held);
            }
        }
    }

    #[inline]
    fn access(&mut self, at: &Occurrence, var: VarId, names: &Names) {
        let id = at.event.thread;
        self.thread(id);
        let thread = &mut self.threads[id.index()];
        let Some(running) = &mut thread.running else {
            return self.unary(at, var, names);
        };
        // What the transaction has accessed before was not local then.
        if self.options.escape
            && !running.knows(var)
            && self.escapes.touch(id, var, names) == Escape::Local
        {
            self.counts.local += 1;
            return;
        }
        let now = (&thread.moments, self.regions.frames(id));
        running.access(var, at, now, &mut self.locksets);
    }

    fn unary(&mut self, at: &Occurrence, var: VarId, names: &Names) {
        let id = at.event.thread;
        let period = self.periods.current(id);
        let thread = &self.threads[id.index()];
        let held = thread.moments.held();
        let (reads, writes) = (at.event.op.reads(), at.event.op.writes());
        let access = Lately {
            var,
            reads,
            writes,
            held,
            period,
        };
        // With cycles in mind, when it happened last counts as well.
        let remember = self.options.strength < Strength::Cyclic;
        let spread = id.index().wrapping_mul(0x9e37_79b9) >> 8;
        let place = (2 * var.index() + usize::from(writes) + spread) % LATELY;
        if remember && self.lately.get(place) == Some(&Some(access)) {
            return;
        }
        if self.options.escape && self.escapes.touch(id, var, names) == Escape::Local {
            self.counts.local += 1;
            return;
        }
        if remember {
            if self.lately.is_empty() {
                self.lately = vec![None; LATELY];
            }
            self.lately[place] = Some(access);
        }
        let owner = Owner {
            thread: id,
            region: None,
        };
        let spot = Spot::of(at);
        let entered = Entry {
            site: at.event.site,
            calls: 0,
        };
        let halves = [(reads, Access::Read), (writes, Access::Write)];
        for (_, half) in halves.into_iter().filter(|(does, _)| *does) {
            let found = dummy(half, held, spot);
            self.table.add(var, owner, entered, period, &found);
        }
        if self.options.strength == Strength::Cyclic {
            let skeleton = [
                (Piece::Held(held), spot),
                (Piece::Access { var, reads, writes }, spot),
            ];
            self.kinds
                .add(owner, entered, (period, at.index), &skeleton);
        }
    }

    /// The variables that concurrent transactions share, one of them writing. Everything else
    /// cannot be part of a violation.
    fn check_vars(
        &mut self,
        notes: Vec<String>,
        cx: &mut Context<'_>,
    ) -> HashMap<VarId, Mark, FxBuildHasher> {
        let mut marks = HashMap::default();
        let all = self.options.limit.saturating_mul(VARS);
        let uses = self.table.close();
        let mut search = Search {
            periods: &self.periods,
            locksets: &mut self.locksets,
            notes,
            compared: 0,
            tried: 0,
            left: 0,
            exhausted: false,
        };
        for uses in uses.chunk_by(|a, b| a.var == b.var) {
            let left = all.saturating_sub(search.tried);
            (search.left, search.exhausted) = (self.options.limit.min(left), false);
            let blocks = uses.chunk_by(|a, b| a.found.block == b.found.block);
            self.counts.blocks += blocks.count() as u64;
            let Some(mark) = table::mark(uses, &self.periods) else {
                continue;
            };
            marks.insert(uses[0].var, mark);
            one::check(uses, &mut search, cx);
            self.counts.limit_reached |= search.exhausted;
            if cx.findings.full() {
                break;
            }
        }
        self.counts.compared += search.compared;
        self.counts.shared = marks.len() as u64;
        marks
    }
}

impl Engine for Blocks {
    fn name(&self) -> &'static str {
        NAME
    }

    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let thread = at.event.thread;
        match at.event.op {
            Op::Read(var)
            | Op::Write(var)
            | Op::AtomicLoad(var)
            | Op::AtomicStore(var)
            | Op::AtomicRmw(var)
            | Op::AtomicRmwFailed(var) => self.access(at, var, cx.names),
            Op::Begin(_) | Op::End | Op::Enter(_) | Op::Exit(_) => {
                let boundary = self.regions.step(at.index, &at.event, cx.names);
                let calls = self.regions.calls(thread);
                match boundary {
                    Boundary::Begin(region) => {
                        let (site, calls) = (at.event.site, calls as u32);
                        self.begin(thread, region, Entry { site, calls }, at.index);
                    }
                    Boundary::End => {
                        self.end(thread);
                    }
                    _ => {
                        if let Some(running) = &mut self.thread(thread).running {
                            running.calls(calls);
                        }
                    }
                }
            }
            Op::Fork(_) | Op::Join(_) | Op::Arrive(_) | Op::Leave(_) => {
                self.split(thread, at);
                if let Op::Fork(child) | Op::Join(child) = at.event.op {
                    // A thread that runs already, or still, goes on in another period.
                    self.split(child, at);
                }
                if self.options.happen_before {
                    self.periods.step(&at.event);
                }
                self.escapes.step(&at.event, cx.names);
            }
            Op::Wait(_) => {
                self.split(thread, at);
                self.lock_operation(at);
            }
            Op::Acquire(_)
            | Op::Release(_)
            | Op::AcquireShared(_)
            | Op::ReleaseShared(_)
            | Op::Woken(_) => self.lock_operation(at),
            Op::Alloc(_) | Op::Free(_) | Op::RefStore { .. } => {
                self.escapes.step(&at.event, cx.names);
            }
            Op::Yield => self.split(thread, at),
            Op::Notify(_) => {}
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        for thread in 0..self.threads.len() {
            self.end(ThreadId(thread as u32));
        }
        self.threads = Vec::new();
        let potential = self.potential_deadlocks();
        let deadlocks = potential.cycles.len() as u64;
        self.counts.deadlocks = deadlocks;
        self.counts.given_up = potential.given_up;
        let mut notes = Vec::new();
        if deadlocks > 0 {
            notes.push(format!(
                "the locks can deadlock ({deadlocks} cycles), so this prediction may be wrong"
            ));
        }
        let marks = self.check_vars(notes.clone(), cx);
        if self.options.strength == Strength::OneVar || cx.findings.full() {
            return;
        }
        let mut search = Search {
            periods: &self.periods,
            locksets: &mut self.locksets,
            notes,
            compared: 0,
            tried: 0,
            left: self.options.limit,
            exhausted: false,
        };
        let sketches = two::sketches(
            &self.kinds,
            &marks,
            Mark::BetweenRegions,
            false,
            search.locksets,
        );
        two::check(&sketches, &mut search, cx);
        self.counts.pairs = search.tried;
        if self.options.strength == Strength::Cyclic && !cx.findings.full() {
            let sketches = two::sketches(&self.kinds, &marks, Mark::Shared, true, search.locksets);
            cyclic::check(&sketches, &mut search, cx);
        }
        self.counts.prefixes = search.tried - self.counts.pairs;
        self.counts.limit_reached |= search.exhausted;
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.counts.limit_reached {
            remarks.push(format!(
                "the limit of {} was reached, so violations may be missing; raise --limit",
                self.options.limit
            ));
        }
        let left_out = self.table.left_out() + self.kinds.left_out();
        if left_out > 0 {
            remarks.push(format!(
                "the program does too many different things to compare all of them: {left_out} \
                 were left out, so violations may be missing"
            ));
        }
        if self.counts.given_up {
            remarks.push(GIVEN_UP.to_owned());
        }
        remarks
    }

    fn stats(&self) -> Vec<Stat> {
        let counts = &self.counts;
        [
            ("transactions", counts.transactions),
            ("distinct transactions", self.kinds.kinds.len() as u64),
            ("accesses before escape", counts.local),
            ("1v-blocks", counts.blocks),
            ("shared variables", counts.shared),
            ("thread periods", self.periods.len() as u64),
            ("pieces of clocks", self.periods.clock_pieces() as u64),
            ("potential deadlocks", counts.deadlocks),
            ("1v-block comparisons", counts.compared),
            ("2v-block comparisons", counts.pairs),
            ("trace prefixes tried", counts.prefixes),
            ("limit reached", u64::from(counts.limit_reached)),
            ("left out", self.table.left_out() + self.kinds.left_out()),
        ]
        .map(|(name, value)| Stat { name, value })
        .into()
    }
}
