//! Stretches: how long it adds nothing to say again what is in the log.
//!
//! In a recording of everything that is an epoch, because it matters to some engines under which locks an access
//! is. A single run looks for cycles of transactions, and for these an access that its transaction has
//! made before is nothing new while nobody else has accessed the granule in between: not behind a
//! lock or an atomic operation either. A *stretch* is what lies between the beginning of a
//! transaction and the edges that come into it. Those end a stretch, because who is to blame for a cycle depends
//! on whether an edge leaves a transaction before another one comes in: what leaves it from behind the
//! one that came in must be in the log behind it. (The engines' tests have that as a property of random
//! traces, `stretches.rs`, with an example of what goes wrong otherwise.) Outside of regions, it is what may be
//! in a cycle that [does](super::outside).
//!
//! A stretch is told by the thread's own word at its beginning, with nothing logged. The shadow word of a granule says by its epoch
//! whether its owner has accessed it in the stretch; of a granule without an owner the
//! [filter](super::filter) says so, and its word is another one if somebody has written to it.

use super::Thread;
use crate::{ownership, platform};

/// How many epochs a stretch has at most. Epochs come again, and a word that has not been touched for a whole
/// round should not seem to be one of the stretch.
const LONG: u64 = ownership::epochs(1 << 16);

/// The thread's own word at the beginning of a stretch times this is what the shadow word of a granule is mixed
/// with in the filter: 28 bits of the epoch, mixed, in the [upper bits](super::filter::OF_STRETCH).
const MIXER: u64 = 0x9e3_779b << 20;

impl Thread {
    /// Another stretch begins, with what is accessed next. Where nothing is logged, there are none.
    #[inline(always)]
    pub(crate) fn start_stretch(&self) {
        let start = ownership::nothing_logged(self.mine.get());
        if !self.silent.get() && self.stretch.replace(start) != start {
            platform::set_stretch_word(self.stretch_key());
            self.stretched
                .set(ownership::within(start, self.mine.get()));
            self.forget_newborn();
        }
    }

    /// The same with the epoch that has this own word, which is another one than the last stretch began with. The hooks do not
    /// know yet.
    #[inline(always)]
    pub(super) fn start_stretch_with(&self, mine: u64) {
        self.stretch.set(ownership::nothing_logged(mine));
        self.stretched.set(ownership::WITHIN_EPOCH);
        self.forget_newborn();
    }

    /// The stretch that began with this word goes on, though another transaction has begun.
    pub(crate) fn stay_in_stretch(&self, start: u64) {
        self.stretch.set(start);
        platform::set_stretch_word(self.stretch_key());
        self.go_on_in_stretch();
    }

    /// The same in another epoch, unless this stretch has only just begun. An epoch in which nothing was logged does not do: words
    /// of the last stretch may have been renewed in it.
    pub(crate) fn start_stretch_anew(&self) {
        let start = ownership::nothing_logged(self.mine.get());
        self.forget_newborn();
        if self.stretch.get() != start || self.used.get() {
            self.used.set(true);
            self.next_epoch();
            self.start_stretch();
        }
    }

    /// Another epoch has begun: it is another stretch too if the transactions are not known, or if this one is long.
    #[inline(always)]
    pub(super) fn go_on_in_stretch(&self) {
        let is_long = || ownership::since(self.stretch.get(), self.mine.get()) > LONG;
        if !self.tabled.get() || is_long() {
            self.start_stretch();
        } else {
            let (start, mine) = (self.stretch.get(), self.mine.get());
            self.stretched.set(ownership::within(start, mine));
        }
    }

    /// What the filter's states are mixed with.
    #[inline(always)]
    pub(super) fn stretch_key(&self) -> u64 {
        self.stretch.get().wrapping_mul(MIXER)
    }

    /// Whether a word of the thread's own is from this stretch. The hooks do the same.
    #[inline(always)]
    pub(crate) fn is_in_stretch(&self, word: u64) -> bool {
        ownership::within(self.stretch.get(), word) <= self.stretched.get()
    }
}
