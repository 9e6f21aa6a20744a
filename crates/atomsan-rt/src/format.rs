//! The recording: what the runtime writes and `atomsan-recording` reads.
//!
//! One file a process. The file is mapped into the process and written in place, so whatever
//! was recorded before a crash or a SIGKILL is in the file.
//!
//! ```text
//! file    = header page, an entry for each slot, chunks that came back, then chunks
//! chunk   = ChunkHeader (64 bytes), then its content
//! log     = records of one slot; the chunks of a slot, by their positions, are its log
//! record  = 2 to 4 words of 64 bits; the first word 0 ends the chunk's content
//! maps    = text of /proc/self/maps
//! ```
//!
//! A *slot* is a log; threads that live one after the other may share one, each starting with
//! [`Kind::ThreadStart`]. A *position* is a place in a slot's log. Positions are handed out chunk by
//! chunk and grow for ever, while the room that chunks have in the file is used again.
//! [`Kind::Edge`] says that everything its slot wrote before a position comes before what follows
//! the edge. Edges are written by reading another thread's position at that moment, so all of them
//! point forward in real time: logs and edges are a partial order.
//!
//! # When the room is used up
//!
//! While nobody follows, the oldest chunk is used again: its history is gone. Chunks in which a thread has met nobody are
//! in a ring of their own ([`ALONE_RING`]), and the oldest one is taken from the fuller ring: a thread that has much to
//! do alone takes no more than half of the room from what others did with each other. Each chunk starts
//! with a *snapshot* ([`Kind::Continue`]): whose log this is, which functions the thread is in, what it initialises there,
//! and what it is after. It is there for a reader that has lost what came before, and is no part of the log.
//!
//! A *follower* is a process of ours that reads the logs while they are written
//! ([`header::FOLLOWED`]). It gives chunks back that it has read, in the ring of [`RETURNED_RING`],
//! and a thread that finds none waits for it, but not for ever.
//!
//! # Transactions
//!
//! A program that is checked for cycles of transactions writes down which transaction comes after
//! which, in a log of its own ([`Kind::Link`]); in a first run it writes nothing else. Otherwise its
//! log says which transaction records belong to ([`Kind::Transaction`]), and is read only where
//! there is a cycle. A transaction is a slot and a number of its *clock*, which is in
//! the slot's entry, beside the region that is being executed ([`entry`]). Which functions are
//! regions the follower says: the program asks once for each call outside of a region, in the list
//! at [`CALLS`], and the answer is a word of [`answer`] bits.
//!
//! This file is compiled into both crates, so that the runtime depends on nothing.
#![allow(dead_code, unreachable_pub, reason = "neither crate needs all of it")]

/// First word of a recording.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ATOMREC\x05");
/// First word of a chunk.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"CHNK");
/// Slots are numbered from 1 to this.
pub const SLOTS: usize = (1 << 14) - 1;
/// Where the entries of the slots start; see [`entry`].
pub const SLOT_ENTRIES: usize = 4096;
/// Size of a slot's entry: a cache line.
pub const ENTRY_SIZE: usize = 64;
/// Where the ring of chunks that a follower gave back starts: numbers of 64 bits, counted from
/// [`HEADER_SIZE`] in units of [`CHUNK_UNIT`].
pub const RETURNED_RING: usize = SLOT_ENTRIES + (SLOTS + 1) * ENTRY_SIZE;
/// How many numbers the ring has. That is many more than there are chunks, so nobody who stops between
/// two steps is overtaken by a whole round.
pub const RING_LEN: usize = 1 << 18;
/// Where the calls start that the program has asked for; see [`call`].
pub const CALLS: usize = RETURNED_RING + RING_LEN * 8;
/// How many calls there is room for.
pub const CALLS_LEN: usize = 1 << 17;
/// Size of a call.
pub const CALL_SIZE: usize = 32;
/// Where it is said where memory comes from; see [`origin`].
pub const ORIGINS: usize = CALLS + CALLS_LEN * CALL_SIZE;
/// Where the ring of chunks starts in which threads have met nobody, like [`RETURNED_RING`]; a follower has none.
pub const ALONE_RING: usize = ORIGINS + origin::LEN * origin::SIZE;
/// Where chunks start: they have offsets that differ from this by multiples of [`CHUNK_UNIT`]. What is
/// not used of all that is before them has no room in the file.
pub const HEADER_SIZE: usize = ALONE_RING + RING_LEN * 8;
/// Size of a chunk of a log; others have a multiple of it.
pub const CHUNK_UNIT: usize = 64 * 1024;
/// How many chunks there are at first while somebody follows, and at most, unless it says that there may be more.
pub const FEW_CHUNKS: usize = 64;
/// See [`FEW_CHUNKS`].
pub const MANY_CHUNKS: usize = 1024;
/// How many more there are for each thread: what it does, and its edges between transactions.
pub const FOR_THREAD: usize = 2;
/// Size of a [`ChunkHeader`].
pub const CHUNK_HEADER_SIZE: usize = 64;

