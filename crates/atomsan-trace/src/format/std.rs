//! `std`: RAPID's text format.
//!
//! One event a line, `thread|op|loc`. `op` is `r(x)`, `w(x)`, `acq(l)`, `rel(l)`, `fork(t)`,
//! `join(t)`, or anything that starts with `begin` or `end`, whose argument, if there is one, is
//! the region's label. Names are any characters but white space and `|`; the argument reaches
//! from the first `(` to the last `)`, so a name may contain those too. `loc` is a number.
//!
//! Most lines of most traces are accesses, so those are recognised first. The fields are found
//! from both ends: the thread's name is short, the location is digits up to the last `|`, and
//! what is between them is the operation. That there is no third `|` follows from the names: one
//! that contains a `|` is never interned.
//!
//! Names are guessed before they are looked up: a line of a program accesses the same field again
//! or walks through an array, so the variable it accesses next is likely the last one, or as many
//! ids further as before. A right guess costs one comparison of bytes that lie next to those of
//! the last one, where a look-up in a large table would wait for the memory.

mod writer;

pub(crate) use writer::StdWriter;

use super::lines::{BadLine, Lines};
use crate::Batch;
use crate::event::{Event, Op, SiteId, ThreadId, VarId};
use crate::intern::Intern;
use crate::names::{Definition, Frame, Site};
use hashbrown::HashMap;

/// Locations below this are found in a table, others in a map.
const SMALL: usize = 1 << 16;

const SHAPE: &str = "`thread|op|loc`";
const OPS: &str = "r(x), w(x), acq(l), rel(l), fork(t), join(t), begin or end";
const LOC: &str = "a location, a number below 2^32, after the last `|`";

/// The reader of `std`.
#[derive(Debug, Default)]
pub(crate) struct Std {
    intern: Intern,
    /// The thread of the last line, which is mostly that of the next.
    thread: ThreadId,
    thread_name: Vec<u8>,
    /// What is known about each small location.
    small: Vec<Place>,
    large: HashMap<u32, SiteId>,
    sites: u32,
}

/// A location: its site, and the variable it will likely access next.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The unknown one if the location is new.
    site: SiteId,
    last: u32,
    stride: u32,
    /// The stride of the last wrong guess; seen twice in a row, it is believed. One jump, from
    /// the end of an array to its beginning, does not count.
    doubt: u32,
}

impl Place {
    #[inline]
    fn guess(&self) -> VarId {
        VarId(self.last.wrapping_add(self.stride))
    }

    /// Learns that the guess was wrong.
    #[inline]
    fn correct(&mut self, var: VarId) {
        let stride = var.0.wrapping_sub(self.last);
        if stride == self.doubt {
            self.stride = stride;
        }
        self.doubt = stride;
        self.last = var.0;
    }
}

impl Std {
    /// Whether a line is surely an event of this format.
    pub(crate) fn recognises(line: &[u8]) -> bool {
        Std::default().line(line, &mut Batch::default()).is_ok()
    }

    #[inline]
    fn thread(&mut self, name: &[u8], batch: &mut Batch) -> Result<ThreadId, BadLine> {
        // At first the last thread has no name, which is not to be taken for one.
        if name != self.thread_name || name.is_empty() {
            self.thread = self.intern.thread(name, batch)?;
            self.thread_name.clear();
            self.thread_name.extend_from_slice(name);
        }
        Ok(self.thread)
    }

    #[inline]
    fn site(&mut self, loc: u32, batch: &mut Batch) -> SiteId {
        match self.small.get(loc as usize) {
            Some(place) if place.site != SiteId::UNKNOWN => place.site,
            _ => self.uncommon_site(loc, batch),
        }
    }

