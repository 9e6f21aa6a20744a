//! A recording that is being written: what its logs have to say so far.
//!
//! The file is read, not mapped: it belongs to another process, which may do with it what it
//! likes. A log is read up to the position that its thread has published, so a record is either
//! there as a whole or not at all. A chunk that has been read to its end goes back to the program,
//! in the ring that `format` describes.

mod reading;

use atomsan_recording::format::{
    CALL_SIZE, CALLS, CALLS_LEN, CHUNK_HEADER_SIZE, CHUNK_LOG, CHUNK_MAGIC, CHUNK_MAPS, CHUNK_UNIT,
    ChunkHeader, ENTRY_SIZE, FEW_CHUNKS, HEADER_SIZE, LOW, MAGIC, ORIGINS, RETURNED_RING, RING_LEN,
    SLOT_ENTRIES, SLOTS, call, entry, header, origin,
};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) use reading::Word;

/// Where a chunk's header says which the next one is.
const CHUNK_NEXT: u64 = std::mem::offset_of!(ChunkHeader, next) as u64;

/// How many bytes of a memory map are read at a time.
const MAPS_AT_ONCE: u64 = 8 << 10;
/// How many questions are read at a time.
const CALLS_AT_ONCE: usize = 16;

/// The log of one slot, as far as it has been read.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Words that have been read; the first has the position `start`.
    words: Vec<u64>,
    start: u64,
    /// How many of them have been taken.
    at: usize,
    /// The offset of the current chunk; 0 before the first.
    chunk: u64,
    /// The position of its first record, and the offset of the same in the file.
    first: u64,
    first_offset: u64,
    /// The position from which on nothing has been read.
    read: u64,
    /// The position that the thread has published, when last looked at.
    published: u64,
    /// The number of its transaction when last looked at, before that; and whether it is unary.
    clock: u64,
    unary: bool,
    /// The position of what the thread does, when the clocks were looked at, and after that.
    settled: u64,
    written: u64,
}

/// A chunk of what a thread does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkAt {
    pub(crate) offset: u64,
    /// The position of its first record behind the snapshot, which has so many bytes.
    pub(crate) position: u64,
    snapshot: u64,
    /// The transaction of the last record before it.
    pub(crate) clock: u64,
    /// The offset of the next chunk; 0 if this was the last one of its log, which may go on and start again. Others
    /// stay what they are.
    next: u64,
    /// Whether it is only kept for its own sake.
    pub(crate) is_needless: bool,
}

/// A recording that is being written.
#[derive(Debug)]
pub(crate) struct Live {
    file: File,
    /// Which fields of a slot's entry say how far the log is, and where it starts.
    fields: (usize, usize),
    logs: Vec<Log>,
    returned: u64,
    /// How many chunks the program may have.
    allowed: usize,
    /// How many edges are settled.
    edges: u64,
    buffer: Vec<u8>,
}

