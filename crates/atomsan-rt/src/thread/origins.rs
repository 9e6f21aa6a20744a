//! Where memory was allocated and locks were initialised, which is wanted for their names.
//!
//! In a single run chunks of the log go back unread, or start again, and with them what they say of allocations. So
//! that is said a second time, in a table of the recording ([`origin`]), where the last allocation at an
//! address takes the place of those before; the follower looks there when something has no name. The
//! calls that lead to an allocation are a number: what is behind it is written once, in the log of edges,
//! which is read anyway.
//!
//! Nothing but names depends on it: where there is no room for more calls, or a place is taken by another block,
//! something has no name.

use super::{Frame, Thread};
use crate::format::{Kind, LOW, first_word, origin};
use crate::recording;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// How many of the innermost calls are told.
const CALLS: usize = 40;
/// How many ways to an allocation there may be, and how many places each may have in the table.
const KNOWN_LEN: usize = 1 << 13;
const PROBES: usize = 8;
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;
/// The numbers of calls that have been written down; 0 where nothing is.
static KNOWN: [AtomicU64; KNOWN_LEN] = [const { AtomicU64::new(0) }; KNOWN_LEN];

/// How many entries are in a page, and which pages of the table have room in the file.
const IN_PAGE: usize = 4096 / origin::SIZE;
const PAGES: usize = origin::LEN / IN_PAGE;
static PREPARED: [AtomicU64; PAGES.div_ceil(64)] =
    [const { AtomicU64::new(0) }; PAGES.div_ceil(64)];

/// Another recording has started, by the only thread.
pub(crate) fn forget_origins() {
    for word in KNOWN.iter().chain(&PREPARED) {
        // What nobody has touched has no memory.
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Whether there is room in the file for an entry.
fn has_room(place: usize) -> bool {
    let page = place / IN_PAGE;
    let (pages, bit) = (&PREPARED[page / 64], 1 << (page % 64));
    if pages.load(Ordering::Relaxed) & bit == 0 {
        if !recording::prepare_origins(page) {
            return false;
        }
        pages.fetch_or(bit, Ordering::Relaxed);
    }
    true
}

impl Thread {
    /// Appends where something was allocated or initialised.
    pub(crate) fn append_origin<const N: usize>(&self, words: [u64; N]) {
        self.append(words);
        if self.tabled.get() && !self.silent.get() {
            let mut entry = [0; 3];
            entry[..N].copy_from_slice(&words);
            self.note_origin(entry);
        }
    }

    fn note_origin(&self, words: [u64; 3]) {
        let address = words[0] & LOW;
        let place = if words[0] >> 56 == Kind::Initialise as u64 {
            origin::of_lock(address)
        } else {
            origin::of_block(address, words[2])
        };
        let Some(calls) = self.number_of_calls() else {
            return;
        };
        if has_room(place) {
            let entry = [words[0], words[1], words[2], origin::mixed(calls, words)];
            for (index, word) in entry.into_iter().enumerate() {
                recording::origin(place, index).store(word, Ordering::Relaxed);
            }
        }
    }

    /// The number of the calls that the thread is in, which have been written down by now.
    fn number_of_calls(&self) -> Option<u64> {
        let depth = self.depth();
        let frames = &self.frames[depth.saturating_sub(CALLS)..depth];
        // No frame has to wait for the product of another one.
        let number = frames.iter().fold(1u64, |number, frame| {
            let Frame { call, function, .. } = frame.get();
            let mixed = (call ^ (function & LOW).rotate_left(24)).wrapping_mul(MIXER);
            number.rotate_left(7) ^ mixed ^ mixed >> 29
        });
        let number = number.wrapping_mul(MIXER).max(1);
        for probe in 0..PROBES {
            let place = &KNOWN[((number >> 40) as usize + probe) % KNOWN_LEN];
            match place.load(Ordering::Relaxed) {
                0 => {
                    self.write_calls(frames, number);
                    // If somebody else is quicker, they are written down again the next time.
                    let _ = place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
                    return Some(number);
                }
                known if known == number => return Some(number),
                _ => {}
            }
        }
        None
    }

    fn write_calls(&self, frames: &[Cell<Frame>], number: u64) {
        let (low, high) = (self.stack_low.get(), self.stack_high.get());
        let thread = first_word(Kind::Continue, 0, self.number.get());
        self.write_link([thread, 0, low as u64, (high - low) as u64]);
        for frame in frames {
            self.write_link(self.entered(frame.get()));
        }
        self.write_link([first_word(Kind::Calls, 0, 0), number]);
    }
}
