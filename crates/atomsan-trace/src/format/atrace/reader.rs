//! Reading `atrace`, whatever the bytes.
//!
//! Every length is checked against a constant before anything is allocated, and every chunk
//! against its checksum before it is looked at. A chunk whose header is whole but whose payload
//! is not can be skipped exactly; behind a damaged header the next whole one is searched.
//!
//! A skipped chunk may have defined names. The next chunk says how many there should be by now,
//! and the reader defines stand-ins for those that were lost, so that later names keep their ids.

use super::codec::{Input, Predictor};
use super::{Counts, HEADER, Header, MAGIC, MARKER, Storage, VERSION, checksum};
use crate::event::{Event, Op};
use crate::input::Blocks;
use crate::names::{Definition, Site, Var};
use crate::read::{Ledger, Out, Position, Stop};
use memchr::memmem;
use std::io;

/// The most stand-ins for lost names; behind a greater loss, a trace is not worth reading.
const MAX_LOST: u32 = 1 << 18;

/// Reads the whole input.
pub(crate) fn read(blocks: &mut Blocks, out: &mut Out, ledger: &mut Ledger) -> Result<(), Stop> {
    let decompressor = zstd::bulk::Decompressor::new().map_err(|error| {
        let message = format!("cannot decompress: {error}");
        ledger.fatal(Position::Nowhere, message)
    })?;
    let window = Window {
        blocks,
        bytes: Vec::new(),
        start: 0,
        offset: 0,
        failure: None,
        ended: false,
    };
    Reader {
        window,
        out,
        ledger,
        decompressor,
        payload: Vec::new(),
        predictor: Box::default(),
        defined: Counts::default(),
        stand_ins: 0,
        chunks: 0,
        events: 0,
        uncounted: false,
    }
    .run()
}

/// The part of the input that is being looked at, in one piece.
struct Window<'a> {
    blocks: &'a mut Blocks,
    bytes: Vec<u8>,
    start: usize,
    /// Where in the input `start` is.
    offset: u64,
    failure: Option<io::Error>,
    ended: bool,
}

impl Window<'_> {
    /// Makes at least `n` bytes available, and says whether there are so many.
    fn need(&mut self, n: usize, out: &mut Out) -> Result<bool, Stop> {
        while self.rest().len() < n && !self.ended {
            self.bytes.drain(..self.start);
            self.start = 0;
            match self.blocks.next(|| out.flush())? {
                Ok(Some(block)) => {
                    self.bytes.extend_from_slice(block.bytes());
                    self.blocks.recycle(block);
                }
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    self.failure = Some(error);
                }
            }
        }
        Ok(self.rest().len() >= n)
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn skip(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }
}

struct Reader<'a> {
    window: Window<'a>,
    out: &'a mut Out,
    ledger: &'a mut Ledger,
    decompressor: zstd::bulk::Decompressor<'static>,
    payload: Vec<u8>,
    predictor: Box<Predictor>,
    defined: Counts,
    stand_ins: u32,
    /// Whole chunks so far.
    chunks: u64,
    /// Events so far, those of skipped chunks included,
    events: u64,
    /// unless a header was lost and with it the number of events.
    uncounted: bool,
}

/// Why a chunk is not taken to its end.
enum Fault {
    /// What is wrong with it.
    Damage(&'static str),
    Stop(Stop),
}

impl From<&'static str> for Fault {
    fn from(damage: &'static str) -> Fault {
        Fault::Damage(damage)
    }
}

impl From<Stop> for Fault {
    fn from(stop: Stop) -> Fault {
        Fault::Stop(stop)
    }
}

