//! The calls that the program has asked for, and what it was told of them.
//!
//! Outside of regions, every call and some other places are looked up here. What is shared with the
//! follower is a list ([`CALLS`](crate::format::CALLS)), in which a call has an *index*; where in the
//! list a call is, each thread remembers for those it has made last ([`Recent`]), and the process for
//! all ([`PLACES`]). A call that nobody has asked for goes to the end of the list, and the thread waits for the answer, but
//! not for ever. Most questions come one soon after the other, so the follower stays awake for a moment and answers at once; if it does
//! not, the thread wakes it ([`recording::ring`]).
//!
//! The places are open addressing in levels: if all places that a call may have in a level are taken,
//! it is in the next one, which is larger. Nothing is ever removed, so the first free place that is met
//! says that a call is not there, and takes it. If two threads ask for the same call at a time, it is in
//! the list twice; the index that came into its place first counts.

use crate::format::{CALLS_LEN, call, header};
use crate::sync::AtomicU64;
use crate::{platform, recording};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

/// How long a thread waits for an answer, in steps of at most 400 microseconds.
const PATIENCE: u32 = 5_000;
/// After so many steps, it rings again, and sees whether the follower is still there.
const LOOK: u32 = 32;
/// If it cannot be rung, it is waited for so many steps, which is half a second: it may be in another namespace, where
/// nobody has that number, and look by itself.
const PATIENCE_WITH_NOBODY: u32 = 1_000;
/// For so many steps it only lets others run, which is all it takes if the follower is awake or gets this processor. Then it rings.
const YIELDS: u32 = 12;
/// It sleeps for so many microseconds then, and each time for so much more.
const NAP: u32 = 5;
const LONGEST_NAP: u32 = 400;

/// How many places a call may have in a level.
const PROBES: usize = 8;
/// Where the levels start, and how many places they have.
const LEVELS: [(usize, usize); 3] = [(0, 1 << 10), (1 << 10, 1 << 13), (9 << 10, 1 << 18)];
const PLACES_LEN: usize = (9 << 10) + (1 << 18);

/// Indices plus 1; 0 where nothing is.
static PLACES: [AtomicU32; PLACES_LEN] = [const { AtomicU32::new(0) }; PLACES_LEN];

/// How many calls a thread remembers.
const RECENT: usize = 1024;

/// A call that a thread has made; none if the function is 0, which is nobody's.
pub(crate) struct Made {
    from: Cell<u64>,
    function: Cell<u64>,
    /// Where the answer is in the recording.
    answer: Cell<usize>,
    /// The index, and in the bits above it how large the function's frame is (see [`Made::frame`]).
    index_and_frame: Cell<u32>,
    /// How many edges had come in when its region was last known to be written down (see [`crate::regions`]).
    pub(crate) edges: Cell<u32>,
}

impl Made {
    /// What is said of it; the follower may have changed its mind.
    #[inline(always)]
    pub(crate) fn said(&self) -> u64 {
        self.answer().load(Ordering::Acquire)
    }

    /// Where that is.
    #[inline(always)]
    pub(crate) fn answer(&self) -> &'static AtomicU64 {
        // SAFETY: an aligned word of the recording, which is mapped for good.
        unsafe { &*(self.answer.get() as *const AtomicU64) }
    }

    /// Where the follower says what is inlined there.
    pub(crate) fn inlined(&self) -> &'static AtomicU64 {
        recording::call(self.index(), call::INLINED)
    }

    fn index(&self) -> usize {
        self.index_and_frame.get() as usize % CALLS_LEN
    }

    /// How large the function's frame is when it tells us that it has been entered, in words; 0 if that is not known, [`NO_FRAME`] if it
    /// cannot be.
    #[inline(always)]
    pub(crate) fn frame(&self) -> usize {
        self.index_and_frame.get() as usize / CALLS_LEN
    }

    /// It is so large, or that cannot be known.
    pub(crate) fn set_frame(&self, words: Option<usize>) {
        let words = words.map_or(NO_FRAME, |words| words.min(NO_FRAME));
        let both = words * CALLS_LEN + self.index();
        self.index_and_frame.set(both as u32);
    }
}

/// In place of the size of a frame: it cannot be known, or is larger than that.
pub(crate) const NO_FRAME: usize = (1 << 32) / CALLS_LEN - 1;

/// The calls that a thread has made last. All-zero memory is a valid one.
pub(crate) struct Recent([Made; RECENT]);

impl Recent {
    /// Forgets all, because another recording has started.
    pub(crate) fn clear(&self) {
        for call in &self.0 {
            call.from.set(0);
            call.function.set(0);
        }
    }

    /// Where a call is remembered.
    #[inline(always)]
    fn at(&self, from: u64, function: u64) -> &Made {
        &self.0[(from ^ function >> 4) as usize % RECENT]
    }

    /// A call of a function, if it is one of the last.
    #[inline(always)]
    pub(crate) fn made(&self, from: u64, function: u64) -> Option<&Made> {
        let made = self.at(from, function);
        (made.from.get() == from && made.function.get() == function).then_some(made)
    }

    /// The answer and the index, if the call is one of the last.
    #[inline(always)]
    pub(crate) fn answer(&self, from: u64, function: u64) -> Option<(usize, u64)> {
        let made = self.made(from, function).filter(|_| function != 0)?;
        let said = made.said();
        (said != 0).then_some((made.index(), said))
    }

