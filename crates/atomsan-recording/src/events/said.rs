//! What is said of a thread: its events, in order, with what has to be said before them.
//!
//! Some of what happens is told late. A function is entered when something happens in it; a lock is
//! held when the function that takes it has gone on to something else; locks that were taken in an attempt to
//! take several are held when the attempt is over. [`Translator::emit`] and [`Translator::access`] are
//! the only ways to say something, and catch up with all of that first.

use super::{Place, TOUCHED, Thread, Translator, cuts};
use crate::cells::Cells;
use crate::file::Record;
use crate::format::{COMPARED, Kind};
use crate::models::Change;
use atomsan_trace::{Event, LockId, Op, SiteId, VarId};
use std::ops::Range;

impl Translator {
    /// What a thread has to say before anything else.
    pub(super) fn catch_up(&mut self, slot: usize) {
        if !self.threads[slot].attempting {
            for (lock, site) in std::mem::take(&mut self.threads[slot].attempted) {
                self.change(slot, site, lock, Change::Acquire);
            }
        }
        if let Some((lock, site, change)) = self.threads[slot].acquiring.take() {
            self.change(slot, site, lock, change);
        }
    }

    pub(super) fn emit(&mut self, slot: usize, site: SiteId, op: Op) {
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
            thread.awaited.step(op);
        }
        let thread = thread.id;
        let left = match self.threads[slot].doubtful {
            true => cuts::without_order(op),
            false => Some(op),
        };
        let left = left.map(|op| Event { thread, site, op });
        self.batch.events.extend(left);
    }

    /// The thread waits for others: every region that it is in is split here.
    pub(super) fn split(&mut self, slot: usize, site: SiteId) {
        let thread = &self.threads[slot];
        if !thread.waiting && thread.acquiring.is_none() {
            self.emit(slot, site, Op::Yield);
            self.threads[slot].waiting = true;
        }
    }

    pub(super) fn access(
        &mut self,
        slot: usize,
        place: Place,
        record: &Record,
        range: Range<u64>,
        op: impl Fn(VarId) -> Op,
    ) {
        let Place { site, takes, .. } = place;
        let (position, value) = (record.position, record.extra[0]);
        let compares = record.kind == Kind::AtomicRmw && record.detail() == COMPARED;
        self.catch_up(slot);
        if self.threads[slot].lost {
            return;
        }
        self.cuts.accessed = true;
        let mut new = Vec::new();
        let thread = &mut self.threads[slot];
        (thread.waiting, thread.held_back) = (false, false);
        let (survey, findings) = (&mut self.survey, &self.findings);
        let (repeated, batch) = (&mut self.repeated, &mut self.batch);
        let (claims, blind) = (&mut self.claims, &mut self.blind);
        let owners = &mut self.owners;
        let (mut looked_again, mut first) = (None, None);
        self.cells.touch(range, |var, address, is_new, alone| {
            let op = op(var);
            if let Some(survey) = survey {
                let Thread { held, looks, .. } = &mut *thread;
                survey.access(slot, var, op.writes(), !op.is_atomic(), held);
                repeated.extend(looks.step(op, position, held));
                claims.step(slot, op, site, compares, blind);
                owners.step(thread.id, op, value, &thread.held);
                if op.writes() {
                    thread.taken.iter_mut().for_each(|taken| taken.wrote = true);
                }
                return;
            }
            if is_new {
                new.push((var, address));
            }
            let repeated = op.is_atomic() && findings.repeated.contains(position);
            let alone = alone.covers(op, &thread.held)
                || findings.handed_over.alone(var).covers(op, &thread.held);
            let checked = !repeated
                && !alone
                && var != Cells::LEFT_OUT
                && !findings.handed_over.contains(var);
            let claimed = claims.step(slot, op, site, compares, blind);
            let claimed = claimed.filter(|_| !blind.contains(&var));
            let look = thread.sections.access(op, address, site, checked, takes);
            let awaited = thread.awaited.access(op).then_some(SiteId::UNKNOWN);
            if !checked {
                return;
            }
            let decided = thread.decisions.step(op, site, compares);
            let own = owners.is_own(op, value).then_some(SiteId::UNKNOWN);
            looked_again = looked_again.or(look).or(decided).or(claimed).or(own);
            looked_again = looked_again.or(awaited);
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
        for (var, address) in new {
            self.define_var(var, address);
        }
    }

    /// An operation inside of synchronisation: the word at the address changed.
    pub(super) fn change(&mut self, slot: usize, site: SiteId, address: u64, change: Change) {
        if self.survey.is_some() && change == Change::Release {
            self.let_go(slot, address, Some(site));
        }
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

    pub(super) fn acquire_shared(&mut self, slot: usize, site: SiteId, lock: LockId) {
        self.threads[slot].shared.push(lock);
        self.emit(slot, site, Op::AcquireShared(lock));
    }

    pub(super) fn release_shared(&mut self, slot: usize, site: SiteId, lock: LockId) {
        let shared = &mut self.threads[slot].shared;
        if let Some(at) = shared.iter().rposition(|&held| held == lock) {
            shared.swap_remove(at);
        }
        self.emit(slot, site, Op::ReleaseShared(lock));
    }

    /// A release of either kind: libc has one function for both.
    pub(super) fn release(&mut self, slot: usize, site: SiteId, lock: LockId) {
        if self.threads[slot].shared.contains(&lock) {
            self.release_shared(slot, site, lock);
        } else {
            self.emit(slot, site, Op::Release(lock));
        }
    }

    /// Leaves all functions and regions that a thread is in.
    pub(super) fn leave_all(&mut self, slot: usize) {
        while let Some(call) = self.threads[slot].stack.pop() {
            if call.called_back {
                self.return_to_caller(slot);
            }
        }
        while self.threads[slot].blocks.pop().is_some() {
            self.emit(slot, SiteId::UNKNOWN, Op::End);
        }
        while !self.threads[slot].open.is_empty() {
            self.conclude(slot);
        }
    }
}
