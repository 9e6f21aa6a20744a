//! A recording as the runtime left it: the logs of its slots, whether the process came to its
//! end or not. A log may have lost its beginning, or a part in the middle; it goes on with a
//! snapshot of the calls that the thread was in.
//!
//! A recording can be larger than the memory that there is for it, so it stays in its file: what is kept are
//! the places of its chunks, and what is read ahead of each log.
//!
//! Nothing in the file is trusted: a process that was killed leaves chunks without a header and
//! records without an end, and each of them only ends the log it is in.

mod gap;
mod log;

use crate::format::{
    CHUNK_HEADER_SIZE, CHUNK_LOG, CHUNK_MAGIC, CHUNK_MAPS, CHUNK_UNIT, HEADER_SIZE, LOW, MAGIC,
    SLOTS, header,
};
pub use log::{Log, Record};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("failed to read the recording {path}: {error}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The file is something else.
    #[error(
        "{path} is not a recording of this version of atomsan; expected a file `PID.rec` that its runtime wrote"
    )]
    NotARecording {
        /// Which file.
        path: String,
    },
}

/// What the runtime counted, for the summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The process.
    pub pid: u64,
    /// Threads that were started, the first included.
    pub threads: u64,
    /// Events that were forgotten or not recorded because the budget was used up.
    pub dropped: u64,
    /// Threads that were not recorded because there were too many at once.
    pub unseen_threads: u64,
    /// Events in signal handlers that could not be recorded.
    pub interrupted: u64,
    /// Whether the process came to its exit handlers.
    pub exited: bool,
    /// How many bytes apart addresses are that the runtime could not tell from each other; 0 if it
    /// could.
    pub window: u64,
}

/// A recording of one process.
#[derive(Debug)]
pub struct Recording {
    source: Source,
    reading: Reading,
    /// How many bytes of it are in use.
    top: u64,
    /// The chunks of each slot's log, in order.
    slots: Vec<Vec<Chunk>>,
    /// Whether a log that goes on with a snapshot has forgotten something.
    has_gaps: bool,
    maps: Vec<String>,
    counters: Counters,
}

/// How far others are with the logs, for those who wait for them.
#[derive(Debug, Default)]
struct Reading {
    /// How many bytes have been read of all logs, as often as they were.
    read: AtomicU64,
    stopped: AtomicBool,
}

/// Where the bytes are.
#[derive(Debug)]
enum Source {
    Memory(Vec<u8>),
    File(File),
}

/// A piece of a log.
#[derive(Clone, Debug)]
struct Chunk {
    /// Where it is in the file: the snapshot, then the records.
    content: Range<u64>,
    /// How long the snapshot is.
    snapshot: u64,
    /// The position of the first record.
    position: u64,
    /// The position of the chunk that comes before it in the log.
    previous: u64,
}

impl Chunk {
    /// Whether it goes on from the chunk at this position; 0 if there is none.
    fn goes_on_from(&self, last: u64) -> bool {
        last != 0 && self.previous == last
    }
}

/// A piece of a log that is to be part of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The log.
    pub slot: usize,
    /// The position of its first record.
    pub position: u64,
    /// The position of the piece that it goes on from; 0 if there is a gap before it.
    pub previous: u64,
    /// What is to be known of the thread if there is a gap.
    pub snapshot: &'a [u64],
    /// Its records.
    pub words: &'a [u64],
}

/// A memory map is not longer.
const MAPS: u64 = 1 << 24;

