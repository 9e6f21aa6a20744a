//! Transactions by their logs, and the imprecise graph between them.
//!
//! What is known of a transaction is where it is in its log, and the words of that part of the log.
//! It becomes a node of the graph when it has an edge to something that is alive, or when the
//! thread's transaction before it is. A transaction that ends without being a node can be in no
//! cycle, since nothing that is open reaches it, and is dropped at once; nodes that nothing open
//! reaches any more are swept.

use atomsan_engines::Occurrence;
use atomsan_engines::doublechecker::idg::{Idg, Transaction};
use atomsan_engines::doublechecker::log::Tx;
use atomsan_recording::file::Piece;
use atomsan_recording::format::{Kind, first_word};
use atomsan_trace::{Event, FunctionId, Op, SiteId, StackId, ThreadId};
use std::collections::VecDeque;

/// How many of the outermost and of the innermost functions a snapshot names.
const SNAPSHOT: usize = 128;

/// A part of a log that has no gap.
#[derive(Debug, Default)]
struct Part {
    position: u64,
    previous: u64,
    snapshot: Vec<u64>,
    words: Vec<u64>,
}

/// The part of a log that is one transaction.
#[derive(Debug, Default)]
pub(crate) struct Range {
    slot: usize,
    parts: Vec<Part>,
}

impl Range {
    fn weight(&self) -> usize {
        let words = |part: &Part| part.words.len() + part.snapshot.len();
        self.parts.iter().map(words).sum()
    }
}

/// The functions that a thread is in: what a snapshot is made of.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The thread's number and its stack, as the log has them.
    pub(crate) thread: [u64; 3],
    /// Call and function of each.
    pub(crate) frames: Vec<(u64, u64)>,
}

impl Calls {
    fn snapshot(&self, into: &mut Vec<u64>) {
        let [number, low, size] = self.thread;
        into.extend([first_word(Kind::Continue, 0, number), 0, low, size]);
        let mut enter = |frames: &[(u64, u64)]| {
            for &(call, function) in frames {
                into.extend([first_word(Kind::Enter, 0, call), function]);
            }
        };
        let len = self.frames.len();
        if len <= 2 * SNAPSHOT {
            return enter(&self.frames);
        }
        enter(&self.frames[..SNAPSHOT]);
        let unnamed = (len - 2 * SNAPSHOT) as u64;
        into.extend([first_word(Kind::Unnamed, 0, unnamed), 0]);
        for &(call, function) in &self.frames[len - SNAPSHOT..] {
            into.extend([first_word(Kind::Enter, 0, call), function]);
        }
    }
}

/// The transactions of one slot.
#[derive(Debug, Default)]
struct Slot {
    /// Where the open one starts.
    start: u64,
    /// Whether it is regular; otherwise it is a merged unary one.
    region: Option<FunctionId>,
    /// The open one, if it is a node.
    open: Option<Tx>,
    /// The one before it, if it was a node.
    last: Option<Tx>,
    /// What the open one has logged.
    range: Range,
    /// Where the nodes before it start.
    recent: VecDeque<(u64, Tx)>,
}

/// All transactions that are alive.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    slots: Vec<Slot>,
    idg: Idg,
    /// What each node has logged, by its place in the graph.
    ranges: Vec<Range>,
    /// Words that are kept, of open transactions and of nodes.
    kept: usize,
    /// How much makes sweeping worthwhile.
    limit: usize,
    nodes: usize,
    spare: Vec<Vec<u64>>,
    clock: u64,
    /// How much was logged by regular transactions that have ended since components were looked
    /// for.
    unchecked: usize,
    /// How much the components had that were checked last.
    checked: usize,
    pub(crate) counts: Counts,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) transactions: u64,
    pub(crate) edges: u64,
    pub(crate) components: u64,
    pub(crate) forgotten: u64,
}

const LEAST_LIMIT: usize = 1 << 16;

impl Transactions {
    pub(crate) fn resize(&mut self, slots: usize) {
        if self.slots.len() < slots {
            self.slots.resize_with(slots, Slot::default);
        }
    }

    fn is_alive(&self, tx: Option<Tx>) -> bool {
        tx.is_some_and(|tx| self.idg.get(tx).is_some())
    }

    /// Whether what the open transaction logs may be needed.
    pub(crate) fn keeps(&self, slot: usize) -> bool {
        let slot = &self.slots[slot];
        slot.region.is_some() || slot.open.is_some()
    }

