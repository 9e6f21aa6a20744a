//! A recording as events, with the names they use.
//!
//! The records come in a legal order ([`crate::order`]). What is added here is meaning: which
//! functions are the user's, so that they become regions; which atomic operations are locks
//! ([`crate::models`]); which bytes are variables ([`crate::cells`]); what everything is called
//! ([`crate::symbols`]). Calls are followed in [`calls`].
//!
//! # What is initialised once
//!
//! The initialisation of a C++ static, of a Rust `OnceLock`, by `pthread_once`, is before every use
//! in every schedule. No event says that, so that engines which look at other schedules would
//! take it for a conflict; the accesses of an initialiser are left out.

mod annotations;
mod calls;
mod looks;
mod naming;
mod sections;
mod stream;

use crate::cells::Cells;
use crate::file::{Record, Recording};
use crate::format::{GUARD, Kind};
use crate::handover::{HandedOver, Survey};
use crate::models::{Change, Family, Step};
use crate::order::Order;
use crate::positions::Positions;
use crate::symbols::{Frame, Symbols};
use crate::whose::Options;
use annotations::Annotations;
use atomsan_trace::names::{self, Definition};
use atomsan_trace::{Batch, Event, FunctionId, LockId, Op, SiteId, ThreadId, VarId};
use hashbrown::{HashMap, HashSet};
use looks::{Looks, Repeated};
use naming::Naming;
use rustc_hash::FxBuildHasher;
use sections::Sections;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
pub use stream::Stream;

type FxMap<K, V> = HashMap<K, V, FxBuildHasher>;

/// A chain of calls: a function on top of another chain. Chains that nothing tells apart are the same
/// one, so there are no more of them than places in the program, however deep it recurses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Node {
    /// The function, if it is the user's.
    function: Option<FunctionId>,
    /// Where in the user's code the chain is, and what synchronisation it is in.
    place: Place,
    /// The outermost function of the chain that is neither the user's nor the toolchain's.
    foreign: Option<FunctionId>,
    /// An address in the function.
    code: u64,
    /// Where it was called: the chain, and the return address.
    caller: (u32, u64),
}

/// What is known of a place in a chain of calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Place {
    site: SiteId,
    family: Option<Family>,
    /// The innermost and the outermost function of a lock that it is in, of those known by name.
    step: Option<(Step, Step)>,
    /// The user's functions that are inlined there: an index into the table of these.
    inlined: u32,
    /// The line in the user's code.
    line: u32,
    /// The place in the source, with everything that is inlined.
    location: u32,
    /// Whether it is in a function that waits for other threads ([`waits`](crate::models::waits)).
    waits: bool,
    /// Whether it is in a function that deals with a scope of threads ([`scopes`](crate::models::scopes)).
    scopes: bool,
    /// Whether it takes several locks, in any order ([`attempts`](crate::models::attempts)).
    attempts: bool,
}

/// An operation, for finding out that it is repeated: its place, kind and subject.
type Operation = (u32, u8, u64);

/// A function that is being executed, and what is inlined into it.
#[derive(Debug, Default)]
struct Call {
    node: u32,
    /// So many more calls like this one are below it, of which nothing is known.
    unnamed: u64,
    /// The lowest address of its frame; 0 if unknown.
    frame: u64,
    inlined: u32,
    line: u32,
    /// What was done since the inlined functions were entered.
    seen: HashSet<Operation, FxBuildHasher>,
}

const ROOT: u32 = 0;
/// How many atomic variables are remembered that a thread accesses in a region.
const TOUCHED: usize = 64;

