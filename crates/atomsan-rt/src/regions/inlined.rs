//! Regions that are inlined: no call begins them, but what happens at a place of theirs does, a call or something else that counts.

use super::{Entry, number};
use crate::format::{LOW, answer, call, inlined};
use crate::recording;
use crate::thread::Thread;
use core::sync::atomic::Ordering;

/// The family of the outermost function that is inlined at a call, and whether that is a closure.
pub(super) fn inlined_entry(index: usize, said: u64) -> Entry {
    let names = recording::call(index, call::INLINED).load(Ordering::Relaxed);
    Entry {
        family: number(names, inlined::FAMILY),
        is_closure: said & answer::INLINED_CLOSURE != 0,
    }
}

impl Thread {
    /// Something happens at a place outside of regions.
    pub(crate) fn pass_place(&self, pc: u64) {
        let at = &self.position;
        if at.region.get() != 0 && at.inlined.get().0 == 0 {
            return;
        }
        let answered = self.ask_where(pc);
        let (index, said) = answered.unwrap_or((0, 0));
        let inlined = self.inlined_region(index, said, at.has_entry());
        if answered.is_some() && inlined.is_none() {
            let (passed, how) = at.passes(pc);
            passed.set(how);
        }
        self.enter_inlined(self.top.get(), pc, inlined);
    }

    /// Whether something happens at a place where nothing is to be done: it is one of the last places that
    /// were passed, and no region is inlined there; or it is inside of a region.
    #[inline(always)]
    pub(crate) fn passes_again(&self, pc: u64) -> bool {
        let (passed, how) = self.position.passes(pc & LOW);
        self.is_inside() || self.is_outside() && passed.get() == how
    }

    /// The region that is inlined where a call is.
    pub(super) fn inlined_region(&self, index: usize, said: u64, has_entry: bool) -> Option<u64> {
        if said & answer::INLINED == 0 {
            return None;
        }
        let names = recording::call(index, call::INLINED).load(Ordering::Relaxed);
        let sibling = said & answer::INLINED_CLOSURE != 0
            && self.position.entry.get().family == number(names, inlined::FAMILY);
        let which = match (has_entry, sibling) {
            (false, _) => inlined::UNSET,
            (true, true) => inlined::SIBLINGS,
            (true, false) => inlined::SET,
        };
        Some(number(names, which)).filter(|&region| region != 0)
    }

    /// A call is made in the region that is inlined where the call is, or in none.
    pub(super) fn enter_inlined(&self, top: usize, from: u64, inlined: Option<u64>) {
        let at = &self.position;
        let (open, name, last) = at.inlined.get();
        match inlined {
            Some(region) => {
                if open == 0 && at.region.get() != 0 {
                    return;
                }
                if open != top || name != region || from <= last {
                    self.tick(region);
                }
                at.inlined.set((top, region, from));
            }
            None if open != 0 => {
                at.inlined.set((0, 0, 0));
                if at.blocks.get() == 0 {
                    self.end_region();
                }
            }
            None => {}
        }
    }
}