/// How many edges a snapshot has at most.
pub const SNAPSHOT_EDGES: usize = 512;

/// A chunk of log records.
pub const CHUNK_LOG: u32 = 1;
/// A chunk of text: the memory map of the process.
pub const CHUNK_MAPS: u32 = 2;

/// Byte offsets of the fields in the header page; all are 64-bit words.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// The process.
    pub const PID: usize = 8;
    /// End of the part of the file that has chunks.
    pub const TOP: usize = 16;
    /// Threads that were started, the first included.
    pub const THREADS: usize = 24;
    /// Events that were recorded and forgotten again, or not recorded at all, because the budget
    /// was used up. Those that were forgotten are counted by a sample.
    pub const DROPPED: usize = 32;
    /// Threads that were not recorded because all slots were taken.
    pub const UNSEEN_THREADS: usize = 40;
    /// 1 if the process came to its exit handlers.
    pub const EXITED: usize = 48;
    /// Events inside of signal handlers that interrupted the runtime; not recorded.
    pub const INTERRUPTED: usize = 56;
    /// The next position that has not been handed out.
    pub const NEXT_POSITION: usize = 64;
    /// 1 if a follower is expected to give chunks back.
    pub const FOLLOWED: usize = 72;
    /// How many chunks threads have put into the ring because they were full; a follower counts
    /// by itself.
    pub const RETURNED: usize = 80;
    /// How many chunks have been taken from the ring.
    pub const TAKEN: usize = 88;
    /// The highest slot in use so far.
    pub const HIGHEST_SLOT: usize = 96;
    /// How often a thread has waited for the follower.
    pub const WAITS: usize = 104;
    /// How many calls have been asked for.
    pub const ASKED: usize = 112;
    /// How often something was called that there was no room to ask for, or nobody answered, so that it counted as no
    /// region.
    pub const UNASKED: usize = 128;
    /// How many chunks there should be at most while a follower is there, besides [`super::FOR_THREAD`]
    /// for each thread: it says so when it must keep more than [`super::FEW_CHUNKS`].
    pub const CHUNKS: usize = 136;
    /// How many edges between transactions the follower has read, when all transactions were over that
    /// an edge led out of, and all components had been checked.
    pub const SETTLED: usize = 144;
    /// The same as [`RETURNED`] and [`TAKEN`] of the other ring.
    pub const RETURNED_ALONE: usize = 152;
    /// See [`RETURNED_ALONE`].
    pub const TAKEN_ALONE: usize = 160;
    /// How many threads wait for a chunk in the middle of a region.
    pub const WAITING: usize = 168;
    /// 0, or how many bytes apart addresses are that have one shadow word, where the process may
    /// not have enough addresses for a word each.
    pub const SHADOW: usize = 512;
    /// Which test this is, as nextest names it: the binary and the test, each with a zero byte behind
    /// it. Empty if it is none.
    pub const TEST: usize = 1024;
    /// How much room that has: the rest of the page.
    pub const TEST_SIZE: usize = 4096 - TEST;
}

/// Byte offsets of the fields of a call; all are 64-bit words. Calls are in the order in which the
/// program has asked for them.
pub mod call {
    /// The return address of the call, or [`LABEL`] and the address of a region's label.
    pub const CALL: usize = 0;
    /// An address in the function that is called; or the label's length as in
    /// [`super::Kind::Begin`], and 1 more; 0 before all of the question is there.
    pub const FUNCTION: usize = 8;
    /// What the follower says of it: bits of [`super::answer`]; 0 before it has.
    pub const ANSWER: usize = 16;
    /// What it says of functions that are inlined where the call is; see [`super::answer`].
    pub const INLINED: usize = 24;
    /// Tells a label from a call.
    pub const LABEL: u64 = 1 << 63;
    /// The function of a place at which something else happens than a call.
    pub const PLACE: u64 = 1;
}

