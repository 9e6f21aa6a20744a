//! The usual calls outside of functions that are regions, made again, and the end of a region: what [`super`] does, as far as it is
//! the same each time. Where nothing has to be written down and no era begins, no other function is called for it.

use super::{Entry, called_region, flag, inlined_entry, number, plain_flag};
use crate::format::answer;
use crate::ownership;
use crate::thread::Thread;
use core::num::NonZero;

/// The usual call of a region, made again.
#[derive(Clone, Copy)]
pub(crate) struct Usual {
    pub(crate) region: NonZero<u64>,
    /// The own word of its first epoch.
    pub(crate) mine: u64,
    /// How large the function's frame is.
    pub(crate) frame: usize,
}

/// What decides, besides what is said of it, what a call does outside of regions that has been made before: the entry point, whether the thread
/// is in it, and whether a region has been written down since the last edge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsualPlace {
    /// The family, and in the lowest bit whether it is a closure.
    entry: u64,
    users: u32,
    foreign: u32,
    edges: u32,
}

/// A call that has been made before, and is made now.
pub(crate) struct Again {
    /// Whether it is inside of a region now, and whether that has begun with it.
    pub(crate) is_inside: bool,
    pub(crate) begins: bool,
    /// What its frame is to remember of it.
    pub(crate) flags: u64,
}

impl Thread {
    /// Makes a call outside of functions that are regions, whose frame is going to end at `end`; not at all, and
    /// `None`, if it has not been made before, or has to do with the entry point.
    #[inline(always)]
    pub(crate) fn call_again(&self, from: u64, function: u64, end: usize) -> Option<Again> {
        let (index, said) = self.position.recent.answer(from, function)?;
        if said & answer::INLINED != 0 {
            return self.call_inlined_again(index, said, from, end);
        }
        let is_users = said & answer::USER != 0;
        if !self.is_outside() || is_users && self.is_of_entry(said) {
            return None;
        }
        if is_users && said & answer::ATOMIC != 0 {
            return Some(self.begins_with_call(said, end));
        }
        Some(self.called(said, is_users, false, end))
    }

    /// A region begins with a call, which is not counted.
    #[inline(always)]
    fn begins_with_call(&self, said: u64, end: usize) -> Again {
        self.tick_quickly(called_region(said));
        self.position.floor.set(end);
        Again {
            is_inside: true,
            begins: true,
            flags: plain_flag(said),
        }
    }

    /// The region that the call of a function begins, if that is usual: no function of ours has to be called for it.
    #[inline(always)]
    pub(crate) fn usual_region(&self, from: u64, function: u64) -> Option<Usual> {
        const USUAL: u64 = answer::USER | answer::ATOMIC;
        let made = self.position.recent.made(from, function)?;
        let said = made.said();
        let is_usual = said & (answer::INLINED | answer::FOREIGN | USUAL) == USUAL;
        if !is_usual || !self.is_outside() || self.is_of_entry(said) {
            return None;
        }
        let region = called_region(said);
        let edges = self.position.edges.get();
        if made.edges.get() != edges {
            if !self.position.is_noted(region) {
                return None;
            }
            made.edges.set(edges);
        }
        let frame = made.frame();
        if frame == 0 {
            return None;
        }
        Some(Usual {
            region: NonZero::new(region)?,
            mine: self.next_mine()?,
            frame,
        })
    }

    /// The own word of the next epoch, if no era begins with that.
    #[inline(always)]
    pub(crate) fn next_mine(&self) -> Option<u64> {
        let mine = self.mine.get();
        (!ownership::is_last_of_era(mine)).then(|| mine + ownership::epochs(1))
    }

    /// Where the thread is, as far as that decides what a call does that has been made before.
    #[inline(always)]
    pub(crate) fn usual_place(&self) -> UsualPlace {
        let at = &self.position;
        let Entry { family, is_closure } = at.entry.get();
        UsualPlace {
            entry: family << 1 | u64::from(is_closure),
            users: at.users.get(),
            foreign: at.foreign.get(),
            edges: at.edges.get(),
        }
    }

    /// The region that the thread is in; 0 if it is in none.
    #[inline(always)]
    pub(crate) fn region(&self) -> u64 {
        self.position.region.get()
    }

    /// Begins a region by a usual call whose frame is going to end at `end`, which has nothing to remember of it; `mine` is the own word
    /// of its first epoch, `silent` is whether nothing is logged.
    #[inline(always)]
    pub(crate) fn begin_usual_region(
        &self,
        region: NonZero<u64>,
        mine: u64,
        end: usize,
        silent: bool,
    ) {
        self.begin(region.get(), mine, silent);
        self.position.floor.set(end);
    }

