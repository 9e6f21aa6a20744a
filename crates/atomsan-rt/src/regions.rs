//! Where transactions begin and end, as far as a follower has told the program.
//!
//! In a first run nothing is written down but which transaction comes after which. So the program
//! itself has to know what a transaction is: which functions are regions. It asks the follower
//! once for each call that is made outside of all regions (the table of calls in the recording),
//! and waits for the answer, but not for ever. Inside of a region nobody asks: what is called there
//! belongs to the transaction, and a call is a few instructions in [`crate::hooks`].
//!
//! # Transactions
//!
//! A transaction is a number of the slot's *clock*. The clock moves where a region begins or ends
//! and where a thread waits for others inside of one; outside of regions, where an edge comes in, so
//! that edges lead to the beginning of a unary transaction and leave at its end. Who takes something
//! from its owner finds out in which transaction the owner has used it last ([`crate::history`]) and writes
//! its clock and region into an edge ([`Kind::Link`](crate::format::Kind::Link)). A transaction that nobody takes anything from and
//! that takes nothing has no record at all, and can be in no cycle.
//!
//! A second run is about the regions that a first one has named: the follower says that only these
//! are regions, and if no unary transaction was in a cycle, plain accesses outside of them do not
//! count ([`Thread::skips`]). Synchronisation does, because it orders the rest.
//!
//! # Regions
//!
//! As in `atomsan_recording::events`: a thread's entry point and its closures are no regions, and
//! functions that are inlined are seen by the calls they make. Such a region goes on from call to
//! call, as long as they are further down in the code, and ends with the first call that is not in
//! it, or with the function that it is inlined into.

mod inlined;
mod plain;
mod usual;

pub(crate) use usual::{Again, UsualPlace};

use inlined::inlined_entry;

use crate::calls::{Made, Recent};
use crate::format::{Kind, LOW, answer, call, entry, first_word};
use crate::thread::{Frame, Thread};
use crate::{ownership, recording, start, thread};
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// The function of a place at which nothing is called.
const PLACE: u64 = call::PLACE;
/// How many regions are remembered as written down since the last edge.
const NOTED: usize = 32;
/// How many places are remembered that were passed.
const PASSED: usize = 256;

/// What is known of a frame outside of regions, in the upper bits of its function.
mod flag {
    /// It counts as one of the user's.
    pub(super) const USER: u64 = 1 << 48;
    /// It counts as somebody else's.
    pub(super) const FOREIGN: u64 = 1 << 49;
    /// No region is inlined in it.
    pub(super) const PLAIN: u64 = 1 << 50;
}

/// A thread's entry point. The hooks rely on the order of the fields.
#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    /// The name of the function, or of the one that it is written in.
    family: u64,
    is_closure: bool,
}

/// Where the hooks find what they need to know of a place, in a thread's [`Position`].
pub(crate) mod offset {
    use super::{PASSED, Position};
    use core::mem::offset_of;

    pub(crate) const REGION: usize = offset_of!(Position, region);
    pub(crate) const USERS: usize = offset_of!(Position, users);
    pub(crate) const FOREIGN: usize = offset_of!(Position, foreign);
    pub(crate) const FAMILY: usize = offset_of!(Position, entry);
    pub(crate) const PLACES: usize = offset_of!(Position, passed);
    /// How many places there are.
    pub(crate) const LAST: usize = PASSED - 1;
}

/// Where a thread is. All-zero memory is a valid one.
pub(crate) struct Position {
    /// The number of the transaction, and of the one that the log's last record belongs to.
    clock: Cell<u64>,
    marked: Cell<u64>,
    /// How many edges came in, and the regions that have been written down since, each with that
    /// number: the first transaction of a region after an edge is written down although it has no
    /// edge of its own. If a cycle goes through one transaction before it and one behind, it may go
    /// through it, or through a later one of the same region.
    edges: Cell<u32>,
    noted: [Cell<u64>; NOTED],
    /// Its region; 0 if it is unary.
    region: Cell<u64>,
    /// The end of the frame whose function is the region, or is the outermost one that was called in
    /// it; 0 if there is none.
    floor: Cell<usize>,
    /// A region that is inlined: the end of the frame of the function it is inlined into, its
    /// number, and its last call. The first is 0 if there is none.
    inlined: Cell<(usize, u64, u64)>,
    /// Labelled regions that are open.
    blocks: Cell<u32>,
    /// Functions of the user's, and of others, outside of regions. Those with which a region begins are not counted.
    users: Cell<u32>,
    foreign: Cell<u32>,
    /// The family of the entry point, and whether it is a closure.
    entry: Cell<Entry>,
    /// What was asked last.
    recent: Recent,
    /// Where nothing is inlined.
    plain: plain::Parts,
    /// The last places outside of regions where something happened and no region is inlined, each with
    /// what that depends on (see [`Position::passes`]).
    passed: [Cell<u64>; PASSED],
}

