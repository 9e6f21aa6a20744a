//! What a thread writes down: records into its log, after the entries of the functions they happen in,
//! and edges between transactions into a log of their own.
//!
//! Each chunk of the [`Log`](crate::log::Log) starts with a snapshot of the calls that are in the log, of what is
//! initialised in them, and of what the thread is after, so that the chunks before it can be forgotten.

use super::{FORK_FRAMES, Frame, HIGHEST, SNAPSHOT, Thread};
use crate::format::{Kind, LOW, SLOTS, SNAPSHOT_EDGES, entry, first_word, second_word};
use crate::{log, ownership};
use core::cell::Cell;
use core::sync::atomic::{Ordering, compiler_fence};

const FRAME: usize = size_of::<Frame>();

/// A thread that has room for the record of an atomic operation.
pub(crate) struct AtomicRecord<'a>(&'a Thread);

impl AtomicRecord<'_> {
    /// Appends it. It has an epoch of its own.
    #[inline(always)]
    pub(crate) fn record<const N: usize>(self, words: [u64; N]) {
        self.0.log.write_at_once(words);
        self.0.next_epoch();
    }
}

impl Thread {
    /// Appends a record, after the entries of the functions it happens in.
    #[inline(always)]
    pub(crate) fn append<const N: usize>(&self, words: [u64; N]) {
        if self.silent.get() {
            return;
        }
        if self.tabled.get() {
            self.mark();
        }
        self.log_frames();
        if !self.skips.get() && self.ignoring.get() == 0 {
            self.ready.set(self.top.get());
        }
        self.write(words);
    }

    /// Appends the record of an access, which belongs to the epoch.
    #[inline(always)]
    pub(crate) fn append_access<const N: usize>(&self, words: [u64; N]) {
        if !self.silent.get() {
            self.use_epoch();
            self.append(words);
        }
    }