    /// The call of a function that is no region, outside of regions, if that is usual: what its frame is to remember. It is made
    /// with this, and no function of ours has to be called for it.
    #[inline(always)]
    pub(crate) fn makes_usual_call(&self, from: u64, function: u64) -> Option<u64> {
        let said = self.position.recent.made(from, function)?.said();
        let is_users = said & answer::USER != 0;
        let may_be_region = said & (answer::INLINED | answer::ATOMIC) != 0;
        if said == 0 || may_be_region || !self.is_outside() || is_users && self.is_of_entry(said) {
            return None;
        }
        let begins_epoch = said & answer::PLAIN == 0 && self.used.get();
        (!begins_epoch).then(|| self.called(said, is_users, false, 0).flags)
    }

    /// Whether a function of the user's, of which this is said, is the entry point or belongs to it.
    #[inline(always)]
    fn is_of_entry(&self, said: u64) -> bool {
        let at = &self.position;
        at.users.get() == 0 || number(said, answer::FAMILY) == at.entry.get().family
    }

    /// The same where something is inlined that calls.
    #[inline(never)]
    fn call_inlined_again(&self, index: usize, said: u64, from: u64, end: usize) -> Option<Again> {
        let at = &self.position;
        let has_entry = at.has_entry();
        let inlined = self.inlined_region(index, said, has_entry);
        let entry = match has_entry {
            true => at.entry.get(),
            false => inlined_entry(index, said),
        };
        let mut is_region = false;
        if inlined.is_none() {
            let is_users = said & answer::USER != 0;
            if !self.is_outside() || is_users && number(said, answer::FAMILY) == entry.family {
                return None;
            }
            is_region = is_users && said & answer::ATOMIC != 0;
        }
        at.entry.set(entry);
        if inlined.is_some() {
            self.enter_inlined(self.top.get(), from, inlined);
        } else if is_region {
            return Some(self.begins_with_call(said, end));
        }
        Some(self.called(said, true, inlined.is_some(), end))
    }

    /// A call is made.
    #[inline(always)]
    fn called(&self, said: u64, is_users: bool, is_inside: bool, end: usize) -> Again {
        let at = &self.position;
        let is_foreign = said & answer::FOREIGN != 0;
        at.users.set(at.users.get() + u32::from(is_users));
        at.foreign.set(at.foreign.get() + u32::from(is_foreign));
        if is_inside {
            at.floor.set(end);
        }
        let flag = |flag: u64, is: bool| if is { flag } else { 0 };
        let flags = flag(flag::USER, is_users) | flag(flag::FOREIGN, is_foreign);
        let flags = flags | plain_flag(said);
        Again {
            is_inside,
            begins: false,
            flags,
        }
    }

    /// Whether a function whose frame remembers this has no region inlined in it. What is in the log when it is entered or returned to
    /// need not be looked at again: wherever in it that is accessed, no region begins there.
    #[inline(always)]
    pub(crate) fn is_plain(function: u64) -> bool {
        function & flag::PLAIN != 0
    }

    /// Whether a region ends where the frame does that ends at `end`, and nothing else does.
    #[inline(always)]
    pub(crate) fn is_last_of_region(&self, end: usize) -> bool {
        self.position.floor.get() == end && !self.is_held_open()
    }

    /// Whether a call ends where the frame does that ends at `end`, and the region that is inlined where it was made
    /// goes on.
    #[inline(always)]
    pub(crate) fn goes_on_inlined(&self, end: usize) -> bool {
        let open = self.position.inlined.get().0;
        self.position.floor.get() == end && open != 0 && open != end
    }

    /// Ends that call.
    #[inline(always)]
    pub(crate) fn end_call(&self) {
        self.position.floor.set(0);
    }

    /// Ends that region, if no era begins; whether it was so. `silent` is whether nothing is logged.
    #[inline(always)]
    pub(crate) fn ends_simply(&self, silent: bool) -> bool {
        let mine = self.next_mine();
        if let Some(mine) = mine {
            self.position.floor.set(0);
            self.begin(0, mine, silent);
        }
        mine.is_some()
    }

    /// Ends that region.
    #[inline(always)]
    pub(crate) fn end_last_of_region(&self) {
        self.position.floor.set(0);
        self.tick_quickly(0);
        if self.is_due_again() {
            self.start_again();
        }
    }

    /// Leaves a function whose frame has remembered what it is.
    #[inline(always)]
    pub(crate) fn leave_flagged(&self, function: u64) {
        let at = &self.position;
        if function & (flag::USER | flag::FOREIGN) == 0 {
            return;
        }
        let of = |flag: u64| u32::from(function & flag != 0);
        at.users.set(at.users.get() - of(flag::USER));
        at.foreign.set(at.foreign.get() - of(flag::FOREIGN));
    }
}
