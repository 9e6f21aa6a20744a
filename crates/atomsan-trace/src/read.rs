//! Reading a trace: decompress, parse, deliver.
//!
//! Three threads, two bounded channels: one reads and decompresses ([`crate::input`]), one parses
//! (the modules of [`crate::format`]), and the caller's takes [`Batch`]es. Blocks and batches are
//! recycled, so nothing is allocated per event and the memory does not depend on the length of
//! the trace.
//!
//! ```no_run
//! # fn main() -> Result<(), atomsan_trace::read::ReadError> {
//! use atomsan_trace::read::{self, ReadOptions};
//! use atomsan_trace::{Names, input::Source};
//!
//! let mut names = Names::default();
//! let mut trace = read::open(&Source::path("tsp.std.zst"), &ReadOptions::default())?;
//! while let Some(batch) = trace.next()? {
//!     for definition in batch.definitions.drain(..) {
//!         names.define(definition);
//!     }
//!     for event in &batch.events {
//!         println!("{}: {:?}", names.thread(event.thread), event.op);
//!     }
//! }
//! println!("{} events", trace.summary().events);
//! # Ok(())
//! # }
//! ```

use crate::Batch;
use crate::format::{Format, atrace, lines, rr::Rr, std::Std};
use crate::input::{self, Blocks, Progress, Source};
use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

/// Events in a batch: enough to make a channel cheap, few enough to stay in the cache.
const BATCH: usize = 8 << 10;

/// How many filled batches may wait.
const WAITING: usize = 8;

/// How many messages about bad lines a summary keeps.
const MESSAGES: usize = 5;

/// How much of the input may be looked at to find out its format.
const HEAD: usize = 64 << 10;

/// How to read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; `None` finds out by content.
    pub format: Option<Format>,
    /// Go on after what is wrong, and say so in the [`Summary`].
    pub lenient: bool,
}

/// Where in the input something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// The whole of it.
    Nowhere,
    /// A line, from 1.
    Line(u64),
    /// A byte of the (decompressed) input, from 0.
    Byte(u64),
}

/// A trace that cannot be read (further).
#[derive(Debug)]
pub struct ReadError {
    /// The input's name.
    pub file: String,
    /// Where it is wrong.
    pub position: Position,
    /// What was expected, what was found, and what to do.
    pub message: String,
}

impl std::error::Error for ReadError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadError {
            file,
            position,
            message,
        } = self;
        match position {
            Position::Nowhere => write!(f, "{file}: {message}"),
            Position::Line(line) => write!(f, "{file}:{line}: {message}"),
            Position::Byte(byte) => write!(f, "{file}: at byte {byte}: {message}"),
        }
    }
}

/// What a trace was, known when it has been read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Events delivered.
    pub events: u64,
    /// Lines (or chunks) that were wrong and skipped.
    pub skipped: u64,
    /// What was wrong with the first few of them.
    pub messages: Vec<String>,
    /// Why the trace ends before its end, if it does.
    pub truncated: Option<String>,
    /// Bytes, decompressed.
    pub bytes: u64,
}

/// Why parsing stops early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Nobody takes the batches any more.
    Dropped,
    /// The trace is wrong.
    Failed(ReadError),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Stop {
        Stop::Failed(error)
    }
}

/// What was wrong so far, and whether that is forgiven.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: String,
    lenient: bool,
    skipped: u64,
    messages: Vec<String>,
    truncated: Option<String>,
    /// Bytes parsed.
    pub(crate) bytes: u64,
}

impl Ledger {
    /// A part of the trace is wrong: an error, or counted.
    #[cold]
    pub(crate) fn bad(
        &mut self,
        position: Position,
        message: &dyn fmt::Display,
    ) -> Result<(), ReadError> {
        let error = |message| ReadError {
            file: self.file.clone(),
            position,
            message,
        };
        if !self.lenient {
            let what = match position {
                Position::Byte(_) => "damaged chunks",
                _ => "bad lines",
            };
            return Err(error(format!("{message}; skip {what} with --lenient")));
        }
        self.skipped += 1;
        if self.messages.len() < MESSAGES {
            self.messages.push(error(message.to_string()).to_string());
        }
        Ok(())
    }

