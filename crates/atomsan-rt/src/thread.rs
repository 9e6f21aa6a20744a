//! A thread: its log, its call stack, and what it knows of the others.
//!
//! A thread's record is found through one thread-local word and is used by its thread alone,
//! except for its position, which it tells everybody in the slot's entry of the recording: others
//! read it to order themselves after what is in the log already ([`Thread::after`]). Records are
//! never given back; a thread that starts may take over the slot of one that has ended, and then
//! starts after it.
//!
//! Its calls are in [`frames`], what it writes in [`append`], what it writes over in [`rewind`], and
//! what it orders itself after in [`after`]; what it initialises in [`initialising`]; where its memory comes from in [`origins`]; when it should let others run, in [`turns`].
//!
//! # Epochs
//!
//! An epoch is a stretch of a thread's life in which repeating an access is redundant: no region
//! boundary, no synchronisation and no edge is in it. Its number moves on only if something was
//! logged in it, or if another transaction begins: an epoch tells the transaction
//! ([`crate::history`]).
//!
//! # Signals
//!
//! `busy` is set while the runtime works for this thread. A signal handler that interrupts it
//! sees that, and what the handler does is not recorded (its atomic operations are performed).

mod after;
mod again;
mod append;
mod born;
mod filter;
mod frames;
mod handed;
mod hidden;
mod initialising;
mod newborn;
mod origins;
mod outside;
mod rewind;
mod same;
mod settled;
mod stretch;
mod turns;

pub(crate) use born::Parent;
pub(crate) use filter::{
    FILTER, FOLD as FILTER_FOLD, MIXER as FILTER_MIXER, ROTATION as FILTER_ROTATION,
};
pub(crate) use origins::forget_origins;
pub(crate) use outside::leaves;
pub(crate) use rewind::count_edge;
pub(crate) use settled::{SEEN, Settled};

use crate::format::{Kind, SLOTS, SNAPSHOT_EDGES, first_word, header};
use crate::history::History;
use crate::log::Log;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize};
use crate::{ownership, platform, recording, regions, start};
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64 as Plain, Ordering, compiler_fence};

const FRAMES: usize = 1 << 20;
/// How many of the innermost functions are named where a thread is started.
const FORK_FRAMES: usize = 64;
/// How many of the outermost and of the innermost functions a snapshot names.
const SNAPSHOT: usize = 128;
// Functions and edges have two words each, and so has what is being initialised.
const _: () = assert!(1024 + 16 * (2 * SNAPSHOT + SNAPSHOT_EDGES) < recording::PIECE);
/// Where a thread says whether it is busy.
pub(crate) const BUSY: usize = core::mem::offset_of!(Thread, busy);
/// The thread-local word of a thread that is not recorded: it has ended, or is just being set up.
const OFF: usize = 1;

/// A call. The hooks rely on the order of the fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Frame {
    call: u64,
    /// An address in the function, and in the upper 16 bits what [`crate::regions`] notes of it.
    function: u64,
    stack: usize,
}

/// The last atomic load: repeating it with nothing in between adds nothing.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct LastLoad {
    pub(crate) address: usize,
    pub(crate) pc: u64,
    pub(crate) value: u64,
    pub(crate) word: u64,
    pub(crate) mine: u64,
    pub(crate) cursor: u64,
}

/// An owner's accesses that the thread has put itself after: its own word then, the owner's slot and epoch, and
/// which transaction that is, or where it ended in the log if there is one. It counts for one epoch, because
/// they come again.
#[derive(Clone, Copy)]
struct After {
    mine: u64,
    owner: u64,
    clock: u64,
}

/// For how many owners that is remembered.
const LAST_AFTER: usize = 4;

/// A word that only its thread changes, and that others may look at. All-zero memory is a valid one.
#[repr(transparent)]
pub(crate) struct Own(Plain);

