//! A chunk of what a thread does, read piece by piece: who looks for some of its records stops where they are.
//!
//! What is in a chunk that its thread has left stays as it is until the chunk goes back. The last one of a log may start
//! again meanwhile, so it is read at once, and counts only if it is the same afterwards.

use super::{ChunkAt, Live, start_of};
use atomsan_recording::format::{CHUNK_HEADER_SIZE, CHUNK_UNIT};
use std::io;
use std::os::unix::fs::FileExt as _;

/// A word as it is in the file.
pub(crate) type Word = [u8; 8];

/// How many bytes of a chunk are read at a time.
const PIECE: usize = 16 << 10;

/// A chunk that is being read.
#[derive(Debug)]
pub(crate) struct Reading {
    chunk: ChunkAt,
    snapshot: usize,
    /// How many bytes the snapshot and the records have, and how many have been read.
    len: usize,
    read: usize,
    is_over: bool,
}

/// The snapshot and the records of a chunk, as far as they have been read.
#[derive(Debug)]
pub(crate) struct Content<'a> {
    pub(crate) snapshot: &'a [Word],
    pub(crate) records: &'a [Word],
    /// Whether that is all of it.
    pub(crate) is_all: bool,
}

impl Live {
    /// Begins to read a chunk, as far as it is written.
    pub(crate) fn begin(&self, slot: usize, chunk: &ChunkAt) -> Reading {
        let room = (CHUNK_UNIT - CHUNK_HEADER_SIZE) as u64;
        let snapshot = chunk.snapshot.min(room);
        let len = if self.has_left(slot, chunk) {
            room
        } else {
            let records = self.logs[slot].written.saturating_sub(chunk.position);
            (snapshot + records).min(room)
        };
        Reading {
            chunk: *chunk,
            snapshot: snapshot as usize,
            len: len as usize,
            read: 0,
            is_over: false,
        }
    }

    /// Reads the next piece of a chunk; nothing else is read before it is over. What may start again is read as a
    /// whole.
    pub(crate) fn read_on(&mut self, reading: &mut Reading) -> io::Result<Option<Content<'_>>> {
        if reading.is_over {
            return Ok(None);
        }
        let may_start_again = reading.chunk.next == 0;
        let from = reading.read;
        reading.read = if may_start_again {
            reading.len
        } else {
            reading.len.min(from.max(reading.snapshot) + PIECE)
        };
        let start = reading.chunk.offset + (CHUNK_HEADER_SIZE + from) as u64;
        let buffer = start_of(&mut self.buffer, reading.read);
        self.file.read_exact_at(&mut buffer[from..], start)?;
        if may_start_again {
            let now = self.chunk_now(&reading.chunk)?;
            if now.is_none_or(|now| now.position != reading.chunk.position) {
                (reading.snapshot, reading.read, reading.len) = (0, 0, 0);
            }
        }
        let (before, records) = self.buffer[..reading.read].split_at(reading.snapshot);
        reading.is_over = reading.read == reading.len;
        Ok(Some(Content {
            snapshot: before.as_chunks().0,
            records: records.as_chunks().0,
            is_all: reading.is_over,
        }))
    }

    /// The snapshot and the records of a chunk, as far as they are written.
    pub(crate) fn content(
        &mut self,
        slot: usize,
        chunk: &ChunkAt,
    ) -> io::Result<(Vec<u64>, Vec<u64>)> {
        let mut reading = self.begin(slot, chunk);
        let mut words = (Vec::new(), Vec::new());
        while let Some(content) = self.read_on(&mut reading)? {
            if content.is_all {
                let of = |words: &[Word]| words.iter().copied().map(u64::from_le_bytes).collect();
                words = (of(content.snapshot), of(content.records));
            }
        }
        Ok(words)
    }
}
