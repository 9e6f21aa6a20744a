//! Writing a trace.
//!
//! A [`Writer`] takes the same [`Batch`]es a reader delivers. It is told the format and the
//! compression, and says at the end what the format could not express.

use crate::Batch;
use crate::format::Format;
use crate::format::std::StdWriter;
use crate::input::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};

pub use crate::format::atrace::AtraceWriter;

/// Which events a format could not express, and how many of each.
pub type Unwritten = Vec<(&'static str, u64)>;

/// What has been written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Events in the file.
    pub events: u64,
    /// Events the format cannot express, which are not in the file.
    pub left_out: Unwritten,
}

/// Writes a trace to anything that takes bytes.
#[derive(Debug)]
pub struct Writer<W: Write> {
    kind: Kind<W>,
}

#[derive(Debug)]
enum Kind<W: Write> {
    Std(Box<StdWriter<Compressor<W>>>),
    Atrace(Box<AtraceWriter<Compressor<W>>>),
}

impl<W: Write> Writer<W> {
    /// Begins a trace. `rr` is a format that is read but not written.
    pub fn new(format: Format, compression: Compression, out: W) -> io::Result<Writer<W>> {
        let compressor = || Compressor::new(compression, out);
        let kind = match format {
            Format::Std => Kind::Std(Box::new(StdWriter::new(compressor()?))),
            Format::Atrace => Kind::Atrace(Box::new(AtraceWriter::new(compressor()?)?)),
            Format::Rr => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "traces are not written as rr; write std or atrace",
                ));
            }
        };
        Ok(Writer { kind })
    }

    /// Appends names and events.
    pub fn write(&mut self, batch: &Batch) -> io::Result<()> {
        match &mut self.kind {
            Kind::Std(writer) => writer.write(batch),
            Kind::Atrace(writer) => writer.write(batch),
        }
    }

    /// Ends the trace; without it, the file is cut off.
    pub fn finish(self) -> io::Result<(W, Written)> {
        let (compressor, written) = match self.kind {
            Kind::Std(writer) => {
                let (out, events, left_out) = writer.finish()?;
                (out, Written { events, left_out })
            }
            Kind::Atrace(writer) => {
                let written = Written {
                    events: writer.events(),
                    left_out: Unwritten::new(),
                };
                (writer.finish()?, written)
            }
        };
        let mut out = compressor.finish()?;
        out.flush()?;
        Ok((out, written))
    }
}

/// Compresses what is written to it.
enum Compressor<W: Write> {
    None(W),
    Gzip(Box<GzEncoder<W>>),
    Zstd(Box<zstd::stream::write::Encoder<'static, W>>),
}

impl<W: Write> std::fmt::Debug for Compressor<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl<W: Write> Compressor<W> {
    fn new(compression: Compression, out: W) -> io::Result<Compressor<W>> {
        Ok(match compression {
            Compression::None => Compressor::None(out),
            Compression::Gzip => {
                let level = flate2::Compression::default();
                Compressor::Gzip(Box::new(GzEncoder::new(out, level)))
            }
            Compression::Zstd => {
                // A checksum lets a reader notice damage.
                let mut encoder = zstd::stream::write::Encoder::new(out, 3)?;
                encoder.include_checksum(true)?;
                Compressor::Zstd(Box::new(encoder))
            }
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Compressor::None(out) => Ok(out),
            Compressor::Gzip(encoder) => encoder.finish(),
            Compressor::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Compressor::None(out) => out.write(bytes),
            Compressor::Gzip(encoder) => encoder.write(bytes),
            Compressor::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Compressor::None(out) => out.flush(),
            Compressor::Gzip(encoder) => encoder.flush(),
            Compressor::Zstd(encoder) => encoder.flush(),
        }
    }
}
