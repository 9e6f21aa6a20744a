//! The same call again: a region that is called from where it was called last, with the stack as it was then.
//!
//! Programs call the same function in a loop, and most of what has to be known of such a call is what was known the last time: that
//! it is a usual one ([`crate::regions`]), which region that is, what the log says of it, which of the stack is [newborn](super::newborn).
//! So all that is remembered, with all that it depends on, and is as it was if that is as it was:
//!
//! - where the call is, the function, the stack, and the frames that the thread is in;
//! - what is said of the call, and of what is inlined there, which the follower may change;
//! - the thread's entry point, and whether it is in one;
//! - how many edges have come in: the first transaction of a region after an edge is written down.
//!
//! What else has to be so for a usual call is looked at each time, and so is whether the return address is where it was: a function
//! that aligns its frame may have the same stack with another frame.

use super::{Frame, Thread};
use crate::format::LOW;
use crate::regions::UsualPlace;
use crate::sync::AtomicU64;
use core::cell::Cell;
use core::num::NonZero;
use core::sync::atomic::{Ordering, compiler_fence};

/// How many calls are remembered.
const CALLS: usize = 32;

/// What is remembered of a call. The function is 0 if there is none.
#[repr(align(128))]
pub(super) struct Same {
    call: Cell<u64>,
    function: Cell<u64>,
    stack: Cell<usize>,
    top: Cell<usize>,
    /// What is said of it and of what is inlined there, and where.
    said: [Cell<u64>; 2],
    answers: [Cell<Option<&'static AtomicU64>>; 2],
    place: Cell<UsualPlace>,
    region: Cell<u64>,
    /// The record that says that it was entered.
    entered: Cell<[u64; 2]>,
    /// Where the newborn part of the stack ends, and how large it is; 0 if there is none.
    newborn: Cell<(usize, usize)>,
}

/// The last calls of regions. All-zero memory is a valid one.
pub(super) struct SameCalls([Same; CALLS]);

impl SameCalls {
    /// Forgets all, because another thread or another recording has started.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|call| call.function.set(0));
    }

    #[inline(always)]
    fn at(&self, call: u64, function: u64) -> &Same {
        &self.0[(call ^ function >> 4) as usize % CALLS]
    }
}

impl Same {
    /// Whether it is this call, made with this stack.
    #[inline(always)]
    fn is(&self, call: u64, function: u64, stack: usize, top: usize) -> bool {
        self.call.get() == call
            && self.function.get() == function
            && self.stack.get() == stack
            && self.top.get() == top
    }

    /// Whether the same is said of it.
    #[inline(always)]
    fn is_said(&self) -> bool {
        let answers = self.said.iter().zip(&self.answers);
        answers.into_iter().all(|(said, answer)| {
            let now = answer.get().map(|answer| answer.load(Ordering::Acquire));
            now == Some(said.get())
        })
    }
}

impl Thread {
    /// Enters a region; not at all, and `false`, if anything is not as it was. `SILENT` says whether nothing is logged.
    #[inline(always)]
    pub(crate) fn enters_same_region<const SILENT: bool>(
        &self,
        call: u64,
        function: u64,
        stack: usize,
    ) -> bool {
        let same = self.same.at(call, function);
        let top = self.top.get();
        if !same.is(call, function, stack, top) || !same.is_said() || self.busy.get() {
            return false;
        }
        let is_usual = self.is_outside() && same.place.get() == self.usual_place();
        if !is_usual || self.stack_below(top) < stack {
            return false;
        }
        let (Some(mine), Some(region)) = (self.next_mine(), NonZero::new(same.region.get())) else {
            return false;
        };
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        if !SILENT {
            self.notes_talk(top);
        }
        self.begins_usually::<SILENT>(region, mine, top + size_of::<Frame>());
        if !SILENT {
            let (end, len) = same.newborn.get();
            if len != 0 {
                self.is_newborn_below(end, len, call);
            }
        }
        self.push(top, call, function, stack);
        if !SILENT && self.talks_inside.get() && self.kept.get() == top {
            self.says_where_at_first(Some(same.entered.get()));
        }
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        true
    }

    /// A region has begun with a call that was made before, with this frame on top of the others; the call is not counted.
    #[inline(always)]
    pub(super) fn remember_region(&self, frame: Frame, top: usize) {
        let (call, function) = (frame.call & LOW, frame.function & LOW);
        let Some(made) = self.position.made(call, function) else {
            return;
        };
        let same = self.same.at(call, function);
        same.call.set(call);
        same.function.set(function);
        same.stack.set(frame.stack);
        same.top.set(top);
        for (at, answer) in [made.answer(), made.inlined()].into_iter().enumerate() {
            same.said[at].set(answer.load(Ordering::Acquire));
            same.answers[at].set(Some(answer));
        }
        same.place.set(self.usual_place());
        same.region.set(self.region());
        same.entered.set(self.entered(frame));
        let newborn = (self.newborn_end.get(), self.newborn_len.get());
        same.newborn.set(newborn);
    }
}
