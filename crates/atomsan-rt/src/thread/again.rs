//! The usual calls outside of functions that are regions, made again: of one that is a region all by itself,
//! of somebody else's, or in a region that is inlined; and the way out of them. What may happen beside that is in
//! [`super::frames`] and [`crate::regions`], of which these two do exactly what there is to do.

use super::{Frame, Thread};
use crate::format::LOW;
use crate::regions::Again;
use crate::start;
use core::cell::Cell;
use core::sync::atomic::{Ordering, compiler_fence};

impl Thread {
    /// Enters a function; not at all, and `false`, if there may be more to it.
    #[inline(always)]
    pub(crate) fn enters_again(&self, call: u64, function: u64, stack: usize) -> bool {
        let (top, function) = (self.top.get(), function & LOW);
        // SAFETY: below the first frame is the bottom, which is like one.
        let last = unsafe { &*((top - size_of::<Frame>()) as *const Frame) };
        if last.stack < stack || top == self.limit() || !self.tabled.get() || self.busy.get() {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let end = top + size_of::<Frame>();
        let Some(Again { is_inside, flags }) = self.call_again(call & LOW, function, end) else {
            self.busy.set(false);
            return false;
        };
        if is_inside {
            self.room.set(self.limit());
            self.floor.set(end);
        }
        let frame = Frame {
            call,
            function: function | flags,
            stack,
        };
        // SAFETY: there is room for a frame.
        unsafe { (*(top as *const Cell<Frame>)).set(frame) };
        self.top.set(end);
        self.next_epoch();
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        true
    }

    /// Leaves the innermost function; not at all, and `false`, if there may be more to it.
    #[inline(always)]
    pub(crate) fn exits_again(&self) -> bool {
        let end = self.top.get();
        let top = end - size_of::<Frame>();
        let ends_region = self.is_last_of_region(end);
        let goes_on = !ends_region && self.goes_on_inlined(end);
        let is_usual = ends_region || goes_on || self.tabled.get() && self.is_outside();
        let has_more = self.excess.get() > 0 || top < self.base();
        if !is_usual || has_more || self.busy.get() {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the innermost frame, and there is one.
        let function = unsafe { (*(top as *const Frame)).function };
        self.top.set(top);
        let was_logged = self.keeps_until(top);
        if ends_region || goes_on {
            self.room.set(0);
            self.floor.set(usize::MAX);
        }
        if ends_region {
            self.end_last_of_region();
        } else if goes_on {
            self.end_call();
        } else if was_logged {
            self.next_epoch();
        }
        self.leave_flagged(function);
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        if ends_region {
            self.end_turn();
            start::noise(0);
        }
        true
    }
}