impl Live {
    /// The recording in a file; `None` if its process has not written its header yet.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Live>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let live = Live {
            file,
            fields: (entry::POSITION, entry::FIRST_CHUNK),
            logs: Vec::new(),
            returned: 0,
            allowed: FEW_CHUNKS,
            edges: 0,
            buffer: Vec::new(),
        };
        Ok((live.word(header::MAGIC as u64)? == MAGIC).then_some(live))
    }

    /// The logs are those of edges between transactions.
    pub(crate) fn of_links(self) -> Live {
        Live {
            fields: (entry::LINKS_POSITION, entry::LINKS_CHUNK),
            ..self
        }
    }

    /// The logs are those of all that threads do.
    pub(crate) fn of_everything(self) -> Live {
        Live {
            fields: (entry::POSITION, entry::FIRST_CHUNK),
            ..self
        }
    }

    fn word(&self, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        match self.file.read_exact_at(&mut bytes, offset) {
            // The file may still be shorter than its header.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            result => result.map(|()| u64::from_le_bytes(bytes)),
        }
    }

    /// A word of the header.
    pub(crate) fn counter(&self, offset: usize) -> u64 {
        self.word(offset as u64).unwrap_or(0)
    }

    /// The memory maps of the process.
    pub(crate) fn maps(&self) -> io::Result<String> {
        let mut text = String::new();
        let mut at = HEADER_SIZE as u64;
        let top = self.word(header::TOP as u64)?;
        while at < top {
            let (kind, size) = (self.word(at)?, self.word(at + 8)?);
            if kind != u64::from(CHUNK_MAGIC) | u64::from(CHUNK_MAPS) << 32 {
                at += CHUNK_UNIT as u64;
                continue;
            }
            let mut bytes = Vec::new();
            let end = at + size;
            at += CHUNK_HEADER_SIZE as u64;
            // Most of it is empty.
            while at < end && !bytes.contains(&0) {
                let read = bytes.len();
                let more = (end - at).min(MAPS_AT_ONCE);
                bytes.resize(read + more as usize, 0);
                self.file.read_exact_at(&mut bytes[read..], at)?;
                at += more;
            }
            let len = bytes.iter().position(|&byte| byte == 0);
            bytes.truncate(len.unwrap_or(bytes.len()));
            text.push_str(&String::from_utf8_lossy(&bytes));
            at = end;
        }
        Ok(text)
    }

    /// How many slots there are, the unused one included.
    pub(crate) fn slots(&self) -> usize {
        self.logs.len()
    }

    /// Looks how far all threads are, and how many there are.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        loop {
            // The header is in front of the entries, and read before them.
            let known = (self.logs.len() + 8).min(SLOTS + 1);
            let buffer = start_of(&mut self.buffer, SLOT_ENTRIES + known * ENTRY_SIZE);
            let read = self.file.read_at(buffer, 0)?;
            let buffer = &self.buffer[..read];
            let highest = (field(buffer, header::HIGHEST_SLOT) as usize).min(SLOTS);
            if self.logs.len() <= highest {
                self.logs.resize_with(highest + 1, Log::default);
            }
            if highest >= known {
                continue;
            }
            let entries = buffer.get(SLOT_ENTRIES..).unwrap_or_default();
            let entries = entries.chunks_exact(ENTRY_SIZE);
            for (log, entry) in self.logs.iter_mut().zip(entries) {
                log.published = field(entry, self.fields.0);
                log.written = field(entry, entry::POSITION);
            }
            return Ok(());
        }
    }

    /// Looks at the clocks of all threads, where nothing else is written down than edges.
    pub(crate) fn look_at_clocks_only(&mut self) -> io::Result<()> {
        self.look_at_entries(|log, entry| log.clock = field(entry, entry::CLOCK) & LOW)
    }

    /// Looks at the clocks of all threads, and how far what they do is written down. What their
    /// logs say of transactions that are over by then is there when one [looks](Live::look)
    /// afterwards, which is to be done next.
    ///
    /// The threads are looked at one after the other while they run, so of two that were in touch,
    /// the later one may be further than the earlier one. But whatever was written before all had
    /// been looked at, all have written when they are looked at again. So what is
    /// [settled](Live::settled) is in an order that the second look has the whole of.
    pub(crate) fn look_at_clocks(&mut self) -> io::Result<()> {
        self.look_at_entries(|log, entry| {
            let clock = field(entry, entry::CLOCK);
            log.clock = clock & LOW;
            log.unary = clock >> 48 == 0;
        })?;
        // After the clocks, or what is over by them would not be there as a whole: the fields of an
        // entry are not read at once.
        self.look_at_entries(|log, entry| log.settled = field(entry, entry::POSITION))
    }

    fn look_at_entries(&mut self, mut look: impl FnMut(&mut Log, &[u8])) -> io::Result<()> {
        let len = self.logs.len() * ENTRY_SIZE;
        let buffer = start_of(&mut self.buffer, len);
        let read = self.file.read_at(buffer, SLOT_ENTRIES as u64)?;
        let entries = self.buffer[..read].chunks_exact(ENTRY_SIZE);
        for (log, entry) in self.logs.iter_mut().zip(entries) {
            look(log, entry);
        }
        Ok(())
    }

    /// Records up to this position were there before any of the others was looked at for the second time.
    pub(crate) fn settled(&self, slot: usize) -> u64 {
        self.logs.get(slot).map_or(0, |log| log.settled)
    }

    /// A slot's clock, when last looked at.
    pub(crate) fn clock(&self, slot: usize) -> u64 {
        self.logs.get(slot).map_or(0, |log| log.clock)
    }

    /// Whether the transaction of that clock is unary.
    pub(crate) fn is_unary(&self, slot: usize) -> bool {
        self.logs.get(slot).is_some_and(|log| log.unary)
    }

    /// The first chunk of what a thread does, if there is one.
    pub(crate) fn first_chunk(&self, slot: usize) -> io::Result<Option<ChunkAt>> {
        if self.logs[slot].written == 0 {
            return Ok(None);
        }
        let at = SLOT_ENTRIES + slot * ENTRY_SIZE + entry::FIRST_CHUNK;
        self.chunk_at(self.word(at as u64)?)
    }

    /// Whether a thread is in a later chunk by now.
    pub(crate) fn has_left(&self, slot: usize, chunk: &ChunkAt) -> bool {
        self.logs[slot].written >= chunk.position + CHUNK_UNIT as u64
    }

    /// The chunk after one that had been left when it was read.
    pub(crate) fn next_chunk(&self, chunk: &ChunkAt) -> io::Result<Option<ChunkAt>> {
        self.chunk_at(chunk.next)
    }

    /// What a chunk is now: its thread may have started it again. `None` while it does.
    pub(crate) fn chunk_now(&self, chunk: &ChunkAt) -> io::Result<Option<ChunkAt>> {
        self.chunk_at(chunk.offset)
    }

    fn chunk_at(&self, offset: u64) -> io::Result<Option<ChunkAt>> {
        if offset == 0 {
            return Ok(None);
        }
        let mut bytes = [0; CHUNK_HEADER_SIZE];
        self.file.read_exact_at(&mut bytes, offset)?;
        if field(&bytes, 0) as u32 != CHUNK_MAGIC {
            return Ok(None);
        }
        Ok(Some(ChunkAt {
            offset,
            position: field(&bytes, 24),
            snapshot: field(&bytes, 16) >> 32,
            clock: field(&bytes, std::mem::offset_of!(ChunkHeader, clock)),
            next: field(&bytes, std::mem::offset_of!(ChunkHeader, next)),
            is_needless: field(&bytes, std::mem::offset_of!(ChunkHeader, needless)) == 1,
        }))
    }

    /// Entries of where memory comes from, so many from a place on; all of them zero where nobody has written any.
    pub(crate) fn origins(&self, place: usize, len: usize) -> io::Result<Vec<[u64; 4]>> {
        let mut bytes = vec![0; len * origin::SIZE];
        let at = ORIGINS + place * origin::SIZE;
        self.file.read_exact_at(&mut bytes, at as u64)?;
        let entries = bytes.chunks_exact(origin::SIZE);
        Ok(entries
            .map(|entry| [0, 8, 16, 24].map(|at| field(entry, at)))
            .collect())
    }

    /// Calls that the program has asked for, from a turn on, as far as all before them are there, and not too many: where
    /// each is, and what is called. Where nobody has asked yet, the file has zeros or nothing.
    pub(crate) fn calls(&self, turn: u64) -> io::Result<Vec<(u64, u64)>> {
        let Some(at) = call_at(turn) else {
            return Ok(Vec::new());
        };
        let mut bytes = [0; CALLS_AT_ONCE * CALL_SIZE];
        let left = (CALLS_LEN as u64 - turn).min(CALLS_AT_ONCE as u64) as usize;
        let read = self.file.read_at(&mut bytes[..left * CALL_SIZE], at)?;
        let calls = bytes[..read].chunks_exact(CALL_SIZE);
        let calls = calls.map(|asked| (field(asked, call::CALL), field(asked, call::FUNCTION)));
        // The function is written last.
        Ok(calls.take_while(|&(_, function)| function != 0).collect())
    }

    /// Answers for a call. `before` is what has been said of inlined functions.
    pub(crate) fn answer(
        &self,
        turn: u64,
        (answer, inlined): (u64, u64),
        before: Option<u64>,
    ) -> io::Result<()> {
        let Some(at) = call_at(turn) else {
            return Ok(());
        };
        if before != Some(inlined) {
            let inlined = inlined.to_le_bytes();
            self.file
                .write_all_at(&inlined, at + call::INLINED as u64)?;
        }
        let answer = answer.to_le_bytes();
        self.file.write_all_at(&answer, at + call::ANSWER as u64)
    }

    /// Looks how far one thread is.
    pub(crate) fn look_at(&mut self, slot: usize) -> io::Result<()> {
        let at = SLOT_ENTRIES + slot * ENTRY_SIZE + self.fields.0;
        let published = self.word(at as u64)?;
        if let Some(log) = self.logs.get_mut(slot) {
            log.published = published;
        }
        Ok(())
    }

    /// The position of a slot's next record that is at hand or will come; 0 if nothing is known of
    /// the slot.
    pub(crate) fn position(&self, slot: usize) -> u64 {
        self.logs.get(slot).map_or(0, Log::position)
    }

    /// Whether a log goes on behind what has been taken.
    pub(crate) fn has_more(&self, slot: usize) -> bool {
        let log = &self.logs[slot];
        log.at < log.words.len() || log.read < log.published
    }

    /// Takes the words at hand out, with how many of them were taken before and the position of
    /// the first; the caller gives them back ([`Live::put`]). A word 0 ends them.
    pub(crate) fn take(&mut self, slot: usize) -> io::Result<(Vec<u64>, usize, u64)> {
        if self.logs[slot].at == self.logs[slot].words.len() {
            self.read(slot)?;
        }
        let log = &mut self.logs[slot];
        Ok((std::mem::take(&mut log.words), log.at, log.start))
    }

    /// Gives words back, of which so many have been taken by now.
    pub(crate) fn put(&mut self, slot: usize, words: Vec<u64>, at: usize) {
        let log = &mut self.logs[slot];
        log.words = words;
        log.at = at;
    }

    /// Reads on in a log whose words have all been taken.
    fn read(&mut self, slot: usize) -> io::Result<()> {
        let log = &mut self.logs[slot];
        log.words.clear();
        log.at = 0;
        if log.published == 0 {
            return Ok(());
        }
        if log.first == 0 {
            let at = SLOT_ENTRIES + slot * ENTRY_SIZE + self.fields.1;
            let chunk = self.word(at as u64)?;
            self.enter(slot, chunk)?;
        }
        loop {
            let log = &self.logs[slot];
            let (chunk, first_offset) = (log.chunk, log.first_offset);
            if chunk == 0 || log.read >= log.published {
                return Ok(());
            }
            let moved_on = log.published >= log.first + CHUNK_UNIT as u64;
            let end = if moved_on {
                log.first + (chunk + CHUNK_UNIT as u64 - first_offset)
            } else {
                log.published
            };
            let offset = log.read.wrapping_sub(log.first).wrapping_add(first_offset);
            let (start, len) = (log.read, end.saturating_sub(log.read));
            let buffer = start_of(&mut self.buffer, len as usize);
            self.file.read_exact_at(buffer, offset)?;
            let log = &mut self.logs[slot];
            log.start = start;
            log.words.extend(buffer.chunks_exact(8).map(word));
            log.read = end;
            if moved_on {
                let next = self.word(chunk + CHUNK_NEXT)?;
                self.enter(slot, next)?;
                self.give_back(chunk)?;
            }
            if !self.logs[slot].words.is_empty() {
                return Ok(());
            }
        }
    }

    /// Goes on with a chunk, behind its snapshot unless there is a gap before it.
    fn enter(&mut self, slot: usize, chunk: u64) -> io::Result<()> {
        let mut bytes = [0; CHUNK_HEADER_SIZE];
        let log = &mut self.logs[slot];
        log.chunk = 0;
        if chunk == 0 {
            return Ok(());
        }
        self.file.read_exact_at(&mut bytes, chunk)?;
        if field(&bytes, 0) != u64::from(CHUNK_MAGIC) | u64::from(CHUNK_LOG) << 32 {
            return Ok(());
        }
        let snapshot = field(&bytes, 16) >> 32;
        let (position, previous) = (field(&bytes, 24), field(&bytes, 32));
        let goes_on = log.first != 0 && previous == log.first;
        log.chunk = chunk;
        log.first = position;
        log.first_offset = chunk + CHUNK_HEADER_SIZE as u64 + snapshot;
        log.read = if goes_on {
            position
        } else {
            position - snapshot
        };
        Ok(())
    }

    /// Whether the program may be about to wait for chunks if so many have to be kept, and may have more: up to `most`.
    pub(crate) fn is_short_of(&self, kept: usize, most: usize) -> bool {
        kept > self.allowed / 4 * 3 && self.allowed < most
    }

    /// Whether all threads that are in a region wait for chunks, so that none of them comes to its end.
    pub(crate) fn is_stuck(&self) -> bool {
        let inside = self.logs.iter().filter(|log| log.clock > 0 && !log.unary);
        let waiting = self.counter(header::WAITING);
        waiting > 0 && waiting >= inside.count() as u64
    }

    /// Lets the program have more chunks, because so many have to be kept: up to `most`.
    pub(crate) fn allow(&mut self, kept: usize, most: usize) -> io::Result<()> {
        if self.allowed < most {
            self.allowed = (2 * self.allowed).max(kept).min(most);
            let allowed = (self.allowed as u64).to_le_bytes();
            self.file.write_all_at(&allowed, header::CHUNKS as u64)?;
        }
        Ok(())
    }

    /// Tells the program that so many edges have been read, and nothing remains to be done for them.
    pub(crate) fn settle(&mut self, edges: u64) -> io::Result<()> {
        if std::mem::replace(&mut self.edges, edges) == edges {
            return Ok(());
        }
        let edges = edges.to_le_bytes();
        self.file.write_all_at(&edges, header::SETTLED as u64)
    }

    /// Gives a chunk back to the program.
    pub(crate) fn give_back(&mut self, chunk: u64) -> io::Result<()> {
        let number = (chunk - HEADER_SIZE as u64) / CHUNK_UNIT as u64 + 1;
        let at = RETURNED_RING as u64 + self.returned % RING_LEN as u64 * 8;
        self.returned += 1;
        self.file.write_all_at(&number.to_le_bytes(), at)
    }
}

