//! Text traces: from blocks to lines to events.
//!
//! Lines are parsed where they lie in the decompressed block; only a line that crosses from one
//! block into the next is copied. A line has a greatest length, so a file without line ends
//! cannot fill the memory.

use crate::Batch;
use crate::input::Blocks;
use crate::intern::{BadName, text};
use crate::read::{Ledger, Out, Position, Stop};
use std::fmt;

/// The longest line, in bytes.
const LONGEST: usize = 1 << 20;

/// A text format: what one line means.
pub(crate) trait Lines {
    /// Takes one line, without its end; an event goes into the batch.
    fn line(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), BadLine>;
}

/// A line that is not an event: what was expected, and what was there instead.
#[derive(Debug)]
pub(crate) struct BadLine {
    expected: &'static str,
    found: Option<String>,
}

impl BadLine {
    /// `found` is the part of the line that is wrong.
    #[cold]
    pub(crate) fn new(expected: &'static str, found: &[u8]) -> BadLine {
        BadLine {
            expected,
            found: Some(shown(found)),
        }
    }

    fn message<'a>(&'a self, line: &'a [u8]) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            write!(f, "expected {}, found ", self.expected)?;
            match &self.found {
                Some(found) if found.is_empty() => write!(f, "nothing")?,
                Some(found) => write!(f, "`{found}`")?,
                None => write!(f, "`{}`", shown(line))?,
            }
            Ok(())
        })
    }
}

impl From<BadName> for BadLine {
    #[cold]
    fn from(bad: BadName) -> BadLine {
        BadLine {
            expected: bad.0,
            found: None,
        }
    }
}

/// The beginning of what was found, fit for a terminal.
fn shown(found: &[u8]) -> String {
    let mut shown = String::new();
    for c in text(&found[..found.len().min(80)]).chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Parses the whole input.
pub(crate) fn read<L: Lines>(
    format: L,
    blocks: &mut Blocks,
    out: &mut Out,
    ledger: &mut Ledger,
) -> Result<(), Stop> {
    let mut reader = Reader {
        format,
        out,
        ledger,
        number: 0,
        carry: Vec::new(),
        skipping: false,
    };
    loop {
        match blocks.next(|| reader.out.flush())? {
            Ok(Some(block)) => {
                reader.ledger.bytes += block.bytes().len() as u64;
                reader.block(block.bytes())?;
                blocks.recycle(block);
            }
            Ok(None) => return reader.end(),
            // The last line may be cut in the middle, so it is not looked at.
            Err(error) => {
                let position = Position::Line(reader.number + 1);
                return Ok(reader.ledger.input_failed(position, &error)?);
            }
        }
    }
}

struct Reader<'a, L> {
    format: L,
    out: &'a mut Out,
    ledger: &'a mut Ledger,
    /// Lines so far.
    number: u64,
    /// The beginning of a line whose end is in a later block.
    carry: Vec<u8>,
    /// The line at hand is too long, and what is left of it is to be ignored.
    skipping: bool,
}

impl<L: Lines> Reader<'_, L> {
    fn block(&mut self, block: &[u8]) -> Result<(), Stop> {
        let mut ends = memchr::memchr_iter(b'\n', block);
        let mut start = 0;
        if self.skipping || !self.carry.is_empty() {
            let end = ends.next();
            self.carry_on(&block[..end.unwrap_or(block.len())])?;
            let Some(end) = end else { return Ok(()) };
            self.end_of_carried()?;
            start = end + 1;
        }
        for end in ends {
            self.line(&block[start..end])?;
            start = end + 1;
        }
        self.carry_on(&block[start..])
    }

    /// Keeps the beginning of a line.
    fn carry_on(&mut self, part: &[u8]) -> Result<(), Stop> {
        if self.skipping {
            return Ok(());
        }
        if self.carry.len() + part.len() > LONGEST {
            self.carry.clear();
            self.skipping = true;
            let message = "expected an event, found a line of more than 1 MiB";
            return Ok(self.ledger.bad(Position::Line(self.number + 1), &message)?);
        }
        self.carry.extend_from_slice(part);
        Ok(())
    }

    fn end_of_carried(&mut self) -> Result<(), Stop> {
        if std::mem::take(&mut self.skipping) {
            self.number += 1;
            return Ok(());
        }
        let carry = std::mem::take(&mut self.carry);
        self.line(&carry)?;
        self.carry = carry;
        self.carry.clear();
        Ok(())
    }

    #[inline]
    fn line(&mut self, line: &[u8]) -> Result<(), Stop> {
        self.number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Ok(());
        }
        if let Err(bad) = self.format.line(line, &mut self.out.batch) {
            self.ledger
                .bad(Position::Line(self.number), &bad.message(line))?;
        }
        if self.out.is_full() {
            self.out.flush()?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<(), Stop> {
        if self.carry.is_empty() {
            return Ok(());
        }
        self.end_of_carried()
    }
}
