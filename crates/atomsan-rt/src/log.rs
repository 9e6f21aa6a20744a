//! A log: records that go to positions, which grow for ever; `shift` says where in memory that is,
//! in the current chunk.
//!
//! A log is written by one thread. What others see of it is its position, in the slot's entry.

use crate::format::{CHUNK_UNIT, ChunkHeader, Kind, header};
use crate::recording::{self, Chunk, PIECE};
use crate::sync::AtomicU64;
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// A log. All-zero memory is a valid one.
#[repr(C)]
pub(crate) struct Log {
    /// The position of the next record.
    pub(crate) cursor: Cell<u64>,
    /// The position of the end of the chunk, or of the part of it that has room in the file.
    pub(crate) limit: Cell<u64>,
    /// The position of the end of the chunk.
    end: Cell<u64>,
    /// Where position 0 would be in memory.
    pub(crate) shift: Cell<u64>,
    /// Where everybody sees the position; 0 before there is a chunk.
    pub(crate) published: Cell<usize>,
    /// Where the chunk is mapped, and the position of its first record; 0 if there is none.
    chunk: Cell<(usize, u64)>,
    /// Whether records were lost since the last one in the log.
    lost: Cell<bool>,
    /// What the thread knew of others when the chunk began.
    known: Cell<u64>,
}

/// Writes a record, its first word last.
///
/// # Safety
/// The words must have room at the address.
#[inline(always)]
unsafe fn put<const N: usize>(address: usize, words: [u64; N]) {
    let to = address as *mut u64;
    // SAFETY: the caller vouches for the room.
    unsafe {
        for (index, word) in words.iter().enumerate().skip(1) {
            to.add(index).write_volatile(*word);
        }
        to.write_volatile(words[0]);
    }
}

