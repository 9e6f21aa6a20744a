//! What a thread initialises that is initialised once ([`GUARD`](crate::format::GUARD)), for the snapshots of its log.
//!
//! What an initialiser does is not checked, and an initialiser may be long: it may be in the log before a snapshot that it
//! began, and nothing but the snapshot is read of what was before. So a thread remembers what it is initialising, and
//! in which of its functions. It is over when the thread says so, or has left that function without a word, by an
//! exception; the function is known by how many are around it, and by where its frame is.
//!
//! There is room for a few of them. The innermost are forgotten first: while there is one around them, what they do
//! is done in an initialiser anyway.

use super::Thread;
use crate::format::{Kind, first_word, second_word};
use core::cell::Cell;

/// How many there is room for.
const ROOM: usize = 8;

#[derive(Clone, Copy)]
struct Open {
    guard: u64,
    pc: u64,
    /// How many functions the thread was in, and the stack pointer of the innermost.
    depth: usize,
    stack: usize,
}

/// What a thread initialises, the outermost first. All-zero memory is nothing.
pub(super) struct Initialising {
    count: Cell<usize>,
    open: [Cell<Open>; ROOM],
}

impl Initialising {
    pub(super) fn clear(&self) {
        self.count.set(0);
    }

    fn open(&self) -> impl DoubleEndedIterator<Item = Open> + ExactSizeIterator {
        let open = self.open.iter().take(self.count.get());
        open.map(Cell::get)
    }
}

impl Thread {
    /// The stack pointer of the innermost of so many functions.
    fn stack_at(&self, depth: usize) -> usize {
        depth
            .checked_sub(1)
            .map_or(0, |last| self.frames[last].get().stack)
    }

    /// Something is initialised that has this guard, in the function that the thread is in.
    #[cold]
    pub(crate) fn initialises(&self, guard: u64, pc: u64) {
        // Nobody initialises the same thing in its own initialiser.
        self.has_initialised(guard);
        let depth = self.depth();
        let is_over = |open: Open| open.depth > depth || open.stack != self.stack_at(open.depth);
        if let Some(over) = self.initialising.open().position(is_over) {
            self.initialising.count.set(over);
        }
        let count = self.initialising.count.get();
        if let Some(place) = self.initialising.open.get(count) {
            place.set(Open {
                guard,
                pc,
                depth,
                stack: self.stack_at(depth),
            });
            self.initialising.count.set(count + 1);
        }
    }

    /// What has this guard is initialised, or not any more.
    pub(crate) fn has_initialised(&self, guard: u64) {
        if let Some(at) = self
            .initialising
            .open()
            .rposition(|open| open.guard == guard)
        {
            self.initialising.count.set(at);
        }
    }

    /// What is initialised in the outermost of the functions that the thread is in, so many of them: how many are around
    /// it, and its record in a snapshot.
    pub(super) fn initialising_in(&self, depth: usize) -> impl Iterator<Item = (usize, [u64; 2])> {
        let is_there =
            move |open: &Open| open.depth <= depth && open.stack == self.stack_at(open.depth);
        self.initialising.open().take_while(is_there).map(|open| {
            let first = first_word(Kind::Initialising, 0, open.guard);
            (open.depth, [first, second_word(0, open.pc)])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform;
    use crate::thread::Frame;
    use std::vec::Vec;

    /// A thread that is in functions with these stack pointers.
    fn is_in(thread: &Thread, stacks: &[usize]) {
        for (frame, &stack) in thread.frames.iter().zip(stacks) {
            frame.set(Frame {
                call: 0,
                function: 0,
                stack,
            });
        }
        let top = thread.base() + stacks.len() * size_of::<Frame>();
        thread.top.set(top);
    }

    fn initialising(thread: &Thread, depth: usize) -> Vec<(usize, u64)> {
        let open = thread.initialising_in(depth);
        open.map(|(depth, [first, pc])| {
            assert_eq!(
                first & !crate::format::LOW,
                first_word(Kind::Initialising, 0, 0)
            );
            assert_eq!(pc, 7);
            (depth, first & crate::format::LOW)
        })
        .collect()
    }

    #[test]
    fn what_is_initialised_belongs_to_a_function() {
        let memory = platform::map_memory(size_of::<Thread>()).cast::<Thread>();
        // SAFETY: all-zero memory is a thread.
        let thread = unsafe { &*memory };
        is_in(thread, &[]);
        thread.initialises(1, 7);
        is_in(thread, &[90, 80]);
        thread.initialises(2, 7);
        is_in(thread, &[90, 80, 70]);
        thread.initialises(3, 7);
        assert_eq!(initialising(thread, 3), [(0, 1), (2, 2), (3, 3)]);
        assert_eq!(initialising(thread, 2), [(0, 1), (2, 2)]);
        thread.has_initialised(3);
        thread.has_initialised(4);
        assert_eq!(initialising(thread, 3), [(0, 1), (2, 2)]);
        // An exception was caught by the outermost function, which has called another one since.
        is_in(thread, &[90, 60]);
        assert_eq!(initialising(thread, 2), [(0, 1)]);
        thread.initialises(5, 7);
        assert_eq!(initialising(thread, 2), [(0, 1), (2, 5)]);
        // Or it tries again.
        thread.initialises(5, 7);
        assert_eq!(initialising(thread, 2), [(0, 1), (2, 5)]);
        for guard in 10..30 {
            thread.initialises(guard, 7);
        }
        assert_eq!(initialising(thread, 2).len(), ROOM);
        (10..30).for_each(|guard| thread.has_initialised(guard));
        assert_eq!(initialising(thread, 2), [(0, 1), (2, 5)]);
        thread.initialising.clear();
        assert_eq!(initialising(thread, 2), []);
    }
}