impl Own {
    /// What it is, for the thread itself.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, word: u64) {
        self.0.store(word, Ordering::Release);
    }

    /// What it is, for others: what the thread did before it became so, they see too.
    fn seen(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// One thread of the program. All-zero memory is a valid one.
#[repr(C)]
pub(crate) struct Thread {
    /// What a shadow word looks like that this thread owns as a writer and all of whose bytes are
    /// logged in this epoch (see [`crate::ownership`]); the second thread-local word is the same.
    pub(crate) mine: Own,
    /// Where the next frame goes.
    pub(crate) top: Cell<usize>,
    /// The hooks push frames by themselves below this.
    pub(crate) room: Cell<usize>,
    /// The hooks pop frames by themselves that start here or above.
    pub(crate) floor: Cell<usize>,
    /// What this thread has last put itself after, by slot.
    last_after: [Cell<After>; LAST_AFTER],
    /// Whether anything is in the log that belongs to the epoch, or counts as if it were ([`newborn`]).
    pub(crate) used: Cell<bool>,
    /// Whether the runtime works for the thread.
    pub(crate) busy: Cell<bool>,
    /// Whether this is a first run: nothing is recorded but which transaction comes after which.
    pub(crate) silent: Cell<bool>,
    /// Whether plain accesses do not count, because the thread is outside of the regions that this run
    /// is about.
    pub(crate) skips: Cell<bool>,
    /// Whether the program knows its regions (see [`crate::regions`]).
    pub(crate) tabled: Cell<bool>,
    /// Where the frames end that are in the log and have not been left since.
    pub(crate) kept: Cell<usize>,
    /// Where the frames end if the log is ready for an access in the innermost function: the functions are in
    /// it, and so is the number of the transaction.
    pub(crate) ready: Cell<usize>,
    /// Whether the last region that ended logged something at its end, and what was outside when the last one began: the next
    /// one will, so the log gets ready for it at once.
    talks_inside: Cell<bool>,
    talks_outside: Cell<bool>,
    /// How far the log went when it had got ready so.
    said_until: Cell<u64>,
    /// The own word when what is logged was last to be logged again, and how long that is ago ([`stretch`]).
    pub(crate) stretch: Cell<u64>,
    pub(crate) stretched: Cell<u64>,
    /// Where the memory ends that has come to life with the transaction, and how much of the stack is below ([`newborn`]).
    pub(crate) newborn_end: Cell<usize>,
    pub(crate) newborn_len: Cell<usize>,
    /// What the thread does.
    pub(crate) log: Log,
    /// Which transaction comes after which.
    links: Log,
    /// Nesting of annotations that ask us to look away.
    pub(crate) ignoring: Cell<u32>,
    pub(crate) slot: Cell<u32>,
    /// Where the slot's entry is mapped.
    entry: Cell<usize>,
    /// The thread's number in this process, from 0.
    pub(crate) number: Cell<u64>,
    /// Where the frames would end that the log says that the thread is in.
    logged: Cell<usize>,
    /// Calls for which there were no frames.
    excess: Cell<usize>,
    pub(crate) position: regions::Position,
    stack_low: Cell<usize>,
    stack_high: Cell<usize>,
    last_load: Cell<LastLoad>,
    turns: Cell<turns::Turns>,
    found: turns::Found,
    /// Whether it is known who has woken the thread, before it waits for that.
    pub(crate) woken: Cell<bool>,
    /// The last granule that was taken by an attempt that failed, and its words before and after.
    pub(crate) taken: Cell<(usize, u64, u64)>,
    /// Positions that this thread is after, by slot; it is always after itself.
    pub(crate) known: [Cell<u64>; SLOTS + 1],
    /// Transactions that this thread is after, by slot, where that is not the same.
    linked: [Cell<u64>; SLOTS + 1],
    /// The same by memory that was [handed](handed) on, and by nothing else.
    handed: [Cell<handed::Handed>; SLOTS + 1],
    /// Epochs that this thread is after, by slot.
    after_epochs: [Cell<after::Epoch>; SLOTS + 1],
    /// How many edges there were, plus 1, when it did not matter [what others do](outside); 0 if it did.
    calm: Cell<u64>,
    /// Who started the thread.
    born: born::Born,
    /// Which granules without an owner need no edge, and when they were read last.
    settled: Settled,
    /// The last transactions.
    pub(crate) history: History,
    /// The last calls of regions.
    same: same::SameCalls,
    /// Which atomic loads mean nothing.
    hidden: hidden::Places,
    /// The position at which the log may start again.
    due: Cell<u64>,
    /// What it initialises that is initialised once.
    initialising: initialising::Initialising,
    /// The first frames do not lie where the thread's first fields do, in the lower bits of their addresses (see
    /// [`crate::shadow`]).
    aside: [u64; (1600 - size_of::<initialising::Initialising>()) / 8],
    /// What the first frame is compared with.
    bottom: Cell<Frame>,
    frames: [Cell<Frame>; FRAMES],
}

static SLOT_TABLE: [AtomicPtr<Thread>; SLOTS + 1] =
    [const { AtomicPtr::new(null_mut()) }; SLOTS + 1];
/// The highest slot in use so far.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);
/// Whether the slot's thread has ended, so that another may take it over.
static VACANT: [AtomicBool; SLOTS + 1] = [const { AtomicBool::new(false) }; SLOTS + 1];
static VACANCIES: AtomicUsize = AtomicUsize::new(0);

/// The calling thread, if it is registered already; `None` if it is new or not recorded.
#[inline(always)]
pub(crate) fn recorded() -> Option<&'static Thread> {
    let word = platform::thread_word();
    // SAFETY: the word was set to a thread record that is never given back.
    (word > OFF).then(|| unsafe { &*(word as *const Thread) })
}

