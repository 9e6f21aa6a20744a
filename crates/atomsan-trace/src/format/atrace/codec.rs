//! Definitions and events as bytes.

use super::ops;
use crate::event::{Event, FunctionId, ObjectId, Op, SiteId, ThreadId};
use crate::names::{Definition, Frame, Site, Var};

const THREAD: u8 = 1 << 5;
const SITE: u8 = 1 << 6;
/// The kind of a definition that is a site.
const SITES: u8 = 5;
/// The same, of a site with [`Site::looked_again`].
const LOOKED_AGAIN: u8 = 6;
/// The kind of definition that is the program's name.
const PROGRAM: u8 = 7;
const TARGET: u8 = 1 << 7;
const OP: u8 = THREAD - 1;

const _: () = assert!(ops::COUNT <= OP as usize + 1);

/// Appends a varint.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_string(out: &mut Vec<u8>, string: &str) {
    // A string that does not fit into a chunk is refused before it gets here.
    put(out, string.len() as u32);
    out.extend_from_slice(string.as_bytes());
}

/// Bytes that are being decoded. `None` is: these are not what they should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Input { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    /// A varint.
    #[inline]
    pub(super) fn varint(&mut self) -> Option<u32> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(first.into());
        }
        self.long_varint(first)
    }

    fn long_varint(&mut self, first: u8) -> Option<u32> {
        let mut value = u32::from(first & 0x7f);
        for shift in [7, 14, 21, 28] {
            let byte = self.byte()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0xf {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn string(&mut self) -> Option<Box<str>> {
        let length = self.varint()? as usize;
        let (string, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(str::from_utf8(string).ok()?.into())
    }

    /// A definition, and the index of its kind, if it gets an id.
    pub(super) fn definition(&mut self) -> Option<(Option<usize>, Definition)> {
        let kind = self.byte()?;
        let definition = match kind {
            0 => Definition::Thread(self.string()?),
            1 => Definition::Var(Var {
                name: self.string()?,
                object: self.varint()?.checked_sub(1).map(ObjectId),
                volatile: match self.byte()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            }),
            2 => Definition::Lock(self.string()?),
            3 => Definition::Function(self.string()?),
            4 => Definition::Object(self.string()?),
            SITES | LOOKED_AGAIN => {
                let count = self.varint()? as usize;
                // A frame takes four bytes at least, and 32 in memory.
                if count > self.rest.len() / 4 {
                    return None;
                }
                let mut frames = Vec::with_capacity(count);
                for _ in 0..count {
                    frames.push(self.frame()?);
                }
                let looked_again = match kind {
                    LOOKED_AGAIN => Some(SiteId(self.varint()?)),
                    _ => None,
                };
                Definition::Site(Site {
                    frames,
                    looked_again,
                })
            }
            PROGRAM => Definition::Program(self.string()?),
            _ => return None,
        };
        Some((index(kind), definition))
    }

    fn frame(&mut self) -> Option<Frame> {
        Some(Frame {
            function: self.varint()?.checked_sub(1).map(FunctionId),
            file: self.string()?,
            line: self.varint()?,
            column: self.varint()?,
        })
    }
}

/// The index of a kind of definitions that get ids.
fn index(kind: u8) -> Option<usize> {
    (kind != PROGRAM).then_some(kind.min(SITES).into())
}

/// Appends a definition and returns the index of its kind, if it gets an id.
pub(super) fn put_definition(out: &mut Vec<u8>, definition: &Definition) -> Option<usize> {
    let reference = |id: Option<u32>| id.and_then(|id| id.checked_add(1)).unwrap_or(0);
    let kind = match definition {
        Definition::Thread(_) => 0,
        Definition::Var(_) => 1,
        Definition::Lock(_) => 2,
        Definition::Function(_) => 3,
        Definition::Object(_) => 4,
        Definition::Site(site) if site.looked_again.is_some() => LOOKED_AGAIN,
        Definition::Site(_) => SITES,
        Definition::Program(_) => PROGRAM,
    };
    out.push(kind);
    match definition {
        Definition::Thread(name)
        | Definition::Lock(name)
        | Definition::Function(name)
        | Definition::Object(name)
        | Definition::Program(name) => put_string(out, name),
        Definition::Var(var) => {
            put_string(out, &var.name);
            put(out, reference(var.object.map(|o| o.0)));
            out.push(var.volatile.into());
        }
        Definition::Site(site) => {
            put(out, site.frames.len() as u32);
            for frame in &site.frames {
                put(out, reference(frame.function.map(|f| f.0)));
                put_string(out, &frame.file);
                put(out, frame.line);
                put(out, frame.column);
            }
            if let Some(look) = site.looked_again {
                put(out, look.0);
            }
        }
    }
    index(kind)
}

/// The three tables that predict the next event, the same in the writer and in the reader.
#[derive(Debug)]
pub(super) struct Predictor {
    thread: u32,
    last_site: [u32; 1 << 8],
    next_site: [u32; 1 << 12],
    last_target: [u32; 1 << 12],
}

impl Default for Predictor {
    fn default() -> Self {
        Predictor {
            thread: 0,
            last_site: [0; 1 << 8],
            next_site: [0; 1 << 12],
            last_target: [0; 1 << 12],
        }
    }
}

/// `to - from`, zigzag-coded.
#[inline]
fn difference(to: u32, from: u32) -> u32 {
    let difference = to.wrapping_sub(from) as i32;
    ((difference << 1) ^ (difference >> 31)) as u32
}

/// The number that differs by `difference` from `from`.
#[inline]
fn differing(difference: u32, from: u32) -> u32 {
    from.wrapping_add((difference >> 1) ^ (difference & 1).wrapping_neg())
}

#[inline]
fn target_slot(site: u32, number: u8) -> usize {
    ((site ^ (u32::from(number) << 7)) & 0xfff) as usize
}

impl Predictor {
    /// Appends an event.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, event: &Event) {
        let (number, target) = ops::split(event.op);
        let (thread, site) = (event.thread.0, event.site.0);
        let at = out.len();
        let mut tag = number;
        out.push(0);
        if thread != self.thread {
            self.thread = thread;
            tag |= THREAD;
            put(out, thread);
        }
        let last_site = &mut self.last_site[(thread & 0xff) as usize];
        let next_site = &mut self.next_site[(*last_site & 0xfff) as usize];
        if site != *next_site {
            tag |= SITE;
            put(out, difference(site, *last_site));
        }
        *next_site = site;
        *last_site = site;
        if !matches!(event.op, Op::End | Op::Yield) {
            let last_target = &mut self.last_target[target_slot(site, number)];
            if target != *last_target {
                tag |= TARGET;
                put(out, difference(target, *last_target));
            }
            *last_target = target;
        }
        if let Op::RefStore { object, .. } = event.op {
            put(out, object.0);
        }
        out[at] = tag;
    }

    /// Takes an event from the input.
    #[inline]
    pub(super) fn event(&mut self, input: &mut Input<'_>) -> Option<Event> {
        let tag = input.byte()?;
        let number = tag & OP;
        if tag & THREAD != 0 {
            self.thread = input.varint()?;
        }
        let last_site = &mut self.last_site[(self.thread & 0xff) as usize];
        let next_site = &mut self.next_site[(*last_site & 0xfff) as usize];
        let site = match tag & SITE {
            0 => *next_site,
            _ => differing(input.varint()?, *last_site),
        };
        *next_site = site;
        *last_site = site;
        // Operations without a target have a slot that stays 0.
        let last_target = &mut self.last_target[target_slot(site, number)];
        if tag & TARGET != 0 {
            *last_target = differing(input.varint()?, *last_target);
        }
        let target = *last_target;
        let second = match number {
            ops::REF_STORE => input.varint()?,
            _ => 0,
        };
        Some(Event {
            thread: ThreadId(self.thread),
            site: SiteId(site),
            op: ops::join(number, target, second)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        for value in [0, 1, 127, 128, 300, 1 << 14, 1 << 21, 1 << 28, u32::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut input = Input::new(&bytes);
            assert_eq!(input.varint(), Some(value));
            assert!(input.is_empty());
            assert_eq!(Input::new(&bytes[..bytes.len() - 1]).varint(), None);
        }
        assert_eq!(Input::new(&[0xff; 9]).varint(), None);
        assert_eq!(Input::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint(), None);
    }

    #[test]
    fn differences() {
        let numbers = [0, 1, 2, 1000, u32::MAX / 2, u32::MAX - 1, u32::MAX];
        for from in numbers {
            for to in numbers {
                assert_eq!(differing(difference(to, from), from), to);
            }
        }
        assert_eq!(difference(4, 5), 1);
        assert_eq!(difference(6, 5), 2);
    }
}
