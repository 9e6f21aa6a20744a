//! Atomic loads that mean nothing: those that an implementation of a lock makes beside taking it.
//!
//! A `Mutex` of Rust looks whether the thread panics, and whether another one has while it held the lock: three
//! loads each time that it is taken, of words that nobody writes to. The follower knows from the names of
//! the functions at a place that what is loaded there is none of the user's business; events leave it
//! out. So it need not be recorded either. It orders nothing that the lock does not, and starts no epoch.
//!
//! A place is asked for when a thread has been there some times: an answer takes as long as a thousand loads.

use super::Thread;
use crate::format::{LOW, answer};
use core::cell::Cell;

/// How many places a thread remembers.
const PLACES: usize = 64;
/// How often a thread has been at a place before it asks.
const OFTEN: u64 = 32;

/// A place in the lower 48 bits, and how often the thread has been there, or what it was told.
const ONCE: u64 = 1 << 48;
const SOMETHING: u64 = 1 << 62;
const NOTHING: u64 = 1 << 63;

/// Places of loads. All-zero memory is a valid one.
pub(crate) struct Places([Cell<u64>; PLACES]);

impl Places {
    /// Forgets all, because another recording has started.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|place| place.set(0));
    }
}

impl Thread {
    /// Whether an atomic load at a place means nothing.
    #[inline(always)]
    pub(crate) fn means_nothing(&self, pc: u64) -> bool {
        let place = &self.hidden.0[(pc ^ pc >> 6) as usize % PLACES];
        let known = place.get();
        if known & LOW == pc & LOW && known >= SOMETHING {
            return known >= NOTHING;
        }
        self.tabled.get() && self.finds_out(place, pc & LOW)
    }

    #[inline(never)]
    fn finds_out(&self, place: &Cell<u64>, pc: u64) -> bool {
        let known = place.get();
        let times = if known & LOW == pc { known >> 48 } else { 0 };
        if times < OFTEN {
            place.set(pc | ((times + 1) * ONCE));
            return false;
        }
        let answer = self.work(|| self.position.ask_place(pc)).flatten();
        let nothing = answer.is_some_and(|said| said & answer::NOTHING != 0);
        place.set(pc | if nothing { NOTHING } else { SOMETHING });
        nothing
    }
}
