//! Code in which nothing of the user's is inlined: what happens there outside of regions begins none, wherever it is.
//!
//! What the follower says of a place holds for a part of the function around it. So a thread remembers such a part for each function that
//! it has been in, and asks for other parts only.

use crate::format::{LOW, answer, call, plain};
use crate::recording;
use crate::thread::Thread;
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// How many functions are remembered.
const FUNCTIONS: usize = 256;

/// A part of a function. All-zero memory is none.
struct Part {
    function: Cell<u64>,
    start: Cell<u64>,
    end: Cell<u64>,
}

/// Parts of functions. All-zero memory has none.
pub(super) struct Parts([Part; FUNCTIONS]);

impl Parts {
    fn of(&self, function: u64) -> &Part {
        &self.0[(function >> 4 ^ function >> 12) as usize % FUNCTIONS]
    }

    /// Forgets all, because another recording has started.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|part| part.end.set(0));
    }

    /// Whether a place in a function is in a part that is known.
    fn has(&self, function: u64, place: u64) -> bool {
        let part = self.of(function);
        part.function.get() == function && (part.start.get()..part.end.get()).contains(&place)
    }

    /// A part of a function is known, around a place.
    fn learn(&self, function: u64, place: u64, around: u64) {
        let distance = |shift: u32| around >> shift & u64::from(u32::MAX);
        if distance(plain::AFTER) > 0 {
            let part = self.of(function);
            part.function.set(function);
            part.start.set(place - distance(plain::BEFORE));
            part.end.set(place + distance(plain::AFTER));
        }
    }
}

impl Thread {
    /// What is said of a place outside of regions, where the thread is, and under which index, if it had to be asked.
    pub(super) fn ask_where(&self, place: u64) -> Option<(usize, u64)> {
        let (parts, function) = (&self.position.plain, self.innermost_function() & LOW);
        if parts.has(function, place) {
            return Some((0, answer::KNOWN));
        }
        let (index, said) = self.position.recent.ask(place, call::PLACE)?;
        if said & answer::INLINED == 0 {
            let around = recording::call(index, call::INLINED).load(Ordering::Acquire);
            parts.learn(function, place, around);
        }
        Some((index, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_for_one_function() {
        // SAFETY: all-zero memory is a valid one.
        let parts: Parts = unsafe { core::mem::zeroed() };
        let around = |before: u64, after: u64| before << plain::BEFORE | after << plain::AFTER;
        assert!(!parts.has(0, 0) && !parts.has(0x5000, 0x5010));
        parts.learn(0x5000, 0x5010, around(0x10, 0x20));
        let places = [0x4fff, 0x5000, 0x5010, 0x502f, 0x5030];
        let has = |function| places.map(|place| parts.has(function, place));
        assert_eq!(has(0x5000), [false, true, true, true, false]);
        assert_eq!(has(0x6000), [false; 5]);
        // Nothing is known around a place.
        parts.learn(0x5000, 0x6010, around(0, 0));
        assert!(parts.has(0x5000, 0x5010));
        parts.clear();
        assert_eq!(has(0x5000), [false; 5]);
    }
}
