//! The usual call outside of regions, made again: it is one of the user's functions, which is a region
//! all by itself, and so is the way out of it. What may happen beside that is in [`super::frames`] and
//! [`crate::regions`], of which these two do exactly what there is to do.

use super::{Frame, Thread};
use crate::format::LOW;
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
        let Some(region) = self.region_again(call & LOW, function) else {
            return false;
        };
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let end = top + size_of::<Frame>();
        let frame = Frame {
            call,
            function: function | self.begin_region(region, end),
            stack,
        };
        // SAFETY: there is room for a frame.
        unsafe { (*(top as *const Cell<Frame>)).set(frame) };
        self.top.set(end);
        self.room.set(self.limit());
        self.floor.set(end);
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        true
    }

    /// Leaves the innermost function; not at all, and `false`, if there may be more to it.
    #[inline(always)]
    pub(crate) fn exits_again(&self) -> bool {
        let end = self.top.get();
        let top = end - size_of::<Frame>();
        if !self.is_last_of_region(end) || self.logged_end() > top || self.busy.get() {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the innermost frame: there is one, because the region ends with it.
        let function = unsafe { (*(top as *const Frame)).function };
        self.top.set(top);
        self.room.set(0);
        self.floor.set(usize::MAX);
        self.end_last_of_region(function);
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        start::noise(0);
        true
    }
}