    /// Reading or decompressing failed: an error, or the end of the trace.
    #[cold]
    pub(crate) fn input_failed(
        &mut self,
        position: Position,
        error: &io::Error,
    ) -> Result<(), ReadError> {
        let message = input_failure(error);
        if !self.lenient {
            return Err(ReadError {
                file: self.file.clone(),
                position,
                message: format!("{message}; use what is there with --lenient"),
            });
        }
        self.truncated = Some(match position {
            Position::Nowhere => message,
            Position::Line(line) => format!("{message} (line {line})"),
            Position::Byte(byte) => format!("{message} (byte {byte})"),
        });
        Ok(())
    }

    /// The trace ends too early, which is no error.
    #[cold]
    pub(crate) fn truncated(&mut self, message: String) {
        self.truncated = Some(message);
    }

    /// What cannot be forgiven.
    #[cold]
    pub(crate) fn fatal(&self, position: Position, message: String) -> ReadError {
        ReadError {
            file: self.file.clone(),
            position,
            message,
        }
    }

    /// Whether what is wrong is forgiven.
    pub(crate) fn lenient(&self) -> bool {
        self.lenient
    }
}

fn input_failure(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the compressed data is cut off here".to_owned(),
        _ => format!("cannot read on: {error}"),
    }
}

enum Message {
    Batch(Batch),
    End(Summary, Option<ReadError>),
}

/// Where parsed events go.
pub(crate) struct Out {
    /// The batch that is being filled.
    pub(crate) batch: Batch,
    events: u64,
    filled: SyncSender<Message>,
    empty: Receiver<Batch>,
}

impl Out {
    /// Whether the batch should be flushed.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.batch.events.len() >= BATCH || self.batch.definitions.len() >= BATCH
    }

    /// Delivers the batch, if there is anything in it.
    pub(crate) fn flush(&mut self) -> Result<(), Stop> {
        if self.batch.events.is_empty() && self.batch.definitions.is_empty() {
            return Ok(());
        }
        self.events += self.batch.events.len() as u64;
        let next = self.empty.try_recv().unwrap_or_else(|_| new_batch());
        let batch = std::mem::replace(&mut self.batch, next);
        self.filled
            .send(Message::Batch(batch))
            .map_err(|_| Stop::Dropped)
    }
}

fn new_batch() -> Batch {
    Batch {
        definitions: Vec::new(),
        events: Vec::with_capacity(BATCH),
    }
}

