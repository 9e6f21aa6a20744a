//! The file that everything goes into, and the chunks that threads take from it.
//!
//! The file has the size of the budget from the start, and no room on the disk; it is mapped as a
//! whole, once, and its descriptor closed. A chunk is given room before anybody writes to it, so a
//! full disk is a message of the kernel and not a fault. What other threads and a follower see of a
//! log is its *position*, in the slot's entry.
//!
//! # Chunks that are used again
//!
//! They come in a ring, oldest first: from the follower, or, if there is none, from the threads
//! that have filled them. A number in the ring is there or 0, so one compare-exchange takes it, and
//! a follower needs nothing but plain writes to put it there. There are never more chunks than the
//! ring has room for, so nobody overtakes anybody.
//!
//! While nobody follows there are two rings. A chunk without any edge says of no other thread what it did
//! before, so it can be forgotten without the order of anything else; and of what threads do to each other it has one
//! side at most. Such chunks have a ring of their own, and the next chunk is taken from the fuller ring.

use crate::format::{
    self, ALONE_RING, CALL_SIZE, CALLS, CALLS_LEN, CHUNK_HEADER_SIZE, CHUNK_UNIT, ChunkHeader,
    ENTRY_SIZE, FEW_CHUNKS, FOR_THREAD, HEADER_SIZE, Kind, LOW, MANY_CHUNKS, ORIGINS,
    RETURNED_RING, RING_LEN, SLOT_ENTRIES, SLOTS, entry, header, origin,
};
use crate::start::{self, Logs};
use crate::sync::AtomicU64;
use crate::{ownership, platform, shadow};
use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// Where the file is mapped; 0 while nothing is recorded.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// How much of it may be used: the memory budget.
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// Where the page of calls is that got room last: the next calls lie there, too, most of the time.
static LAST_PAGE_OF_CALLS: AtomicUsize = AtomicUsize::new(0);

const PAGE: usize = 4096;
/// So much of a fresh chunk gets room at a time: many threads write little.
pub(crate) const PIECE: usize = 16 << 10;
/// How much of a chunk is looked at to say how many records it has.
const SAMPLE: usize = 4 << 10;
/// How many numbers of the ring are in a page.
const IN_PAGE: u64 = PAGE as u64 / 8;

/// How long a thread waits for a follower that gives nothing back, in steps of 100 microseconds.
const PATIENCE: u32 = 20_000;
/// The same if the follower cannot be rung: it may be in another namespace, where nobody has that number.
const PATIENCE_WITH_NOBODY: u32 = 5_000;
/// A step, in microseconds, and how many of them a thread sleeps at most.
const STEP: u64 = 100;
const LONGEST_NAP: u32 = 20;
/// After so many steps, it takes more room.
const SHORTLY: u32 = 500;
/// Once in so many chunks the follower is rung: what it has not read takes room; and in so many that are all edges,
/// each of which takes it more memory than it takes here.
const FILLED: u64 = 8;
const FILLED_WITH_EDGES: u64 = 2;
/// There is a follower.
const FOLLOWED: u64 = 1;
/// After so many steps, it rings again, and sees whether the follower is still there.
const LOOK: u32 = 100;
/// The follower has been given up.
const GONE: u64 = 2;
/// The process that follows; 0 if there is none.
static FOLLOWER: AtomicUsize = AtomicUsize::new(0);

/// A chunk of a log that was handed out.
pub(crate) struct Chunk {
    /// Where it is mapped.
    pub(crate) address: usize,
    /// The position of its first record.
    pub(crate) position: u64,
    /// Whether only its first piece has room.
    pub(crate) fresh: bool,
}

