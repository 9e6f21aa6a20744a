//! The events of a program that is running, in bounded memory.
//!
//! A whole recording is passed over several times: what is shared, what atomic operations amount
//! to, what is handed over, and then what it means. Here every record takes the same steps, a
//! block at a time:
//!
//! ```text
//! record ──▶ sharing, atomics ──▶ queue ──▶ first pass ──▶ second pass ──▶ events
//!                                   └─ a window of what comes later ─┘
//! ```
//!
//! A record is translated when many more have come after it, or when it has waited for long enough
//! ([`Stream::tick`]), so that the question what comes next (is a load part of a compare-exchange,
//! is a word a lock, is memory shared) has its answer, as a rule. Both passes run over the same
//! block, one after the other, and each goes on where it was at the end of the block before: so
//! they name the same variables in the same order, as they do with a whole recording.
//!
//! # What differs from the whole recording
//!
//! What is found out later than the window holds for what comes then: accesses to memory before it
//! is shared, or while it seems to be handed over, are not events. Nothing is an event that is none
//! in the whole recording, but for reads and words whose meaning became clear too late.
//!
//! # Chapters
//!
//! Variables, locks and objects get new names as a program allocates, and engines keep something of
//! each. When there are too many, the stream starts over ([`Stream::start_over`]): the functions that
//! threads are in and the locks that they hold are told again, and what was before is forgotten.

use super::{
    Claims, Definition, Event, FxMap, Kind, LockId, Naming, Op, Record, Thread, Translator,
};
use crate::atomics::Follower;
use crate::cells::Cells;
use crate::handover::Survey;
use crate::order::Edges;
use crate::sharing::Sharing;
use crate::symbols::Symbols;
use crate::whose::Options;
use atomsan_trace::{Batch, SiteId, ThreadId};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use std::collections::{BTreeMap, VecDeque};

/// How many records come after one before it is translated, and how many are translated at once.
const WINDOW: usize = 1 << 15;

/// Makes events of records as they come.
#[derive(Debug)]
pub struct Stream {
    /// In the middle of the second pass, except while a block is translated.
    translator: Translator,
    first: Pass,
    survey: Survey,
    sharing: Sharing,
    slots: Vec<Slot>,
    edges: Edges,
    queue: VecDeque<(usize, Record)>,
    /// How many of them were there at the last tick.
    waited: usize,
    /// How many names there may be before the stream starts over.
    limit: usize,
    /// Threads that had been named when it did so last.
    threads: usize,
}

#[derive(Debug, Default)]
struct Slot {
    thread: u64,
    atomics: Follower,
}

/// What a pass is in the middle of.
#[derive(Debug, Default)]
struct Pass {
    threads: Vec<Thread>,
    locks: BTreeMap<u64, LockId>,
    lock_count: u32,
    guards: HashSet<u64, FxBuildHasher>,
    naming: Naming,
    object_count: u32,
    claims: Claims,
    cells: Cells,
}

impl Pass {
    /// Goes on with this pass, and puts the other one aside.
    fn swap(&mut self, translator: &mut Translator) {
        std::mem::swap(&mut self.threads, &mut translator.threads);
        std::mem::swap(&mut self.locks, &mut translator.locks);
        std::mem::swap(&mut self.lock_count, &mut translator.lock_count);
        std::mem::swap(&mut self.guards, &mut translator.guards);
        translator.naming.swap_memory(&mut self.naming);
        std::mem::swap(&mut self.object_count, &mut translator.object_count);
        std::mem::swap(&mut self.claims, &mut translator.claims);
        translator.cells.swap_memory(&mut self.cells);
    }
}

impl Stream {
    /// The events of a process with these names. It starts over when there are more than `limit`
    /// variables, locks, objects and threads.
    pub fn new(symbols: Symbols, options: Options, limit: usize) -> Stream {
        Stream {
            translator: Translator::new(symbols, Cells::default(), options),
            first: Pass::default(),
            survey: Survey::default(),
            sharing: Sharing::default(),
            slots: Vec::new(),
            edges: Edges::default(),
            queue: VecDeque::new(),
            waited: 0,
            limit,
            threads: 0,
        }
    }