/// What a follower says of a call. The follower numbers names, from 1. A *region* is the number of
/// its name; 0 is none. A function's *family* is the number of its name, and for a closure of
/// the name of the function that it is written in: a thread's entry point and its closures are no
/// regions. Bits 16 to 31 are the family of the function, bits 32 to 47 the region that it is, or that
/// the label is.
///
/// Of the functions that are inlined where the call is, the word beside it has, from the low bits
/// on, 16 bits each: the family of the outermost one, and the regions that there are if the thread
/// has an entry point ([`SET`](inlined::SET)), the same if the outermost one is a closure of the entry
/// point ([`SIBLINGS`](inlined::SIBLINGS)), and if the outermost one is the entry point
/// ([`UNSET`](inlined::UNSET)).
pub mod answer {
    /// There is an answer.
    pub const KNOWN: u64 = 1;
    /// The function is the user's.
    pub const USER: u64 = 1 << 1;
    /// It is a region, unless it is the thread's entry point.
    pub const ATOMIC: u64 = 1 << 2;
    /// It is a region in any case.
    pub const ALWAYS: u64 = 1 << 3;
    /// It is a closure.
    pub const CLOSURE: u64 = 1 << 4;
    /// It, or the place of the call, is somebody else's.
    pub const FOREIGN: u64 = 1 << 5;
    /// The call is in functions of the user's that are inlined.
    pub const INLINED: u64 = 1 << 6;
    /// The outermost of these is a closure.
    pub const INLINED_CLOSURE: u64 = 1 << 7;
    /// At this place, an atomic load means nothing.
    pub const NOTHING: u64 = 1 << 8;
    /// In the function, nothing of the user's is inlined anywhere.
    pub const PLAIN: u64 = 1 << 9;
    /// Where the family and the region are.
    pub const FAMILY: u32 = 16;
    /// See [`FAMILY`].
    pub const REGION: u32 = 32;
    /// How many names there are numbers for.
    pub const NAMES: usize = 0xffff;
}

/// Where the word for what is inlined has what.
pub mod inlined {
    /// The family of the outermost function.
    pub const FAMILY: u32 = 0;
    /// The region, if the thread has an entry point.
    pub const SET: u32 = 16;
    /// The same, if the outermost function is a closure of the entry point.
    pub const SIBLINGS: u32 = 32;
    /// The same, if the outermost function is the entry point.
    pub const UNSET: u32 = 48;
}

/// Where the same word of a place at which nothing of the user's is inlined has how far that goes on around it.
pub mod plain {
    /// So many bytes before the place.
    pub const BEFORE: u32 = 0;
    /// So many bytes from the place on, which do not include the last.
    pub const AFTER: u32 = 32;
}

/// Where memory was allocated and locks were initialised, in a program whose logs are read only where there
/// is a cycle: entries of four words, each at a place that its address and its kind tell. Who comes
/// later to the same place takes it, so what is remembered is the last, and reading costs nothing
/// before somebody wants a name.
///
/// The words are those of the record, and the number of the calls that led there
/// ([`Kind::Calls`]), mixed with the others ([`origin::mixed`]): words of
/// two threads that write at a time have a number that nobody has given.
pub mod origin {
    /// Size of an entry.
    pub const SIZE: usize = 32;
    /// How many places there are for small blocks: two blocks of glibc never start in the same
    /// [`UNIT`], so those of 4 MB have all their own.
    pub const SMALL: usize = 1 << 17;
    /// Bytes of memory for which there is a place.
    pub const UNIT: u64 = 32;
    /// How many places there are for large blocks, and for locks.
    pub const LARGE: usize = 1 << 12;
    /// See [`LARGE`].
    pub const LOCKS: usize = 1 << 12;
    /// From so many bytes on a block is large.
    pub const LARGE_SIZE: u64 = 4096;
    /// How many entries there are: small blocks, large blocks, locks.
    pub const LEN: usize = SMALL + LARGE + LOCKS;

    /// The place of a block.
    pub const fn of_block(address: u64, size: u64) -> usize {
        if size < LARGE_SIZE {
            (address / UNIT) as usize % SMALL
        } else {
            SMALL + (address / LARGE_SIZE) as usize % LARGE
        }
    }

    /// The place of a lock.
    pub const fn of_lock(address: u64) -> usize {
        SMALL + LARGE + (address ^ address >> 12) as usize / 8 % LOCKS
    }