    /// Keeps words of a log.
    #[inline]
    pub(crate) fn keep(&mut self, slot: usize, position: u64, words: &[u64], calls: &Calls) {
        let number = slot;
        let slot = &mut self.slots[number];
        let goes_on = slot
            .range
            .parts
            .last()
            .is_some_and(|part| part.position + 8 * part.words.len() as u64 == position);
        if !goes_on {
            let mut part = Part {
                position,
                previous: slot.range.parts.last().map_or(0, |part| part.position),
                snapshot: self.spare.pop().unwrap_or_default(),
                words: self.spare.pop().unwrap_or_default(),
            };
            calls.snapshot(&mut part.snapshot);
            self.kept += part.snapshot.len();
            slot.range.slot = number;
            slot.range.parts.push(part);
        }
        if let Some(part) = slot.range.parts.last_mut() {
            part.words.extend_from_slice(words);
            self.kept += words.len();
        }
    }

    fn drop_range(&mut self, range: &mut Range) {
        self.kept -= range.weight();
        for mut part in range.parts.drain(..) {
            for mut words in [std::mem::take(&mut part.words), part.snapshot] {
                words.clear();
                // A buffer that has become large once is not kept for ever.
                if self.spare.len() < 256 && words.capacity() <= 1 << 14 {
                    self.spare.push(words);
                }
            }
        }
    }

    /// Opens a transaction; the slot has none open.
    pub(crate) fn open(&mut self, slot: usize, position: u64, region: Option<FunctionId>) {
        self.counts.transactions += u64::from(region.is_some());
        let alive = self.is_alive(self.slots[slot].last);
        self.slots[slot].start = position;
        self.slots[slot].region = region;
        if alive {
            self.node(slot);
        }
    }

    /// The open transaction of a slot as a node.
    fn node(&mut self, slot: usize) -> Tx {
        if let Some(tx) = self.slots[slot].open {
            return tx;
        }
        self.clock += 1;
        let thread = ThreadId(slot as u32);
        let began = Occurrence {
            index: self.clock,
            stack: StackId::EMPTY,
            event: Event {
                thread,
                site: SiteId::UNKNOWN,
                op: Op::Yield,
            },
        };
        let region = self.slots[slot].region;
        let tx = (self.idg).open(Transaction::new(region, SiteId::UNKNOWN, began));
        self.nodes += 1;
        if let Some(last) = self.slots[slot].last
            && self.idg.get(last).is_some()
        {
            self.idg.edge(last, tx);
        }
        self.slots[slot].open = Some(tx);
        tx
    }

    /// Ends the open transaction of a slot.
    pub(crate) fn close(&mut self, slot: usize) {
        let mut range = std::mem::take(&mut self.slots[slot].range);
        let Slot {
            start,
            region,
            open,
            ..
        } = self.slots[slot];
        let Some(tx) = open else {
            self.drop_range(&mut range);
            self.slots[slot].range = range;
            self.slots[slot].last = None;
            return;
        };
        self.clock += 1;
        self.idg.close(tx, self.clock);
        let at = tx.index();
        if self.ranges.len() <= at {
            self.ranges.resize_with(at + 1, Range::default);
        }
        // Whatever cycle it is in, a regular one is the last that ends.
        if region.is_some() {
            self.idg.look_for(tx);
            self.unchecked += 64 + range.weight();
        }
        self.ranges[at] = range;
        let slot = &mut self.slots[slot];
        slot.open = None;
        slot.last = Some(tx);
        slot.recent.push_back((start, tx));
    }

    /// The transaction of a slot in which the last record before a position is, if it can be in a
    /// cycle.
    fn source(&mut self, slot: usize, position: u64) -> Option<Tx> {
        let from = self.slots.get(slot)?;
        if from.start < position {
            // Nothing leads to a unary transaction later than to its beginning.
            let needed = from.region.is_some() || from.open.is_some();
            return needed.then(|| self.node(slot));
        }
        let after = from.recent.partition_point(|&(start, _)| start < position);
        let (_, tx) = *from.recent.get(after.checked_sub(1)?)?;
        self.is_alive(Some(tx)).then_some(tx)
    }

    /// What follows in a slot comes after what another slot wrote before a position. Both have been
    /// followed up to there.
    pub(crate) fn edge(&mut self, slot: usize, here: u64, from: usize, position: u64) {
        let Some(source) = self.source(from, position) else {
            return;
        };
        self.counts.edges += 1;
        // Edges lead to the beginning of a unary transaction and leave at its end.
        if self.slots[slot].region.is_none() {
            self.close(slot);
            self.open(slot, here, None);
        }
        let sink = self.node(slot);
        self.idg.edge(source, sink);
        if self.slots[from].region.is_none() && self.slots[from].open == Some(source) {
            let end = position.max(self.slots[from].start);
            self.close(from);
            self.open(from, end, None);
        }
    }