#[derive(Debug, Default)]
struct Thread {
    id: ThreadId,
    /// The upper end of its stack.
    stack_end: u64,
    stack: Vec<Call>,
    /// The functions of the user's that it is in; `None` for one that is part of another.
    open: Vec<Option<FunctionId>>,
    /// The regions that the program has begun: how many functions were open then.
    blocks: Vec<usize>,
    /// The bottom-most of them.
    entry: Option<FunctionId>,
    /// Whether nothing has been entered since, so that it may be the closure of a test.
    held_back: bool,
    /// The `Enter` of the last of the functions that are open, until something happens in them.
    entering: Vec<Event>,
    /// Locks held together with others, and how often.
    shared: Vec<LockId>,
    /// How many things it initialises that are initialised once.
    initialising: u32,
    /// A lock that it has as soon as it does anything else.
    acquiring: Option<(u64, SiteId, Change)>,
    /// Nothing has happened since it was said that the thread waits.
    waiting: bool,
    /// The locks it holds, of either kind, as often as it holds them.
    held: Vec<LockId>,
    /// Those that an implementation has let go of and will take again before it returns.
    lent: Vec<LockId>,
    /// Locks that it has taken in an attempt to take several, which may be given up.
    attempted: Vec<(u64, SiteId)>,
    /// Whether it is in such an attempt.
    attempting: bool,
    /// Looks at atomic variables that have not led to anything yet (see [`looks`]).
    looks: Looks,
    /// Atomic variables that it has accessed in the region it is in; see [`Translator::free`].
    touched: Vec<VarId>,
    /// Its critical sections.
    sections: Sections,
    /// The threads it has started that end before a scope does, each with the number of
    /// functions that it was in.
    scoped: Vec<(usize, u64)>,
}

impl Thread {
    /// Something happens in the functions that the thread is in: they are entered now at the latest.
    fn arrive(&mut self, batch: &mut Batch) {
        batch.events.append(&mut self.entering);
        self.held_back = false;
    }
}

/// Makes events of records, one after the other.
pub struct Translator {
    options: Options,
    symbols: Symbols,
    cells: Cells,
    threads: Vec<Thread>,
    thread_ids: FxMap<u64, ThreadId>,
    locks: BTreeMap<u64, LockId>,
    lock_count: u32,
    /// Addresses of the guards of statics in C++.
    guards: HashSet<u64, FxBuildHasher>,
    functions: HashMap<Box<str>, FunctionId, FxBuildHasher>,
    function_names: Vec<Box<str>>,
    sites: HashMap<Vec<names::Frame>, SiteId, FxBuildHasher>,
    /// The sites of writes after a second look, by the site and that of the look.
    sites_again: FxMap<(SiteId, SiteId), SiteId>,
    object_count: u32,
    naming: Naming,
    nodes: Vec<Node>,
    node_ids: HashMap<Node, u32, FxBuildHasher>,
    children: FxMap<(u32, u64, u64), u32>,
    /// Chains of inlined functions, outermost first, with the place of each call; the first one is
    /// empty.
    inlined: Vec<Vec<(FunctionId, SiteId)>>,
    inlined_ids: HashMap<Vec<(FunctionId, SiteId)>, u32, FxBuildHasher>,
    locations: HashMap<Rc<[Frame]>, u32, FxBuildHasher>,
    places: FxMap<(u32, u64), Place>,
    /// Places in the source at which threads spin.
    spinning: HashSet<u32, FxBuildHasher>,
    /// In the first pass: what is found out for the second.
    survey: Option<Survey>,
    repeated: Vec<Repeated>,
    /// In the first pass: positions of frees that are not ordered after a use.
    freed_in_use: Positions,
    findings: Findings,
    annotations: Annotations,
    batch: Batch,
}

/// An iterator over the events of a recording.
#[derive(Debug)]
pub struct Events<'a> {
    recording: &'a Recording,
    order: Order<'a>,
    translator: Translator,
}

/// What the first pass has found out.
#[derive(Debug, Default)]
struct Findings {
    /// Variables that need no check, if the cells do not know.
    handed_over: HandedOver,
    /// Positions of looks that were repeated under a lock.
    repeated: Positions,
    /// Positions of frees that are not ordered after a use.
    freed_in_use: Positions,
}