    /// The last word of an entry, of the number of its calls and the others; and that number, of the last
    /// word and the others.
    pub const fn mixed(number: u64, words: [u64; 3]) -> u64 {
        number ^ words[0] ^ words[1].rotate_left(16) ^ words[2].rotate_left(32)
    }
}

/// Byte offsets of the fields in a slot's entry; all are 64-bit words.
pub mod entry {
    /// The position of the slot's log: what is before it has been written.
    pub const POSITION: usize = 0;
    /// The offset of the slot's first chunk in the file.
    pub const FIRST_CHUNK: usize = 8;
    /// Where the program knows its transactions: the number of the slot's, and in the upper 16 bits the region that it
    /// executes; 0 if it is unary.
    pub const CLOCK: usize = 16;
    /// The same as [`POSITION`] and [`FIRST_CHUNK`], of the log of edges between transactions.
    pub const LINKS_POSITION: usize = 24;
    /// See [`LINKS_POSITION`].
    pub const LINKS_CHUNK: usize = 32;
}

/// What stands in front of a chunk.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ChunkHeader {
    /// [`CHUNK_MAGIC`].
    pub magic: u32,
    /// [`CHUNK_LOG`] or [`CHUNK_MAPS`].
    pub kind: u32,
    /// Size of the chunk, header included: a multiple of [`CHUNK_UNIT`].
    pub size: u64,
    /// The log it belongs to.
    pub slot: u32,
    /// How many bytes the snapshot at its beginning has.
    pub snapshot: u32,
    /// The position of the first record behind the snapshot.
    pub position: u64,
    /// The same of the log's chunk before this one; 0 if this is the first.
    pub previous: u64,
    /// The offset of the log's next chunk in the file; 0 while this is the last.
    pub next: u64,
    /// The number of the slot's transaction at its start.
    pub clock: u64,
    /// 1 if nobody can need the chunk, though it is kept.
    pub needless: u64,
}

const _: () = assert!(size_of::<ChunkHeader>() == CHUNK_HEADER_SIZE);

/// The low 48 bits of a word: an address, a position or a small number.
pub const LOW: u64 = (1 << 48) - 1;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $words:literal;)*) => {
        /// What a record says. First word: kind (8 bits), size (8 bits), *subject* (48 bits).
        /// Second word: 16 bits of detail, 48 bits of program counter, unless stated otherwise.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Kind { $($(#[$doc])* $name = $value,)* }

        impl Kind {
            /// The kind with this number.
            pub fn from_number(number: u8) -> Option<Kind> {
                match number {
                    $($value => Some(Kind::$name),)*
                    _ => None,
                }
            }

            /// How many words its records have.
            pub const fn words(self) -> usize {
                match self {
                    $(Kind::$name => $words,)*
                }
            }
        }
    };
}