impl Position {
    /// The number of the transaction that the log's last record belongs to.
    pub(crate) fn clock(&self) -> u64 {
        self.marked.get()
    }

    /// The number of the transaction.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.clock.get()
    }

    /// Forgets what was asked, because another recording has started.
    pub(crate) fn forget_calls(&self) {
        self.recent.clear();
        self.plain.clear();
        self.passed.iter().for_each(|place| place.set(0));
    }

    /// What is said of a place at which nothing is called.
    pub(crate) fn ask_place(&self, pc: u64) -> Option<u64> {
        self.recent.ask(pc, PLACE).map(|(_, said)| said)
    }

    /// A call of a function, if it is one of the last.
    #[inline(always)]
    pub(crate) fn made(&self, from: u64, function: u64) -> Option<&Made> {
        self.recent.made(from, function)
    }

    /// Whether there is an entry point.
    #[inline(always)]
    fn has_entry(&self) -> bool {
        self.users.get() + self.foreign.get() > 0
    }

    /// Where a place is remembered, and how. Which of the functions that are inlined there may be regions
    /// depends on the entry point; a place with none never gets one, because what was a region may
    /// cease to be one, but not the other way round. The hooks do the same.
    #[inline(always)]
    fn passes(&self, pc: u64) -> (&Cell<u64>, u64) {
        let entry = self.entry.get().family << 48 | u64::from(self.has_entry()) << 47;
        (&self.passed[(pc ^ pc >> 7) as usize % PASSED], pc ^ entry)
    }

    /// Whether the thread is in a region.
    pub(crate) fn is_in_region(&self) -> bool {
        self.region.get() != 0
    }

    /// Whether a region has been written down since the last edge. Nobody asks
    /// what was before the first edge. Regions that share a place are written down more often.
    #[inline(always)]
    fn is_noted(&self, region: u64) -> bool {
        let (noted, now) = self.noting(region);
        self.edges.get() == 0 || noted.get() == now
    }

    /// From now on, it has.
    fn note(&self, region: u64) {
        let (noted, now) = self.noting(region);
        noted.set(now);
    }

    #[inline(always)]
    fn noting(&self, region: u64) -> (&Cell<u64>, u64) {
        let place = (region ^ region >> 5) as usize % NOTED;
        (
            &self.noted[place],
            region << 32 | u64::from(self.edges.get()),
        )
    }
}

/// A slot's clock now, and in the upper 16 bits its region.
pub(crate) fn clock(slot: u32) -> u64 {
    recording::slot_entry(slot, entry::CLOCK).load(Ordering::Acquire)
}

/// A number of 16 bits in an answer.
fn number(said: u64, shift: u32) -> u64 {
    said >> shift & 0xffff
}

/// What a frame is to remember of a function in which no region is inlined.
#[inline(always)]
fn plain_flag(said: u64) -> u64 {
    if said & answer::PLAIN != 0 {
        flag::PLAIN
    } else {
        0
    }
}

/// The region that the called function is, or a label.
fn called_region(said: u64) -> u64 {
    number(said, answer::REGION)
}

impl Thread {
    /// Another transaction starts, which executes this region, or none.
    fn tick(&self, region: u64) {
        self.tick_quickly(region);
    }

    /// The same, where it has to be quick.
    #[inline(always)]
    fn tick_quickly(&self, region: u64) {
        let at = &self.position;
        if region != 0 && !at.is_noted(region) {
            at.note(region);
            let now = at.clock.get() + 1;
            self.write_link([first_word(Kind::Transaction, 0, now), region]);
        }
        self.begin(
            region,
            ownership::next_epoch(self.mine.get()),
            self.is_silent(),
        );
    }

