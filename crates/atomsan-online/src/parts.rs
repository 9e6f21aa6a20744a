//! The parts of logs that belong to the transactions of a component: what a [walk](Walk) through the chunks of a slot
//! finds.
//!
//! Each transaction is a part that stands by itself: a snapshot of its thread, and its records. The snapshot says all that
//! the thread is in the middle of and that changes the meaning of what it does: its calls, and what it initialises. What conflicts
//! with nothing in the component is left out on the way ([`Uses`]), and a part goes on behind
//! such a gap, because no call is left out that it is in. A call in which nothing is left goes too. Of a
//! transaction without any conflict there are only the edges: others are in order because of them.

use crate::uses::{self, Uses};
use crate::walk::{Stretch, Walk};
use atomsan_recording::file::{Piece, Record};
use atomsan_recording::format::Kind;

/// A part of a log that belongs to one transaction, as a piece of a recording.
#[derive(Debug)]
pub(crate) struct Part {
    slot: usize,
    position: u64,
    previous: u64,
    snapshot: Vec<u64>,
    words: Vec<u64>,
}

impl Part {
    pub(crate) fn piece(&self) -> Piece<'_> {
        Piece {
            slot: self.slot,
            position: self.position,
            previous: self.previous,
            snapshot: &self.snapshot,
            words: &self.words,
        }
    }
}

/// What has been found of a component.
#[derive(Debug, Default)]
pub(crate) struct Found {
    parts: Vec<Part>,
    /// Where the parts of the current transaction start.
    start: usize,
    /// Whether it has a conflict, and whether any has had one.
    conflict: bool,
    conflicts: bool,
    /// Its edges, each with its position.
    edges: Vec<(u64, [u64; 2])>,
    /// How many calls the last record and those before it are that nothing has happened in.
    calls: usize,
}

impl Found {
    /// The current transaction ends. If it has no conflict, only the order it has put itself into is left.
    pub(crate) fn end_transaction(&mut self) {
        if !std::mem::take(&mut self.conflict) && self.start < self.parts.len() {
            let mut transaction = self.parts.drain(self.start..);
            let first = transaction.next();
            drop(transaction);
            let mut previous = 0;
            let mut first = first.filter(|_| !self.edges.is_empty());
            for &(position, words) in &self.edges {
                let snapshot = first.take().map(|first| (first.slot, first.snapshot));
                let slot = self.parts.last().map_or(0, |last| last.slot);
                let (slot, snapshot) = snapshot.unwrap_or((slot, Vec::new()));
                self.parts.push(Part {
                    slot,
                    position,
                    previous,
                    snapshot,
                    words: words.to_vec(),
                });
                previous = position;
            }
        }
        self.edges.clear();
        self.start = self.parts.len();
        self.calls = 0;
    }

    /// All of it; nothing if there is no conflict.
    pub(crate) fn into_parts(self) -> Vec<Part> {
        if self.conflicts {
            self.parts
        } else {
            Vec::new()
        }
    }

    /// Leaves the innermost call out, in which nothing has happened; the position of the last part that is
    /// left of the transaction.
    fn forget_call(&mut self) -> Option<u64> {
        self.calls -= 1;
        let last = self.parts.last_mut()?;
        let len = last.words.len().saturating_sub(Kind::Enter.words());
        last.words.truncate(len);
        if !last.words.is_empty() {
            return Some(last.position);
        }
        let last = self.parts.pop()?;
        (last.previous != 0).then_some(last.previous)
    }
}

impl Walk {
    /// Adds a record to the parts of all components that it belongs to.
    pub(crate) fn add(&mut self, record: &Record, words: &[u64], uses: &Uses, found: &mut [Found]) {
        for index in 0..self.active.len() {
            let active = self.active[index];
            let Stretch {
                component,
                open,
                last,
                ..
            } = self.stretches[active];
            let found = &mut found[component];
            let part = uses.part(component, record);
            if part == uses::Part::None {
                // A part has no gaps.
                self.stretches[active].open = None;
                continue;
            }
            if record.kind == Kind::Exit && found.calls > 0 {
                let stretch = &mut self.stretches[active];
                (stretch.open, stretch.last) = (None, found.forget_call());
                continue;
            }
            if part == uses::Part::Conflict {
                (found.conflict, found.conflicts) = (true, true);
            }
            if let (Kind::Edge, &[first, second]) = (record.kind, words) {
                found.edges.push((record.position, [first, second]));
            }
            found.calls = if record.kind == Kind::Enter {
                found.calls + 1
            } else {
                0
            };
            let parts = &mut found.parts;
            let open = open.unwrap_or_else(|| {
                parts.push(Part {
                    slot: self.slot,
                    position: record.position,
                    previous: last.unwrap_or(0),
                    // What goes on needs none: no call is left out that it is in.
                    snapshot: match last {
                        None => self.snapshot(),
                        Some(_) => Vec::new(),
                    },
                    words: Vec::new(),
                });
                parts.len() - 1
            });
            let stretch = &mut self.stretches[active];
            if stretch.open.replace(open).is_none() {
                stretch.last = Some(record.position);
            }
            parts[open].words.extend_from_slice(words);
        }
    }
}