/// Starts the recording of this process in a new file, of `size` bytes at most. The process
/// `follower` follows it, if that is not 0.
///
/// # Safety
/// `path` must end with a zero byte, and no other thread may be recording: this is called once at
/// the start of the process, and in a child of `fork`, which has one thread.
pub(crate) unsafe fn open(path: *const u8, size: usize, follower: usize) -> bool {
    let followed = follower != 0;
    FOLLOWER.store(follower, Ordering::Relaxed);
    // SAFETY: the caller vouches for the path.
    let fd = unsafe { platform::open(path, true) };
    if fd < 0 {
        return false;
    }
    // The program needs the most of its addresses.
    let size = size.min(platform::address_limit() / 8);
    let size = size.clamp(8 * CHUNK_UNIT, RING_LEN * CHUNK_UNIT) + HEADER_SIZE;
    let base = platform::map_file(fd, size);
    let at = base as usize;
    let ring = || platform::allocate_file(at, RETURNED_RING, 2 * PAGE);
    if base.is_null() || !platform::allocate_file(at, 0, SLOT_ENTRIES) || (followed && !ring()) {
        platform::close(fd);
        return false;
    }
    BASE.store(base as usize, Ordering::Release);
    LAST_PAGE_OF_CALLS.store(0, Ordering::Relaxed);
    SIZE.store(size, Ordering::Relaxed);
    // The program's descriptors stay as they were; it may close all of them.
    platform::close(fd);
    counter(header::PID).store(platform::process_id(), Ordering::Relaxed);
    counter(header::TOP).store(HEADER_SIZE as u64, Ordering::Relaxed);
    counter(header::NEXT_POSITION).store(CHUNK_UNIT as u64, Ordering::Relaxed);
    counter(header::FOLLOWED).store(u64::from(followed), Ordering::Relaxed);
    counter(header::SHADOW).store(shadow::window().unwrap_or(0), Ordering::Relaxed);
    counter(header::MAGIC).store(format::MAGIC, Ordering::Release);
    true
}

/// Stops recording for good.
pub(crate) fn close() {
    BASE.store(0, Ordering::Release);
}

/// A word of the file's header; a word that nobody reads while nothing is recorded.
pub(crate) fn counter(offset: usize) -> &'static AtomicU64 {
    static NOBODY: AtomicU64 = AtomicU64::new(0);
    let base = BASE.load(Ordering::Acquire);
    if base == 0 {
        return &NOBODY;
    }
    // SAFETY: the header is mapped, has room in the file where it is used and is never unmapped;
    // all of its fields are aligned words that are only used as atomics.
    unsafe { &*((base + offset) as *const AtomicU64) }
}

/// Gives a slot's entry room in the file.
pub(crate) fn prepare_slot(slot: usize) -> bool {
    counter(header::HIGHEST_SLOT).fetch_max(slot as u64, Ordering::Relaxed);
    let at = SLOT_ENTRIES + slot.min(SLOTS) * ENTRY_SIZE;
    platform::allocate_file(BASE.load(Ordering::Relaxed), at & !4095, 4096)
}

/// The position of a slot's log; 0 in a slot that nobody has used.
#[inline]
pub(crate) fn position(slot: u32) -> &'static AtomicU64 {
    slot_entry(slot, entry::POSITION)
}

/// A word of a slot's entry.
#[inline]
pub(crate) fn slot_entry(slot: u32, field: usize) -> &'static AtomicU64 {
    counter(SLOT_ENTRIES + (slot as usize).min(SLOTS) * ENTRY_SIZE + field)
}

/// Whether a follower is there, as far as is known.
pub(crate) fn is_followed() -> bool {
    counter(header::FOLLOWED).load(Ordering::Relaxed) == FOLLOWED
}

/// Wakes the process that follows, because somebody waits for it; whether it is still there.
pub(crate) fn ring() -> bool {
    platform::ring(FOLLOWER.load(Ordering::Relaxed))
}

/// Nobody waits for the follower any more.
pub(crate) fn give_up() {
    counter(header::FOLLOWED).store(GONE, Ordering::Relaxed);
}

/// A fresh part of the file, `size` bytes, if there are no more than so many chunks then; its offset.
/// Its first [`PIECE`] has room.
fn fresh(size: usize, most: usize) -> Option<usize> {
    let top = counter(header::TOP);
    let mut at = top.load(Ordering::Relaxed);
    let end = HEADER_SIZE.saturating_add(most.saturating_mul(CHUNK_UNIT));
    loop {
        if at as usize + size > SIZE.load(Ordering::Relaxed).min(end) {
            return None;
        }
        match top.compare_exchange_weak(at, at + size as u64, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => break,
            Err(now) => at = now,
        }
    }
    allocate_piece(BASE.load(Ordering::Relaxed) + at as usize).then_some(at as usize)
}

