//! The usual calls outside of functions that are regions, made again: of one that is a region all by itself,
//! of somebody else's, or in a region that is inlined; and the way out of them. What may happen beside that is in
//! [`super::frames`] and [`crate::regions`], of which these two do exactly what there is to do.

use super::{Frame, Thread};
use crate::format::LOW;
use crate::regions::Again;
use crate::start;
use core::cell::Cell;
use core::num::NonZero;
use core::sync::atomic::{Ordering, compiler_fence};

impl Thread {
    /// Enters a function; not at all, and `false`, if there may be more to it.
    #[inline(always)]
    pub(crate) fn enters_again(&self, call: u64, function: u64, stack: usize) -> bool {
        let Some((top, end)) = self.room_for_frame(stack) else {
            return false;
        };
        if !self.tabled.get() {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let again = self.call_again(call & LOW, function & LOW, end);
        let Some(Again {
            is_inside,
            begins,
            flags,
        }) = again
        else {
            self.busy.set(false);
            return false;
        };
        if is_inside {
            self.room.set(self.limit());
            self.floor.set(end);
            self.has_called_again(call, function & LOW, stack);
        }
        let frame = self.push(top, call, function & LOW | flags, stack);
        if begins {
            self.remember_region(frame, top);
        } else if !Thread::is_plain(flags) {
            self.next_epoch();
        }
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        true
    }

    /// The same for the usual call of a region, for which no function of ours is called: so hardly a register has to be saved.
    /// Addresses of code have 48 bits. If the program does not know its regions, there are none. `SILENT` says whether this is a first
    /// run, in which nothing is logged and so nothing has to be known for it.
    #[inline(always)]
    pub(crate) fn enters_region_again<const SILENT: bool>(
        &self,
        call: u64,
        function: u64,
        stack: usize,
    ) -> bool {
        let Some((top, end)) = self.room_for_frame(stack) else {
            return false;
        };
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let Some(usual) = self.usual_region(call, function) else {
            self.busy.set(false);
            return false;
        };
        if !SILENT {
            self.notes_talk(top);
        }
        self.begins_usually::<SILENT>(usual.region, usual.mine, end);
        if !SILENT {
            self.has_called(usual.frame, call, stack);
        }
        let frame = self.push(top, call, function, stack);
        if !SILENT && self.talks_inside.get() && self.kept.get() == top {
            self.says_where_at_first(Some(self.entered(frame)));
        }
        self.remember_region(frame, top);
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        true
    }

    /// Notes whether the log was ready outside, because something has happened there.
    #[inline(always)]
    pub(super) fn notes_talk(&self, top: usize) {
        let talks = self.ready.get() == top && self.log.position() != self.said_until.get();
        self.talks_outside.set(talks);
    }

    /// A region begins with a usual call whose frame is going to end at `end`.
    #[inline(always)]
    pub(super) fn begins_usually<const SILENT: bool>(
        &self,
        region: NonZero<u64>,
        mine: u64,
        end: usize,
    ) {
        self.begin_usual_region(region, mine, end, SILENT);
        self.room.set(self.limit());
        self.floor.set(end);
    }

    /// The same for the usual call of a function that is none.
    #[inline(always)]
    pub(crate) fn enters_outside_again(&self, call: u64, function: u64, stack: usize) -> bool {
        let Some((top, _)) = self.room_for_frame(stack) else {
            return false;
        };
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let flags = self.makes_usual_call(call, function);
        if let Some(flags) = flags {
            self.push(top, call, function | flags, stack);
        }
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        flags.is_some()
    }

    /// In the transaction a function is called that is remembered: see [`super::newborn`].
    fn has_called_again(&self, call: u64, function: u64, stack: usize) {
        if let Some(made) = self.position.made(call & LOW, function) {
            if made.frame() == 0 {
                self.finds_frame(made, call, stack);
            }
            self.has_called(made.frame(), call, stack);
        }
    }

    /// Where the next frame starts and ends, if there is nothing to be done first.
    #[inline(always)]
    fn room_for_frame(&self, stack: usize) -> Option<(usize, usize)> {
        let top = self.top.get();
        let is_free = self.stack_below(top) >= stack && top != self.limit();
        (is_free && !self.busy.get()).then_some((top, top + size_of::<Frame>()))
    }

    /// The stack pointer of the frame that ends here.
    #[inline(always)]
    pub(super) fn stack_below(&self, end: usize) -> usize {
        // SAFETY: below the first frame is the bottom, which is like one.
        unsafe { (*((end - size_of::<Frame>()) as *const Frame)).stack }
    }

    /// Puts a frame on top, for which there must be room; this frame.
    #[inline(always)]
    pub(super) fn push(&self, top: usize, call: u64, function: u64, stack: usize) -> Frame {
        let frame = Frame {
            call,
            function,
            stack,
        };
        // SAFETY: there is room for a frame.
        unsafe { (*(top as *const Cell<Frame>)).set(frame) };
        self.top.set(top + size_of::<Frame>());
        frame
    }

    /// Leaves the innermost function, with which a region ends, if no function of ours is called for that; whether it was
    /// so.
    #[inline(always)]
    pub(crate) fn exits_region_again<const SILENT: bool>(&self) -> bool {
        let end = self.top.get();
        let ends_region = self.is_last_of_region(end) && self.excess.get() == 0;
        if !ends_region || self.busy.get() {
            return false;
        }
        // There is a frame, because a region ends with it.
        let top = end - size_of::<Frame>();
        let is_due = || self.is_due_again() || self.is_turn_due_between_regions();
        if !SILENT && is_due() || start::is_noisy() {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let talks = self.used.get();
        let ends = self.ends_simply(SILENT);
        if ends {
            // SAFETY: the innermost frame, and there is one.
            let function = unsafe { (*(top as *const Frame)).function };
            self.top.set(top);
            self.room.set(0);
            self.floor.set(usize::MAX);
            self.leave_flagged(function);
            if !SILENT {
                self.talks_inside.set(talks);
                self.keeps_until(top);
                if self.talks_outside.get() && self.kept.get() == top {
                    self.says_where_at_first(None);
                }
            }
        }
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        ends
    }

    /// The same for a function outside of regions of which nothing is in the log.
    #[inline(always)]
    pub(crate) fn exits_outside_again(&self) -> bool {
        let end = self.top.get();
        let top = end - size_of::<Frame>();
        let is_outside = self.tabled.get() && self.is_outside();
        let has_more = self.excess.get() > 0 || top < self.base() || self.kept.get() > top;
        if !is_outside || has_more || self.busy.get() {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the innermost frame, and there is one.
        let function = unsafe { (*(top as *const Frame)).function };
        self.top.set(top);
        self.leave_flagged(function);
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
        } else if was_logged && !Thread::is_plain(self.innermost_function()) {
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