impl Recording {
    /// A recording of pieces of logs, with memory maps.
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = Piece<'a>>, maps: &str) -> Recording {
        let mut data = Vec::new();
        let mut slots: Vec<Vec<Chunk>> = Vec::new();
        for piece in pieces {
            let start = data.len() as u64;
            let words = piece.snapshot.iter().chain(piece.words);
            data.extend(words.flat_map(|word| word.to_le_bytes()));
            if slots.len() <= piece.slot {
                slots.resize_with(piece.slot + 1, Vec::new);
            }
            slots[piece.slot].push(Chunk {
                content: start..data.len() as u64,
                snapshot: 8 * piece.snapshot.len() as u64,
                position: piece.position,
                previous: piece.previous,
            });
        }
        for chunks in &mut slots {
            chunks.sort_by_key(|chunk| chunk.position);
        }
        Recording {
            top: data.len() as u64,
            source: Source::Memory(data),
            reading: Reading::default(),
            slots,
            // What is not there is not needed.
            has_gaps: false,
            maps: vec![maps.to_owned()],
            counters: Counters::default(),
        }
    }

    /// Opens a recording.
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let named = || path.display().to_string();
        let open = || {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            Ok((file, len))
        };
        let (file, len) = open().map_err(|error| Error::Read {
            path: named(),
            error,
        })?;
        Recording::of_source(Source::File(file), len)
            .ok_or_else(|| Error::NotARecording { path: named() })
    }

    /// Takes the content of a recording; `None` if it is none.
    pub fn parse(data: Vec<u8>) -> Option<Recording> {
        let len = data.len() as u64;
        Recording::of_source(Source::Memory(data), len)
    }

    fn of_source(source: Source, len: u64) -> Option<Recording> {
        let field = |offset: usize| source.word(offset as u64);
        if field(header::MAGIC) != MAGIC {
            return None;
        }
        let counters = Counters {
            pid: field(header::PID),
            threads: field(header::THREADS),
            dropped: field(header::DROPPED),
            unseen_threads: field(header::UNSEEN_THREADS),
            interrupted: field(header::INTERRUPTED),
            window: field(header::SHADOW),
            exited: field(header::EXITED) != 0,
        };
        let mut recording = Recording {
            // The rest are holes, up to the size of the budget.
            top: field(header::TOP).min(len),
            source,
            reading: Reading::default(),
            slots: Vec::new(),
            has_gaps: true,
            maps: Vec::new(),
            counters,
        };
        recording.find_chunks();
        Some(recording)
    }

    fn find_chunks(&mut self) {
        const UNIT: u64 = CHUNK_UNIT as u64;
        let mut at = HEADER_SIZE as u64;
        while at + CHUNK_HEADER_SIZE as u64 <= self.top {
            let mut bytes = [0; CHUNK_HEADER_SIZE];
            self.source.read(at, &mut bytes);
            let field = bytes.as_chunks().0;
            let field = |index: usize| u64::from_le_bytes(field[index]);
            let (magic, kind) = (field(0) as u32, (field(0) >> 32) as u32);
            let (slot, snapshot) = (field(2) as u32 as usize, field(2) >> 32);
            // Only text may be longer than a unit; what is damaged has no size.
            let size = match field(1) {
                size if kind == CHUNK_MAPS && size % UNIT == 0 => size.min(self.top - at).max(UNIT),
                _ => UNIT,
            };
            let content = at + CHUNK_HEADER_SIZE as u64..(at + size).min(self.top);
            if magic != CHUNK_MAGIC {
                at += UNIT;
                continue;
            }
            at += size;
            match kind {
                CHUNK_LOG if slot <= SLOTS && snapshot <= content.end - content.start => {
                    let chunk = Chunk {
                        content,
                        snapshot,
                        position: field(3) & LOW,
                        previous: field(4),
                    };
                    if self.slots.len() <= slot {
                        self.slots.resize_with(slot + 1, Vec::new);
                    }
                    self.slots[slot].push(chunk);
                }
                CHUNK_MAPS => self.maps.push(self.source.text(content)),
                _ => {}
            }
        }
        for chunks in &mut self.slots {
            chunks.sort_by_key(|chunk| chunk.position);
        }
    }

    /// What the runtime counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.top as usize
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.top == 0
    }

    /// How many slots there are; some may be empty.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The log of a slot.
    pub fn log(&self, slot: usize) -> Log<'_> {
        let chunks = self.slots.get(slot).map_or(&[][..], |chunks| chunks);
        Log::new(self, chunks)
    }

    /// How many bytes of logs have been read, in all passes over them.
    pub fn bytes_read(&self) -> u64 {
        self.reading.read.load(Ordering::Relaxed)
    }

    /// Nothing more is to be read: all logs end soon.
    pub fn stop(&self) {
        self.reading.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether logs have ended because somebody wanted it.
    pub fn is_stopped(&self) -> bool {
        self.reading.stopped.load(Ordering::Relaxed)
    }

    /// The memory map of the process, as often as it was written down.
    pub fn maps(&self) -> impl Iterator<Item = &str> {
        self.maps.iter().map(String::as_str)
    }
}

impl Source {
    /// Reads up to so many bytes; less where it ends, or cannot be read.
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        match self {
            Source::Memory(data) => {
                let rest = data.get(at as usize..).unwrap_or_default();
                let len = rest.len().min(buffer.len());
                buffer[..len].copy_from_slice(&rest[..len]);
                len
            }
            Source::File(file) => {
                let mut len = 0;
                while len < buffer.len() {
                    match file.read_at(&mut buffer[len..], at + len as u64) {
                        Ok(0) => break,
                        Ok(more) => len += more,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
                len
            }
        }
    }

    /// Appends up to so many words, and says how many.
    fn words(&self, at: u64, count: usize, words: &mut Vec<u64>) -> usize {
        if let Source::Memory(data) = self {
            let (whole, _) = (data.get(at as usize..).unwrap_or_default()).as_chunks::<8>();
            let whole = &whole[..count.min(whole.len())];
            words.extend(whole.iter().map(|&word| u64::from_le_bytes(word)));
            return whole.len();
        }
        let mut buffer = [0; 1 << 14];
        let before = words.len();
        while words.len() - before < count {
            let done = words.len() - before;
            let wanted = (8 * (count - done)).min(buffer.len());
            let len = self.read(at + 8 * done as u64, &mut buffer[..wanted]);
            let (whole, _) = buffer[..len].as_chunks::<8>();
            words.extend(whole.iter().map(|&word| u64::from_le_bytes(word)));
            if len < wanted {
                break;
            }
        }
        words.len() - before
    }

    /// The word at a place; 0 if there is none.
    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        match self.read(at, &mut word) {
            8 => u64::from_le_bytes(word),
            _ => 0,
        }
    }