impl Log {
    fn position(&self) -> u64 {
        if self.at < self.words.len() {
            self.start + 8 * self.at as u64
        } else {
            self.read
        }
    }
}

/// Where a call is.
fn call_at(turn: u64) -> Option<u64> {
    (turn < CALLS_LEN as u64).then(|| CALLS as u64 + turn * CALL_SIZE as u64)
}

/// The start of a buffer, which does not get shorter: what it has is overwritten.
fn start_of(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn field(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..offset + 8).map_or(0, word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program is stuck if all of its threads that are in a region wait, and somebody does.
    #[test]
    fn stuck() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |offset: usize, word: u64| {
            let file = file.as_file();
            file.write_all_at(&word.to_le_bytes(), offset as u64)
                .unwrap();
        };
        write(header::MAGIC, MAGIC);
        write(header::HIGHEST_SLOT, 3);
        write(SLOT_ENTRIES + 4 * ENTRY_SIZE, 0);
        let mut live = Live::open(file.path()).unwrap().unwrap();
        live.look().unwrap();
        // For each slot the clock, whose upper bits are a region, and how many wait.
        let (outside, inside) = (7, 7 | 1 << 48);
        for (clocks, waiting, expected) in [
            ([outside, outside, 0], 0, false),
            ([outside, outside, 0], 1, true),
            ([inside, outside, 0], 0, false),
            ([inside, outside, 0], 1, true),
            ([inside, inside, 0], 1, false),
            ([inside, inside, 0], 2, true),
            ([inside, inside, inside], 2, false),
        ] {
            for (slot, clock) in (1..).zip(clocks) {
                write(SLOT_ENTRIES + slot * ENTRY_SIZE + entry::CLOCK, clock);
            }
            write(header::WAITING, waiting);
            live.look_at_clocks().unwrap();
            assert_eq!(live.is_stuck(), expected, "{clocks:?}, {waiting}");
        }
    }
}
