//! A thread: its log, its call stack, and what it knows of the others.
//!
//! A thread's record is found through one thread-local word and is used by its thread alone,
//! except for its position, which it tells everybody in the slot's entry of the recording: others
//! read it to order themselves after what is in the log already ([`Thread::after`]). Records are
//! never given back; a thread that starts may take over the slot of one that has ended, and then
//! starts after it.
//!
//! # Log
//!
//! Each chunk of the [`Log`] starts with a snapshot of the calls that are in the log, so that the
//! chunks before it can be forgotten.
//!
//! # Calls
//!
//! Entering a function is only noted on a stack of our own; it is written to the log when
//! something in the function is ([`Thread::append`]), so functions that touch nothing shared cost
//! no log. A frame remembers the stack pointer, and entering a function drops the frames below
//! it, which a `longjmp` or an exception has left without telling us.
//!
//! The hooks do that by themselves ([`crate::hooks`]) while nothing else is to be done: a function
//! that is entered while the top of the stack is below `room`, and left while it stays above
//! `floor`. [`Thread::guard`] is what sets these two.
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

use crate::format::{Kind, LOW, SLOTS, entry, first_word, frame_detail, header, second_word};
use crate::history::{History, Source};
use crate::log::{self, Log};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use crate::{ownership, platform, recording, regions, start};
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

const FRAMES: usize = 1 << 20;
/// How many of the innermost functions are named where a thread is started.
const FORK_FRAMES: usize = 64;
/// How many of the outermost and of the innermost functions a snapshot names.
const SNAPSHOT: usize = 128;
const FILTER: usize = 1 << 15;
/// How many granules without an owner a thread remembers the last read of. Others that share a
/// place make it later than it was.
pub(crate) const SEEN: usize = 1 << 10;

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

/// Reads of shared data that were logged: the granule and the bytes, and its shadow word mixed with
/// the epoch.
#[derive(Clone, Copy, PartialEq)]
struct Filtered {
    bytes: u64,
    state: u64,
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

/// One thread of the program. All-zero memory is a valid one.
#[repr(C)]
pub(crate) struct Thread {
    /// What a shadow word looks like that this thread owns as a writer and all of whose bytes are
    /// logged in this epoch (see [`crate::ownership`]); the second thread-local word is the same.
    pub(crate) mine: Cell<u64>,
    /// Where the next frame goes.
    pub(crate) top: Cell<usize>,
    /// The hooks push frames by themselves below this.
    pub(crate) room: Cell<usize>,
    /// The hooks pop frames by themselves that start here or above.
    pub(crate) floor: Cell<usize>,
    used: Cell<bool>,
    busy: Cell<bool>,
    /// Whether this is a first run: nothing is recorded but which transaction comes after which.
    silent: Cell<bool>,
    /// Whether plain accesses do not count, because the thread is outside of the regions that this run
    /// is about.
    pub(crate) skips: Cell<bool>,
    /// Whether the program knows its regions (see [`crate::regions`]).
    tabled: Cell<bool>,
    /// What the thread does.
    log: Log,
    /// Which transaction comes after which.
    links: Log,
    /// Nesting of annotations that ask us to look away.
    pub(crate) ignoring: Cell<u32>,
    pub(crate) slot: Cell<u32>,
    /// Where the slot's entry is mapped.
    entry: Cell<usize>,
    /// The thread's number in this process, from 0.
    pub(crate) number: Cell<u64>,
    /// How many of the frames are in the log.
    logged: Cell<usize>,
    /// Calls for which there were no frames.
    excess: Cell<usize>,
    pub(crate) position: regions::Position,
    stack_low: Cell<usize>,
    stack_high: Cell<usize>,
    last_load: Cell<LastLoad>,
    /// The last granule that was taken by an attempt that failed, and its words before and after.
    pub(crate) taken: Cell<(usize, u64, u64)>,
    filter: [Cell<Filtered>; FILTER],
    /// Positions that this thread is after, by slot; it is always after itself.
    pub(crate) known: [Cell<u64>; SLOTS + 1],
    /// Transactions that this thread is after, by slot, where that is not the same.
    linked: [Cell<u64>; SLOTS + 1],
    /// The epochs of the last reads of granules that have no owner.
    pub(crate) seen: [AtomicU32; SEEN],
    /// The last transactions.
    pub(crate) history: History,
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

/// The calling thread, registered if it is new; `None` if it is not recorded.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Thread> {
    let word = platform::thread_word();
    if word > OFF {
        // SAFETY: the word was set to a thread record that is never given back.
        return Some(unsafe { &*(word as *const Thread) });
    }
    if word == OFF {
        None
    } else {
        register_stranger()
    }
}

/// A thread that we did not see start: the first one, or one that was made by `clone`.
#[cold]
#[inline(never)]
fn register_stranger() -> Option<&'static Thread> {
    register(start::new_thread_number(), None, start::stack_bounds)
}