    /// The text at a place, up to a zero byte.
    fn text(&self, place: Range<u64>) -> String {
        let mut bytes = vec![0; (place.end - place.start).min(MAPS) as usize];
        let len = self.read(place.start, &mut bytes);
        let end = bytes[..len].iter().position(|&byte| byte == 0);
        bytes.truncate(end.unwrap_or(len));
        String::from_utf8(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::format::{Kind, first_word, second_word};

    /// Builds recordings for tests: records by slot, each in its own chunk.
    #[derive(Default)]
    pub(crate) struct Builder {
        data: Vec<u8>,
        slots: Vec<Vec<u64>>,
        /// How many words of each are a snapshot after a gap.
        snapshots: Vec<(usize, usize)>,
    }

    impl Builder {
        /// Appends a record; its position is returned.
        pub(crate) fn push(&mut self, slot: usize, words: &[u64]) -> u64 {
            if self.slots.len() <= slot {
                self.slots.resize_with(slot + 1, Vec::new);
            }
            let position = self.end(slot);
            self.slots[slot].extend(words);
            position
        }

        /// What a slot has so far is a snapshot, and what was before it is forgotten.
        pub(crate) fn gap(&mut self, slot: usize) {
            self.snapshots.push((slot, self.slots[slot].len()));
        }

        /// The position after a slot's last record.
        pub(crate) fn end(&self, slot: usize) -> u64 {
            let len = self.slots.get(slot).map_or(0, Vec::len);
            ((slot + 1) * CHUNK_UNIT + 8 * len) as u64
        }

        pub(crate) fn build(self) -> Recording {
            Recording::parse(self.bytes()).unwrap()
        }

        /// The file.
        pub(crate) fn bytes(mut self) -> Vec<u8> {
            let size = HEADER_SIZE + self.slots.len() * CHUNK_UNIT;
            self.data.resize(size, 0);
            let mut put = |at: usize, word: u64| {
                self.data[at..at + 8].copy_from_slice(&word.to_le_bytes());
            };
            put(header::MAGIC, MAGIC);
            put(header::TOP, size as u64);
            for (slot, words) in self.slots.iter().enumerate() {
                let at = HEADER_SIZE + slot * CHUNK_UNIT;
                put(at, u64::from(CHUNK_MAGIC) | u64::from(CHUNK_LOG) << 32);
                put(at + 8, CHUNK_UNIT as u64);
                let snapshot = self.snapshots.iter().find(|one| one.0 == slot);
                let snapshot = 8 * snapshot.map_or(0, |one| one.1);
                put(at + 16, slot as u64 | (snapshot as u64) << 32);
                put(at + 24, ((slot + 1) * CHUNK_UNIT + snapshot) as u64);
                for (index, &word) in words.iter().enumerate() {
                    put(at + CHUNK_HEADER_SIZE + 8 * index, word);
                }
            }
            self.data
        }
    }

    #[test]
    fn records_come_back() {
        let mut builder = Builder::default();
        builder.push(
            1,
            &[
                first_word(Kind::Write, 4, 0x7fff_1234),
                second_word(0, 0x40_1000),
            ],
        );
        builder.push(
            1,
            &[
                first_word(Kind::AtomicRmw, 8, 0x1000),
                second_word(1, 0x40_2000),
                7,
                8,
            ],
        );
        let recording = builder.build();
        let records: Vec<_> = recording.log(1).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].range(), Some(0x7fff_1234..0x7fff_1238));
        assert_eq!((records[1].detail(), records[1].pc()), (1, 0x40_2000));
        assert_eq!(records[1].extra, [7, 8]);
        assert_eq!(recording.log(0).count() + recording.log(77).count(), 0);
    }

    #[test]
    fn a_record_that_was_cut_off_ends_the_log() {
        let mut builder = Builder::default();
        builder.push(0, &[first_word(Kind::Write, 4, 8), 9]);
        builder.push(0, &[0xff << 56, 3]);
        assert_eq!(builder.build().log(0).count(), 1);
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(Recording::parse(Vec::new()).is_none());
        assert!(Recording::parse(vec![1; 100_000]).is_none());
    }
}