    /// The next transaction begins, which executes this region, or none, and this is the own word of its first epoch; `silent` is
    /// whether nothing is logged.
    #[inline(always)]
    fn begin(&self, region: u64, mine: u64, silent: bool) {
        self.skip(region == 0 && start::skips_outside());
        let at = &self.position;
        let now = at.clock.get() + 1;
        at.clock.set(now);
        at.region.set(region);
        self.is_not_ready();
        let now = now | region << 48;
        self.start_epoch(now, mine, silent);
        if !silent && region == 0 && self.is_calm() {
            self.needs_no_log();
        }
        self.entry(entry::CLOCK).store(now, Ordering::Release);
    }

    /// The thread enters a region, or leaves it.
    #[cfg(test)]
    pub(crate) fn set_region(&self, region: u64) {
        self.position.floor.set(region as usize);
        self.tick(region);
    }

    /// Where the thread is, as far as others can see and as it decides on what comes next.
    #[cfg(test)]
    pub(crate) fn whereabouts(&self) -> [u64; 10] {
        let at = &self.position;
        let (entry, (open, inlined, last)) = (at.entry.get(), at.inlined.get());
        let depth =
            |end: usize| end.saturating_sub(self.top.get() - self.depth() * size_of::<Frame>());
        [
            at.clock.get(),
            at.region.get(),
            depth(at.floor.get()) as u64,
            depth(open) as u64,
            inlined,
            last,
            at.users.get().into(),
            at.foreign.get().into(),
            entry.family << 1 | u64::from(entry.is_closure),
            self.depth() as u64,
        ]
    }

    /// Says in the log which transaction follows.
    #[inline(always)]
    pub(crate) fn mark(&self) {
        if let Some(clock) = self.unmarked() {
            self.write([first_word(Kind::Transaction, 0, clock), self.left() as u64]);
            self.has_said_left();
            self.has_marked(clock);
        }
    }

    /// The number of the transaction, if the log does not say yet that it follows.
    #[inline(always)]
    pub(crate) fn unmarked(&self) -> Option<u64> {
        let clock = self.position.clock.get();
        (self.position.marked.get() != clock).then_some(clock)
    }

    /// The log says that a transaction follows.
    #[inline(always)]
    pub(crate) fn has_marked(&self, clock: u64) {
        self.position.marked.set(clock);
    }

    /// The thread starts, or goes on in another recording: it is in no region that is known.
    pub(crate) fn start_clock(&self) {
        let at = &self.position;
        for cell in [&at.users, &at.foreign, &at.blocks] {
            cell.set(0);
        }
        at.floor.set(0);
        at.inlined.set((0, 0, 0));
        at.entry.set(Entry {
            family: 0,
            is_closure: false,
        });
        self.tick(0);
    }

    /// The clock, and in the upper 16 bits the region.
    pub(crate) fn own_clock(&self) -> u64 {
        self.position.clock.get() | self.position.region.get() << 48
    }

    /// Orders what follows after a transaction of another slot, given as by [`clock`], unless an edge
    /// says so already: it leads from that one or a later one to this one or an earlier one.
    pub(crate) fn link(&self, slot: u32, clock: u64) {
        let Some(known) = self.linked(slot) else {
            return;
        };
        if known.get() < clock & LOW {
            known.set(clock & LOW);
            self.settle(slot, clock & LOW);
            self.write_edge(slot, clock, 0);
        }
    }

    /// Writes an edge from a transaction of another slot to this one, with these flags.
    pub(crate) fn write_edge(&self, slot: u32, clock: u64, flags: u64) {
        let (now, region) = (self.position.clock.get(), self.position.region.get());
        let unary = u64::from(region == 0);
        let has_log = self.log_position().is_some();
        if has_log {
            thread::leaves(slot, clock);
            thread::count_edge(self.slot.get());
        }
        self.write_link([
            first_word(Kind::Link, 0, clock),
            u64::from(slot) | clock >> 48 << 16 | region << 32 | flags,
            now + unary,
        ]);
        let edges = &self.position.edges;
        edges.set(edges.get().wrapping_add(1));
        // Whoever sees the clock there can also see what leads there.
        if unary == 1 {
            let stretch = self.stretch.get();
            self.tick(0);
            if has_log && self.was_calm() && !self.minds_order() {
                self.stay_in_stretch(stretch);
            }
        }
    }

    /// The thread waits for others, or lets them run: nobody expects to be alone meanwhile.
    pub(crate) fn split(&self) {
        if self.position.region.get() != 0 {
            self.tick(self.position.region.get());
        }
    }

