//! The calls that a thread is in.
//!
//! Entering a function is only noted on a stack of our own; it is written to the log when
//! something in the function is ([`Thread::append`]), so functions that touch nothing shared cost
//! no log. A frame remembers the stack pointer, and entering a function drops the frames below
//! it, which a `longjmp` or an exception has left without telling us.
//!
//! The hooks do that by themselves ([`crate::hooks`]) while nothing else is to be done: a function
//! that is entered while the top of the stack is below `room`, and left while it stays above
//! `floor`. [`Thread::guard`] is what sets these two. Where everything is recorded, another function is another epoch, so there is
//! nothing else to be done only as long as the epoch is unused.

use super::{FRAMES, Frame, Thread};
use crate::format::{Kind, LOW, first_word, frame_detail, second_word};
use crate::start;
use core::cell::Cell;

impl Thread {
    pub(super) fn base(&self) -> usize {
        self.frames.as_ptr() as usize
    }

    /// Where frames end.
    pub(super) fn limit(&self) -> usize {
        self.base() + FRAMES * size_of::<Frame>()
    }

    /// Where the frames end that are in the log.
    pub(super) fn logged_end(&self) -> usize {
        self.base() + self.logged.get() * size_of::<Frame>()
    }

    /// How many frames there are.
    pub(super) fn depth(&self) -> usize {
        (self.top.get() - self.base()) / size_of::<Frame>()
    }

    /// Says what the hooks may do by themselves.
    pub(super) fn guard(&self) {
        let (inside, excess) = (self.is_inside(), self.excess.get() > 0);
        let unused = !self.tabled.get() && !self.used.get();
        let room = match (inside || unused) && !excess {
            true => self.limit(),
            false => 0,
        };
        self.room.set(room);
        let outside = self.tabled.get() && !inside;
        self.floor.set(if outside || excess {
            usize::MAX
        } else {
            self.logged_end().max(self.region_floor())
        });
    }

    /// Something is in the log that belongs to the epoch.
    #[inline(always)]
    pub(super) fn use_epoch(&self) {
        self.used.set(true);
        if !self.tabled.get() {
            self.room.set(0);
        }
    }

    /// Enters a function.
    #[inline(never)]
    pub(crate) fn enter(&self, call: u64, function: u64, stack: usize) {
        // SAFETY: below the first frame is the bottom, which is like one.
        let last = unsafe { *((self.top.get() - size_of::<Frame>()) as *const Frame) };
        if last.stack < stack {
            self.drop_frames_below(stack);
        }
        if self.top.get() == self.limit() {
            self.excess.set(self.excess.get() + 1);
            return self.guard();
        }
        let mut function = function & LOW;
        let outside = self.tabled.get() && !self.is_inside();
        if outside {
            // A handler that interrupts this has functions that are nobody's.
            function |= self
                .work(|| self.enter_outside(call, function))
                .unwrap_or(0);
        }
        let top = self.top.get();
        let frame = Frame {
            call,
            function,
            stack,
        };
        // SAFETY: the top is in front of the limit, so there is room for a frame.
        unsafe { (*(top as *const Cell<Frame>)).set(frame) };
        self.top.set(top + size_of::<Frame>());
        if outside {
            self.guard();
            self.next_epoch();
        } else if !self.tabled.get() {
            self.next_epoch();
        }
    }

    /// Leaves the innermost function.
    #[inline(never)]
    pub(crate) fn exit(&self) {
        if let Some(excess) = self.excess.get().checked_sub(1) {
            self.excess.set(excess);
            return self.guard();
        }
        let end = self.top.get();
        if end == self.base() {
            return;
        }
        let top = end - size_of::<Frame>();
        self.top.set(top);
        if self.logged_end() > top {
            self.log_exit(self.depth());
        }
        if self.tabled.get() {
            // SAFETY: the innermost frame, which has just been left.
            let frame = unsafe { (*(top as *const Cell<Frame>)).get() };
            self.work(|| self.leave(frame.function, end));
            self.guard();
        }
    }

    #[inline(never)]
    fn log_exit(&self, depth: usize) {
        self.work(|| {
            // The call is in the snapshot of a chunk that starts here.
            while self.logged.get() > depth {
                self.log_last_exit();
            }
            if !self.is_inside() {
                self.next_epoch();
            }
        });
        self.guard();
        if !self.tabled.get() {
            start::noise(0);
        }
    }

    /// Writes down that the innermost function of those in the log was left.
    #[inline(never)]
    pub(super) fn log_last_exit(&self) {
        self.write([first_word(Kind::Exit, 0, 0), 0]);
        self.logged.set(self.logged.get() - 1);
        self.is_not_ready();
    }

    #[inline(never)]
    pub(super) fn log_frames(&self) {
        let depth = self.depth();
        while self.logged.get() < depth {
            let index = self.logged.get();
            self.write(self.entered(self.frames[index].get()));
            self.logged.set(index + 1);
        }
        self.guard();
    }

    /// Where the innermost function that we know of has called what is running now. It may have
    /// called a library that nobody has instrumented, and that us. The return address is the first
    /// thing below its frame, as long as the function leaves its stack pointer where it was.
    pub(crate) fn call_site(&self) -> Option<u64> {
        let frame = self.frames.get(self.depth().checked_sub(1)?)?.get();
        let own = self.stack_low.get()..self.stack_high.get().saturating_sub(8);
        // SAFETY: it is on the thread's own stack.
        let site = || unsafe { (frame.stack as *const u64).read_volatile() };
        own.contains(&frame.stack).then(site).filter(|&pc| pc != 0)
    }

    /// The record of a function's entry. The stack pointer that we know is one call below.
    pub(super) fn entered(&self, frame: Frame) -> [u64; 2] {
        let detail = frame_detail(self.stack_high.get() as u64, frame.stack as u64 + 8);
        let first = first_word(Kind::Enter, 0, frame.call);
        [first, second_word(detail, frame.function)]
    }

    /// Frames whose stack pointer is below have been left, if they are on the same stack: a
    /// signal handler or a fiber may run on another one.
    #[cold]
    fn drop_frames_below(&self, stack: usize) {
        let own = self.stack_low.get()..self.stack_high.get();
        while let Some(last) = self.depth().checked_sub(1) {
            let left = self.frames[last].get().stack;
            let excess = self.excess.get() > 0;
            if left >= stack || excess || !own.contains(&left) || !own.contains(&stack) {
                return;
            }
            self.exit();
        }
    }
}
