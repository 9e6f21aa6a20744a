//! What a thread comes after: positions of other logs, and the transactions that they belong to.
//!
//! Who takes a granule orders itself after the transaction of its owner's last access
//! ([`crate::history`]), and writes an edge unless it is after that one already.
//!
//! # Epochs
//!
//! Much that is taken from one owner was accessed last in an epoch that the thread has put itself after before, or in
//! an earlier one: what is behind a lock, when the lock has been taken. So each thread remembers for each slot
//! the last such epoch, and has to look at nothing of the other's then.
//!
//! Otherwise, a first run guesses which transaction had that epoch: each has one there, so they go on side by side
//! ([`After::guess`]). Then a single entry of the other's history is looked at, and none that its thread has just written:
//! who looks at those takes them out of the other's cache, again and again where threads take turns (5 to 10 % of locks).
//!
//! Epochs come again. An epoch that is remembered counts for one [era](ownership::era), in which no thread has been
//! through nearly half of them. So while it counts, what is later seems to be later; what is so old
//! that it seems to be later too is looked up.

use super::{After, HIGHEST, LAST_AFTER, SLOT_TABLE, Thread, position_of};
use crate::format::{Kind, LOW, SLOTS, first_word};
use crate::history::{EPOCH_BITS, History, Source, is_since};
use crate::{ownership, regions};
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// An epoch that a thread is after, and the era. All-zero memory is a valid one: none.
#[derive(Clone, Copy)]
pub(super) struct Epoch {
    era: u32,
    epoch: u32,
}

impl Epoch {
    /// An epoch, in this era.
    pub(super) fn now(epoch: u32) -> Epoch {
        let era = ownership::era();
        Epoch { era, epoch }
    }

    /// Whether an epoch is this one or, as far as it can be said now, an earlier one.
    #[inline(always)]
    pub(super) fn covers(self, epoch: u32) -> bool {
        let shift = u32::BITS - EPOCH_BITS;
        let since = self.epoch.wrapping_sub(epoch) << shift;
        self.era == ownership::era() && since < 1 << (u32::BITS - 1)
    }
}

/// An owner in one of its epochs.
fn owner(slot: u32, epoch: u32) -> u64 {
    u64::from(slot) << 32 | u64::from(epoch)
}

/// Whether a slot's thread is in a later epoch by now.
fn is_over(slot: u32, epoch: u32) -> bool {
    let other = SLOT_TABLE
        .get(slot as usize)
        .map(|record| record.load(Ordering::Acquire));
    // SAFETY: records are never given back; the word is atomic.
    let other = other.and_then(|record| unsafe { record.as_ref() });
    other.is_some_and(|other| {
        let now = ownership::epoch_of(other.mine.seen());
        now != epoch && is_since(now, epoch)
    })
}

impl After {
    /// Which transaction of a slot has begun in an epoch, if each has one epoch since the last that was asked for.
    fn guess(self, slot: u32, epoch: u32) -> Option<u64> {
        let since = epoch.wrapping_sub(self.owner as u32) % (1 << EPOCH_BITS);
        (self.owner >> 32 == u64::from(slot)).then(|| (self.clock & LOW) + u64::from(since))
    }
}

impl Thread {
    /// Orders what follows after everything that is in another slot's log now: after which position.
    #[inline]
    pub(crate) fn after(&self, slot: u32) -> u64 {
        let position = position_of(slot);
        if slot == self.slot.get() {
            return position;
        }
        if self.silent.get() {
            self.link(slot, position);
        } else if self.tabled.get() {
            self.order(slot, position, regions::clock(slot));
            self.meets_others();
        } else {
            self.order(slot, position, 0);
        }
        position
    }

    /// Orders what follows after a position of another slot's log.
    pub(crate) fn after_position(&self, slot: u32, position: u64) {
        if self.silent.get() {
            return self.link(slot, position);
        }
        let find = |history: &History, known, now| history.before(position, known, now);
        let source = match self.tabled.get() {
            true => self.source(slot, find).map(|source| source.clock),
            false => None,
        };
        let now = || match self.tabled.get() {
            true => regions::clock(slot),
            false => 0,
        };
        self.order(slot, position, source.unwrap_or_else(now));
        self.meets_others();
    }

    /// Orders what follows after an owner's last access to a granule, which was in that epoch: after
    /// which position.
    pub(crate) fn after_epoch(&self, slot: u32, epoch: u32) -> u64 {
        if !self.tabled.get() || slot == self.slot.get() {
            return self.after(slot);
        }
        let find = |history: &History, known, now| history.in_epoch(epoch, known, now);
        // Much that is read was accessed last in the same transaction.
        let last = self.last_after[slot as usize % LAST_AFTER].get();
        if last.owner == owner(slot, epoch) && last.mine == self.mine.get() {
            return last.clock;
        }
        if self.silent.get() {
            let guess = last.guess(slot, epoch);
            let guessed = guess.and_then(|clock| self.history_of(slot)?.began_in(epoch, clock));
            let Some(source) = guessed.or_else(|| self.source(slot, find)) else {
                return self.after(slot);
            };
            self.link(slot, source.clock);
            self.remember_after(slot, epoch, source.clock);
            return source.clock;
        }
        // Nothing else of the other's need be looked at if the transaction is over, and so the epoch.
        let source = self.source(slot, find);
        if let Some(Source {
            clock,
            end: Some(end),
        }) = source
        {
            self.order(slot, end, clock);
            self.remember_after(slot, epoch, end);
            return end;
        }
        // Before the position is looked at: all that the owner did in an epoch that is over is before that.
        let is_over = is_over(slot, epoch);
        // Before the transaction is looked at: all that is before it is in that one, or earlier.
        let position = position_of(slot);
        match self.source(slot, find) {
            None => self.after(slot),
            Some(source) => {
                let end = source.end.unwrap_or(position);
                self.order(slot, end, source.clock);
                // Otherwise, there may be more of it the next time.
                if source.end.is_some() || is_over {
                    self.remember_after(slot, epoch, end);
                }
                end
            }
        }
    }