impl std::fmt::Debug for Translator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Translator")
            .field("cells", &self.cells)
            .finish_non_exhaustive()
    }
}

/// How many events a batch has, more or less.
const BATCH: usize = 4096;

impl<'a> Events<'a> {
    /// The events of a recording.
    pub fn new(recording: &'a Recording, options: Options) -> Events<'a> {
        let (symbols, cells) = (Symbols::new(recording), Cells::new(recording));
        let mut first = Translator::new(symbols, cells, options);
        first.survey(recording, |batch| batch.definitions.clear());
        first.conclude_survey();
        Events {
            recording,
            order: Order::new(recording),
            translator: first.again(),
        }
    }

    /// The same events once more. What was found out about the recording is not worked out again.
    #[must_use]
    pub fn again(self) -> Events<'a> {
        Events {
            order: Order::new(self.recording),
            translator: self.translator.again(),
            ..self
        }
    }

    /// How many bytes were accessed that are not looked at, because there were too many.
    pub fn left_out(&self) -> u64 {
        self.translator.cells.left_out()
    }
}

impl Translator {
    /// Translates records of a process with these names; the cells are those of all records that
    /// come.
    pub fn new(symbols: Symbols, cells: Cells, options: Options) -> Translator {
        let annotations = Annotations::new(&symbols);
        let mut translator = Translator {
            options,
            symbols,
            cells,
            threads: Vec::new(),
            thread_ids: FxMap::default(),
            locks: BTreeMap::new(),
            lock_count: 0,
            guards: HashSet::default(),
            functions: HashMap::default(),
            function_names: Vec::new(),
            sites: HashMap::default(),
            sites_again: FxMap::default(),
            object_count: 0,
            naming: Naming::default(),
            nodes: vec![Node::default()],
            node_ids: std::iter::once((Node::default(), ROOT)).collect(),
            children: FxMap::default(),
            inlined: vec![Vec::new()],
            inlined_ids: HashMap::default(),
            locations: HashMap::default(),
            places: FxMap::default(),
            spinning: HashSet::default(),
            survey: None,
            repeated: Vec::new(),
            freed_in_use: Positions::default(),
            findings: Findings::default(),
            annotations,
            batch: Batch::default(),
        };
        let spins: Vec<u64> = translator.cells.atomics().spins().collect();
        translator.note_spins(&spins);
        translator.find_not_atomic();
        translator
    }

    /// A translator of the same recording that has not seen anything of it yet.
    fn again(mut self) -> Translator {
        self.cells.restart();
        Translator {
            findings: self.findings,
            naming: self.naming.again(),
            ..Translator::new(self.symbols, self.cells, self.options)
        }
    }

    fn function(&mut self, name: &str) -> FunctionId {
        if let Some(&id) = self.functions.get(name) {
            return id;
        }
        let id = FunctionId(self.functions.len() as u32);
        self.functions.insert(name.into(), id);
        self.function_names.push(name.into());
        self.batch
            .definitions
            .push(Definition::Function(name.into()));
        id
    }

