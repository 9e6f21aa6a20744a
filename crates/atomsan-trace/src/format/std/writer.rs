//! Writing `std`.
//!
//! The format knows eight operations. An event that is not one of them is left out and counted,
//! never written as something else: a wait is not a release, and an atomic load is not a read.
//!
//! Names must survive: different names of one kind stay different, and what the format cannot
//! spell (white space, `|`, nothing at all) is spelt otherwise. A site that is only a number, as
//! those of `std` are, is written as that number, any other as its id.

use crate::Batch;
use crate::event::{Event, FunctionId, Op, ThreadId};
use crate::format::atrace::ops;
use crate::intern::Interner;
use crate::names::{Definition, Site};
use crate::write::Unwritten;
use hashbrown::HashMap;
use std::io::{self, Write};

/// The text that is gathered before it is written.
const BLOCK: usize = 64 << 10;

/// Writes a trace as RAPID's text.
#[derive(Debug)]
pub(crate) struct StdWriter<W: Write> {
    out: W,
    text: Vec<u8>,
    threads: Spellings,
    vars: Spellings,
    locks: Spellings,
    functions: Vec<Box<str>>,
    /// The number of each site; the unknown one is 0.
    sites: Vec<u32>,
    /// The labels of the regions each thread is in, so that `end` can say which one it ends.
    open: HashMap<ThreadId, Vec<FunctionId>>,
    events: u64,
    left_out: [u64; ops::COUNT],
}

/// The names of one kind, each different from all others.
#[derive(Debug)]
struct Spellings {
    kind: &'static str,
    names: Vec<Box<str>>,
    taken: Interner,
}

impl Spellings {
    fn new(kind: &'static str) -> Spellings {
        Spellings {
            kind,
            names: Vec::new(),
            taken: Interner::default(),
        }
    }

    fn define(&mut self, name: &str) {
        let id = self.names.len();
        let mut spelling = spell(name);
        if spelling.is_empty() {
            spelling = format!("{}#{id}", self.kind);
        }
        while !self.taken.insert(spelling.as_bytes()) {
            spelling = format!("{spelling}#{id}");
        }
        self.names.push(spelling.into());
    }

    fn put(&self, text: &mut Vec<u8>, id: u32) {
        match self.names.get(id as usize) {
            Some(name) => text.extend_from_slice(name.as_bytes()),
            None => {
                // Writing to a vector cannot fail.
                let _ = write!(text, "{}#{id}", self.kind);
            }
        }
    }
}

/// A name without white space and `|`.
fn spell(name: &str) -> String {
    let mut spelling = String::with_capacity(name.len());
    for c in name.chars() {
        if c == '|' || c.is_whitespace() {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                spelling.push_str(&format!("\\x{byte:02x}"));
            }
        } else {
            spelling.push(c);
        }
    }
    spelling
}

/// The number of a site that is nothing else.
fn bare(site: &Site) -> Option<u32> {
    match &site.frames[..] {
        [frame] if frame.function.is_none() && frame.file.is_empty() && frame.column == 0 => {
            Some(frame.line)
        }
        _ => None,
    }
}

fn put_number(text: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

impl<W: Write> StdWriter<W> {
    /// Begins a trace.
    pub(crate) fn new(out: W) -> Self {
        StdWriter {
            out,
            text: Vec::with_capacity(2 * BLOCK),
            threads: Spellings::new("thread"),
            vars: Spellings::new("var"),
            locks: Spellings::new("lock"),
            functions: Vec::new(),
            sites: vec![0],
            open: HashMap::new(),
            events: 0,
            left_out: [0; ops::COUNT],
        }
    }

    /// Appends names and events.
    pub(crate) fn write(&mut self, batch: &Batch) -> io::Result<()> {
        for definition in &batch.definitions {
            match definition {
                Definition::Thread(name) => self.threads.define(name),
                Definition::Var(var) => self.vars.define(&var.name),
                Definition::Lock(name) => self.locks.define(name),
                Definition::Function(name) => self.functions.push(spell(name).into()),
                Definition::Site(site) => {
                    let id = self.sites.len() as u32;
                    self.sites.push(bare(site).unwrap_or(id));
                }
                Definition::Object(_) | Definition::Program(_) => {}
            }
        }
        for event in &batch.events {
            self.event(event);
            if self.text.len() >= BLOCK {
                self.out.write_all(&self.text)?;
                self.text.clear();
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) {
        let (op, target): (&[u8], _) = match event.op {
            Op::Read(x) => (b"|r(", Some((&self.vars, x.0))),
            Op::Write(x) => (b"|w(", Some((&self.vars, x.0))),
            Op::Acquire(l) => (b"|acq(", Some((&self.locks, l.0))),
            Op::Release(l) => (b"|rel(", Some((&self.locks, l.0))),
            Op::Fork(t) => (b"|fork(", Some((&self.threads, t.0))),
            Op::Join(t) => (b"|join(", Some((&self.threads, t.0))),
            Op::Begin(_) => (b"|begin", None),
            Op::End => (b"|end", None),
            other => {
                self.left_out[usize::from(ops::split(other).0)] += 1;
                return;
            }
        };
        self.events += 1;
        let text = &mut self.text;
        self.threads.put(text, event.thread.0);
        text.extend_from_slice(op);
        if let Some((names, id)) = target {
            names.put(text, id);
            text.push(b')');
        }
        self.label(event);
        self.text.push(b'|');
        let number = self.sites.get(event.site.index()).copied();
        put_number(&mut self.text, number.unwrap_or(event.site.0));
        self.text.push(b'\n');
    }

    /// The label of a region that begins or ends.
    fn label(&mut self, event: &Event) {
        let label = match event.op {
            Op::Begin(label) => {
                self.open.entry(event.thread).or_default().push(label);
                Some(label)
            }
            Op::End => self.open.get_mut(&event.thread).and_then(Vec::pop),
            _ => None,
        };
        let Some(label) = label else { return };
        match self.functions.get(label.index()) {
            Some(name) if name.is_empty() => {}
            Some(name) => {
                self.text.push(b'(');
                self.text.extend_from_slice(name.as_bytes());
                self.text.push(b')');
            }
            None => {
                // Writing to a vector cannot fail.
                let _ = write!(self.text, "(function#{})", label.0);
            }
        }
    }

    /// Ends the trace: what it was written to, how many events are in it, and which are not.
    pub(crate) fn finish(mut self) -> io::Result<(W, u64, Unwritten)> {
        self.out.write_all(&self.text)?;
        let counts = ops::NAMES.into_iter().zip(self.left_out);
        let left_out = counts.filter(|&(_, count)| count > 0).collect();
        Ok((self.out, self.events, left_out))
    }
}
