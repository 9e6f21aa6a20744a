//! `rr`: RoadRunner's log.
//!
//! Lines `@ Op(tid,target)  State  File.java:line:col`, where `Op` is one of `Rd Wr ARd AWr`
//! (plain accesses), `VRd VWr` (volatile ones), `Acquire Release Start Join Enter Exit`; every
//! other line is not an event and is passed over. A target has no white space in it, but it may
//! have parentheses, so it reaches to the `)` in front of the next white space.
//!
//! Only accesses say where they are. The site of every event also has the function the thread is
//! in, which the reader follows through `Enter` and `Exit`, so even a lock operation, which has
//! no line in the log, has a place.

use super::lines::{BadLine, Lines};
use crate::Batch;
use crate::event::{Event, FunctionId, Op, SiteId, ThreadId};
use crate::intern::{Intern, text};
use crate::names::Frame;

const SHAPE: &str = "`@ Op(tid,target)`";

/// The reader of `rr`.
#[derive(Debug, Default)]
pub(crate) struct Rr {
    intern: Intern,
    /// The functions each thread is in, innermost last.
    stacks: Vec<Vec<FunctionId>>,
    key: Vec<u8>,
}

/// The operation of a line that is an event, and what follows its name.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_prefix(b"@")?;
    if !line.first()?.is_ascii_whitespace() {
        return None;
    }
    let line = line.trim_ascii_start();
    let open = line.iter().position(|b| !b.is_ascii_alphabetic())?;
    let (op, rest) = line.split_at(open);
    let known = matches!(
        op,
        b"Rd"
            | b"Wr"
            | b"ARd"
            | b"AWr"
            | b"VRd"
            | b"VWr"
            | b"Acquire"
            | b"Release"
            | b"Start"
            | b"Join"
            | b"Enter"
            | b"Exit"
    );
    known.then_some((op, rest))
}

impl Rr {
    /// Whether a line is surely an event of this format.
    pub(crate) fn recognises(line: &[u8]) -> bool {
        split(line).is_some() && Rr::default().line(line, &mut Batch::default()).is_ok()
    }

    fn function(&self, thread: ThreadId) -> Option<FunctionId> {
        self.stacks.get(thread.index())?.last().copied()
    }

    /// The place `location` (`File.java:line:col`, or nothing) in a function.
    fn site(
        &mut self,
        location: &[u8],
        function: Option<FunctionId>,
        batch: &mut Batch,
    ) -> Result<SiteId, BadLine> {
        if location.is_empty() && function.is_none() {
            return Ok(SiteId::UNKNOWN);
        }
        self.key.clear();
        self.key.extend_from_slice(location);
        self.key.push(b' ');
        if let Some(function) = function {
            self.key.extend_from_slice(&function.0.to_le_bytes());
        }
        let frame = || {
            let (file, line, column) = split_location(location);
            Frame {
                function,
                file: text(file).into(),
                line,
                column,
            }
        };
        Ok(self.intern.site(&self.key, batch, frame)?)
    }

    fn enter(&mut self, thread: ThreadId, function: FunctionId) {
        if self.stacks.len() <= thread.index() {
            self.stacks.resize(thread.index() + 1, Vec::new());
        }
        self.stacks[thread.index()].push(function);
    }

    /// Leaves a function and what is above it, as `event.rs` defines it.
    fn exit(&mut self, thread: ThreadId, function: FunctionId) {
        if let Some(stack) = self.stacks.get_mut(thread.index())
            && let Some(at) = stack.iter().rposition(|&f| f == function)
        {
            stack.truncate(at);
        }
    }
}

/// File, line and column of `File.java:line:col`.
fn split_location(location: &[u8]) -> (&[u8], u32, u32) {
    let number = |digits: &[u8]| str::from_utf8(digits).ok()?.parse().ok();
    let split = || {
        let colon = memchr::memrchr(b':', location)?;
        let column = number(&location[colon + 1..])?;
        let rest = &location[..colon];
        let colon = memchr::memrchr(b':', rest)?;
        Some((&rest[..colon], number(&rest[colon + 1..])?, column))
    };
    split().unwrap_or((location, 0, 0))
}

impl Lines for Rr {
    fn line(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), BadLine> {
        let Some((op, rest)) = split(line) else {
            return Ok(());
        };
        let bad = || BadLine::new(SHAPE, line);
        let end = rest
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(rest.len());
        let (arguments, rest) = rest.split_at(end);
        let arguments = arguments
            .strip_prefix(b"(")
            .and_then(|a| a.strip_suffix(b")"))
            .ok_or_else(bad)?;
        let comma = memchr::memchr(b',', arguments).ok_or_else(bad)?;
        let (name, target) = (&arguments[..comma], &arguments[comma + 1..]);

        let thread = self.intern.thread(name, batch)?;
        let within = self.function(thread);
        let intern = &mut self.intern;
        let mut location = &b""[..];
        let op = match op {
            b"Acquire" => Op::Acquire(intern.lock(target, batch)?),
            b"Release" => Op::Release(intern.lock(target, batch)?),
            b"Start" => Op::Fork(intern.thread(target, batch)?),
            b"Join" => Op::Join(intern.thread(target, batch)?),
            b"Enter" => {
                let function = named(target).and_then(|t| Ok(intern.function(t, batch)?))?;
                self.enter(thread, function);
                Op::Enter(function)
            }
            b"Exit" => {
                let function = named(target).and_then(|t| Ok(intern.function(t, batch)?))?;
                self.exit(thread, function);
                Op::Exit(function)
            }
            access => {
                let volatile = access[0] == b'V';
                let var = intern.var(target, volatile, batch)?;
                let rest = rest.trim_ascii();
                // The state comes first and the location last.
                if let Some(space) = rest.iter().rposition(u8::is_ascii_whitespace) {
                    location = &rest[space + 1..];
                }
                match (volatile, access.ends_with(b"Rd")) {
                    (false, true) => Op::Read(var),
                    (false, false) => Op::Write(var),
                    (true, true) => Op::AtomicLoad(var),
                    (true, false) => Op::AtomicStore(var),
                }
            }
        };
        let site = self.site(location, within, batch)?;
        batch.events.push(Event { thread, site, op });
        Ok(())
    }
}

fn named(target: &[u8]) -> Result<&[u8], BadLine> {
    if target.is_empty() {
        return Err(BadLine::new("a function's name", target));
    }
    Ok(target)
}