/// The calling thread, registered if it is new; `None` if it is not recorded.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Thread> {
    match recorded() {
        None if platform::thread_word() != OFF => register_stranger(),
        thread => thread,
    }
}

/// A thread that we did not see start: the first one, or one that was made by `clone`.
#[cold]
#[inline(never)]
fn register_stranger() -> Option<&'static Thread> {
    register(start::new_thread_number(), None, start::stack_bounds)
}

/// Gives the calling thread a record, with `number` as its name and after what its `parent` did before it started
/// it; `stack` says where its stack starts and ends.
pub(crate) fn register(
    number: u64,
    parent: Option<Parent>,
    stack: fn() -> (usize, usize),
) -> Option<&'static Thread> {
    platform::set_thread_word(OFF, None);
    if !start::ensure() {
        return None;
    }
    recording::counter(header::THREADS).fetch_max(number + 1, Ordering::Relaxed);
    let Some(slot) = take_slot() else {
        recording::counter(header::UNSEEN_THREADS).fetch_add(1, Ordering::Relaxed);
        return None;
    };
    let mut record = SLOT_TABLE[slot].load(Ordering::Acquire);
    // Who had the slot before has made room for its entry.
    if record.is_null() && !recording::prepare_slot(slot) {
        return None;
    }
    if record.is_null() {
        record = platform::map_memory(size_of::<Thread>()).cast();
    }
    // SAFETY: all-zero memory is a valid record, and records are never given back.
    let thread = unsafe { record.as_ref() }?;
    thread.reset(slot as u32, number);
    SLOT_TABLE[slot].store(record, Ordering::Release);
    match parent {
        Some(parent) => thread.is_born(parent),
        None => thread.is_nobodys(),
    }
    let (low, high) = stack();
    thread.stack_low.set(low);
    thread.stack_high.set(high);
    let first = first_word(Kind::ThreadStart, 0, number);
    thread.append([first, 0, low as u64, (high - low) as u64]);
    crate::shadow::reset(low, high - low);
    thread.resume();
    Some(thread)
}

fn take_slot() -> Option<usize> {
    if VACANCIES.load(Ordering::Acquire) > 0 {
        let highest = HIGHEST.load(Ordering::Acquire).min(SLOTS);
        let vacant = VACANT[..=highest].iter().position(|vacant| {
            vacant.load(Ordering::Relaxed) && vacant.swap(false, Ordering::AcqRel)
        });
        if vacant.is_some() {
            VACANCIES.fetch_sub(1, Ordering::AcqRel);
            return vacant;
        }
    }
    let slot = HIGHEST.fetch_add(1, Ordering::AcqRel) + 1;
    if slot > SLOTS {
        HIGHEST.fetch_sub(1, Ordering::AcqRel);
        return None;
    }
    Some(slot)
}

/// Stops recording the calling thread; what [`after_fork`] takes up again.
pub(crate) fn pause() -> Option<&'static Thread> {
    let word = platform::thread_word();
    platform::set_thread_word(OFF, None);
    // SAFETY: as in `current`.
    (word > OFF).then(|| unsafe { &*(word as *const Thread) })
}