    /// Takes the next record, in an order that respects the edges; edges are records too.
    pub fn push(&mut self, slot: usize, record: &Record) {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Slot::default);
        }
        let cells = &mut self.translator.cells;
        let Slot { thread, atomics } = &mut self.slots[slot];
        match record.kind {
            Kind::Edge | Kind::Alloc | Kind::Free => {}
            kind => {
                if matches!(kind, Kind::ThreadStart | Kind::Continue) {
                    *thread = record.subject;
                }
                atomics.step(cells.atomics_mut(), record);
                if let Some(range) = record.range() {
                    let taken = record.is_taken();
                    self.sharing.access(range, *thread, taken, cells);
                }
            }
        }
        self.queue.push_back((slot, *record));
    }

    /// The events of what has enough behind it, if that is worth it.
    pub fn take(&mut self) -> Option<Batch> {
        (self.queue.len() >= 2 * WINDOW).then(|| self.translate(self.queue.len() - WINDOW))
    }

    /// Some time has passed. The events of what was there the last time already.
    pub fn tick(&mut self) -> Batch {
        let batch = self.translate(self.waited);
        self.waited = self.queue.len();
        batch
    }

    /// The program has ended: all that is left.
    pub fn finish(&mut self) -> Batch {
        let mut batch = self.translate(self.queue.len());
        for slot in 0..self.translator.threads.len() {
            self.translator.catch_up(slot);
        }
        batch.events.append(&mut self.translator.take().events);
        batch
    }

    /// Translates so many records.
    fn translate(&mut self, count: usize) -> Batch {
        self.waited = self.waited.saturating_sub(count);
        if count == 0 {
            return Batch::default();
        }
        let news = self.sharing.take();
        self.first.cells.extend(&news);
        self.translator.cells.extend(&news);
        let spins: Vec<u64> = self.translator.cells.atomics().spins().collect();
        self.translator.note_spins(&spins);
        self.survey.grow(self.slots.len());
        self.edges.resize(self.slots.len());

        let mut queue = std::mem::take(&mut self.queue);
        self.first.swap(&mut self.translator);
        self.translator.survey = Some(std::mem::take(&mut self.survey));
        for (slot, record) in queue.iter().take(count) {
            self.pass_first(*slot, record);
        }
        self.conclude();
        self.first.swap(&mut self.translator);

        for (slot, record) in queue.drain(..count) {
            if record.kind != Kind::Edge {
                self.translator.record(slot, &record);
                if matches!(record.kind, Kind::AtomicLoad | Kind::AtomicRmwFailed) {
                    let atomics = self.translator.cells.atomics_mut();
                    atomics.forget(record.position);
                }
            }
        }
        self.queue = queue;
        self.translator.take()
    }

    fn pass_first(&mut self, slot: usize, record: &Record) {
        match record.kind {
            Kind::Edge => return self.edges.edge(slot, record.second as usize),
            // It is about names only.
            Kind::Member => return,
            _ => self.edges.record(slot),
        }
        if let Some(survey) = &mut self.translator.survey {
            survey.record(slot, record, self.edges.after(slot));
        }
        self.translator.record(slot, record);
        self.translator.batch.events.clear();
    }

    /// The first pass is at the end of a block. Of the names it has given, those stay that both
    /// passes share.
    fn conclude(&mut self) {
        let survey = self.translator.survey.take().unwrap_or_default();
        self.translator.findings = self.translator.found(&survey);
        self.survey = survey;
        self.translator.batch.definitions.retain(|definition| {
            matches!(
                definition,
                Definition::Thread(_) | Definition::Function(_) | Definition::Site(_)
            )
        });
    }

    /// Threads that were named after they were known, since the last time.
    pub fn take_renamed(&mut self) -> Vec<(ThreadId, String)> {
        self.translator.take_renamed()
    }

    /// Whether there are so many names that the stream should start over.
    pub fn is_full(&self) -> bool {
        let Translator {
            cells,
            lock_count,
            object_count,
            thread_ids,
            ..
        } = &self.translator;
        let names = (cells.vars() + lock_count + object_count) as usize;
        let threads = thread_ids.len() - self.threads;
        names + threads + self.survey.weight() >= self.limit
    }

    /// Forgets variables, locks and objects, which have other ids from now on. Returns the functions
    /// that threads are in and the locks that they hold, as events.
    pub fn start_over(&mut self) -> Batch {
        self.threads = self.translator.thread_ids.len();
        self.survey.start_over();
        for slot in &mut self.slots {
            slot.atomics.forget();
        }
        self.first.swap(&mut self.translator);
        self.translator.start_over(self.limit);
        self.translator.take();
        self.first.swap(&mut self.translator);
        self.translator.start_over(self.limit);
        self.translator.cells.forget_words();
        self.translator.take()
    }

    /// Whether a function of the user's is seen to call others of the user's.
    pub fn has_callees(&self, function: atomsan_trace::FunctionId) -> bool {
        self.translator.has_callees(function)
    }
}

impl Translator {
    fn start_over(&mut self, limit: usize) {
        let locks = std::mem::take(&mut self.locks).into_iter();
        let addresses: FxMap<LockId, u64> = locks.map(|(address, lock)| (lock, address)).collect();
        self.lock_count = 0;
        self.naming.forget_memory();
        self.object_count = 0;
        self.claims = Claims::default();
        self.blind.clear();
        self.owners.clear();
        self.annotations.forget_sets();
        self.cells.start_over(limit);
        for slot in 0..self.threads.len() {
            self.tell_again(slot, &addresses);
        }
    }

    /// Tells which functions a thread is in and which locks it holds.
    fn tell_again(&mut self, slot: usize, addresses: &FxMap<LockId, u64>) {
        let thread = &mut self.threads[slot];
        thread.looks = Default::default();
        let id = thread.id;
        let event = |op| Event {
            thread: id,
            site: SiteId::UNKNOWN,
            op,
        };
        // The last of them may not have been told yet.
        let open = thread.open.iter().flatten();
        let told = open.clone().count().saturating_sub(thread.entering.len());
        let enter = |&function| event(Op::Enter(function));
        self.batch.events.extend(open.take(told).map(enter));
        let held = std::mem::take(&mut thread.held);
        let mut shared = std::mem::take(&mut thread.shared);
        for old in held {
            let Some(&address) = addresses.get(&old) else {
                continue;
            };
            let lock = self.lock(address);
            let thread = &mut self.threads[slot];
            thread.held.push(lock);
            let op = match shared.iter().position(|&shared| shared == old) {
                Some(at) => {
                    shared.swap_remove(at);
                    thread.shared.push(lock);
                    Op::AcquireShared(lock)
                }
                None => Op::Acquire(lock),
            };
            self.batch.events.push(event(op));
        }
    }
}
