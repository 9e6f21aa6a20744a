//! What each record means.
//!
//! Calls, memory and names are dealt with where they belong; accesses to what only one thread touches
//! are nothing. An access in an implementation of synchronisation is a step of that
//! ([`crate::models`]), or nothing; any other one is an access to variables. All the rest is what
//! the runtime saw of libc and annotations.
//!
//! # Gaps
//!
//! Of a transaction whose beginning was forgotten it is not known what it has done before, nor which
//! locks it holds. So it is not checked: nothing is said of what it accesses. Neither is anything said of what is
//! doubtful ([`crate::order`]), not even which locks are taken. A cut is a barrier that all threads pass: whatever was
//! forgotten, all that is before it is in order with all that is after it.
//!
//! # What is initialised once
//!
//! The initialisation of a C++ static, of a Rust `OnceLock`, by `pthread_once`, is before every use
//! in every schedule. No event says that, so that engines which look at other schedules would
//! take it for a conflict; the accesses of an initialiser are left out. An initialiser is over when its guard is released,
//! or the function has been left in which it was taken: an exception says nothing. Where the beginning of an
//! initialiser is not in what is read of a log, the snapshot says that the thread is in one.
//!
//! The futures of libstdc++ run their tasks under a guard too, which nobody waits at for what the task does. So a task is
//! no initialiser, and the guard means nothing ([`models::runs_task`](crate::models::runs_task)).

use super::{Place, TOUCHED, Thread, Translator};
use crate::file::Record;
use crate::format::{COMPARED, GUARD, Kind};
use crate::models::{Change, Family, Step};
use crate::order::Order;
use atomsan_trace::{Op, SiteId, VarId};
use std::ops::Range;

impl Translator {
    /// Translates a record of a recording.
    pub(super) fn record_of(&mut self, order: &Order<'_>, slot: usize, record: &Record) {
        if order.is_cut() {
            self.cut();
        }
        self.cuts.doubtful = order.is_doubtful();
        self.record(slot, record);
    }