/// In a child of `fork`: only the calling thread is left, and its log starts anew.
///
/// # Safety
/// The process must have one thread.
pub(crate) unsafe fn after_fork(thread: Option<&'static Thread>) {
    for slot in 1..=HIGHEST.load(Ordering::Acquire).min(SLOTS) {
        SLOT_TABLE[slot].store(null_mut(), Ordering::Release);
        VACANT[slot].store(false, Ordering::Relaxed);
    }
    VACANCIES.store(0, Ordering::Relaxed);
    ownership::log_private_accesses();
    if let Some(thread) = thread {
        let record = core::ptr::from_ref(thread).cast_mut();
        SLOT_TABLE[thread.slot.get() as usize].store(record, Ordering::Release);
        thread.start_over();
        thread.resume();
    }
}

/// No thread knows anything of the others.
#[cfg(test)]
pub(crate) fn forget_all() {
    for record in &SLOT_TABLE {
        // SAFETY: records are never given back, and no thread runs.
        if let Some(thread) = unsafe { record.load(Ordering::Relaxed).as_ref() } {
            let own = thread.slot.get() as usize;
            let forget = |known: &[Cell<u64>]| known.iter().for_each(|known| known.set(0));
            thread.forget_after();
            forget(&thread.known);
            forget(&thread.linked);
            for handed in &thread.handed {
                handed.take();
            }
            thread.known[own].set(u64::MAX);
        }
    }
}

/// The position of a slot's log now; 0 if the slot has none.
#[inline]
pub(crate) fn position_of(slot: u32) -> u64 {
    if ownership::is_order_only() {
        regions::clock(slot)
    } else {
        recording::position(slot).load(Ordering::Acquire)
    }
}

impl Thread {
    /// From here on, this is what runs on the calling thread of the system.
    pub(crate) fn resume(&self) {
        platform::set_thread_word(core::ptr::from_ref(self) as usize, Some(&self.settled));
        platform::set_owner_word(self.mine.get());
        platform::set_stretch_word(self.stretch_key());
        let (writes, reads) = ownership::renewed();
        platform::set_renewed_words(writes, reads);
        platform::set_masks_word(!self.skips.get());
        // When all the rest is this thread's.
        if self.tabled.get() && !self.silent.get() {
            compiler_fence(Ordering::SeqCst);
            platform::set_logger_word(self);
        }
    }

    /// From here on, plain accesses do not count, or do. The hooks return at once if they do not.
    #[inline(always)]
    pub(crate) fn skip(&self, skips: bool) {
        if self.skips.get() != skips {
            self.skips.set(skips);
            platform::set_masks_word(!skips);
        }
    }

    /// Finds the slot's entry in the recording.
    fn find_entry(&self) {
        let entry = recording::slot_entry(self.slot.get(), 0);
        self.entry.set(core::ptr::from_ref(entry) as usize);
    }

    /// A word of the own slot's entry.
    #[inline(always)]
    pub(crate) fn entry(&self, field: usize) -> &AtomicU64 {
        // SAFETY: entries have this field, and the recording is mapped for good.
        unsafe { &*((self.entry.get() + field) as *const AtomicU64) }
    }

    fn reset(&self, slot: u32, number: u64) {
        self.slot.set(slot);
        self.find_entry();
        self.number.set(number);
        // The epoch goes on where the slot's last thread stopped.
        self.set_mine(ownership::owned_by(slot, self.mine.get()));
        self.start_stretch();
        self.silent.set(start::logs() == start::Logs::Edges);
        self.tabled.set(start::logs() != start::Logs::All);
        self.forget_due();
        self.ignoring.set(0);
        self.know_itself();
        self.bottom.set(Frame {
            call: 0,
            function: 0,
            stack: usize::MAX,
        });
        self.top.set(self.base());
        self.excess.set(0);
        self.initialising.clear();
        // Its stack may lie where that of the slot's last thread lay, and end elsewhere.
        self.same.clear();
        self.forget_logged();
        self.busy.set(false);
        self.skip(false);
        if self.tabled.get() {
            self.start_clock();
        }
        self.guard();
    }

    /// A thread is after itself.
    fn know_itself(&self) {
        let slot = self.slot.get();
        self.known[slot as usize].set(u64::MAX);
        if self.silent.get() {
            self.settled.set(slot, None);
        }
    }

    /// Forgets what was asked, because another recording has started.
    pub(crate) fn forget_calls(&self) {
        self.position.forget_calls();
        self.same.clear();
    }