    /// Whether what is called now belongs to the open transaction.
    #[inline(always)]
    pub(crate) fn is_inside(&self) -> bool {
        self.position.floor.get() != 0
    }

    /// The end of the outermost frame inside of the region, if it is in one.
    pub(crate) fn region_floor(&self) -> usize {
        self.position.floor.get()
    }

    fn end_region(&self) {
        self.position.blocks.set(0);
        self.tick(0);
        if self.is_due_again() {
            self.start_again();
        }
        start::noise(0);
    }

    /// Whether the region is open that is inlined, or has a label.
    fn is_held_open(&self) -> bool {
        self.position.inlined.get().0 != 0 || self.position.blocks.get() > 0
    }

    /// A labelled region begins.
    pub(crate) fn begin_block(&self, label: u64, len: u16) {
        let at = &self.position;
        at.blocks.set(at.blocks.get() + 1);
        if at.region.get() == 0
            && let Some((_, said)) = (at.recent).ask(label & LOW | call::LABEL, u64::from(len) + 1)
            && said & answer::ATOMIC != 0
        {
            self.tick(called_region(said));
        }
    }

    /// The innermost labelled region ends.
    pub(crate) fn end_block(&self) {
        let at = &self.position;
        at.blocks.set(at.blocks.get().saturating_sub(1));
        if at.region.get() != 0 && !self.is_inside() && !self.is_held_open() {
            self.end_region();
        }
    }

    /// Enters a function outside of regions: what its frame is to remember of it.
    pub(crate) fn enter_outside(&self, from: u64, function: u64) -> u64 {
        let at = &self.position;
        let asked = at.recent.ask(from & LOW, function & LOW);
        let (index, said) = asked.unwrap_or((0, 0));
        let top = self.top.get();
        let end = top + size_of::<Frame>();
        let mut flags = plain_flag(said);
        let has_entry = at.has_entry();
        if said & answer::FOREIGN != 0 {
            at.foreign.set(at.foreign.get() + 1);
            flags |= flag::FOREIGN;
        }
        let inlined = self.inlined_region(index, said, has_entry);
        self.enter_inlined(top, from, inlined);
        if said & answer::INLINED != 0 {
            if !has_entry {
                at.entry.set(inlined_entry(index, said));
            }
            at.users.set(at.users.get() + 1);
            flags |= flag::USER;
        }
        if at.region.get() != 0 {
            at.floor.set(end);
        } else if said & answer::USER != 0 && self.is_region(said, &mut flags) {
            self.leave_flagged(flags);
            flags &= flag::PLAIN;
            self.tick(called_region(said));
            at.floor.set(end);
        }
        flags
    }

    /// Whether the thread is outside of regions.
    #[inline(always)]
    pub(crate) fn is_outside(&self) -> bool {
        self.position.region.get() == 0
    }

    /// Whether a function of the user's is a region.
    fn is_region(&self, said: u64, flags: &mut u64) -> bool {
        let at = &self.position;
        let family = number(said, answer::FAMILY);
        let closure = said & answer::CLOSURE != 0;
        let (users, foreign) = (at.users.get(), at.foreign.get() > 0);
        let entry = at.entry.get();
        if *flags & flag::USER == 0 {
            at.users.set(users + 1);
            *flags |= flag::USER;
        }
        if users == 0 {
            at.entry.set(Entry {
                family: if foreign { !0 } else { family },
                is_closure: closure,
            });
            return said & answer::ALWAYS != 0 || foreign && !closure && said & answer::ATOMIC != 0;
        }
        if family == entry.family && (closure || users == 1 && entry.is_closure) {
            // A closure of the entry point; or the entry point, after a closure that calls it.
            at.entry.set(Entry {
                family,
                is_closure: closure,
            });
            return false;
        }
        said & answer::ATOMIC != 0
    }

    /// Leaves a function: its frame, which ended at `end`.
    pub(crate) fn leave(&self, function: u64, end: usize) {
        let at = &self.position;
        if at.floor.get() == end {
            at.floor.set(0);
            if !self.is_held_open() {
                self.end_region();
            }
        }
        if at.inlined.get().0 == end {
            at.inlined.set((0, 0, 0));
            if at.blocks.get() == 0 {
                self.end_region();
            }
        }
        self.leave_flagged(function);
    }
}