    #[cold]
    fn uncommon_site(&mut self, loc: u32, batch: &mut Batch) -> SiteId {
        let site = if (loc as usize) < SMALL {
            if self.small.len() <= loc as usize {
                self.small.resize(loc as usize + 1, Place::default());
            }
            &mut self.small[loc as usize].site
        } else {
            self.large.entry(loc).or_default()
        };
        if *site == SiteId::UNKNOWN {
            // There are no more locations than ids, but the first id is taken.
            self.sites = self.sites.saturating_add(1);
            *site = SiteId(self.sites);
            let frame = Frame {
                line: loc,
                ..Frame::default()
            };
            let frames = vec![frame];
            batch.definitions.push(Definition::Site(Site {
                frames,
                ..Site::default()
            }));
        }
        *site
    }

    #[inline]
    fn var(&mut self, name: &[u8], loc: u32, batch: &mut Batch) -> Result<VarId, BadLine> {
        let Some(place) = self.small.get_mut(loc as usize) else {
            return Ok(self.intern.var(name, false, batch)?);
        };
        let mut var = place.guess();
        if self.intern.is_var(var, name) {
            place.last = var.0;
        } else {
            var = self.intern.var(name, false, batch)?;
            place.correct(var);
        }
        Ok(var)
    }

    fn uncommon_op(&mut self, field: &[u8], batch: &mut Batch) -> Result<Op, BadLine> {
        if memchr::memchr3(b'|', b' ', b'\t', field).is_some() {
            return Err(BadLine::new(SHAPE, field));
        }
        let open = memchr::memchr(b'(', field);
        let op = &field[..open.unwrap_or(field.len())];
        let argument = match open {
            Some(open) => Some(
                field[open + 1..]
                    .strip_suffix(b")")
                    .ok_or_else(|| BadLine::new("`)` at the end of the operation", field))?,
            ),
            None => None,
        };
        if op.starts_with(b"begin") {
            let label = argument.unwrap_or_default();
            return Ok(Op::Begin(self.intern.function(label, batch)?));
        }
        if op.starts_with(b"end") {
            return Ok(Op::End);
        }
        let Some(argument) = argument else {
            return Err(BadLine::new(OPS, field));
        };
        Ok(match op {
            b"acq" => Op::Acquire(self.intern.lock(argument, batch)?),
            b"rel" => Op::Release(self.intern.lock(argument, batch)?),
            b"fork" => Op::Fork(self.intern.thread(argument, batch)?),
            b"join" => Op::Join(self.intern.thread(argument, batch)?),
            _ => return Err(BadLine::new(OPS, field)),
        })
    }
}

impl Lines for Std {
    #[inline]
    fn line(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), BadLine> {
        let Some(bar) = line.iter().position(|&b| b == b'|') else {
            return Err(BadLine::new(SHAPE, line));
        };
        let (end, loc) = location(&line[bar + 1..])?;
        let field = &line[bar + 1..bar + 1 + end];
        let thread = self.thread(&line[..bar], batch)?;
        let op = match field {
            [b'r', b'(', name @ .., b')'] => Op::Read(self.var(name, loc, batch)?),
            [b'w', b'(', name @ .., b')'] => Op::Write(self.var(name, loc, batch)?),
            _ => self.uncommon_op(field, batch)?,
        };
        let site = self.site(loc, batch);
        batch.events.push(Event { thread, site, op });
        Ok(())
    }
}

/// The number behind the last `|`, and where that is.
#[inline]
fn location(rest: &[u8]) -> Result<(usize, u32), BadLine> {
    let mut at = rest.len();
    let (mut loc, mut unit) = (0_u64, 1_u64);
    while at > 0 && rest[at - 1].is_ascii_digit() {
        at -= 1;
        let digit = u64::from(rest[at] - b'0');
        if unit <= 1_000_000_000 {
            loc += digit * unit;
            unit *= 10;
        } else if digit != 0 {
            return Err(bad_location(rest));
        }
    }
    match (rest[..at].last(), u32::try_from(loc)) {
        (Some(b'|'), Ok(loc)) if at < rest.len() => Ok((at - 1, loc)),
        _ => Err(bad_location(rest)),
    }
}

#[cold]
fn bad_location(rest: &[u8]) -> BadLine {
    match memchr::memrchr(b'|', rest) {
        Some(bar) => BadLine::new(LOC, &rest[bar + 1..]),
        None => BadLine::new(SHAPE, rest),
    }
}
