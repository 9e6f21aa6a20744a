//! `atrace`: our own binary format.
//!
//! Streaming (a writer never seeks, a reader never looks ahead further than a chunk), chunked,
//! compressed, versioned, self-delimiting, with a checksum a chunk. It holds everything an
//! [`Event`](crate::Event) and a [`Definition`](crate::Definition) can say.
//!
//! # Layout
//!
//! Fixed-width numbers are little-endian. A *varint* is LEB128 of a `u32`: seven bits a byte,
//! lowest first, the top bit set on all bytes but the last, five bytes at most. A *signed*
//! difference of two `u32` is taken modulo 2³² and zigzag-coded (0, −1, 1, −2, … as 0, 1, 2, 3, …)
//! into a varint. A *string* is a varint length and that many bytes of UTF-8.
//!
//! A file is the eight bytes `89 41 54 52 41 43 45` (`\x89ATRACE`) and the version, `01`; then
//! chunks; the last one is the end chunk. A file without an end chunk was cut off: what is in
//! its whole chunks is used.
//!
//! A chunk is a header of 32 bytes and its payload:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `C5 48 4E 4B` |
//! | 4 | 4 | how the payload is stored: 0 plain, 1 one zstd frame, 2 the end chunk |
//! | 8 | 4 | length of the payload as stored |
//! | 12 | 4 | length of the payload when decompressed, at most 4 MiB and not less than stored |
//! | 16 | 4 | events in the chunk |
//! | 20 | 8 | XXH3-64 of the payload as stored |
//! | 28 | 4 | the low half of XXH3-64 of the 28 bytes before |
//!
//! The payload of the end chunk is the number of all events as eight bytes. The payload of every
//! other chunk is
//!
//! 1. six varints: how many threads, variables, locks, functions, objects and sites were defined
//!    by the chunks before (so a reader that had to skip a chunk knows which ids it has lost);
//! 2. a varint number of definitions, and the definitions: a byte that says which kind, then
//!    * 0 thread, 2 lock, 3 function, 4 object: a string;
//!    * 1 variable: a string, a varint that is 0 or the object's id + 1 (at most 2³²−1: an object
//!      with the last id is not recorded), and a byte, 1 for volatile;
//!    * 5 site: a varint number of frames, innermost first; a frame is a varint that is 0 or the
//!      function's id + 1, the file as a string, the line and the column as varints;
//!    * 6 the same, of a write whose critical section looked again, and a varint: the site of that look;
//!    * 7 the program that was recorded, which has no id: a string;
//! 3. the events, up to the end of the payload.
//!
//! Names get ids in the order of their definitions, kind by kind, from 0 (sites: from 1), and are
//! defined in front of the first definition, and in front of or in the same chunk as the first
//! event that uses them; anything else is damage.
//!
//! # Events
//!
//! An event is a tag byte and what the tag says is not as predicted. Bits 0–4 are the operation:
//! 0 read, 1 write, 2 acquire, 3 release, 4 begin, 5 end, 6 enter, 7 exit, 8 fork, 9 join,
//! 10 atomic load, 11 atomic store, 12 atomic read-modify-write, 13 a failed one, 14 shared
//! acquire, 15 shared release, 16 wait, 17 woken, 18 notify, 19 arrive, 20 leave, 21 yield,
//! 22 alloc, 23 free, 24 reference store. If bit 5 is set, a varint follows: the thread, which is not that of
//! the event before. If bit 6 is set, a signed difference follows: the site, less the site of
//! the thread's last event. If bit 7 is set, a signed difference follows: the target, less the
//! predicted target. `RefStore` has its variable as target, and the object follows as a varint.
//!
//! Programs run in loops, so three small tables predict well, all zero at the start of a chunk:
//!
//! * the site of each thread's last event, by the low 8 bits of the thread;
//! * the site that came after a site in the same thread, by the low 12 bits of that site: the
//!   predicted site;
//! * the last target, by the low 12 bits of `site ^ operation << 7`: the predicted target.
//!
//! All three are updated by every event (the last one if the operation has a target). The thread
//! before a chunk's first event is 0.

mod codec;
pub(crate) mod ops;
mod reader;
mod writer;

pub(crate) use reader::read;
pub use writer::AtraceWriter;

/// What a file begins with; a version byte follows.
pub(crate) const MAGIC: [u8; 7] = *b"\x89ATRACE";

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;

/// The longest payload, decompressed.
const MAX_PAYLOAD: usize = 4 << 20;

const MARKER: [u8; 4] = *b"\xC5HNK";
const HEADER: usize = 32;

/// How a payload is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Storage {
    Plain,
    Zstd,
    End,
}

/// The header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header {
    storage: Storage,
    /// Length as stored.
    stored: u32,
    /// Length when decompressed.
    length: u32,
    events: u32,
    checksum: u64,
}

fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

impl Header {
    fn encode(&self) -> [u8; HEADER] {
        let storage: u32 = match self.storage {
            Storage::Plain => 0,
            Storage::Zstd => 1,
            Storage::End => 2,
        };
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MARKER);
        bytes[4..8].copy_from_slice(&storage.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.events.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.checksum.to_le_bytes());
        let own = checksum(&bytes[..28]) as u32;
        bytes[28..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// A header, if these bytes are one; the lengths of a header are always within bounds.
    fn decode(bytes: &[u8; HEADER]) -> Option<Header> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(bytes[at..at + 4].try_into().ok()?))
        };
        let storage = match word(4)? {
            0 => Storage::Plain,
            1 => Storage::Zstd,
            2 => Storage::End,
            _ => return None,
        };
        let header = Header {
            storage,
            stored: word(8)?,
            length: word(12)?,
            events: word(16)?,
            checksum: u64::from_le_bytes(bytes[20..28].try_into().ok()?),
        };
        let sizes = match storage {
            Storage::Zstd => header.stored <= header.length,
            Storage::Plain => header.stored == header.length,
            Storage::End => header.stored == 8 && header.length == 8 && header.events == 0,
        };
        let whole = bytes[..4] == MARKER
            && word(28)? == checksum(&bytes[..28]) as u32
            && sizes
            && header.length as usize <= MAX_PAYLOAD
            // An event takes a byte at least.
            && header.events <= header.length;
        whole.then_some(header)
    }
}

/// How many names of each kind have been defined: threads, variables, locks, functions, objects
/// and sites, in the order of the definitions' kinds.
type Counts = [u32; 6];
