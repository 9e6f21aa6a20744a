//! Writing `atrace`.

use super::codec::{self, Predictor};
use super::{Counts, HEADER, Header, MAGIC, MAX_PAYLOAD, Storage, VERSION, checksum};
use crate::Batch;
use crate::names::Definition;
use std::io::{self, Write};

/// A chunk is written when it has this many events,
const EVENTS: u32 = 32 << 10;

/// or this many bytes.
const BYTES: usize = 1 << 20;

/// The greatest encoded definition; with a full chunk in front of it, it still fits into one.
const MAX_DEFINITION: usize = 2 << 20;

/// The level of compression: the fastest that is still small.
const LEVEL: i32 = 3;

const _: () = assert!(BYTES + MAX_DEFINITION + 64 <= MAX_PAYLOAD && HEADER == 32);

/// Writes a trace in our own format, chunk by chunk.
pub struct AtraceWriter<W: Write> {
    out: W,
    compressor: zstd::bulk::Compressor<'static>,
    /// Names defined by the chunks before.
    before: Counts,
    /// Names defined so far.
    defined: Counts,
    definition_count: u32,
    definitions: Vec<u8>,
    event_count: u32,
    events: Vec<u8>,
    predictor: Box<Predictor>,
    total: u64,
    payload: Vec<u8>,
    compressed: Vec<u8>,
}

impl<W: Write> AtraceWriter<W> {
    /// Begins a trace.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&[VERSION])?;
        Ok(AtraceWriter {
            out,
            compressor: zstd::bulk::Compressor::new(LEVEL)?,
            before: Counts::default(),
            defined: Counts::default(),
            definition_count: 0,
            definitions: Vec::new(),
            event_count: 0,
            events: Vec::new(),
            predictor: Box::default(),
            total: 0,
            payload: Vec::new(),
            compressed: Vec::new(),
        })
    }

    /// Appends names and events.
    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        for definition in &batch.definitions {
            self.define(definition)?;
        }
        for event in &batch.events {
            self.predictor.put(&mut self.events, event);
            self.event_count += 1;
            if self.event_count >= EVENTS || self.events.len() >= BYTES {
                self.chunk()?;
            }
        }
        Ok(())
    }

    fn define(&mut self, definition: &Definition) -> io::Result<()> {
        if self.definitions.len() + self.events.len() >= BYTES {
            self.chunk()?;
        }
        let at = self.definitions.len();
        let kind = codec::put_definition(&mut self.definitions, definition);
        if self.definitions.len() - at > MAX_DEFINITION {
            self.definitions.truncate(at);
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a name of more than 2 MiB does not fit into a trace",
            ));
        }
        self.definition_count += 1;
        if let Some(kind) = kind {
            self.defined[kind] = self.defined[kind]
                .checked_add(1)
                .ok_or_else(|| io::Error::other("a trace has at most 2^32 - 1 names of a kind"))?;
        }
        Ok(())
    }

    /// Writes what there is as a chunk.
    fn chunk(&mut self) -> io::Result<()> {
        if self.definition_count == 0 && self.event_count == 0 {
            return Ok(());
        }
        self.payload.clear();
        for count in self.before {
            codec::put(&mut self.payload, count);
        }
        codec::put(&mut self.payload, self.definition_count);
        self.payload.extend_from_slice(&self.definitions);
        self.payload.extend_from_slice(&self.events);

        self.compressed.clear();
        self.compressed
            .reserve(zstd::zstd_safe::compress_bound(self.payload.len()));
        self.compressor
            .compress_to_buffer(&self.payload, &mut self.compressed)?;
        let (storage, stored) = if self.compressed.len() < self.payload.len() {
            (Storage::Zstd, &self.compressed)
        } else {
            (Storage::Plain, &self.payload)
        };
        let header = Header {
            storage,
            stored: stored.len() as u32,
            length: self.payload.len() as u32,
            events: self.event_count,
            checksum: checksum(stored),
        };
        self.out.write_all(&header.encode())?;
        self.out.write_all(stored)?;

        self.total += u64::from(self.event_count);
        self.before = self.defined;
        self.definition_count = 0;
        self.definitions.clear();
        self.event_count = 0;
        self.events.clear();
        *self.predictor = Predictor::default();
        Ok(())
    }

    /// Writes everything so far, so that a reader of the file sees it even if nothing follows.
    pub fn flush(&mut self) -> io::Result<()> {
        self.chunk()?;
        self.out.flush()
    }

    /// What it is written to.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// How many events have been written.
    pub fn events(&self) -> u64 {
        self.total + u64::from(self.event_count)
    }

    /// Ends the trace, and returns what it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.chunk()?;
        let total = self.total.to_le_bytes();
        let header = Header {
            storage: Storage::End,
            stored: 8,
            length: 8,
            events: 0,
            checksum: checksum(&total),
        };
        self.out.write_all(&header.encode())?;
        self.out.write_all(&total)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> std::fmt::Debug for AtraceWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtraceWriter")
            .field("events", &self.events())
            .finish_non_exhaustive()
    }
}
