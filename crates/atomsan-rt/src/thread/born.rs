//! What was written before a thread was born, by who started it.
//!
//! Such data is mostly made once and read by many. A thread that reads it first does not own it as a reader, because the second reader would
//! have to come after the first then, and both after each other sooner or later, although nobody writes: in long regions, for nothing
//! but that, all of them would be in one component. Instead, the granule belongs to nobody at once, and its word names the position
//! at which the thread was started. That is after the write, and who was started later is after it too.
//!
//! Who writes to what belongs to nobody has to look for all readers. So a thread that often does that to such data, because it is
//! its part of it, owns what it reads from then on.
//!
//! A thread starts in an epoch of its parent's that is over: all that the parent did in that one, or in an earlier one, was
//! before. Epochs come again, so that counts for one [era](ownership::era).

use super::Thread;
use super::after::Epoch;
use crate::format::Kind;
use crate::ownership;
use core::cell::Cell;

/// A thread that starts another one: its slot, the position behind that, and the last epoch before.
#[derive(Clone, Copy)]
pub(crate) struct Parent {
    pub(crate) slot: u32,
    pub(crate) position: u64,
    epoch: u32,
}

/// Who started the thread, and how often it has written to what it had read of that. All-zero memory is a valid one: nobody.
pub(super) struct Born {
    slot: Cell<u32>,
    epoch: Cell<Epoch>,
    position: Cell<u64>,
    regrets: Cell<u32>,
}

/// What a write counts that had to look for readers, compared with a read that has made it necessary.
const REGRET: u32 = 16;
/// So much of it is too much.
const TOO_MUCH: u32 = 64 * REGRET;

impl Thread {
    /// Starts a thread with this number.
    pub(crate) fn gives_birth(&self, number: u64, pc: u64) -> Parent {
        let epoch = ownership::epoch_of(self.mine.get());
        self.append_step(Kind::Fork, number, pc);
        if ownership::epoch_of(self.mine.get()) == epoch {
            self.used.set(true);
            self.next_epoch();
        }
        Parent {
            slot: self.slot.get(),
            position: self.position_of_step(),
            epoch,
        }
    }

    /// The thread was started by nobody that is known.
    pub(super) fn is_nobodys(&self) {
        self.born.slot.set(0);
    }

    /// The thread was started by this one.
    pub(super) fn is_born(&self, parent: Parent) {
        self.after_position(parent.slot, parent.position);
        self.born.slot.set(parent.slot);
        self.born.epoch.set(Epoch::now(parent.epoch));
        self.born.position.set(parent.position);
        self.born.regrets.set(0);
    }

    /// The position at which the thread was started, of who started it.
    pub(crate) fn birth(&self) -> u64 {
        self.born.position.get()
    }

    /// Whether a position of a slot was before the thread was started.
    #[inline(always)]
    pub(crate) fn was_before_birth(&self, slot: u32, position: u64) -> bool {
        self.born.slot.get() == slot && position <= self.born.position.get()
    }

    /// The thread reads what a slot has written in an epoch; whether that was there when it was born, and should belong to
    /// nobody from now on.
    #[inline(always)]
    pub(crate) fn finds_at_birth(&self, slot: u32, epoch: u32) -> bool {
        let born = &self.born;
        let regrets = born.regrets.get();
        let was_before = born.slot.get() == slot && born.epoch.get().covers(epoch);
        if !was_before || !self.tabled.get() || regrets >= TOO_MUCH {
            return false;
        }
        born.regrets.set(regrets.saturating_sub(1));
        true
    }

    /// The thread writes to a granule that belongs to nobody, and whose word names a slot.
    pub(crate) fn regrets(&self, slot: u32) {
        let born = &self.born;
        if born.slot.get() == slot && born.regrets.get() < TOO_MUCH {
            born.regrets.set(born.regrets.get() + REGRET);
        }
    }
}