/// Gives a piece of a chunk room in the file.
pub(crate) fn allocate_piece(address: usize) -> bool {
    let base = BASE.load(Ordering::Relaxed);
    platform::allocate_file(base, address - base, PIECE)
}

/// A ring of chunks.
#[derive(Clone, Copy)]
struct Ring {
    start: usize,
    /// How many chunks threads have put there.
    returned: usize,
    /// How many have been taken from it.
    taken: usize,
}

/// Chunks that came back.
const RETURNED: Ring = Ring {
    start: RETURNED_RING,
    returned: header::RETURNED,
    taken: header::TAKEN,
};
/// Those in which a thread has met nobody.
const ALONE: Ring = Ring {
    start: ALONE_RING,
    returned: header::RETURNED_ALONE,
    taken: header::TAKEN_ALONE,
};

impl Ring {
    fn place(self, turn: u64) -> usize {
        self.start + turn as usize % RING_LEN * 8
    }

    /// Gives the page behind a turn room in the file, where one begins.
    fn prepare(self, turn: u64) {
        if turn.is_multiple_of(IN_PAGE) {
            let next = self.place(turn + IN_PAGE);
            platform::allocate_file(BASE.load(Ordering::Relaxed), next, PAGE);
        }
    }

    /// How many chunks are there, more or less.
    fn len(self) -> u64 {
        let returned = counter(self.returned).load(Ordering::Relaxed);
        returned.saturating_sub(counter(self.taken).load(Ordering::Relaxed))
    }

    /// Puts a chunk there, by its number.
    fn put(self, number: usize) {
        let turn = counter(self.returned).fetch_add(1, Ordering::AcqRel);
        if turn == 0 {
            platform::allocate_file(BASE.load(Ordering::Relaxed), self.start, PAGE);
        }
        self.prepare(turn);
        counter(self.place(turn)).store(number as u64, Ordering::Release);
    }
}

/// A word of a call that the program has asked for.
pub(crate) fn call(index: usize, field: usize) -> &'static AtomicU64 {
    counter(CALLS + index % CALLS_LEN * CALL_SIZE + field)
}

/// Gives a call room in the file; whether there is any.
pub(crate) fn prepare_call(index: usize) -> bool {
    let at = (CALLS + index * CALL_SIZE) & !(PAGE - 1);
    let base = BASE.load(Ordering::Relaxed);
    if index >= CALLS_LEN {
        return false;
    }
    if LAST_PAGE_OF_CALLS.load(Ordering::Relaxed) == base + at {
        return true;
    }
    let has_room = platform::allocate_file(base, at, PAGE);
    if has_room {
        LAST_PAGE_OF_CALLS.store(base + at, Ordering::Relaxed);
    }
    has_room
}

/// A word of where something comes from.
pub(crate) fn origin(place: usize, word: usize) -> &'static AtomicU64 {
    counter(ORIGINS + place % origin::LEN * origin::SIZE + 8 * word)
}

/// Gives a page of that room in the file, by its number; whether there is any.
pub(crate) fn prepare_origins(page: usize) -> bool {
    platform::allocate_file(BASE.load(Ordering::Relaxed), ORIGINS + page * PAGE, PAGE)
}

