//! The usual calls outside of regions, made again: of one of the user's functions, which is a region all
//! by itself, or of somebody else's; and the way out of them. What may happen beside that is in
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
        let Some(call_again) = self.call_again(call & LOW, function) else {
            return false;
        };
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let end = top + size_of::<Frame>();
        let flags = match call_again {
            Again::Region(region) => {
                self.room.set(self.limit());
                self.floor.set(end);
                self.begin_region(region, end)
            }
            Again::Other(flags) => flags,
        };
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
        let is_usual = ends_region || self.tabled.get() && self.is_outside();
        let is_logged = self.logged_end() == end;
        let has_more = self.excess.get() > 0 || top < self.base() || self.logged_end() > end;
        if !is_usual || has_more || self.busy.get() {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the innermost frame, and there is one.
        let function = unsafe { (*(top as *const Frame)).function };
        self.top.set(top);
        if is_logged {
            self.log_last_exit();
        }
        if ends_region {
            self.room.set(0);
            self.floor.set(usize::MAX);
            self.end_last_of_region();
        } else if is_logged {
            self.next_epoch();
        }
        self.leave_flagged(function);
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        if ends_region {
            start::noise(0);
        }
        true
    }
}
