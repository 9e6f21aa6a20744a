//! What has come to life with a transaction: the frames of the functions that it has called.
//!
//! A variable of a function is new when the function is called. What its transaction does with it is no news to anybody while
//! the thread has it to itself: it need not be logged, as it need not in a block of memory that has just been allocated
//! (`ownership::life`). In Rust a fifth of all records were of that kind: what is returned, and what a reference is made to.
//!
//! # Why it is right
//!
//! Another thread gets at the variable only after this one has told where it is, by an access of its own to something that is older, and
//! so is in the log. While no edge comes in, that is in the same [stretch](super::stretch) as what is not logged. So each conflict that is
//! not in the log leads from one transaction to another one that comes after it anyway, by an edge from the same stretch, and
//! cycles are the same. Once another thread has accessed the granule, its word says so (`SHARED`), and once an edge has come in, nothing is
//! newborn any more: all is logged from then on. That an old word says so of a frame that is no more costs records, and no more.
//!
//! Outside of regions, the same goes for all memory that the thread has had to itself so far, for another reason ([`super::outside`]).
//!
//! # Which memory that is
//!
//! All of the thread's stack below the place where the outermost of these functions returns to: its own frame and those of what it
//! calls. The frame of the caller is older, and a caller that makes room on its stack while it runs (`alloca`) has that
//! just above this place. So it is looked for exactly: the return address is so many words above where the function tells us that it
//! has been entered, always as many, because a compiler makes frames of a fixed size first. How many it is [found](Thread::finds_frame)
//! when the call is made again: the first word that looks like it. If that is a remnant of something else below the place, then a part of the
//! frame counts as old. Each time it is made sure of that the address is there, which it is not where a function aligns its frame anew.
//! On another stack than the thread's own (a fiber's, a signal's) nothing is newborn.

use super::Thread;
use crate::calls::{Made, NO_FRAME};

impl Thread {
    /// Nothing has come to life with the transaction yet.
    #[inline(always)]
    pub(crate) fn forget_newborn(&self) {
        self.newborn_len.set(0);
    }

    /// What the transaction does with memory that the thread has had to itself so far need not be in the log: it is in no cycle until
    /// an edge comes in ([`super::outside`]).
    #[inline(always)]
    pub(crate) fn needs_no_log(&self) {
        self.newborn_end.set(usize::MAX);
        self.newborn_len.set(usize::MAX);
    }

    /// Whether nothing of memory that the thread has had to itself so far need be in the log.
    #[inline(always)]
    pub(crate) fn logs_nothing_of_its_own(&self) -> bool {
        self.newborn_len.get() == usize::MAX
    }

    /// In the transaction a function is called whose frame has so many words; `call` is where it returns to.
    #[inline(always)]
    pub(crate) fn has_called(&self, words: usize, call: u64, stack: usize) {
        let end = stack + 8 * words;
        let (low, high) = (self.stack_low.get(), self.stack_high.get());
        let is_own = stack >= low && end < high.saturating_sub(8);
        if words != NO_FRAME && is_own && self.newborn_len.get() == 0 {
            self.is_newborn_below(end, end - low, call);
        }
    }

    /// The part of the stack below `end` is newborn, `len` bytes of it, if it is there that the function returns. To be called for a place on
    /// the thread's own stack above where that ends now.
    #[inline(always)]
    pub(super) fn is_newborn_below(&self, end: usize, len: usize, call: u64) {
        // SAFETY: the caller vouches for the place.
        let returns_to = unsafe { (end as *const u64).read_volatile() };
        if returns_to == call {
            self.newborn_end.set(end);
            self.newborn_len.set(len);
        }
    }

    /// Finds out how large the frame of a called function is.
    #[cold]
    pub(crate) fn finds_frame(&self, made: &Made, call: u64, stack: usize) {
        let (low, high) = (self.stack_low.get(), self.stack_high.get());
        let is_own = stack >= low && !self.silent.get();
        let room = high.saturating_sub(8).saturating_sub(stack) / 8;
        let words = if is_own { room.min(NO_FRAME) } else { 0 };
        // SAFETY: as above.
        let word = |at: usize| unsafe { ((stack + 8 * at) as *const u64).read_volatile() };
        made.set_frame((1..words).find(|&at| word(at) == call));
    }

    /// Whether an address belongs to that memory. The hooks do the same.
    #[inline(always)]
    pub(crate) fn is_newborn(&self, address: usize) -> bool {
        self.newborn_end.get().wrapping_sub(address) < self.newborn_len.get()
    }
}