/// The oldest chunk of a ring, emptied; its offset.
fn used(ring: Ring) -> Option<usize> {
    let taken = counter(ring.taken);
    let mut patience = PATIENCE;
    loop {
        let turn = taken.load(Ordering::Acquire);
        let place = counter(ring.place(turn));
        if place.load(Ordering::Acquire) == 0 {
            if counter(ring.returned).load(Ordering::Acquire) <= turn || patience == 0 {
                return None;
            }
            // A thread has counted its chunk, and is about to put it there.
            patience -= 1;
            platform::yield_now();
            continue;
        }
        let took = taken.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Acquire);
        if took.is_ok() {
            ring.prepare(turn);
            let chunk = place.swap(0, Ordering::AcqRel) as usize;
            let offset = HEADER_SIZE + chunk.checked_sub(1)? * CHUNK_UNIT;
            if offset + CHUNK_UNIT > SIZE.load(Ordering::Relaxed) {
                continue;
            }
            // A follower reads no further than the log goes.
            if counter(header::FOLLOWED).load(Ordering::Relaxed) == 0 {
                // The tests of the kernel have few chunks, and look for a record of each access.
                if cfg!(not(test)) {
                    ownership::log_shared_accesses_only();
                }
                forget(offset);
                let start = BASE.load(Ordering::Acquire) + offset;
                // SAFETY: the chunk is mapped, has room in the file and belongs to nobody else.
                unsafe { platform::fill(start as *mut u8, 0, CHUNK_UNIT) };
            }
            return Some(offset);
        }
    }
}

/// The oldest chunk of the fuller ring, or of the other one, emptied; its offset. Who has returned a chunk
/// finds one, but may look at each ring when the chunk is in the other.
fn oldest(returned: bool) -> Option<usize> {
    let attempts = if returned { PATIENCE } else { 1 };
    (0..attempts).find_map(|_| {
        let (first, second) = match ALONE.len() > RETURNED.len() {
            true => (ALONE, RETURNED),
            false => (RETURNED, ALONE),
        };
        used(first).or_else(|| used(second))
    })
}

/// Counts the records of a chunk that is used again: those in its first part, and as many in every other one. To look at all of
/// them takes longer than to write half of them.
fn forget(offset: usize) {
    let start = BASE.load(Ordering::Acquire) + offset;
    // SAFETY: the chunk has a header, and belongs to nobody else.
    let header = unsafe { (start as *const ChunkHeader).read() };
    let first = start + CHUNK_HEADER_SIZE + header.snapshot as usize;
    let end = start + CHUNK_UNIT;
    // One that nobody needed may be short.
    let until = match header.needless {
        0 => end.min(first + SAMPLE),
        _ => end,
    };
    let (mut at, mut records) = (first, 0);
    while at + 8 <= until {
        // SAFETY: a word inside of the chunk.
        let word = unsafe { (at as *const u64).read() };
        let Some(kind) = Kind::from_number((word >> 56) as u8) else {
            break;
        };
        records += 1;
        at += 8 * kind.words();
    }
    if at >= until && until < end {
        records = records * (end - first) as u64 / (at - first) as u64;
    }
    counter(header::DROPPED).fetch_add(records, Ordering::Relaxed);
}

/// A chunk for a slot's log. `before` is the slot's last one, if there is one, and whether its thread has met
/// nobody in it. `None` when the budget or the disk is used up and nothing comes back.
pub(crate) fn new_chunk(slot: u32, before: Option<(&Chunk, bool)>, clock: u64) -> Option<Chunk> {
    let base = BASE.load(Ordering::Acquire);
    if base == 0 {
        return None;
    }
    if counter(header::FOLLOWED).load(Ordering::Relaxed) == 0
        && let Some((before, alone)) = before
    {
        let ring = if alone { ALONE } else { RETURNED };
        ring.put((before.address - base - HEADER_SIZE) / CHUNK_UNIT + 1);
    }
    let before = before.map(|(before, _)| before);
    let (offset, fresh) = room(slot, before.is_some())?;
    let next = counter(header::NEXT_POSITION);
    if let Some(before) = before {
        // A chunk that has started again has positions that nobody has handed out.
        let end = before.position + CHUNK_UNIT as u64;
        next.fetch_max(end.next_multiple_of(CHUNK_UNIT as u64), Ordering::Relaxed);
    }
    let position = next.fetch_add(CHUNK_UNIT as u64, Ordering::Relaxed);
    let filled = match start::logs() {
        Logs::Edges => FILLED_WITH_EDGES,
        Logs::All | Logs::Transactions => FILLED,
    };
    if (position / CHUNK_UNIT as u64).is_multiple_of(filled) && is_followed() {
        ring();
    }
    let header = ChunkHeader {
        magic: format::CHUNK_MAGIC,
        kind: format::CHUNK_LOG,
        size: CHUNK_UNIT as u64,
        slot,
        snapshot: 0,
        position,
        previous: before.map_or(0, |before| before.position),
        next: 0,
        clock,
        needless: 0,
    };
    let address = base + offset;
    // SAFETY: this range of the mapping was handed out to this call alone and has room in the
    // file.
    unsafe { (address as *mut ChunkHeader).write(header) };
    Some(Chunk {
        address,
        position,
        fresh,
    })
}