/// A trace that is being read. Dropping it stops the reading.
pub struct Trace {
    file: String,
    current: Batch,
    filled: Receiver<Message>,
    empty: Sender<Batch>,
    progress: Progress,
    format: Format,
    summary: Summary,
    ended: bool,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("file", &self.file)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

/// Opens a trace, finds out its format and starts reading.
pub fn open(source: &Source, options: &ReadOptions) -> Result<Trace, ReadError> {
    let file = source.name().to_owned();
    let error = |message| ReadError {
        file: file.clone(),
        position: Position::Nowhere,
        message,
    };
    let (mut blocks, progress) =
        input::open(source).map_err(|e| error(format!("cannot open: {e}")))?;
    let format = match options.format {
        Some(format) => format,
        None => sniff(&mut blocks).map_err(error)?,
    };
    let ledger = Ledger {
        file: file.clone(),
        lenient: options.lenient,
        skipped: 0,
        messages: Vec::new(),
        truncated: None,
        bytes: 0,
    };
    let (filled_in, filled) = mpsc::sync_channel(WAITING);
    let (empty, empty_out) = mpsc::channel();
    let out = Out {
        batch: new_batch(),
        events: 0,
        filled: filled_in,
        empty: empty_out,
    };
    std::thread::Builder::new()
        .name("atomsan-parse".to_owned())
        .spawn(move || parse(format, blocks, out, ledger))
        .map_err(|e| error(format!("cannot start a thread: {e}")))?;
    Ok(Trace {
        file,
        current: Batch::default(),
        filled,
        empty,
        progress,
        format,
        summary: Summary::default(),
        ended: false,
    })
}

fn sniff(blocks: &mut Blocks) -> Result<Format, String> {
    let mut looked_at = 0;
    let head = blocks.peek(HEAD, |head| {
        Format::sniff(head, false, &mut looked_at).is_some()
    });
    let format = Format::sniff(head, true, &mut looked_at);
    let empty = head.is_empty();
    match (format, blocks.failure()) {
        (Some(format), _) => Ok(format),
        // Nothing at all is a text of no lines, and what is damaged before it says what it is
        // may be one: reading it says where the damage is, and whether that is forgiven.
        (None, failure) if empty || failure.is_some() => Ok(Format::Std),
        (None, _) => Err(
            "not a trace: expected lines `thread|op|loc` (std), lines `@ Op(tid,target)` (rr) or \
             a binary trace (atrace); name the format with --format if it is one of these"
                .to_owned(),
        ),
    }
}

fn parse(format: Format, mut blocks: Blocks, mut out: Out, mut ledger: Ledger) {
    let done = match format {
        Format::Std => lines::read(Std::default(), &mut blocks, &mut out, &mut ledger),
        Format::Rr => lines::read(Rr::default(), &mut blocks, &mut out, &mut ledger),
        Format::Atrace => atrace::read(&mut blocks, &mut out, &mut ledger),
    };
    let error = match done {
        Ok(()) => None,
        Err(Stop::Failed(error)) => Some(error),
        Err(Stop::Dropped) => return,
    };
    if out.flush().is_err() {
        return;
    }
    let summary = Summary {
        events: out.events,
        skipped: ledger.skipped,
        messages: ledger.messages,
        truncated: ledger.truncated,
        bytes: ledger.bytes,
    };
    // Nobody listens: then nobody misses it.
    let _ = out.filled.send(Message::End(summary, error));
}

impl Trace {
    /// The next batch; `None` at the end. What is wrong with the trace is reported after
    /// everything in front of it has been delivered. The batch is recycled by the next call.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends, which an iterator cannot"
    )]
    pub fn next(&mut self) -> Result<Option<&mut Batch>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let mut last = std::mem::take(&mut self.current);
        if last.events.capacity() > 0 {
            last.definitions.clear();
            last.events.clear();
            // The parser may be done already.
            let _ = self.empty.send(last);
        }
        match self.filled.recv() {
            Ok(Message::Batch(batch)) => {
                self.current = batch;
                Ok(Some(&mut self.current))
            }
            Ok(Message::End(summary, error)) => {
                self.ended = true;
                self.summary = summary;
                error.map_or(Ok(None), Err)
            }
            Err(_) => {
                self.ended = true;
                Err(ReadError {
                    file: self.file.clone(),
                    position: Position::Nowhere,
                    message: "the parser stopped unexpectedly; this is a bug in atomsan".to_owned(),
                })
            }
        }
    }

    /// The trace's format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the trace was; complete once [`Trace::next`] has returned `None` or an error.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// How many bytes of the file have been read, and how many there are if that is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.progress.done(), self.progress.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn dropping_a_trace_stops_its_threads() {
        let text = "T|r(x)|1\n".repeat(2_000_000).into_bytes();
        let source = Source::bytes("t", text);
        let mut trace = open(&source, &ReadOptions::default()).unwrap();
        assert!(trace.next().unwrap().is_some());
        let progress = trace.progress.clone();
        assert_eq!(
            progress.holders(),
            3,
            "this, the trace and the input thread"
        );
        drop(trace);
        let start = Instant::now();
        while progress.holders() > 1 {
            assert!(start.elapsed() < Duration::from_secs(20), "still running");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(
            progress.done() < progress.total.unwrap(),
            "it stopped early"
        );
    }
}