    /// The same if there is nothing else to do, after what comes first, if that goes well; whether it was so. Of
    /// something that is shared, it may matter [where](Thread::may_append_at) the access is.
    #[inline(always)]
    pub(crate) fn append_at_once(&self, words: [u64; 2], first: impl FnOnce() -> bool) -> bool {
        if !self.may_append_at_once(2) {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let goes_well = first();
        if goes_well {
            self.append_now(words);
        }
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        goes_well
    }

    /// Whether there is nothing else to do for an access than to append its record of so many words.
    #[inline(always)]
    fn may_append_at_once(&self, words: u64) -> bool {
        let is_ready = self.ready.get() == self.top.get() && self.log.has_room(words);
        is_ready && !self.busy.get() && self.ignoring.get() == 0
    }

    /// Whether nothing is to be done first for an access of something shared at a place.
    #[inline(always)]
    pub(crate) fn may_append_at(&self, pc: u64) -> bool {
        !self.tabled.get() || self.passes_again(pc)
    }

    #[inline(always)]
    fn append_now(&self, words: [u64; 2]) {
        self.use_epoch();
        self.log.write(words, || false);
    }

    /// Appends the record of a read of bytes of a granule that has no owner and this word, if there is nothing else to
    /// do; whether it was so.
    #[inline(always)]
    pub(crate) fn append_read(
        &self,
        address: usize,
        word: u64,
        bytes: u64,
        words: [u64; 2],
    ) -> bool {
        if !self.may_append_at_once(2) || !self.may_append_at(words[1]) {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        self.see(address);
        self.note_read(address & !7, word, bytes);
        self.append_now(words);
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        true
    }

    /// Writes down what the log has to say before an access: the number of the transaction, and the functions that
    /// the thread is in. Whether there was anything to say, and nothing else is to be done.
    #[inline(always)]
    pub(crate) fn gets_ready(&self) -> bool {
        let is_ready = self.ready.get() == self.top.get();
        if is_ready || self.silent.get() || !self.tabled.get() || self.skips.get() {
            return false;
        }
        if self.busy.get() || self.ignoring.get() > 0 {
            return false;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        if !self.says_where_at_once() {
            self.mark();
            self.log_frames();
        }
        self.ready.set(self.top.get());
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        true
    }

    /// The same if it is what is to be said in most regions: that another transaction follows, and that the thread is in one
    /// more function than the log says; whether it was.
    #[inline(always)]
    fn says_where_at_once(&self) -> bool {
        let (top, kept) = (self.top.get(), self.kept.get());
        let clock = self.unmarked();
        let is_usual = top - kept <= size_of::<Frame>() && (clock.is_some() || self.left() == 0);
        if !is_usual || !self.log.has_room(4) {
            return false;
        }
        // SAFETY: in front of the top is a frame.
        let frame = || unsafe { (*(kept as *const Cell<Frame>)).get() };
        self.says_where(clock, (top != kept).then(|| self.entered(frame())));
        true
    }

    /// Writes it down where a region begins or ends, if nothing else has to be said and there is room: the first access would have
    /// to wait for it. The log does not have the record of the function that was entered, and lacks no other one.
    #[inline(always)]
    pub(super) fn says_where_at_first(&self, entered: Option<[u64; 2]>) {
        let is_muted = self.skips.get() || self.ignoring.get() > 0;
        if is_muted || !self.log.has_room(4) {
            return;
        }
        let top = self.says_where(Some(self.position.now()), entered);
        self.ready.set(top);
        self.said_until.set(self.log.position());
    }

    /// Writes down the number of the transaction, if it has one, and the record of the function that the thread is in besides those that
    /// are in the log, if there is one. There must be room for both. Where the frames end.
    #[inline(always)]
    fn says_where(&self, clock: Option<u64>, entered: Option<[u64; 2]>) -> usize {
        let marking = clock.map(|clock| self.marking(clock));
        match (marking, entered) {
            (Some([clock, left]), Some([call, function])) => {
                self.log.write_at_once([clock, left, call, function]);
            }
            (Some(record), None) | (None, Some(record)) => self.log.write_at_once(record),
            (None, None) => {}
        }
        let top = self.top.get();
        self.kept.set(top);
        self.logged.set(top);
        top
    }

    /// The record that says that a transaction follows, and what was left before it.
    #[inline(always)]
    fn marking(&self, clock: u64) -> [u64; 2] {
        // Mostly none or one, for which nothing has to be divided.
        let left = match self.logged.get() - self.kept.get() {
            0 => 0,
            FRAME => 1,
            _ => self.left() as u64,
        };
        self.has_marked(clock);
        [first_word(Kind::Transaction, 0, clock), left]
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
        if self.tabled.get() && !self.passes_again(pc) {
            self.pass_place(pc & LOW);
        }
    }

    /// The same if there is nothing else to do: whatever `operation` appends the record of, if it goes well.
    #[inline(always)]
    pub(crate) fn append_atomic_at_once<R>(
        &self,
        operation: impl FnOnce(AtomicRecord<'_>) -> Option<R>,
    ) -> Option<R> {
        if !self.may_append_at_once(4) {
            return None;
        }
        self.busy.set(true);
        compiler_fence(Ordering::SeqCst);
        let result = operation(AtomicRecord(self));
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        result
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
            if self.tabled.get() && !self.position.is_in_region() && self.start_again() {
                return true;
            }
            let fields = (entry::POSITION, entry::FIRST_CHUNK);
            let clock = self.position.clock();
            let known = || self.known_in_all();
            let snapshot = |start| self.snapshot(start);
            (self.log).next_chunk(self.slot.get(), fields, clock, known, snapshot)
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
            self.links
                .next_chunk(self.slot.get(), fields, 0, || 0, |_| 0)
        });
    }

    /// A number that is greater whenever the thread is after more of another log than before.
    fn known_in_all(&self) -> u64 {
        let slots = 1..=HIGHEST.load(Ordering::Acquire).min(SLOTS);
        slots.fold(0, |sum, slot| sum.wrapping_add(self.known[slot].get()))
    }

    /// Writes a snapshot to the start of a chunk: what a reader must know that has nothing of what
    /// was before. How many bytes it has.
    pub(super) fn snapshot(&self, start: usize) -> usize {
        let mut at = start;
        let mut write = |words: &[u64]| {
            for word in words {
                // SAFETY: a snapshot is smaller than the first piece of a chunk, which belongs to this
                // thread.
                unsafe { (at as *mut u64).write(*word) };
                at += 8;
            }
        };
        let (low, high) = (self.stack_low.get(), self.stack_high.get());
        let number = first_word(Kind::Continue, 0, self.number.get());
        write(&[number, 0, low as u64, (high - low) as u64]);
        let logged = (self.kept.get() - self.base()) / size_of::<Frame>();
        self.write_functions(logged, &mut write);
        if self.left() > 0 {
            // That they have been left is what the chunk says first.
            write(&[first_word(Kind::Unnamed, 0, self.left() as u64), 0]);
        }
        if !self.tabled.get() {
            // What the thread is after needs no edge any more, and the edges may be forgotten.
            let slots = 1..=HIGHEST.load(Ordering::Acquire).min(SLOTS);
            let others = slots.filter(|&slot| slot != self.slot.get() as usize);
            let known = others.map(|slot| (slot, self.known[slot].get()));
            let known = known.filter(|&(_, position)| position != 0);
            for (slot, position) in known.take(SNAPSHOT_EDGES) {
                write(&[first_word(Kind::Edge, 0, position), slot as u64]);
            }
        }
        at - start
    }

    /// Writes down the outermost of the functions that the thread is in, so many of them, and behind each what is
    /// initialised there.
    fn write_functions(&self, count: usize, write: &mut impl FnMut(&[u64])) {
        let unnamed = count.saturating_sub(2 * SNAPSHOT);
        let mut initialising = self.initialising_in(count).peekable();
        let mut depth = 0;
        loop {
            while let Some((_, words)) = initialising.next_if(|&(at, _)| at <= depth) {
                write(&words);
            }
            if depth == count {
                return;
            } else if depth == SNAPSHOT && unnamed > 0 {
                write(&[first_word(Kind::Unnamed, 0, unnamed as u64), 0]);
                depth += unnamed;
            } else {
                write(&self.entered(self.frames[depth].get()));
                depth += 1;
            }
        }
    }
}