/// Room for a chunk of a log. While nobody follows, memory grows up to the budget. While somebody does,
/// there are as few chunks as it can do with; a thread waits for one that comes back, shortly, and
/// takes more room if none does. Whether it is fresh. `returned` says whether the caller has put a chunk into a ring.
fn room(slot: u32, returned: bool) -> Option<(usize, bool)> {
    let followed = counter(header::FOLLOWED);
    if followed.load(Ordering::Relaxed) == 0 {
        let fresh = fresh(CHUNK_UNIT, usize::MAX).map(|offset| (offset, true));
        return fresh.or_else(|| Some((oldest(returned)?, false)));
    }
    let for_threads = FOR_THREAD * counter(header::HIGHEST_SLOT).load(Ordering::Relaxed) as usize;
    let wanted = || {
        let chunks = counter(header::CHUNKS).load(Ordering::Relaxed) as usize;
        chunks.max(FEW_CHUNKS) + for_threads
    };
    let used_or_fresh = |most: usize| match used(RETURNED) {
        Some(offset) => Some((offset, false)),
        None => Some((fresh(CHUNK_UNIT, most)?, true)),
    };
    if let Some(chunk) = used_or_fresh(wanted()) {
        return Some(chunk);
    }
    if followed.load(Ordering::Relaxed) == GONE {
        return None;
    }
    counter(header::WAITS).fetch_add(1, Ordering::Relaxed);
    // If all that are in a region wait, none of them ends.
    let is_inside = slot_entry(slot, entry::CLOCK).load(Ordering::Relaxed) > LOW;
    let waiting = counter(header::WAITING);
    waiting.fetch_add(u64::from(is_inside), Ordering::Relaxed);
    let room = |is_urgent| {
        used_or_fresh(if is_urgent {
            wanted().max(MANY_CHUNKS + for_threads)
        } else {
            wanted()
        })
    };
    let room = platform::with_exact_sleeps(|| wait_for_room(room));
    waiting.fetch_sub(u64::from(is_inside), Ordering::Relaxed);
    room
}

/// Waits until there is room, which is urgent after a while; gives up if that takes too long.
fn wait_for_room(room: impl Fn(bool) -> Option<(usize, bool)>) -> Option<(usize, bool)> {
    let mut last = counter(header::TAKEN).load(Ordering::Relaxed);
    let (mut turn, mut rung) = (0, 0);
    while turn < PATIENCE {
        if turn >= rung {
            rung = turn + LOOK;
            if !ring() && turn >= PATIENCE_WITH_NOBODY {
                break;
            }
        }
        // The longer it waits, the less hurry there is: all that is in the log has to be kept, and that is for regions to end.
        let steps = (turn / 4).clamp(1, LONGEST_NAP);
        platform::sleep_microseconds(STEP * u64::from(steps));
        if let Some(chunk) = room(turn >= SHORTLY) {
            return Some(chunk);
        }
        let taken = counter(header::TAKEN).load(Ordering::Relaxed);
        (turn, rung) = if taken == last {
            (turn + steps, rung)
        } else {
            (0, LOOK)
        };
        last = taken;
    }
    give_up();
    None
}

impl Chunk {
    fn header(&self) -> *mut ChunkHeader {
        self.address as *mut ChunkHeader
    }

    /// Where its records start, behind a snapshot of so many bytes; the end of the chunk.
    pub(crate) fn content(&self, snapshot: usize) -> (usize, usize) {
        let start = self.address + CHUNK_HEADER_SIZE;
        (start + snapshot, self.address + CHUNK_UNIT)
    }