    /// Translates a record.
    pub fn record(&mut self, slot: usize, record: &Record) {
        if matches!(record.kind, Kind::ThreadStart | Kind::Continue) || self.threads.len() <= slot {
            self.start_thread(slot, record);
        }
        if self.threads[slot].doubtful != self.cuts.doubtful {
            self.change_doubt(slot);
        }
        let thread = &mut self.threads[slot];
        thread.lost |= thread.doubtful;
        let chain = self.calls(slot);
        match record.kind {
            Kind::Enter => return self.enter(slot, record),
            Kind::Exit => {
                self.exit(slot);
                return self.find_back(slot);
            }
            Kind::Transaction => {
                // A program has no more frames than that, whatever a damaged recording says.
                for _ in 0..record.second.min(1 << 20) {
                    self.exit(slot);
                }
                return self.find_back(slot);
            }
            Kind::Unnamed => return self.unnamed(slot, record.subject),
            Kind::Initialising => {
                if !self.place(chain, record.pc()).runs_task {
                    self.initialise(slot, record.subject);
                }
                return;
            }
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
        self.find_back(slot);
        if record.kind == Kind::AtomicLoad && record.extra[0] == 0 {
            self.end_scope(slot, chain, record);
        }
        let range = record.range();
        // What one thread has to itself is not worth a look at the line tables.
        if range
            .as_ref()
            .is_some_and(|range| !self.cells.is_shared(range))
        {
            return self.decide_alone(slot, chain, record);
        }
        let place = self.place(chain, record.pc());
        self.settle(slot, place, record);
        self.threads[slot].attempting = place.attempts;
        if place.waits {
            self.split(slot, place.site);
        }
        match range {
            Some(range) => self.touch(slot, place, record, range),
            None => self.synchronise(slot, place, record),
        }
    }

    /// What a thread has to itself is accessed: an exchange decides there too.
    fn decide_alone(&mut self, slot: usize, chain: u32, record: &Record) {
        let compares = record.kind == Kind::AtomicRmw && record.detail() == COMPARED;
        if compares && self.threads[slot].decisions.has_looked() {
            let place = self.place(chain, record.pc());
            if place.family.is_none() && place.step.is_none() {
                self.threads[slot].decisions.decide(place.site);
            }
        }
    }

    /// Memory that threads share is accessed.
    fn touch(&mut self, slot: usize, place: Place, record: &Record, range: Range<u64>) {
        let Place { site, family, .. } = place;
        if let Some((inner, outer)) = place.step {
            // What a slow path does after the first operation of an unlock is not another one.
            let step = match outer {
                Step::Unlock(_) => inner,
                _ => outer,
            };
            let lends = step == Step::Unlock(Change::Release) && place.waits;
            if lends && record.kind != Kind::AtomicLoad {
                self.note_wait(slot, record.subject, true);
            }
            self.step(slot, site, record, step);
            // A condition lets go of the lock, and has it again before it returns; it may be
            // handed over without any operation on the lock.
            if lends {
                self.split(slot, site);
                self.threads[slot].acquiring = Some((record.subject, site, Change::Acquire));
            }
            return;
        }
        match (family, record.kind) {
            (Some(family), Kind::AtomicRmw) => {
                let change = family.change(record.extra[0], record.extra[1]);
                // A reader that found a writer takes itself back, and the writer may have gone.
                let back = (Family::SpinRwLock, Some(Change::ReleaseShared));
                if (family, change) == back && !self.holds(slot, record.subject) {
                    return;
                }
                if let Some(change) = change {
                    if change == Change::Acquire {
                        self.take_to_wait(slot, site, record);
                    }
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
            _ if !self.threads[slot].initialising.is_empty() => return,
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
            // It relies on what somebody may have overwritten, and does not look.
            Kind::AtomicRmw if self.cells.atomics().takes_back_blindly(record.position) => {
                Op::AtomicStore
            }
            Kind::AtomicRmw => Op::AtomicRmw,
            _ => Op::AtomicRmwFailed,
        };
        self.access(slot, place, record, range, op);
    }

    /// Threads wait for each other, start each other, or say something of themselves.
    fn synchronise(&mut self, slot: usize, place: Place, record: &Record) {
        let Place { site, family, .. } = place;
        if record.kind == Kind::Yield {
            // A lock that spins is not the user's yield.
            if family.is_none() {
                self.split(slot, site);
            }
            return;
        }
        if record.detail() == GUARD && place.runs_task {
            return;
        }
        if record.detail() == GUARD {
            match record.kind {
                Kind::Acquire | Kind::AcquireShared => self.initialise(slot, record.subject),
                _ => self.end_initialising(slot, record.subject),
            }
        }
        let locks = matches!(
            record.kind,
            Kind::Acquire | Kind::AcquireShared | Kind::Release | Kind::ReleaseShared
        );
        match (family, record.kind) {
            _ if locks && record.detail() == GUARD && family != Some(Family::Opaque) => {}
            // The other half of it is an atomic operation, which means nothing there.
            (Some(Family::Opaque | Family::Hidden), _) if locks && self.is_lent(slot, record) => {}
            (Some(Family::Opaque | Family::Hidden), _) if locks => return,
            (Some(Family::Opaque), Kind::Wait | Kind::Arrive) => return self.split(slot, site),
            (Some(Family::Opaque), Kind::Fork | Kind::Join) => {}
            (Some(Family::Opaque), _) => return,
            // So is the lock that is given up while a thread waits, unless it is known to be held.
            (_, Kind::Wait) if !self.holds(slot, record.subject) => return self.split(slot, site),
            (_, Kind::Woken) if self.relocked.contains(record.position) => {
                return self.change(slot, site, record.subject, Change::Acquire);
            }
            (_, Kind::Woken) if !self.holds(slot, record.subject) => return,
            _ => {}
        }
        // What is locked there is let go of there too, and nothing says so.
        if place.precompiled && locks && record.detail() != GUARD {
            return;
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
            Kind::Acquire => {
                self.take_to_wait(slot, site, record);
                return self.change(slot, site, record.subject, Change::Acquire);
            }
            Kind::Release => return self.change(slot, site, record.subject, Change::Release),
            Kind::AcquireShared => {
                return self.change(slot, site, record.subject, Change::AcquireShared);
            }
            Kind::ReleaseShared => {
                return self.change(slot, site, record.subject, Change::ReleaseShared);
            }
            Kind::Wait => {
                self.note_wait(slot, record.subject, false);
                Op::Wait(self.lock(record.subject))
            }
            Kind::Woken => Op::Woken(self.lock(record.subject)),
            Kind::Notify => Op::Notify(self.lock_called(record.subject, "condition")),
            Kind::Arrive => Op::Arrive(self.lock_called(record.subject, "barrier")),
            Kind::Leave => Op::Leave(self.lock_called(record.subject, "barrier")),
            _ => return,
        };
        self.emit(slot, site, op);
    }

    /// A thread initialises what has this guard.
    fn initialise(&mut self, slot: usize, guard: u64) {
        self.guards.insert(guard);
        let thread = &mut self.threads[slot];
        thread.initialising.push((guard, thread.stack.len()));
    }

    /// What has this guard is initialised.
    fn end_initialising(&mut self, slot: usize, guard: u64) {
        self.guards.insert(guard);
        let initialising = &mut self.threads[slot].initialising;
        if let Some(at) = initialising.iter().rposition(|&(open, _)| open == guard) {
            initialising.truncate(at);
        }
    }

    /// An atomic operation in a function of a lock that is known by its name.
    fn step(&mut self, slot: usize, site: SiteId, record: &Record, step: Step) {
        let lock = record.subject;
        match step {
            // The first operation is on the lock itself; others may be on what threads wait in.
            Step::Lock(change) if self.threads[slot].acquiring.is_none() => {
                if change == Change::Acquire {
                    self.take_to_wait(slot, site, record);
                }
                self.threads[slot].acquiring = Some((lock, site, change));
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

    /// Whether a thread holds the lock at an address, for all we know.
    fn holds(&mut self, slot: usize, address: u64) -> bool {
        self.catch_up(slot);
        let lock = self.locks.get(&address);
        lock.is_some_and(|lock| self.threads[slot].held.contains(lock))
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

    fn start_thread(&mut self, slot: usize, record: &Record) {
        if self.threads.len() <= slot {
            self.threads.resize_with(slot + 1, Thread::default);
        }
        // What was open before a gap has been left in it, for all we know.
        if record.kind == Kind::Continue {
            self.leave_all(slot);
            if !self.is_replay {
                self.let_go_of_all(slot);
            }
        }
        let id = self.thread_id(record.subject);
        let doubtful = self.threads[slot].doubtful;
        let [low, size] = record.extra;
        let stack = low..low.saturating_add(size);
        self.threads[slot] = Thread {
            id,
            stack_end: stack.end,
            // The parts of transactions that are replayed are whole ones.
            lost: record.kind == Kind::Continue && !self.is_replay,
            doubtful,
            ..Thread::default()
        };
        self.appear(id, record.kind);
        // The start of the thread may be forgotten, but not that somebody else had the stack before.
        let before = self.stacks.insert(low, record.subject);
        if record.kind == Kind::ThreadStart || before.is_some_and(|other| other != record.subject) {
            self.renew(&stack);
        }
        self.note_stack(slot, record.subject, &stack);
    }

    /// After a gap, a thread is lost as long as it is in a region that it was in then.
    fn find_back(&mut self, slot: usize) {
        let thread = &mut self.threads[slot];
        if thread.lost && !thread.doubtful && thread.open.iter().skip(1).all(Option::is_none) {
            thread.lost = false;
        }
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

    /// Memory is new: its variables so far are not accessed any more.
    fn renew(&mut self, range: &Range<u64>) {
        let survey = &mut self.survey;
        self.cells.renew(range, |var| {
            if let Some(survey) = survey {
                survey.forget(var);
            }
        });
    }

    pub(super) fn note_spins(&mut self, at: &[u64]) {
        for &pc in at {
            let location = self.location(pc);
            self.spinning.insert(location);
        }
    }
}