impl Reader<'_> {
    fn run(mut self) -> Result<(), Stop> {
        let done = self.file();
        self.ledger.bytes = self.window.offset;
        done
    }

    fn file(&mut self) -> Result<(), Stop> {
        if !self.window.need(MAGIC.len() + 1, self.out)? {
            return self.cut_off();
        }
        let (magic, version) = (&self.window.rest()[..7], self.window.rest()[7]);
        if *magic != MAGIC {
            return Err(self.fatal("not a binary trace: expected it to begin with \\x89ATRACE"));
        }
        if version != VERSION {
            return Err(self.fatal(&format!(
                "this is version {version} of the format and atomsan reads version {VERSION}; \
                 use the atomsan that wrote it, or a newer one"
            )));
        }
        self.window.skip(MAGIC.len() + 1);
        while self.window.need(HEADER, self.out)? {
            let header = self.window.rest()[..HEADER].try_into().ok();
            let Some(header) = header.and_then(Header::decode) else {
                self.damaged("a damaged chunk header")?;
                self.uncounted = true;
                self.resynchronise()?;
                continue;
            };
            let whole = HEADER + header.stored as usize;
            if !self.window.need(whole, self.out)? {
                return self.cut_off();
            }
            let stored = &self.window.rest()[HEADER..whole];
            if checksum(stored) != header.checksum {
                self.damaged(&format!(
                    "one of {} events whose checksum is wrong",
                    header.events
                ))?;
            } else if header.storage == Storage::End {
                return self.end(whole);
            } else {
                match self.chunk(&header) {
                    Ok(()) => {}
                    Err(Fault::Damage(damage)) => self.damaged(damage)?,
                    Err(Fault::Stop(stop)) => return Err(stop),
                }
            }
            self.window.skip(whole);
            self.chunks += 1;
            self.events += u64::from(header.events);
        }
        self.cut_off()
    }

    /// Takes a chunk that is all in the window, and not the end chunk.
    fn chunk(&mut self, header: &Header) -> Result<(), Fault> {
        let stored = &self.window.rest()[HEADER..HEADER + header.stored as usize];
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        if header.storage == Storage::Plain {
            payload.extend_from_slice(stored);
        } else {
            payload.reserve(header.length as usize);
            let size = self.decompressor.decompress_to_buffer(stored, &mut payload);
            if size.ok() != Some(header.length as usize) {
                return Err("one that cannot be decompressed".into());
            }
        }
        let done = self.payload(&payload, header.events);
        self.payload = payload;
        done
    }

    fn payload(&mut self, payload: &[u8], events: u32) -> Result<(), Fault> {
        let mut input = Input::new(payload);
        let (before, definitions) = counts(&mut input).ok_or("one without its counts")?;
        self.stand_in(before)?;
        for _ in 0..definitions {
            let (kind, definition) = input.definition().ok_or("one with a bad name")?;
            if !refers_to_defined(&definition, &self.defined) {
                return Err("one with a name that refers to one that is not defined".into());
            }
            if let Some(kind) = kind {
                self.defined[kind] = self.defined[kind]
                    .checked_add(1)
                    .ok_or("one with too many names")?;
            }
            self.out.batch.definitions.push(definition);
            if self.out.is_full() {
                self.out.flush()?;
            }
        }
        *self.predictor = Predictor::default();
        for _ in 0..events {
            let event = self.predictor.event(&mut input);
            let event = event.ok_or("one with a bad event")?;
            if !is_defined(&event, &self.defined) {
                return Err("one with an event whose names are not defined".into());
            }
            self.out.batch.events.push(event);
            if self.out.is_full() {
                self.out.flush()?;
            }
        }
        if !input.is_empty() {
            return Err("one with more events than it counts".into());
        }
        Ok(())
    }

    /// Defines stand-ins until there are as many names as there should be.
    fn stand_in(&mut self, before: Counts) -> Result<(), &'static str> {
        if before == self.defined {
            return Ok(());
        }
        let mut lost = 0_u64;
        for (before, defined) in before.iter().zip(self.defined) {
            let Some(missing) = before.checked_sub(defined) else {
                return Err("one that does not follow the one before it");
            };
            lost += u64::from(missing);
        }
        if !self.ledger.lenient() {
            return Err("one whose names were defined in a chunk that is missing");
        }
        if lost + u64::from(self.stand_ins) > MAX_LOST.into() {
            return Err("one after the loss of more than 2^18 names");
        }
        self.stand_ins += lost as u32;
        for (kind, before) in before.into_iter().enumerate() {
            for id in self.defined[kind]..before {
                self.out.batch.definitions.push(stand_in(kind, id));
            }
            self.defined[kind] = before;
        }
        Ok(())
    }

    /// Goes to the next bytes that might be a header.
    fn resynchronise(&mut self) -> Result<(), Stop> {
        self.window.skip(1);
        while self.window.need(MARKER.len(), self.out)? {
            if let Some(at) = memmem::find(self.window.rest(), &MARKER) {
                self.window.skip(at);
                return Ok(());
            }
            // The last bytes may be the beginning of a marker.
            self.window
                .skip(self.window.rest().len() - (MARKER.len() - 1));
        }
        self.window.skip(self.window.rest().len());
        Ok(())
    }

    fn position(&self) -> Position {
        Position::Byte(self.window.offset)
    }

    fn fatal(&self, message: &str) -> Stop {
        self.ledger
            .fatal(self.position(), message.to_owned())
            .into()
    }

    fn damaged(&mut self, found: &str) -> Result<(), Stop> {
        let message = format!("expected a whole chunk, found {found}");
        Ok(self.ledger.bad(self.position(), &message)?)
    }

    /// The input has ended, but not with an end chunk.
    fn cut_off(&mut self) -> Result<(), Stop> {
        match self.window.failure.take() {
            Some(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Ok(self.ledger.input_failed(self.position(), &error)?)
            }
            _ => {
                self.ledger.truncated(format!(
                    "it is cut off within or after chunk {}, at byte {}; everything up to there \
                     is used",
                    self.chunks + 1,
                    self.window.offset
                ));
                Ok(())
            }
        }
    }

    /// The end chunk is there; it counts the events, and behind it there is nothing.
    fn end(&mut self, length: usize) -> Result<(), Stop> {
        if self.window.rest()[HEADER..length] != self.events.to_le_bytes() && !self.uncounted {
            self.damaged("the last one, which counts other events than there were")?;
        }
        self.window.skip(length);
        if self.window.need(1, self.out)? {
            let message = "expected the end of the input, found bytes behind the last chunk";
            self.ledger.bad(self.position(), &message)?;
        }
        match self.window.failure.take() {
            Some(error) => Ok(self.ledger.input_failed(self.position(), &error)?),
            None => Ok(()),
        }
    }
}