impl Log {
    /// Where the next record goes.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.cursor.get()
    }

    /// Forgets what was written, because it is another process's.
    pub(crate) fn start_over(&self) {
        self.cursor.set(0);
        self.limit.set(0);
        self.end.set(0);
        self.chunk.set((0, 0));
    }

    /// Whether there is room for so many words.
    #[inline(always)]
    pub(crate) fn has_room(&self, words: u64) -> bool {
        self.cursor.get() + 8 * words <= self.limit.get()
    }

    /// Appends a record; if the chunk is full, `next` goes on in [another one](Log::next_chunk).
    ///
    /// The first word goes last, so that a record that was cut off by the end of the process is
    /// the end of the log.
    #[inline(always)]
    pub(crate) fn write<const N: usize>(&self, words: [u64; N], next: impl FnOnce() -> bool) {
        let mut at = self.cursor.get();
        if !self.has_room(N as u64) {
            if !next() {
                return;
            }
            at = self.cursor.get();
        }
        // SAFETY: the positions up to `limit` are the unused rest of a chunk that belongs to this
        // thread.
        unsafe { put(at.wrapping_add(self.shift.get()) as usize, words) };
        self.publish(at + 8 * N as u64);
    }

    /// Appends a record, or several at once, for which there must be room.
    #[inline(always)]
    pub(crate) fn write_at_once<const N: usize>(&self, words: [u64; N]) {
        let at = self.cursor.get();
        // SAFETY: as in `write`.
        unsafe { put(at.wrapping_add(self.shift.get()) as usize, words) };
        self.publish(at + 8 * N as u64);
    }

    /// How many bytes of the current chunk have records.
    pub(crate) fn used(&self) -> u64 {
        let (address, position) = self.chunk.get();
        if address == 0 {
            return 0;
        }
        self.cursor.get() - position
    }

    /// Goes on at the start of the current chunk, which must have records: nobody needs them.
    pub(crate) fn start_again(&self, clock: u64, snapshot: impl FnOnce(usize) -> usize) {
        let (address, previous) = self.chunk.get();
        let chunk = Chunk {
            address,
            position: self.cursor.get(),
            fresh: false,
        };
        let room = self.limit.get().wrapping_add(self.shift.get());
        let bytes = chunk.start_again(previous, clock, snapshot);
        let (first, end) = chunk.content(bytes);
        self.shift.set((first as u64).wrapping_sub(chunk.position));
        self.end.set(chunk.position + (end - first) as u64);
        self.limit.set(room.wrapping_sub(self.shift.get()));
        self.chunk.set((address, chunk.position));
    }

    /// Goes on in another chunk, and says that nobody needs this one.
    pub(crate) fn let_go(&self) {
        let (address, _) = self.chunk.get();
        let needless = address + core::mem::offset_of!(ChunkHeader, needless);
        // SAFETY: the chunk is mapped and belongs to this thread, header and all.
        unsafe { (needless as *mut u64).write_volatile(1) };
        // What is behind the last record of the chunk is nothing.
        let at = self.cursor.get().wrapping_add(self.shift.get()) as usize;
        if self.cursor.get() + 8 <= self.limit.get() {
            // SAFETY: as in `write`.
            unsafe { put(at, [0]) };
        }
        self.limit.set(self.cursor.get());
        self.end.set(self.cursor.get());
    }

    /// Tells everybody how far the log goes.
    #[inline(always)]
    fn publish(&self, position: u64) {
        self.cursor.set(position);
        // SAFETY: there is a chunk, so this is the slot's entry, which is mapped for good.
        let published = unsafe { &*(self.published.get() as *const AtomicU64) };
        published.store(position, Ordering::Release);
    }

    /// A record is lost.
    fn lose(&self) -> bool {
        recording::counter(header::DROPPED).fetch_add(1, Ordering::Relaxed);
        self.lost.set(true);
        false
    }

    /// Goes on in the next piece of a chunk; whether there is room for it.
    fn take_piece(&self) -> bool {
        let (limit, shift) = (self.limit.get(), self.shift.get());
        let has_room = recording::allocate_piece(limit.wrapping_add(shift) as usize);
        if has_room {
            self.limit.set(limit + PIECE as u64);
        }
        has_room
    }

    /// Goes on in another chunk, or in another part of this one; whether there is one. `fields` are those of the slot's entry for this
    /// log, `clock` is the slot's, `known` grows with what the thread is after, and `snapshot` writes what a reader must know that has nothing of
    /// what was before: how many bytes.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_chunk(
        &self,
        slot: u32,
        fields: (usize, usize),
        clock: u64,
        known: impl FnOnce() -> u64,
        snapshot: impl FnOnce(usize) -> usize,
    ) -> bool {
        if self.limit.get() < self.end.get() {
            return self.take_piece() || self.lose();
        }
        let (address, position) = self.chunk.get();
        let before = (address != 0).then_some(Chunk {
            address,
            position,
            fresh: false,
        });
        if before.is_some() && self.cursor.get() + 8 <= self.limit.get() {
            // A chunk that is used again has something behind its last record.
            let end = self.cursor.get().wrapping_add(self.shift.get()) as usize;
            // SAFETY: as in `write`.
            unsafe { put(end, [0]) };
        }
        let known = known();
        let alone = self.known.replace(known) == known;
        let last = before.as_ref().map(|before| (before, alone));
        let Some(chunk) = recording::new_chunk(slot, last, clock) else {
            return self.lose();
        };
        let (start, _) = chunk.content(0);
        let bytes = if before.is_some() { snapshot(start) } else { 0 };
        chunk.set_snapshot(bytes, !self.lost.replace(false));
        let (first, end) = chunk.content(bytes);
        self.shift.set((first as u64).wrapping_sub(chunk.position));
        self.end.set(chunk.position + (end - first) as u64);
        let unused = if chunk.fresh { CHUNK_UNIT - PIECE } else { 0 };
        self.limit.set(self.end.get() - unused as u64);
        self.chunk.set((chunk.address, chunk.position));
        let published = recording::slot_entry(slot, fields.0);
        self.published.set(core::ptr::from_ref(published) as usize);
        chunk.link(slot, before.as_ref(), fields.1);
        self.publish(chunk.position);
        true
    }
}

/// The kinds of records after which nobody expects to have been alone.
pub(crate) fn splits(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Wait | Kind::Arrive | Kind::Yield | Kind::Fork | Kind::Join
    )
}

/// The kinds of records that name a place where others go on from here.
pub(crate) fn lets_go(kind: Kind) -> bool {
    matches!(kind, Kind::Release | Kind::ReleaseShared | Kind::Wait)
}

/// The kinds of records whose subject is a place that threads synchronise by.
pub(crate) fn is_at_a_word(kind: Kind) -> bool {
    use Kind::{Acquire, AcquireShared, Arrive, Leave, Woken};
    lets_go(kind) || matches!(kind, Acquire | AcquireShared | Woken | Arrive | Leave)
}