    fn site(&mut self, frames: &[Frame]) -> SiteId {
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| names::Frame {
                function: Some(self.function(&frame.function)),
                file: (&*frame.file).into(),
                line: frame.line,
                column: frame.column,
            })
            .collect();
        if let Some(&id) = self.sites.get(&frames) {
            return id;
        }
        let id = self.new_site(frames.clone(), None);
        self.sites.insert(frames, id);
        id
    }

    fn new_site(&mut self, frames: Vec<names::Frame>, looked_again: Option<SiteId>) -> SiteId {
        self.naming.site(&frames);
        let known = self.sites.len() + self.sites_again.len();
        self.batch.definitions.push(Definition::Site(names::Site {
            frames,
            looked_again,
        }));
        SiteId(known as u32 + 1)
    }

    /// The site of a write after a second look.
    fn site_again(&mut self, site: SiteId, look: SiteId) -> SiteId {
        if let Some(&again) = self.sites_again.get(&(site, look)) {
            return again;
        }
        let mut known = self.sites.iter();
        let Some((frames, _)) = known.find(|(_, id)| **id == site) else {
            return site;
        };
        let again = self.new_site(frames.clone(), Some(look));
        self.sites_again.insert((site, look), again);
        again
    }

    /// What a thread has to say before anything else.
    fn catch_up(&mut self, slot: usize) {
        if !self.threads[slot].attempting {
            for (lock, site) in std::mem::take(&mut self.threads[slot].attempted) {
                self.change(slot, site, lock, Change::Acquire);
            }
        }
        if let Some((lock, site, change)) = self.threads[slot].acquiring.take() {
            self.change(slot, site, lock, change);
        }
    }

    /// An atomic operation in a function of a lock that is known by its name.
    fn step(&mut self, slot: usize, site: SiteId, record: &Record, step: Step) {
        let lock = record.subject;
        match step {
            // The first operation is on the lock itself; others may be on what threads wait in.
            Step::Lock(change) => {
                let acquiring = &mut self.threads[slot].acquiring;
                acquiring.get_or_insert((lock, site, change));
            }
            Step::TryLock(change) if record.kind == Kind::AtomicRmw => {
                self.change(slot, site, lock, change);
            }
            Step::Unlock(change) if record.kind != Kind::AtomicLoad => {
                self.change(slot, site, lock, change);
            }
            _ => {}
        }
    }

    fn emit(&mut self, slot: usize, site: SiteId, op: Op) {
        self.catch_up(slot);
        let thread = &mut self.threads[slot];
        thread.arrive(&mut self.batch);
        thread.waiting = false;
        match op {
            Op::Acquire(lock) | Op::AcquireShared(lock) => thread.held.push(lock),
            Op::Release(lock) | Op::ReleaseShared(lock) => {
                if let Some(at) = thread.held.iter().rposition(|&held| held == lock) {
                    thread.held.remove(at);
                }
            }
            _ => {}
        }
        if self.survey.is_none() {
            thread.sections.step(op);
        }
        self.batch.events.push(Event {
            thread: thread.id,
            site,
            op,
        });
    }

    /// The thread waits for others: every region that it is in is split here.
    fn split(&mut self, slot: usize, site: SiteId) {
        let thread = &self.threads[slot];
        if !thread.waiting && thread.acquiring.is_none() {
            self.emit(slot, site, Op::Yield);
            self.threads[slot].waiting = true;
        }
    }

    fn access(
        &mut self,
        slot: usize,
        site: SiteId,
        position: u64,
        range: Range<u64>,
        op: impl Fn(VarId) -> Op,
    ) {
        self.catch_up(slot);
        let mut new = Vec::new();
        let thread = &mut self.threads[slot];
        (thread.waiting, thread.held_back) = (false, false);
        let (survey, findings) = (&mut self.survey, &self.findings);
        let (repeated, batch) = (&mut self.repeated, &mut self.batch);
        let (mut looked_again, mut first) = (None, None);
        self.cells.touch(range, |var, address, is_new| {
            let op = op(var);
            if let Some(survey) = survey {
                let Thread { held, looks, .. } = &mut *thread;
                survey.access(slot, var, op.writes(), !op.is_atomic(), held);
                repeated.extend(looks.step(op, position, held));
                return;
            }
            if is_new {
                new.push(address);
            }
            let repeated = op.is_atomic() && findings.repeated.contains(position);
            let checked =
                !repeated && var != Cells::LEFT_OUT && !findings.handed_over.contains(var);
            let look = thread.sections.access(op, address, site, checked);
            if !checked {
                return;
            }
            looked_again = looked_again.or(look);
            thread.arrive(batch);
            if op.is_atomic() && thread.touched.len() < TOUCHED {
                thread.touched.push(var);
            }
            first.get_or_insert(batch.events.len());
            batch.events.push(Event {
                thread: thread.id,
                site,
                op,
            });
        });
        if let Some((look, first)) = looked_again.zip(first) {
            let again = self.site_again(site, look);
            let events = self.batch.events[first..].iter_mut();
            events.for_each(|event| event.site = again);
        }
        for address in new {
            self.define_var(address);
        }
    }

    /// An operation inside of synchronisation: the word at the address changed.
    fn change(&mut self, slot: usize, site: SiteId, address: u64, change: Change) {
        let lock = self.lock(address);
        match change {
            Change::Acquire => self.emit(slot, site, Op::Acquire(lock)),
            Change::Release => self.release(slot, site, lock),
            Change::AcquireShared => self.acquire_shared(slot, site, lock),
            Change::ReleaseShared => self.release_shared(slot, site, lock),
            Change::Downgrade => {
                self.release(slot, site, lock);
                self.acquire_shared(slot, site, lock);
            }
        }
    }

    fn acquire_shared(&mut self, slot: usize, site: SiteId, lock: LockId) {
        self.threads[slot].shared.push(lock);
        self.emit(slot, site, Op::AcquireShared(lock));
    }

    fn release_shared(&mut self, slot: usize, site: SiteId, lock: LockId) {
        let shared = &mut self.threads[slot].shared;
        if let Some(at) = shared.iter().rposition(|&held| held == lock) {
            shared.swap_remove(at);
        }
        self.emit(slot, site, Op::ReleaseShared(lock));
    }

    /// A release of either kind: libc has one function for both.
    fn release(&mut self, slot: usize, site: SiteId, lock: LockId) {
        if self.threads[slot].shared.contains(&lock) {
            self.release_shared(slot, site, lock);
        } else {
            self.emit(slot, site, Op::Release(lock));
        }
    }

    fn start_thread(&mut self, slot: usize, record: &Record) {
        if self.threads.len() <= slot {
            self.threads.resize_with(slot + 1, Thread::default);
        }
        // What was open before a gap has been left in it, for all we know.
        if record.kind == Kind::Continue {
            self.leave_all(slot);
        }
        let id = self.thread_id(record.subject);
        let [low, size] = record.extra;
        let stack = low..low.saturating_add(size);
        self.threads[slot] = Thread {
            id,
            stack_end: stack.end,
            ..Thread::default()
        };
        if record.kind == Kind::ThreadStart {
            self.renew(&stack);
        }
        self.note_stack(slot, record.subject, &stack);
    }

    /// Memory is new: its variables so far are not accessed any more.
    fn renew(&mut self, range: &Range<u64>) {
        let survey = &mut self.survey;
        self.cells.renew(range, |var| {
            if let Some(survey) = survey {
                survey.forget(var);
            }
        });
    }

    fn note_spins(&mut self, at: &[u64]) {
        for &pc in at {
            let location = self.location(pc);
            self.spinning.insert(location);
        }
    }

    /// The first pass over a recording: finds out what the second must know. `each` is told what every
    /// record has become.
    fn survey(&mut self, recording: &Recording, mut each: impl FnMut(&mut Batch)) {
        self.survey = Some(Survey::new(recording.slots()));
        let mut order = Order::new(recording);
        while let Some((slot, record)) = order.next() {
            if let Some(survey) = &mut self.survey {
                survey.record(slot, &record, order.after(slot));
            }
            self.record(slot, &record);
            self.batch.events.clear();
            each(&mut self.batch);
        }
    }

    fn conclude_survey(&mut self) {
        let survey = self.survey.take().unwrap_or_default();
        self.findings = self.found(&survey);
        let handed_over = std::mem::take(&mut self.findings.handed_over);
        self.cells.leave_out(handed_over);
    }

    /// What a survey has found out so far, with the looks that were repeated since the last time.
    fn found(&mut self, survey: &Survey) -> Findings {
        let handed_over = survey.finish();
        let mut found = Findings::default();
        let repeated = std::mem::take(&mut self.repeated);
        let pure = repeated.iter().filter(|look| look.is_pure(&handed_over));
        found.repeated.extend(pure.map(|look| look.position));
        Findings {
            freed_in_use: std::mem::take(&mut self.freed_in_use),
            handed_over,
            ..found
        }
    }

    /// Translates another recording of the same process. What the threads were doing is put aside
    /// meanwhile.
    pub fn replay(&mut self, recording: &Recording) -> Batch {
        let outside = std::mem::take(&mut self.threads);
        self.cells = std::mem::take(&mut self.cells).again(recording);
        let spins: Vec<u64> = self.cells.atomics().spins().collect();
        self.note_spins(&spins);
        self.survey(recording, |_| {});
        self.conclude_survey();
        self.threads.clear();
        for (slot, record) in Order::new(recording) {
            self.record(slot, &record);
        }
        for slot in 0..self.threads.len() {
            self.catch_up(slot);
            self.leave_all(slot);
        }
        self.threads = outside;
        self.take()
    }

    /// Leaves all functions and regions that a thread is in.
    fn leave_all(&mut self, slot: usize) {
        while self.threads[slot].blocks.pop().is_some() {
            self.emit(slot, SiteId::UNKNOWN, Op::End);
        }
        while !self.threads[slot].open.is_empty() {
            self.conclude(slot);
        }
    }

    /// What has been translated since the last time.
    pub fn take(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// Translates a record.
    pub fn record(&mut self, slot: usize, record: &Record) {
        if matches!(record.kind, Kind::ThreadStart | Kind::Continue) || self.threads.len() <= slot {
            self.start_thread(slot, record);
        }
        let chain = self.calls(slot);
        match record.kind {
            Kind::Enter => return self.enter(slot, record),
            Kind::Exit => return self.exit(slot),
            Kind::Unnamed => return self.unnamed(slot, record.subject),
            Kind::ThreadStart | Kind::Continue | Kind::ThreadEnd | Kind::Edge => return,
            Kind::Alloc | Kind::Free => return self.memory(slot, record),
            Kind::Member => return self.member(slot, record),
            Kind::ThreadName => {
                self.name_thread(record);
                return;
            }
            Kind::Initialise => {
                let site = self.place(chain, record.pc()).site;
                return self.note_initialised(record.subject, site);
            }
            _ => {}
        }
        if record.kind == Kind::AtomicLoad && record.extra[0] == 0 {
            self.end_scope(slot, chain, record);
        }
        let range = record.range();
        // What one thread has to itself is not worth a look at the line tables.
        if range
            .as_ref()
            .is_some_and(|range| !self.cells.is_shared(range))
        {
            return;
        }
        let place = self.place(chain, record.pc());
        self.settle(slot, place, record);
        let Place { site, family, .. } = place;
        self.threads[slot].attempting = place.attempts;
        if place.waits {
            self.split(slot, site);
        }
        if let Some(range) = range {
            if let Some((inner, outer)) = place.step {
                // What a slow path does after the first operation of an unlock is not another one.
                let step = match outer {
                    Step::Unlock(_) => inner,
                    _ => outer,
                };
                self.step(slot, site, record, step);
                // A condition lets go of the lock, and has it again before it returns; it may be
                // handed over without any operation on the lock.
                if let (Step::Unlock(Change::Release), true) = (step, place.waits) {
                    self.split(slot, site);
                    self.threads[slot].acquiring = Some((record.subject, site, Change::Acquire));
                }
                return;
            }
            match (family, record.kind) {
                (Some(family), Kind::AtomicRmw) => {
                    if let Some(change) = family.change(record.extra[0], record.extra[1]) {
                        self.change(slot, site, record.subject, change);
                    }
                    return;
                }
                (Some(_), _) => return,
                (None, Kind::AtomicLoad) if self.guards.contains(&record.subject) => {
                    if record.extra[0] & 1 != 0 {
                        self.change(slot, site, record.subject, Change::AcquireShared);
                        self.change(slot, site, record.subject, Change::ReleaseShared);
                    }
                    return;
                }
                _ if self.cells.atomics().is_harmless(record.position) => return,
                // Nobody can get in between, in any schedule: all others wait.
                _ if self.threads[slot].initialising > 0 => return,
                _ => {}
            }
            if let Some(change) = self.cells.atomics().own_lock(record) {
                if let Some(change) = change {
                    self.change(slot, site, record.subject, change);
                }
                return;
            }
            if record.kind == Kind::AtomicLoad && self.spinning.contains(&place.location) {
                self.split(slot, site);
            }
            let op: fn(VarId) -> Op = match record.kind {
                Kind::Read | Kind::ReadRange => Op::Read,
                Kind::Write | Kind::WriteRange => Op::Write,
                Kind::AtomicLoad => Op::AtomicLoad,
                Kind::AtomicStore => Op::AtomicStore,
                Kind::AtomicRmw if self.cells.atomics().is_taken_back(record.position) => {
                    Op::AtomicRmwFailed
                }
                Kind::AtomicRmw => Op::AtomicRmw,
                _ => Op::AtomicRmwFailed,
            };
            return self.access(slot, site, record.position, range, op);
        }
        if record.kind == Kind::Yield {
            // A lock that spins is not the user's yield.
            if family.is_none() {
                self.split(slot, site);
            }
            return;
        }
        if record.detail() == GUARD {
            self.guards.insert(record.subject);
            let initialising = &mut self.threads[slot].initialising;
            *initialising = match record.kind {
                Kind::Acquire | Kind::AcquireShared => *initialising + 1,
                _ => initialising.saturating_sub(1),
            };
        }
        if family == Some(Family::Opaque) {
            match record.kind {
                Kind::Wait | Kind::Arrive => return self.split(slot, site),
                Kind::Fork | Kind::Join => {}
                Kind::Acquire | Kind::AcquireShared | Kind::Release | Kind::ReleaseShared
                    if self.is_lent(slot, record) => {}
                _ => return,
            }
        }
        let op = match record.kind {
            // Nobody expects to be alone from a thread's start to its end.
            Kind::Fork => {
                let child = self.thread_id(record.subject);
                if place.scopes {
                    let depth = self.threads[slot].stack.len();
                    self.threads[slot].scoped.push((depth, record.subject));
                }
                self.emit(slot, site, Op::Fork(child));
                return self.split(slot, site);
            }
            Kind::Join => {
                self.split(slot, site);
                Op::Join(self.thread_id(record.subject))
            }
            Kind::Begin => return self.begin(slot, site, record),
            Kind::End => return self.end(slot, site),
            // What is given back because another lock was not free has never been held.
            Kind::Acquire if place.attempts => {
                self.threads[slot].attempted.push((record.subject, site));
                return;
            }
            Kind::Release if place.attempts && self.give_up(slot, record.subject) => return,
            Kind::Acquire => return self.change(slot, site, record.subject, Change::Acquire),
            Kind::Release => return self.change(slot, site, record.subject, Change::Release),
            Kind::AcquireShared => {
                return self.change(slot, site, record.subject, Change::AcquireShared);
            }
            Kind::ReleaseShared => {
                return self.change(slot, site, record.subject, Change::ReleaseShared);
            }
            Kind::Wait => Op::Wait(self.lock(record.subject)),
            Kind::Woken => Op::Woken(self.lock(record.subject)),
            Kind::Notify => Op::Notify(self.lock_called(record.subject, "condition")),
            Kind::Arrive => Op::Arrive(self.lock_called(record.subject, "barrier")),
            Kind::Leave => Op::Leave(self.lock_called(record.subject, "barrier")),
            _ => return,
        };
        self.emit(slot, site, op);
    }

    /// Whether an implementation lets go of a lock that its caller holds, as a condition does while
    /// it waits, or takes it again.
    fn is_lent(&mut self, slot: usize, record: &Record) -> bool {
        let Some(&lock) = self.locks.get(&record.subject) else {
            return false;
        };
        let Thread { held, lent, .. } = &mut self.threads[slot];
        if matches!(record.kind, Kind::Release | Kind::ReleaseShared) {
            let is_held = held.contains(&lock);
            if is_held {
                lent.push(lock);
            }
            return is_held;
        }
        let at = lent.iter().position(|&other| other == lock);
        at.map(|at| lent.swap_remove(at)).is_some()
    }

    /// Gives back a lock that was taken in the same attempt to take several.
    fn give_up(&mut self, slot: usize, lock: u64) -> bool {
        let attempted = &mut self.threads[slot].attempted;
        let at = attempted.iter().position(|&(other, _)| other == lock);
        at.map(|at| attempted.remove(at)).is_some()
    }

    /// A scope of threads ends when its count of them has become 0. They are joined by that, though
    /// nobody calls `join`.
    fn end_scope(&mut self, slot: usize, chain: u32, record: &Record) {
        if self.threads[slot].scoped.is_empty() {
            return;
        }
        let place = self.place(chain, record.pc());
        if !place.scopes {
            return;
        }
        let depth = self.threads[slot].stack.len();
        self.split(slot, place.site);
        while let Some((_, child)) = self.threads[slot].scoped.pop_if(|(at, _)| *at >= depth) {
            if let Some(survey) = &mut self.survey {
                survey.join(slot, child);
            }
            let child = self.thread_id(child);
            self.emit(slot, place.site, Op::Join(child));
        }
    }

    /// Variables end with their memory. That is a write if it was still in use, for all we know. What
    /// the thread has accessed itself on the way has let it come that far, and nobody gets in between.
    fn free(&mut self, slot: usize, site: SiteId, position: u64, vars: &[VarId]) {
        if let Some(survey) = &mut self.survey {
            if survey.free(slot, vars) {
                self.freed_in_use.insert(position);
            }
        } else if self.findings.freed_in_use.contains(position) {
            for &var in vars {
                let touched = &self.threads[slot].touched;
                let own = touched.len() == TOUCHED || touched.contains(&var);
                if !own && !self.findings.handed_over.contains(var) {
                    self.emit(slot, site, Op::Write(var));
                }
            }
        }
    }

    /// Memory comes to life or dies. It is an object if threads share some of it.
    fn memory(&mut self, slot: usize, record: &Record) {
        let Some(range) = record.range() else {
            return;
        };
        while let Some((&lock, _)) = self.locks.range(range.clone()).next() {
            self.locks.remove(&lock);
        }
        self.annotations.renew(&range);
        let shared = self.cells.is_shared(&range);
        if !shared && !self.houses_lock(&range) {
            return;
        }
        let chain = self.calls(slot);
        let Place { site, step, .. } = self.place(chain, record.pc());
        if record.kind == Kind::Free && step.is_none() {
            let vars = self.cells.live(&range);
            self.free(slot, site, record.position, &vars);
        }
        self.renew(&range);
        if step.is_some() {
            return;
        }
        if record.kind == Kind::Free {
            if let Some(object) = self.forget_block(range.start) {
                self.emit(slot, site, Op::Free(object));
            }
        } else if let Some(object) = self.note_block(&range, (chain, record.pc()), site, shared) {
            self.emit(slot, site, Op::Alloc(object));
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        while self.translator.batch.events.len() < BATCH {
            let Some((slot, record)) = self.order.next() else {
                break;
            };
            self.translator.record(slot, &record);
        }
        let batch = self.translator.take();
        (!batch.events.is_empty() || !batch.definitions.is_empty()).then_some(batch)
    }
}