    /// The same thread, in a new recording, where nobody else is known.
    fn start_over(&self) {
        for slot in 0..=HIGHEST.load(Ordering::Acquire).min(SLOTS) {
            self.known[slot].set(0);
            self.linked[slot].set(0);
            self.handed[slot].take();
            self.settled.set(slot as u32, Some(0));
        }
        self.forget_after();
        self.is_nobodys();
        self.know_itself();
        recording::prepare_slot(self.slot.get() as usize);
        self.find_entry();
        self.log.start_over();
        self.forget_due();
        rewind::forget_edges();
        self.calm.set(0);
        self.links.start_over();
        self.forget_calls();
        self.hidden.clear();
        self.forget_logged();
        self.next_epoch();
        if self.tabled.get() {
            self.start_clock();
        }
        self.guard();
        let size = self.stack_high.get() - self.stack_low.get();
        self.append([
            first_word(Kind::ThreadStart, 0, self.number.get()),
            0,
            self.stack_low.get() as u64,
            size as u64,
        ]);
    }

    /// Runs `work` with the thread marked as busy; not at all, and `None`, if it is already.
    #[inline(always)]
    pub(crate) fn work<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        if self.busy.get() {
            recording::counter(header::INTERRUPTED).fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let result = work();
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        Some(result)
    }

    /// Whether the runtime works for this thread.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Work that a signal has interrupted will not be finished.
    pub(crate) fn abandon(&self) {
        self.busy.set(false);
    }

    /// Starts another epoch, unless this one is unused.
    #[inline(always)]
    pub(crate) fn next_epoch(&self) {
        if self.used.get() {
            self.used.set(false);
            self.set_mine(ownership::next_epoch(self.mine.get()));
            self.go_on_in_stretch();
            if !self.tabled.get() && self.excess.get() == 0 {
                self.room.set(self.limit());
            }
        }
    }

    /// Starts the first epoch of a transaction, with this own word. The number of the transaction has its region in the
    /// upper 16 bits; `silent` is whether nothing is logged.
    #[inline(always)]
    pub(crate) fn start_epoch(&self, clock: u64, mine: u64, silent: bool) {
        self.used.set(false);
        self.mine.set(mine);
        if silent {
            platform::set_owner_word(mine);
            self.history.begin(clock, mine, None);
        } else {
            self.start_stretch_with(mine);
            platform::set_epoch_words(mine, self.stretch_key());
            self.history.begin(clock, mine, Some(self.log.position()));
        }
    }

    #[inline(always)]
    fn set_mine(&self, word: u64) {
        self.mine.set(word);
        platform::set_owner_word(word);
    }

    /// The thread's number in this process.
    pub(crate) fn number(&self) -> u64 {
        self.number.get()
    }

    /// The thread's own position: where the next record goes.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        if self.silent.get() {
            self.own_clock()
        } else {
            self.log.position()
        }
    }

    /// The position behind a [step](Thread::append_step) that was just appended, which has ended its
    /// transaction if it [splits](log::splits) one.
    pub(crate) fn position_of_step(&self) -> u64 {
        if self.silent.get() {
            self.own_clock() - u64::from(self.position.is_in_region())
        } else {
            self.log.position()
        }
    }

    /// Where the next record goes, if there are records.
    #[inline(always)]
    pub(crate) fn log_position(&self) -> Option<u64> {
        (!self.silent.get()).then(|| self.log.position())
    }

    /// There is something that the log has to say before the next access.
    #[inline(always)]
    pub(crate) fn is_not_ready(&self) {
        self.ready.set(0);
    }

    /// Whether nothing is logged.
    #[inline(always)]
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.get()
    }

    /// Whether the program knows its transactions.
    #[inline(always)]
    pub(crate) fn is_tabled(&self) -> bool {
        self.tabled.get()
    }

    /// Whether this load repeats the last thing that was logged; from now on it does.
    pub(crate) fn repeats(&self, load: LastLoad) -> bool {
        self.last_load.get() == load
    }

    /// Remembers the load that was just logged.
    pub(crate) fn remember(&self, load: LastLoad) {
        self.last_load.set(load);
    }

    /// The thread's last event: what it does from here on is not recorded.
    pub(crate) fn end(&self) -> u64 {
        platform::set_thread_word(OFF, None);
        self.append_step(Kind::ThreadEnd, self.number.get(), 0);
        let position = self.position();
        if self.tabled.get() {
            self.start_clock();
        }
        let slot = self.slot.get() as usize;
        VACANT[slot].store(true, Ordering::Release);
        VACANCIES.fetch_add(1, Ordering::AcqRel);
        position
    }
}