    /// The chunk starts again at its position, with a snapshot: how many bytes that has. A follower
    /// that looks meanwhile sees no chunk there.
    pub(crate) fn start_again(
        &self,
        previous: u64,
        clock: u64,
        snapshot: impl FnOnce(usize) -> usize,
    ) -> usize {
        let header = self.header();
        // SAFETY: the chunk belongs to the calling thread, and all that a follower does is to look.
        unsafe {
            (&raw mut (*header).magic).write_volatile(0);
            fence(Ordering::Release);
            let bytes = snapshot(self.content(0).0);
            (&raw mut (*header).snapshot).write_volatile(bytes as u32);
            (&raw mut (*header).position).write_volatile(self.position);
            (&raw mut (*header).previous).write_volatile(previous);
            (&raw mut (*header).clock).write_volatile(clock);
            fence(Ordering::Release);
            (&raw mut (*header).magic).write_volatile(format::CHUNK_MAGIC);
            bytes
        }
    }

    /// Says how many bytes the snapshot has, and whether the log goes on from the chunk before.
    pub(crate) fn set_snapshot(&self, bytes: usize, goes_on: bool) {
        // SAFETY: the chunk belongs to the calling thread; a follower looks at it later.
        unsafe {
            (*self.header()).snapshot = bytes as u32;
            if !goes_on {
                (*self.header()).previous = 0;
            }
        }
    }

    /// Puts the chunk into its slot's log, where a follower finds it.
    pub(crate) fn link(&self, slot: u32, before: Option<&Chunk>, field: usize) {
        let offset = (self.address - BASE.load(Ordering::Relaxed)) as u64;
        match before {
            // A chunk that may be in use again has another header by now.
            Some(before) if counter(header::FOLLOWED).load(Ordering::Relaxed) != 0 => {
                // SAFETY: the follower gives no chunk back that has no next one.
                unsafe { (&raw mut (*before.header()).next).write_volatile(offset) };
            }
            Some(_) => {}
            None => slot_entry(slot, field).store(offset, Ordering::Release),
        }
    }
}

/// Writes down which test this is.
pub(crate) fn write_test(binary: &[u8], test: &[u8]) {
    let base = BASE.load(Ordering::Acquire);
    if base == 0 || binary.len() + test.len() + 2 > header::TEST_SIZE {
        return;
    }
    let at = (base + header::TEST) as *mut u8;
    // SAFETY: this part of the header is as long as was asked for, nobody else writes to it, and it
    // is all zeros, so what follows each name is one.
    unsafe {
        at.copy_from_nonoverlapping(binary.as_ptr(), binary.len());
        at.add(binary.len() + 1)
            .copy_from_nonoverlapping(test.as_ptr(), test.len());
    }
}

/// Writes down what is mapped where, so that addresses can be named later.
pub(crate) fn write_maps() {
    const SIZE: usize = 4 * CHUNK_UNIT;
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { platform::open(c"/proc/self/maps".as_ptr().cast(), false) };
    if fd < 0 || base == 0 {
        return;
    }
    if let Some(offset) = fresh(SIZE, usize::MAX) {
        let header = ChunkHeader {
            magic: format::CHUNK_MAGIC,
            kind: format::CHUNK_MAPS,
            size: SIZE as u64,
            slot: 0,
            snapshot: 0,
            position: 0,
            previous: 0,
            next: 0,
            clock: 0,
            needless: 0,
        };
        let (mut at, end) = (base + offset + CHUNK_HEADER_SIZE, base + offset + SIZE);
        // SAFETY: the chunk is ours and not yet used.
        unsafe { ((base + offset) as *mut ChunkHeader).write(header) };
        while at < end {
            // Most maps fit into the first piece.
            let piece = (at - base - offset) / PIECE * PIECE;
            if piece > 0 && !allocate_piece(base + offset + piece) {
                break;
            }
            let len = base + offset + piece + PIECE - at;
            // SAFETY: as above.
            let count = unsafe { platform::read(fd, at as *mut u8, len) };
            if count <= 0 {
                break;
            }
            at += count as usize;
        }
    }
    platform::close(fd);
}