    /// What is said of a call: the answer, and the index of the call; `None` if there is no room or
    /// nobody answers.
    #[inline(always)]
    pub(crate) fn ask(&self, from: u64, function: u64) -> Option<(usize, u64)> {
        if let Some(known) = self.answer(from, function) {
            return Some(known);
        }
        let found = ask(from, function, hash(from, function));
        if let Some((index, _)) = found {
            let made = self.at(from, function);
            made.from.set(from);
            made.function.set(function);
            made.index_and_frame.set(index as u32);
            let answer = recording::call(index, call::ANSWER);
            made.answer.set(core::ptr::from_ref(answer) as usize);
            made.edges.set(0);
        }
        found
    }
}

fn hash(from: u64, function: u64) -> u64 {
    (from ^ function.rotate_left(20)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// The index of a call, or its place in the table if it is not there; neither if there is no room.
fn find(from: u64, function: u64, hash: u64) -> Result<usize, Option<&'static AtomicU32>> {
    for (start, len) in LEVELS {
        for probe in 0..PROBES {
            let place = &PLACES[start + (hash as usize / RECENT + probe) % len];
            let Some(index) = place.load(Ordering::Acquire).checked_sub(1) else {
                return Err(Some(place));
            };
            if is_call(index as usize, from, function) {
                return Ok(index as usize);
            }
        }
    }
    Err(None)
}

fn is_call(index: usize, from: u64, function: u64) -> bool {
    recording::call(index, call::FUNCTION).load(Ordering::Acquire) == function
        && recording::call(index, call::CALL).load(Ordering::Relaxed) == from
}

#[cold]
fn ask(from: u64, function: u64, hash: u64) -> Option<(usize, u64)> {
    let index = match find(from, function, hash) {
        Ok(index) => index,
        Err(Some(_)) if recording::is_followed() => add(from, function, hash)?,
        Err(_) => {
            recording::counter(header::UNASKED).fetch_add(1, Ordering::Relaxed);
            return None;
        }
    };
    let answered = match recording::call(index, call::ANSWER).load(Ordering::Acquire) {
        0 => platform::with_exact_sleeps(|| wait_for_answer(index)),
        answer => Some((index, answer)),
    };
    if answered.is_none() {
        recording::counter(header::UNASKED).fetch_add(1, Ordering::Relaxed);
    }
    answered
}

/// Asks for a call that is not in the table; its index.
fn add(from: u64, function: u64, hash: u64) -> Option<usize> {
    let asked = recording::counter(header::ASKED);
    let full = asked.load(Ordering::Relaxed) >= CALLS_LEN as u64;
    let index = if full {
        CALLS_LEN
    } else {
        asked.fetch_add(1, Ordering::Relaxed) as usize
    };
    if !recording::prepare_call(index) {
        recording::counter(header::UNASKED).fetch_add(1, Ordering::Relaxed);
        return None;
    }
    recording::call(index, call::CALL).store(from, Ordering::Relaxed);
    recording::call(index, call::FUNCTION).store(function, Ordering::Release);
    loop {
        match find(from, function, hash) {
            Ok(index) => return Some(index),
            Err(None) => return Some(index),
            Err(Some(place)) => {
                let index = index as u32 + 1;
                let _ = place.compare_exchange(0, index, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

fn wait_for_answer(index: usize) -> Option<(usize, u64)> {
    for turn in 0..PATIENCE {
        if !recording::is_followed() {
            return None;
        }
        let answer = recording::call(index, call::ANSWER).load(Ordering::Acquire);
        if answer != 0 {
            return Some((index, answer));
        }
        if turn % LOOK == YIELDS && !recording::ring() && turn >= PATIENCE_WITH_NOBODY {
            break;
        }
        if turn < YIELDS {
            platform::yield_now();
        } else {
            let nap = NAP * (turn - YIELDS + 1);
            platform::sleep_microseconds(nap.min(LONGEST_NAP).into());
        }
    }
    recording::give_up();
    None
}

/// The follower has answered for a call, and says what is inlined there.
#[cfg(test)]
pub(crate) fn tell(from: u64, function: u64, said: u64, inlined: u64) {
    let index = add(from, function, hash(from, function)).unwrap();
    recording::call(index, call::INLINED).store(inlined, Ordering::Relaxed);
    recording::call(index, call::ANSWER).store(said, Ordering::Release);
}

/// Forgets all calls, because another recording has started. To be called by the only thread.
pub(crate) fn start_over() {
    for place in &PLACES {
        // What nobody has touched has no memory.
        if place.load(Ordering::Relaxed) != 0 {
            place.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn levels_lie_beside_each_other() {
        let ends = LEVELS.map(|(start, len)| start + len);
        let starts = [LEVELS[1].0, LEVELS[2].0, PLACES_LEN];
        assert_eq!(ends, starts);
        assert!(LEVELS[2].1 >= 2 * CALLS_LEN);
    }

    #[test]
    fn a_call_that_finds_no_place_in_a_level_is_in_the_next() {
        let _alone = crate::kernel::record_alone();
        // The first level has room for a third of them.
        let calls = |number: u64| (0x7000 + 5 * number, 0x9000 + number % 7);
        let hashed = |(from, function)| (from, function, hash(from, function));
        let add = |call| {
            let (from, function, hash) = hashed(call);
            add(from, function, hash).unwrap()
        };
        let find = |call| {
            let (from, function, hash) = hashed(call);
            find(from, function, hash)
        };
        let added: Vec<usize> = (0..3000).map(|number| add(calls(number))).collect();
        for (number, &index) in added.iter().enumerate() {
            assert_eq!(find(calls(number as u64)).ok(), Some(index));
            // Who asks again is told the same.
            assert_eq!(add(calls(number as u64)), index);
        }
        assert!(find(calls(3000)).is_err());
        start_over();
        assert!(
            added
                .iter()
                .zip(0..)
                .all(|(_, number)| find(calls(number)).is_err())
        );
    }
}