/// What a chunk begins with: the names before it, and the number of its own.
fn counts(input: &mut Input<'_>) -> Option<(Counts, u32)> {
    let mut before = Counts::default();
    for count in &mut before {
        *count = input.varint()?;
    }
    Some((before, input.varint()?))
}

/// Whether all names of an event are defined. Engines have tables that are as long as the ids are
/// large, so a damaged or hostile id must not get through.
#[inline]
fn is_defined(event: &Event, defined: &Counts) -> bool {
    let [threads, vars, locks, functions, objects, sites] = *defined;
    let target = match event.op {
        Op::Begin(f) | Op::Enter(f) | Op::Exit(f) => f.0 < functions,
        Op::Fork(t) | Op::Join(t) => t.0 < threads,
        Op::Alloc(o) | Op::Free(o) => o.0 < objects,
        Op::RefStore { into, object } => into.0 < vars && object.0 < objects,
        op => op.var().is_none_or(|x| x.0 < vars) && op.lock().is_none_or(|l| l.0 < locks),
    };
    // Sites are counted from 1; 0 is the unknown one.
    event.thread.0 < threads && event.site.0 <= sites && target
}

/// Whether what a definition refers to is defined.
fn refers_to_defined(definition: &Definition, defined: &Counts) -> bool {
    let [_, _, _, functions, objects, _] = *defined;
    match definition {
        Definition::Var(var) => var.object.is_none_or(|object| object.0 < objects),
        Definition::Site(site) => {
            let mut frames = site.frames.iter();
            frames.all(|frame| frame.function.is_none_or(|f| f.0 < functions))
        }
        _ => true,
    }
}

/// A name in place of one that was lost, spelt like those of ids that were never defined.
fn stand_in(kind: usize, id: u32) -> Definition {
    match kind {
        0 => Definition::Thread(format!("thread#{id}").into()),
        1 => Definition::Var(Var {
            name: format!("var#{id}").into(),
            ..Var::default()
        }),
        2 => Definition::Lock(format!("lock#{id}").into()),
        3 => Definition::Function(format!("function#{id}").into()),
        4 => Definition::Object(format!("object#{id}").into()),
        _ => Definition::Site(Site::default()),
    }
}
