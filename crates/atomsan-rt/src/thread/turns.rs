//! Turns: a thread that spins lets others run.
//!
//! Threads that exchange something without blocking try until it is there. Where more of them run than there
//! are processors, one that tries is in the way of the one it waits for, until its time slice is over, and
//! with us each attempt takes longer and leaves records. What spinning looks like from here is atomic
//! operations on shared words that nobody else has changed in between. After some of these in a row the
//! thread yields the processor; more and more of them, as long as nobody comes, so that a thread that is
//! simply alone pays next to nothing.
//!
//! A thread that gets on is not spinning: it finds something that it did not find at the same place of the program the last
//! time, as one that fills a queue does. If it yielded as soon, then often between two steps for which another one spins, and on a busy
//! machine somebody else's program would have the processor for long. So it yields much later.
//!
//! Where the program knows its regions, a thread that gets on takes turns as well, between two of them: threads that exchange
//! something all the time cost each other more than a turn. Who yields in the middle of a region may hold a lock
//! that others then wait for, and lets them into the region, which has to be checked then. So a thread
//! that is in one goes on until it is over, if that is soon.

use super::Thread;
use crate::platform;
use core::cell::Cell;

/// How many atomic operations a thread makes without meeting anybody before it yields, at first and at most.
const FEW: u32 = 64;
const MANY: u32 = 1 << 13;
/// How many at first where the program knows its regions. Threads that share a processor then hardly meet in the middle of
/// one, which is not to be checked then: *atomics* takes a fifth less time than with as many as elsewhere.
const FEW_BETWEEN_REGIONS: u32 = 16;
/// So many operations by which a thread gets on count for one.
const GETS_ON: u32 = 16;
/// How many more it makes to come to the end of a region.
const MORE: u32 = 256;

/// How many places of the program are remembered, and what tells them apart.
const PLACES: usize = 64;
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a thread has found at places of the program: the address and the value, mixed. All-zero memory is a valid one.
pub(super) struct Found([Cell<u64>; PLACES]);

impl Found {
    /// A value is found at an address; whether that is something else than the last time at the same place.
    #[inline(always)]
    fn is_news(&self, pc: u64, address: usize, value: u64) -> bool {
        let now = (address as u64 ^ pc.rotate_left(32)).wrapping_mul(MIXER) ^ value;
        let place = pc.wrapping_mul(MIXER) >> (u64::BITS - PLACES.ilog2());
        self.0[place as usize].replace(now) != now
    }
}

/// How long a thread has been without others. All-zero memory is a valid one.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    /// Atomic operations since it met somebody or yielded, each [`GETS_ON`] times unless it gets on by them.
    alone: u32,
    /// How many there may be, in times of [`FEW`] by powers of two.
    patience: u32,
}

impl Thread {
    /// An atomic operation on a word that others use too, which has found a value; whether one of them has had it since.
    #[inline(always)]
    pub(crate) fn take_turn(&self, met: bool, pc: u64, address: usize, value: u64) {
        let Turns { alone, patience } = self.turns.get();
        let gets_on = || !self.tabled.get() && self.found.is_news(pc, address, value);
        self.turns.set(Turns {
            alone: match met {
                true => 0,
                false if gets_on() => alone + 1,
                false => alone + GETS_ON,
            },
            patience: if met { 0 } else { patience },
        });
    }

    /// Lets others run, if the thread has been alone for long. To be called where a region ends and behind atomic
    /// operations, when it holds nothing of ours.
    #[inline(always)]
    pub(crate) fn end_turn(&self) {
        if self.is_turn_due() {
            self.yield_if_due();
        }
    }

    /// Whether the thread has been alone for so long that others may have to run.
    #[inline(always)]
    pub(crate) fn is_turn_due(&self) -> bool {
        self.turns.get().alone >= GETS_ON * self.few()
    }

    /// The same where the program knows its regions.
    #[inline(always)]
    pub(crate) fn is_turn_due_between_regions(&self) -> bool {
        self.turns.get().alone >= GETS_ON * FEW_BETWEEN_REGIONS
    }

    /// How many operations there may be before the thread yields for the first time.
    #[inline(always)]
    fn few(&self) -> u32 {
        match self.tabled.get() {
            true => FEW_BETWEEN_REGIONS,
            false => FEW,
        }
    }

    #[inline(never)]
    fn yield_if_due(&self) {
        let Turns { alone, patience } = self.turns.get();
        let enough = (GETS_ON * self.few()) << patience;
        if alone >= enough && (alone >= enough + GETS_ON * MORE || !self.position.is_in_region()) {
            self.turns.set(Turns {
                alone: 0,
                patience: (patience + 1).min(MANY.ilog2() - self.few().ilog2()),
            });
            platform::yield_now();
        }
    }
}