    /// The components that have a transaction which has ended since the last time.
    pub(crate) fn components(&mut self) -> Vec<Vec<Tx>> {
        self.unchecked = 0;
        let components = self.idg.components_with_open();
        self.counts.components += components.len() as u64;
        let members = |component| {
            self.idg.select(component);
            self.idg.component().collect()
        };
        components.into_iter().map(members).collect()
    }

    /// Where the open transactions of a component begin, by slot: what follows there tells in which
    /// order the others are, and will be looked at when it has ended.
    pub(crate) fn open_in(&self, component: &[Tx]) -> Vec<u64> {
        let mut starts = vec![u64::MAX; self.slots.len()];
        for tx in component {
            let transaction = self.idg.get(*tx).filter(|tx| tx.ended.is_none());
            let slot = transaction.map(|tx| tx.thread.index());
            if let Some((start, slot)) = slot.and_then(|at| Some((starts.get_mut(at)?, at))) {
                let parts = &self.slots[slot].range.parts;
                *start = parts.first().map_or(u64::MAX, |part| part.position);
            }
        }
        starts
    }

    /// The logs of a component.
    pub(crate) fn logs(&self, component: &[Tx]) -> impl Iterator<Item = Piece<'_>> {
        component
            .iter()
            .filter_map(|&tx| {
                let transaction = self.idg.get(tx)?;
                match transaction.ended {
                    Some(_) => self.ranges.get(tx.index()),
                    None => Some(&self.slots.get(transaction.thread.index())?.range),
                }
            })
            .flat_map(|range| {
                range.parts.iter().map(|part| Piece {
                    slot: range.slot,
                    position: part.position,
                    previous: part.previous,
                    snapshot: &part.snapshot,
                    words: &part.words,
                })
            })
    }

    /// Whether enough has ended since components were looked for: as much as they had then, so that
    /// looking again and again costs no more than twice.
    pub(crate) fn is_due(&self) -> bool {
        self.unchecked >= LEAST_LIMIT.max(self.checked)
    }

    /// Components with so many words have been checked.
    pub(crate) fn checked(&mut self, words: usize) {
        self.checked = words;
    }

    /// Whether [`Transactions::tidy`] has something to do.
    pub(crate) fn is_heavy(&self, most: usize) -> bool {
        self.kept + 64 * self.nodes >= self.limit.max(LEAST_LIMIT) || self.kept > most
    }

    /// Drops what can be in no cycle any more; whether what is left is more than `most` words.
    pub(crate) fn tidy(&mut self, most: usize) -> bool {
        self.sweep();
        self.limit = 2 * (self.kept + 64 * self.nodes);
        self.kept > most
    }

    /// Forgets everything, and goes on from where each slot is now: what is open begins there. To
    /// forget some transactions and keep others would not do: if `A` is before `X` and `X` before
    /// `B`, and `X` is forgotten, nothing says any more that `A` is before `B`, and their logs could
    /// be put in an order that never was. What comes from now on cannot be before anything
    /// that is forgotten. Components must have been looked for. Returns how many words it were.
    pub(crate) fn cut(&mut self, now: impl Fn(usize) -> u64) -> usize {
        let kept = self.kept;
        for at in 0..self.slots.len() {
            let mut range = std::mem::take(&mut self.slots[at].range);
            self.drop_range(&mut range);
            self.slots[at] = Slot {
                start: now(at),
                region: self.slots[at].region,
                range,
                ..Slot::default()
            };
        }
        let all: Vec<Tx> = self.idg.transactions().map(|(tx, _)| tx).collect();
        self.idg.retire_all(&all);
        self.sweep();
        kept
    }

    fn sweep(&mut self) {
        let open: Vec<Tx> = self.slots.iter().filter_map(|slot| slot.open).collect();
        self.idg.sweep(open.into_iter());
        for slot in &mut self.slots {
            slot.recent.retain(|&(_, tx)| self.idg.get(tx).is_some());
        }
        let mut alive = vec![false; self.ranges.len()];
        self.nodes = 0;
        for (tx, _) in self.idg.transactions() {
            self.nodes += 1;
            if let Some(alive) = alive.get_mut(tx.index()) {
                *alive = true;
            }
        }
        for (at, alive) in alive.into_iter().enumerate() {
            if !alive {
                let mut range = std::mem::take(&mut self.ranges[at]);
                self.drop_range(&mut range);
            }
        }
    }
}