/// Gives the calling thread a record, with `number` as its name and after the position in the log
/// of the slot in `parent`; `stack` says where its stack starts and ends.
pub(crate) fn register(
    number: u64,
    parent: Option<(u32, u64)>,
    stack: fn() -> (usize, usize),
) -> Option<&'static Thread> {
    platform::set_thread_word(OFF);
    if !start::ensure() {
        return None;
    }
    recording::counter(header::THREADS).fetch_max(number + 1, Ordering::Relaxed);
    let Some(slot) = take_slot() else {
        recording::counter(header::UNSEEN_THREADS).fetch_add(1, Ordering::Relaxed);
        return None;
    };
    if !recording::prepare_slot(slot) {
        return None;
    }
    let mut record = SLOT_TABLE[slot].load(Ordering::Acquire);
    if record.is_null() {
        record = platform::map_memory(size_of::<Thread>()).cast();
    }
    // SAFETY: all-zero memory is a valid record, and records are never given back.
    let thread = unsafe { record.as_ref() }?;
    thread.reset(slot as u32, number);
    SLOT_TABLE[slot].store(record, Ordering::Release);
    if let Some((slot, position)) = parent {
        thread.after_position(slot, position);
    }
    let (low, high) = stack();
    thread.stack_low.set(low);
    thread.stack_high.set(high);
    let first = first_word(Kind::ThreadStart, 0, number);
    thread.append([first, 0, low as u64, (high - low) as u64]);
    crate::shadow::reset(low, high - low);
    platform::set_thread_word(record as usize);
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
    platform::set_thread_word(OFF);
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
    if let Some(thread) = thread {
        let record = core::ptr::from_ref(thread).cast_mut();
        SLOT_TABLE[thread.slot.get() as usize].store(record, Ordering::Release);
        thread.start_over();
        platform::set_thread_word(record as usize);
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
            forget(&thread.known);
            forget(&thread.linked);
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
        self.silent.set(start::logs() == start::Logs::Edges);
        self.tabled.set(start::logs() != start::Logs::All);
        self.ignoring.set(0);
        self.known[slot as usize].set(u64::MAX);
        self.bottom.set(Frame {
            call: 0,
            function: 0,
            stack: usize::MAX,
        });
        self.top.set(self.base());
        self.excess.set(0);
        self.logged.set(0);
        self.busy.set(false);
        self.skips.set(false);
        if self.tabled.get() {
            self.start_clock();
        }
        self.guard();
    }

    fn base(&self) -> usize {
        self.frames.as_ptr() as usize
    }

    /// Where frames end.
    fn limit(&self) -> usize {
        self.base() + FRAMES * size_of::<Frame>()
    }

    /// Where the frames end that are in the log.
    fn logged_end(&self) -> usize {
        self.base() + self.logged.get() * size_of::<Frame>()
    }

    /// How many frames there are.
    fn depth(&self) -> usize {
        (self.top.get() - self.base()) / size_of::<Frame>()
    }

    /// Says what the hooks may do by themselves.
    fn guard(&self) {
        let (inside, excess) = (self.is_inside(), self.excess.get() > 0);
        let room = if inside && !excess { self.limit() } else { 0 };
        self.room.set(room);
        let outside = self.tabled.get() && !inside;
        self.floor.set(if outside || excess {
            usize::MAX
        } else {
            self.logged_end().max(self.region_floor())
        });
    }

    /// The same thread, in a new recording, where nobody else is known.
    fn start_over(&self) {
        for slot in 0..=HIGHEST.load(Ordering::Acquire).min(SLOTS) {
            self.known[slot].set(0);
            self.linked[slot].set(0);
        }
        self.known[self.slot.get() as usize].set(u64::MAX);
        recording::prepare_slot(self.slot.get() as usize);
        self.find_entry();
        self.log.start_over();
        self.links.start_over();
        self.position.forget_calls();
        self.logged.set(0);
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
        }
    }

    /// Starts another epoch, for another transaction; which.
    #[inline(always)]
    pub(crate) fn start_epoch(&self) -> u32 {
        self.used.set(false);
        self.set_mine(ownership::next_epoch(self.mine.get()));
        ownership::epoch_of(self.mine.get())
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

    /// Whether the program knows its transactions.
    #[inline(always)]
    pub(crate) fn is_tabled(&self) -> bool {
        self.tabled.get()
    }

    /// Appends a record, after the entries of the functions it happens in.
    #[inline(always)]
    pub(crate) fn append<const N: usize>(&self, words: [u64; N]) {
        if self.silent.get() {
            return;
        }
        if self.tabled.get() {
            self.mark();
        }
        if self.logged.get() != self.depth() {
            self.log_frames();
        }
        self.write(words);
    }

    /// Appends where something was allocated or initialised, which is wanted for its name.
    pub(crate) fn append_origin<const N: usize>(&self, words: [u64; N]) {
        self.append(words);
        self.log.has_origin();
    }

    /// Appends the record of an access, which belongs to the epoch.
    #[inline(always)]
    pub(crate) fn append_access<const N: usize>(&self, words: [u64; N]) {
        if !self.silent.get() {
            self.used.set(true);
            self.append(words);
        }
    }

    /// Appends the record of an atomic operation, which has an epoch of its own.
    #[inline(always)]
    pub(crate) fn append_atomic<const N: usize>(&self, words: [u64; N]) {
        if !self.silent.get() {
            self.append(words);
        }
    }

    /// Appends the name of a thread, which is wanted even if nothing else of the log is.
    pub(crate) fn append_name(&self, words: [u64; 4]) {
        if self.tabled.get() && !self.silent.get() {
            self.write_link(words);
        }
        self.append(words);
    }

    /// Something happens at a place: if that is outside of regions, it may be in one that is inlined
    /// there.
    #[inline(always)]
    pub(crate) fn look_where(&self, pc: u64) {
        if self.tabled.get() && !self.is_inside() {
            self.pass_place(pc & LOW);
        }
    }

    /// Appends the record of something that ends the epoch.
    #[inline(always)]
    pub(crate) fn append_step(&self, kind: Kind, subject: u64, pc: u64) {
        if self.tabled.get() {
            return self.append_boundary(kind, subject, pc);
        }
        self.append([first_word(kind, 0, subject), second_word(0, pc)]);
        self.next_epoch();
    }

    /// The same where it may be the end or the beginning of a transaction.
    fn append_boundary(&self, kind: Kind, subject: u64, pc: u64) {
        let before = self.mine.get();
        self.look_where(pc);
        if log::lets_go(kind) || log::is_at_a_word(kind) && self.mine.get() != before {
            ownership::touch(self, subject as usize, kind == Kind::Release);
        }
        if kind == Kind::Begin {
            self.begin_block(subject, 0);
        }
        if kind == Kind::Fork && !self.silent.get() {
            self.write_fork(subject, pc);
        }
        self.append([first_word(kind, 0, subject), second_word(0, pc)]);
        self.next_epoch();
        if log::splits(kind) {
            self.split();
        } else if kind == Kind::End {
            self.end_block();
        }
    }

    /// Says where a thread is started, and by which calls, which is wanted even if nothing else of
    /// the log is.
    fn write_fork(&self, number: u64, pc: u64) {
        let depth = self.depth();
        for frame in &self.frames[depth.saturating_sub(FORK_FRAMES)..depth] {
            self.write_link(self.entered(frame.get()));
        }
        self.write_link([first_word(Kind::Fork, 0, number), second_word(0, pc)]);
    }

    /// Writes a record to the log.
    #[inline(always)]
    pub(crate) fn write<const N: usize>(&self, words: [u64; N]) {
        self.log.write(words, || {
            let fields = (entry::POSITION, entry::FIRST_CHUNK);
            let clock = self.position.clock();
            (self.log).next_chunk(self.slot.get(), fields, clock, |start| self.snapshot(start))
        });
    }

    /// Writes a record of an edge between transactions.
    pub(crate) fn write_link<const N: usize>(&self, words: [u64; N]) {
        #[cfg(test)]
        if crate::kernel::notes_link(self.slot.get(), &words) {
            return;
        }
        self.links.write(words, || {
            let fields = (entry::LINKS_POSITION, entry::LINKS_CHUNK);
            self.links.next_chunk(self.slot.get(), fields, 0, |_| 0)
        });
    }

    /// Writes a snapshot to the start of a chunk: what a reader must know that has nothing of what
    /// was before. How many bytes it has.
    fn snapshot(&self, start: usize) -> usize {
        let mut at = start;
        let mut write = |words: &[u64]| {
            for word in words {
                // SAFETY: a snapshot is much smaller than a chunk, which belongs to this thread.
                unsafe { (at as *mut u64).write(*word) };
                at += 8;
            }
        };
        let (low, high) = (self.stack_low.get(), self.stack_high.get());
        let number = first_word(Kind::Continue, 0, self.number.get());
        write(&[number, 0, low as u64, (high - low) as u64]);
        let logged = self.logged.get().min(FRAMES);
        let unnamed = logged.saturating_sub(2 * SNAPSHOT);
        let (outer, inner) = self.frames[..logged].split_at(logged.min(SNAPSHOT));
        for frame in outer {
            let frame = frame.get();
            write(&self.entered(frame));
        }
        if unnamed > 0 {
            write(&[first_word(Kind::Unnamed, 0, unnamed as u64), 0]);
        }
        for frame in &inner[unnamed..] {
            let frame = frame.get();
            write(&self.entered(frame));
        }
        at - start
    }

    /// Orders what follows after everything that is in another slot's log now: after which position.
    #[inline]
    pub(crate) fn after(&self, slot: u32) -> u64 {
        let position = position_of(slot);
        if slot == self.slot.get() {
            return position;
        }
        if self.silent.get() {
            self.link(slot, position);
        } else if self.tabled.get() {
            self.order(slot, position, regions::clock(slot));
        } else {
            self.order(slot, position, 0);
        }
        position
    }

    /// Orders what follows after a position of another slot's log.
    pub(crate) fn after_position(&self, slot: u32, position: u64) {
        if self.silent.get() {
            return self.link(slot, position);
        }
        let find = |history: &History, known, now| history.before(position, known, now);
        let source = match self.tabled.get() {
            true => self.source(slot, find).map(|source| source.clock),
            false => None,
        };
        let now = || match self.tabled.get() {
            true => regions::clock(slot),
            false => 0,
        };
        self.order(slot, position, source.unwrap_or_else(now));
    }

    /// Orders what follows after an owner's last access to a granule, which was in that epoch: after
    /// which position.
    pub(crate) fn after_epoch(&self, slot: u32, epoch: u32) -> u64 {
        if !self.tabled.get() || slot == self.slot.get() {
            return self.after(slot);
        }
        // Before the transaction is looked at: all that is before it is in that one, or earlier.
        let position = position_of(slot);
        let find = |history: &History, known, now| history.in_epoch(epoch, known, now);
        match self.source(slot, find) {
            None => self.after(slot),
            Some(source) if self.silent.get() => {
                self.link(slot, source.clock);
                source.clock
            }
            Some(source) => {
                let end = source.end.unwrap_or(position);
                self.order(slot, end, source.clock);
                end
            }
        }
    }

    /// Orders what follows after the write that a granule without an owner names by a slot and a
    /// position of it.
    pub(crate) fn after_write(&self, slot: u32, position: u64) {
        if !self.silent.get() {
            return self.after_position(slot, position);
        }
        let find = |history: &History, _, now| history.numbered(position, now);
        match self.source(slot, find) {
            None => drop(self.after(slot)),
            Some(source) => self.link(slot, source.clock),
        }
    }

    /// Orders what follows after all reads of a granule that has no owner.
    pub(crate) fn after_readers(&self, address: usize) {
        if !self.tabled.get() {
            return self.after_everybody();
        }
        let highest = HIGHEST.load(Ordering::Acquire).min(SLOTS);
        for (slot, reader) in SLOT_TABLE[..=highest].iter().enumerate() {
            // SAFETY: records are never given back; what is read of it is atomic.
            let reader = unsafe { reader.load(Ordering::Acquire).as_ref() };
            let seen = reader.map(|reader| reader.seen_at(address).load(Ordering::Acquire));
            if let Some(epoch) = seen.filter(|&epoch| epoch != 0) {
                self.after_epoch(slot as u32, epoch);
            }
        }
    }

    fn seen_at(&self, address: usize) -> &AtomicU32 {
        &self.seen[(address >> 3) % SEEN]
    }

    /// A granule that has no owner is read in this epoch; whether that has to be said.
    #[inline(always)]
    pub(crate) fn see(&self, address: usize) -> bool {
        let epoch = ownership::epoch_of(self.mine.get());
        let seen = self.seen_at(address);
        let news = seen.load(Ordering::Relaxed) != epoch;
        if news {
            seen.store(epoch, Ordering::Release);
        }
        news
    }

    /// A transaction of another slot, by its history, the number of the last one that this thread is
    /// after, and its number now.
    fn source(
        &self,
        slot: u32,
        find: impl FnOnce(&History, u64, u64) -> Option<Source>,
    ) -> Option<Source> {
        let other = SLOT_TABLE.get(slot as usize)?.load(Ordering::Acquire);
        // SAFETY: records are never given back; a history is made of atomic words.
        let history = unsafe { &other.as_ref()?.history };
        let now = recording::slot_entry(slot, entry::CLOCK).load(Ordering::Acquire);
        find(history, self.linked(slot)?.get(), now)
    }

    /// The last transaction of a slot that this thread is after.
    pub(crate) fn linked(&self, slot: u32) -> Option<&Cell<u64>> {
        let linked = if self.silent.get() {
            &self.known
        } else {
            &self.linked
        };
        linked.get(slot as usize)
    }

    /// Orders what follows after a position of another slot's log, and after a transaction of it, if
    /// there are any.
    fn order(&self, slot: u32, position: u64, clock: u64) {
        let Some(known) = self.known.get(slot as usize) else {
            return;
        };
        if self.tabled.get() {
            self.link(slot, clock);
        }
        if known.get() < position {
            known.set(position);
            if self.tabled.get() {
                self.mark();
            }
            self.write([first_word(Kind::Edge, 0, position), u64::from(slot)]);
            self.next_epoch();
        }
    }

    /// Whether what follows is ordered after a position of a slot's log anyway.
    #[inline]
    pub(crate) fn is_after(&self, slot: u32, position: u64) -> bool {
        self.known
            .get(slot as usize)
            .is_some_and(|known| known.get() >= position)
    }

    /// Orders what follows after everything that is in any log now.
    pub(crate) fn after_everybody(&self) {
        for slot in 1..=HIGHEST.load(Ordering::Acquire).min(SLOTS) {
            self.after(slot as u32);
        }
    }

    /// Whether this epoch has already logged a read of these bytes of a granule that has no
    /// owner.
    #[inline(always)]
    pub(crate) fn is_filtered(&self, granule: usize, word: u64, bytes: u64) -> bool {
        let last = self.filter[(granule >> 3) % FILTER].get();
        let wanted = (granule as u64) << 8 | bytes;
        last.state == self.filter_state(word) && last.bytes & (!0xff | bytes) == wanted
    }

    /// What the state of an entry must be to count for a granule with this shadow word, now.
    #[inline(always)]
    fn filter_state(&self, word: u64) -> u64 {
        self.mine.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word
    }

    /// The same; from now on it has.
    pub(crate) fn filter(&self, granule: usize, word: u64, bytes: u64) -> bool {
        if self.is_filtered(granule, word, bytes) {
            return true;
        }
        let entry = &self.filter[(granule >> 3) % FILTER];
        let last = entry.get();
        let (state, wanted) = (self.filter_state(word), (granule as u64) << 8 | bytes);
        let same = last.state == state && last.bytes & !0xff == wanted & !0xff;
        entry.set(Filtered {
            bytes: if same { last.bytes | bytes } else { wanted },
            state,
        });
        false
    }

    /// Whether this load repeats the last thing that was logged; from now on it does.
    pub(crate) fn repeats(&self, load: LastLoad) -> bool {
        self.last_load.get() == load
    }

    /// Remembers the load that was just logged.
    pub(crate) fn remember(&self, load: LastLoad) {
        self.last_load.set(load);
    }

    /// Enters a function.
    #[inline(always)]
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
    #[inline(always)]
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
        if self.logged_end() > top {
            self.log_exit(self.depth());
        }
        if self.tabled.get() {
            // SAFETY: the innermost frame, which has just been left.
            let frame = unsafe { (*(top as *const Cell<Frame>)).get() };
            self.work(|| self.leave(frame.function, end));
            self.guard();
        }
    }

    #[inline(never)]
    fn log_exit(&self, depth: usize) {
        self.work(|| {
            // The call is in the snapshot of a chunk that starts here.
            while self.logged.get() > depth {
                self.write([first_word(Kind::Exit, 0, 0), 0]);
                self.logged.set(self.logged.get() - 1);
            }
            if !self.is_inside() {
                self.next_epoch();
            }
        });
        self.guard();
        if !self.tabled.get() {
            start::noise(0);
        }
    }

    #[inline(never)]
    fn log_frames(&self) {
        while self.logged.get() < self.depth() {
            let index = self.logged.get();
            self.write(self.entered(self.frames[index].get()));
            self.logged.set(index + 1);
        }
        self.guard();
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
    fn entered(&self, frame: Frame) -> [u64; 2] {
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

    /// The thread's last event: what it does from here on is not recorded.
    pub(crate) fn end(&self) -> u64 {
        platform::set_thread_word(OFF);
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