kinds! {
    /// A plain read of `size` bytes at the subject.
    Read = 1, 2;
    /// A plain write.
    Write = 2, 2;
    /// A plain read of as many bytes as the third word says.
    ReadRange = 3, 3;
    /// A plain write of as many bytes as the third word says.
    WriteRange = 4, 3;
    /// Third word: the value that was loaded.
    AtomicLoad = 5, 3;
    /// Third word: the value that was stored.
    AtomicStore = 6, 3;
    /// Third and fourth word: the value before and after. Detail: [`COMPARED`],
    /// [`ADDED`], [`MASKED`] or 0.
    AtomicRmw = 7, 4;
    /// A compare-exchange that found another value than expected: the third word.
    AtomicRmwFailed = 8, 3;
    /// A function is entered. Subject: return address in the caller. Second word: an address in
    /// the function; detail: where its frame is ([`frame_detail`]).
    Enter = 9, 2;
    /// The innermost entered function is left.
    Exit = 10, 2;
    /// What follows comes after everything that the slot in the second word wrote before the
    /// position in the subject.
    Edge = 11, 2;
    /// The lock at the subject is held exclusively.
    Acquire = 12, 2;
    /// An exclusive hold ends.
    Release = 13, 2;
    /// The lock is held together with others.
    AcquireShared = 14, 2;
    /// A shared hold ends.
    ReleaseShared = 15, 2;
    /// The thread lets go of the lock and blocks.
    Wait = 16, 2;
    /// It has the lock again.
    Woken = 17, 2;
    /// Threads that wait at the subject are woken.
    Notify = 18, 2;
    /// Arrival at a barrier.
    Arrive = 19, 2;
    /// Departure from a barrier.
    Leave = 20, 2;
    /// Others may run here: sleep, yield.
    Yield = 21, 2;
    /// The thread with the number in the subject is started.
    Fork = 22, 2;
    /// The thread with the number in the subject has ended.
    Join = 23, 2;
    /// From here on, the slot is the log of the thread with the number in the subject. Third
    /// and fourth word: lowest address and size of its stack.
    ThreadStart = 24, 4;
    /// The slot's thread has ended.
    ThreadEnd = 25, 2;
    /// Memory at the subject, as many bytes as the third word says, is new.
    Alloc = 26, 3;
    /// Memory at the subject, as many bytes as the third word says, dies.
    Free = 27, 3;
    /// A region starts whose label (a string in a mapped file) is at the subject. Detail: its
    /// length; 0 if a zero byte ends it.
    Begin = 28, 2;
    /// The innermost open region ends.
    End = 29, 2;
    /// In a snapshot: the slot is the log of the thread with the number in the subject, and has
    /// been. Third and fourth word: lowest address and size of its stack. The functions that it is
    /// in follow.
    Continue = 30, 4;
    /// In a snapshot: as many functions as the subject says, which are not named.
    Unnamed = 31, 2;
    /// The slot's transaction with the number in the third word comes after the one with the number
    /// in the subject. Second word, 16 bits each from the low ones on: the slot of the latter, its
    /// region and the region of the former as in [`entry::CLOCK`]; and flags: [`ORDER_ONLY`].
    Link = 32, 3;
    /// What follows in the log belongs to the transaction with the number in the subject. Second word: how many
    /// functions have been left before it. Among edges, its region.
    Transaction = 33, 2;
    /// The bytes at the subject, as many as the third word says, belong to an atomic set. Fourth
    /// word: where its name is, and [`FIRST`] if this starts another set. Detail: as in
    /// [`Kind::Begin`].
    Member = 40, 4;
    /// The thread with the number in the subject has a name: the third and fourth word, up to a
    /// zero byte.
    ThreadName = 41, 4;
    /// The lock at the subject is initialised.
    Initialise = 42, 2;
    /// In a log of edges: what stands before it, from [`Kind::Continue`] on, are calls that have the number in
    /// the second word.
    Calls = 43, 2;
    /// In a snapshot, behind the function that it happens in: what the subject guards is being initialised, and has been
    /// since before ([`GUARD`]). Second word: the program counter.
    Initialising = 44, 2;
}

/// Detail of an [`Kind::AtomicRmw`] that was a compare-exchange.
pub const COMPARED: u16 = 1;

/// Detail of an [`Kind::AtomicRmw`] that was a sum or a difference.
pub const ADDED: u16 = 3;

/// Detail of an [`Kind::AtomicRmw`] that changed some bits and left the others alone.
pub const MASKED: u16 = 4;

/// Detail of a [`Kind::Acquire`] and others whose subject guards something that is initialised
/// once, which happens while it is held: the guard of a static in C++, whose first byte is 1 when
/// the static is there, a `pthread_once_t`, a `Once` of Rust.
pub const GUARD: u16 = 2;

/// In the second word of a [`Kind::Link`]: what the one does is not in conflict with what the other does, and is only to
/// be told after it.
pub const ORDER_ONLY: u64 = 1 << 48;

/// A bit of the detail of accesses: others have accessed some of these bytes before.
pub const TAKEN: u16 = 0x8000;

/// Frames of functions are counted in these, from the upper end of the stack.
pub const FRAME_UNIT: u64 = 16;

/// The detail of a [`Kind::Enter`]: how far the stack pointer was from the upper end of the
/// thread's stack, in units of [`FRAME_UNIT`]; 0 if it was further than can be said, or elsewhere.
#[inline(always)]
pub const fn frame_detail(high: u64, stack: u64) -> u16 {
    let distance = high.wrapping_sub(stack) / FRAME_UNIT;
    if distance > u16::MAX as u64 {
        0
    } else {
        distance as u16
    }
}

/// In a [`Kind::Member`]: the first place of a set.
pub const FIRST: u64 = 1 << 63;

/// Packs the first word of a record.
#[inline(always)]
pub const fn first_word(kind: Kind, size: u8, subject: u64) -> u64 {
    (kind as u64) << 56 | (size as u64) << 48 | (subject & LOW)
}

/// Packs the second word of a record.
#[inline(always)]
pub const fn second_word(detail: u16, pc: u64) -> u64 {
    (detail as u64) << 48 | (pc & LOW)
}
