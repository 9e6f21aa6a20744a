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
//!
//! That a function of those in the log was left is written down at once where everything is recorded, because another
//! epoch begins there. Where the program knows its regions it is only noted, by the end of the frames that were
//! *kept*, and written down in front of the next record: mostly together with the number of the next transaction.

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

    /// Nothing is in the log.
    pub(super) fn forget_logged(&self) {
        self.kept.set(self.base());
        self.logged.set(self.base());
        self.is_not_ready();
    }

    /// How many functions have been left that are in the log.
    #[inline(always)]
    pub(crate) fn left(&self) -> usize {
        (self.logged.get() - self.kept.get()) / size_of::<Frame>()
    }

    /// The log says so.
    #[inline(always)]
    pub(crate) fn has_said_left(&self) {
        self.logged.set(self.kept.get());
    }

    /// Frames behind this have been left; whether any was in the log.
    #[inline(always)]
    pub(super) fn keeps_until(&self, top: usize) -> bool {
        let was_logged = self.kept.get() > top;
        if was_logged {
            self.kept.set(top);
            self.is_not_ready();
        }
        was_logged
    }

    /// The function that the thread is in, with what is noted of it; 0 if it is in none.
    pub(crate) fn innermost_function(&self) -> u64 {
        // SAFETY: below the first frame is the bottom, which is like one.
        unsafe { (*((self.top.get() - size_of::<Frame>()) as *const Frame)).function }
    }

    /// How many frames there are.
    pub(crate) fn depth(&self) -> usize {
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
        } else if self.tabled.get() {
            self.region_floor()
        } else {
            self.kept.get()
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
        let was_logged = self.keeps_until(top);
        if was_logged && !self.tabled.get() {
            self.log_exit();
        }
        if self.tabled.get() {
            if was_logged && !self.is_inside() {
                self.next_epoch();
            }
            // SAFETY: the innermost frame, which has just been left.
            let frame = unsafe { (*(top as *const Cell<Frame>)).get() };
            self.work(|| self.leave(frame.function, end));
            self.guard();
        }
    }

    #[inline(never)]
    fn log_exit(&self) {
        self.work(|| {
            self.log_exits();
            self.next_epoch();
        });
        self.guard();
        start::noise(0);
    }

    /// Writes down that functions were left which are in the log.
    #[inline(never)]
    fn log_exits(&self) {
        while self.logged.get() > self.kept.get() {
            self.write([first_word(Kind::Exit, 0, 0), 0]);
            self.logged.set(self.logged.get() - size_of::<Frame>());
        }
    }

    /// Writes down which functions the thread is in, as far as they are not in the log.
    #[inline(always)]
    pub(super) fn log_frames(&self) {
        if self.logged.get() != self.kept.get() {
            self.log_exits();
        }
        if self.kept.get() != self.top.get() {
            self.log_entries();
        }
    }

    #[inline(never)]
    fn log_entries(&self) {
        while self.kept.get() < self.top.get() {
            let kept = self.kept.get();
            // SAFETY: in front of the top is a frame.
            let frame = unsafe { (*(kept as *const Cell<Frame>)).get() };
            self.write(self.entered(frame));
            self.kept.set(kept + size_of::<Frame>());
            self.logged.set(self.kept.get());
        }
        if !self.tabled.get() {
            self.guard();
        }
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
