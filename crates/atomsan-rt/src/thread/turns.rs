//! Turns: a thread that spins lets others run.
//!
//! Threads that exchange something without blocking try until it is there. Where more of them run than there
//! are processors, one that tries is in the way of the one it waits for, until its time slice is over, and
//! with us each attempt takes longer and leaves records. What spinning looks like from here is atomic
//! operations on shared words that nobody else has changed in between. After some of these in a row the
//! thread yields the processor; more and more of them, as long as nobody comes, so that a thread that is
//! simply alone pays next to nothing.
//!
//! Who yields in the middle of a region may hold a lock that others then wait for, and lets them into the region,
//! which has to be checked then. So a thread that is in one goes on until it is over, if that is soon.

use super::Thread;
use crate::platform;

/// How many atomic operations a thread makes without meeting anybody before it yields, at first and at most.
const FEW: u32 = 64;
const MANY: u32 = 1 << 13;
/// How many more it makes to come to the end of a region.
const MORE: u32 = 256;

/// How long a thread has been without others. All-zero memory is a valid one.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    /// Atomic operations since it met somebody or yielded.
    alone: u32,
    /// How many there may be, in times of [`FEW`] by powers of two.
    patience: u32,
}

impl Thread {
    /// An atomic operation on a word that others use too; whether one of them has had it since.
    #[inline(always)]
    pub(crate) fn take_turn(&self, met: bool) {
        let Turns { alone, patience } = self.turns.get();
        self.turns.set(if met {
            Turns {
                alone: 0,
                patience: 0,
            }
        } else {
            Turns {
                alone: alone + 1,
                patience,
            }
        });
    }

    /// Lets others run, if the thread has been alone for long. To be called where a region ends and behind atomic
    /// operations, when it holds nothing of ours.
    #[inline(always)]
    pub(crate) fn end_turn(&self) {
        let Turns { alone, patience } = self.turns.get();
        let enough = FEW << patience;
        if alone >= enough && (alone >= enough + MORE || !self.position.is_in_region()) {
            self.turns.set(Turns {
                alone: 0,
                patience: (patience + 1).min(MANY.ilog2() - FEW.ilog2()),
            });
            platform::yield_now();
        }
    }
}