    /// From here on, what follows is ordered after an owner's accesses in an epoch, which were before this.
    fn remember_after(&self, slot: u32, epoch: u32, clock: u64) {
        self.last_after[slot as usize % LAST_AFTER].set(After {
            mine: self.mine.get(),
            owner: owner(slot, epoch),
            clock,
        });
        if let Some(after) = self.after_epochs.get(slot as usize)
            && !after.get().covers(epoch)
        {
            after.set(Epoch::now(epoch));
        }
    }

    /// Whether it is clear that what follows is ordered after an owner's accesses in an epoch.
    #[inline(always)]
    pub(crate) fn is_after_epoch(&self, slot: u32, epoch: u32) -> bool {
        let after = self.after_epochs.get(slot as usize);
        after.is_some_and(|after| after.get().covers(epoch))
    }

    /// What this thread has put itself after counts no more.
    pub(super) fn forget_after(&self) {
        let highest = HIGHEST.load(Ordering::Acquire).min(SLOTS);
        for after in &self.after_epochs[..=highest] {
            after.set(Epoch { era: 0, epoch: 0 });
        }
        for last in &self.last_after {
            last.set(After {
                mine: 0,
                owner: 0,
                clock: 0,
            });
        }
    }

    /// Orders what follows after the write that a granule without an owner names by a slot and a
    /// position of it.
    pub(crate) fn after_write(&self, slot: u32, position: u64) {
        if !self.silent.get() {
            return self.after_position(slot, position);
        }
        let find = |history: &History, _, now| history.numbered(position, now);
        match self.source(slot, find) {
            None => drop(self.after(slot)),
            Some(source) => self.link(slot, source.clock),
        }
    }

    /// Orders what follows after all reads of a granule that has no owner.
    pub(crate) fn after_readers(&self, address: usize) {
        if !self.tabled.get() {
            return self.after_everybody();
        }
        let highest = HIGHEST.load(Ordering::Acquire).min(SLOTS);
        for (slot, reader) in SLOT_TABLE[..=highest].iter().enumerate() {
            // SAFETY: records are never given back; what is read of it is atomic.
            let reader = unsafe { reader.load(Ordering::Acquire).as_ref() };
            if let Some(epoch) = reader.and_then(|reader| reader.settled.last_read(address))
                && !self.is_after_epoch(slot as u32, epoch)
            {
                self.after_epoch(slot as u32, epoch);
            }
        }
    }

    /// A transaction of another slot, by its history, the number of the last one that this thread is
    /// after, and its number now.
    pub(super) fn source(
        &self,
        slot: u32,
        find: impl FnOnce(&History, u64, u64) -> Option<Source>,
    ) -> Option<Source> {
        let history = self.history_of(slot)?;
        let now = regions::clock(slot) & LOW;
        find(history, self.linked(slot)?.get(), now)
    }

    /// The last transactions of a slot.
    fn history_of(&self, slot: u32) -> Option<&'static History> {
        let other = SLOT_TABLE.get(slot as usize)?.load(Ordering::Acquire);
        // SAFETY: records are never given back; a history is made of atomic words.
        Some(unsafe { &other.as_ref()?.history })
    }

    /// The last transaction of a slot that this thread is after.
    pub(crate) fn linked(&self, slot: u32) -> Option<&Cell<u64>> {
        let linked = if self.silent.get() {
            &self.known
        } else {
            &self.linked
        };
        linked.get(slot as usize)
    }

    /// Orders what follows after a position of another slot's log, and after a transaction of it, if
    /// there are any.
    fn order(&self, slot: u32, position: u64, clock: u64) {
        let Some(known) = self.known.get(slot as usize) else {
            return;
        };
        let transaction = self.own_clock();
        if self.tabled.get() {
            self.link(slot, clock);
        }
        // Another transaction has begun a stretch, if it had to.
        let has_begun = self.own_clock() != transaction;
        if known.get() < position {
            known.set(position);
            if self.tabled.get() {
                self.mark();
            }
            self.write([first_word(Kind::Edge, 0, position), u64::from(slot)]);
            if !has_begun && self.minds_order() {
                self.start_stretch_anew();
            }
        }
    }

    /// Whether what follows is ordered after a position of a slot's log anyway.
    #[inline]
    pub(crate) fn is_after(&self, slot: u32, position: u64) -> bool {
        self.known
            .get(slot as usize)
            .is_some_and(|known| known.get() >= position)
    }

    /// Orders what follows after everything that is in any log now.
    pub(crate) fn after_everybody(&self) {
        for slot in 1..=HIGHEST.load(Ordering::Acquire).min(SLOTS) {
            self.after(slot as u32);
        }
    }
}
