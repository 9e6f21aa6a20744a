//! What a thread comes after: positions of other logs, and the transactions that they belong to.
//!
//! Who takes a granule orders itself after the transaction of its owner's last access
//! ([`crate::history`]), and writes an edge unless it is after that one already.

use super::{After, HIGHEST, LAST_AFTER, SLOT_TABLE, Thread, position_of};
use crate::format::{Kind, SLOTS, entry, first_word};
use crate::history::{History, Source};
use crate::{recording, regions};
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// An owner in one of its epochs.
fn owner(slot: u32, epoch: u32) -> u64 {
    u64::from(slot) << 32 | u64::from(epoch)
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
    }

    /// Orders what follows after an owner's last access to a granule, which was in that epoch: after
    /// which position.
    pub(crate) fn after_epoch(&self, slot: u32, epoch: u32) -> u64 {
        if !self.tabled.get() || slot == self.slot.get() {
            return self.after(slot);
        }
        let find = |history: &History, known, now| history.in_epoch(epoch, known, now);
        // Much that is taken was accessed last in the same transaction.
        if self.is_after_epoch(slot, epoch) {
            return self.last_after[slot as usize % LAST_AFTER].get().clock;
        }
        if self.silent.get() {
            let Some(source) = self.source(slot, find) else {
                return self.after(slot);
            };
            self.link(slot, source.clock);
            self.remember_after(slot, epoch, source.clock);
            return source.clock;
        }
        // Before the transaction is looked at: all that is before it is in that one, or earlier.
        let position = position_of(slot);
        match self.source(slot, find) {
            None => self.after(slot),
            Some(source) => {
                let end = source.end.unwrap_or(position);
                self.order(slot, end, source.clock);
                // If it is not over, there may be more of it the next time.
                if source.end.is_some() {
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
    }

    /// Whether it is clear that what follows is ordered after an owner's accesses in an epoch.
    #[inline(always)]
    pub(crate) fn is_after_epoch(&self, slot: u32, epoch: u32) -> bool {
        let last = self.last_after[slot as usize % LAST_AFTER].get();
        last.owner == owner(slot, epoch) && last.mine == self.mine.get()
    }

    /// What this thread has put itself after counts no more.
    pub(super) fn forget_after(&self) {
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
            if let Some(epoch) = reader.and_then(|reader| reader.settled.last_read(address)) {
                self.after_epoch(slot as u32, epoch);
            }
        }
    }

    /// A transaction of another slot, by its history, the number of the last one that this thread is
    /// after, and its number now.
    fn source(
        &self,
        slot: u32,
        find: impl FnOnce(&History, u64, u64) -> Option<Source>,
    ) -> Option<Source> {
        let other = SLOT_TABLE.get(slot as usize)?.load(Ordering::Acquire);
        // SAFETY: records are never given back; a history is made of atomic words.
        let history = unsafe { &other.as_ref()?.history };
        let now = recording::slot_entry(slot, entry::CLOCK).load(Ordering::Acquire);
        find(history, self.linked(slot)?.get(), now)
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
        if self.tabled.get() {
            self.link(slot, clock);
        }
        if known.get() < position {
            known.set(position);
            if self.tabled.get() {
                self.mark();
            }
            self.write([first_word(Kind::Edge, 0, position), u64::from(slot)]);
            self.next_epoch();
            self.start_stretch();
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
