//! One order of all records that respects the logs and the edges between them.
//!
//! A slot is followed until an edge says that another slot must be further along; then that one
//! is followed until it is, and so on. All edges of the runtime point forward in time, so this
//! cannot go round in a circle; in a damaged file it can, and then the edge is ignored. So is an
//! edge to records that were lost at the end. Which of the possible orders comes out does not matter: any
//! of them is a legal event stream.
//!
//! # Gaps
//!
//! If `A` is before `X` and `X` before `B`, and only `X` is forgotten, no edge says any more that `A` is before
//! `B`, and two critical sections of one lock may seem to overlap. What is known of a gap is its place in its log, which
//! edges lead out of it, and which ones lead into it, but not where in it: those are in the snapshot behind it. So all
//! edges into a gap are taken to lead to its beginning, and what is forgotten is taken to have happened
//! at once. That moment is a *cut* through all logs: everything that is before anything in the gap comes before the
//! cut, and everything that is after anything in the gap comes after it.
//!
//! Only what is after a part of the gap and before another part of it cannot be on either side. If only one log has such
//! records, as when two threads take turns, all else that is before the gap comes first, and they are
//! behind a cut of their own. If several have, they are *doubtful*: they come before the cut, in an order that may not
//! be right, and do not count. So is what is after something doubtful, up to the cut. Gaps that are before and after each
//! other in that way are passed together.
//!
//! That takes about as long as there are gaps and logs, one times the other. If these are too many, nothing counts
//! that is before the last gap: chunks have their positions in the order in which they were handed out, so whatever is in
//! a later one happened after all that is forgotten.
//!
//! Gaps are passed as early as they can be, one after the other, so that there is as little as possible between them, and what has nothing to do with
//! them is not cut apart.
//!
//! Why it is right: let `e` be before `f`, and let both count. If no gap is on the way, the edges say so. If there is one,
//! `e` came before its cut; and `f` came after it, because otherwise it would have been doubtful; or `f` is in the only log
//! that is between parts of the gap, and `e` in the same one or before the cut that was made for it. And what has come
//! before a cut is in order with all that comes after it, so whoever takes the cut for a barrier of all threads knows all
//! of the order that was lost, and more.

#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

use crate::file::{Log, Record, Recording};
use crate::format::Kind;

/// All records of a recording except the edges, in a legal order, each with its slot.
#[derive(Debug)]
pub struct Order<'a> {
    slots: Vec<Slot<'a>>,
    /// What is being done, for what is below.
    tasks: Vec<Task>,
    /// Which slots are followed up to where, when nothing else is to be done, the last one first.
    plan: Vec<(usize, u64)>,
    /// Whether there is a cut in front of the next record.
    cut: bool,
    /// If there are too many gaps: the position from which on there are none.
    since: Option<u64>,
    last: Last,
    edges: Edges,
}

#[derive(Debug)]
struct Slot<'a> {
    log: Log<'a>,
    /// How many tasks are to follow it.
    followed: usize,
    /// The end of what has been taken from the log.
    done: u64,
    gap: Gap,
    /// The gaps that what follows is after, and may be before as well: the slot, and where in this log that
    /// starts.
    doubts: Vec<(usize, u64)>,
}

/// So many gaps times logs are passed one by one.
const WORK: usize = 20_000;

/// Whether a slot is at a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gap {
    /// Not that anybody has looked.
    Unknown,
    /// What is before it is on its way.
    Open,
    /// The cut has been made.
    Passed,
}

#[derive(Debug)]
enum Task {
    /// To follow a slot until a position.
    Follow(usize, u64),
    Pass(Pass),
}

/// To get everything that is before a slot's gap.
#[derive(Debug)]
struct Pass {
    slot: usize,
    /// The positions of others up to which that is, as far as it has not come.
    after: Vec<(usize, u64)>,
    /// How often one of them may still let the others go first.
    turns: usize,
    /// Whether only one is left, which is after a part of the gap.
    alone: bool,
}

impl Task {
    fn slot(&self) -> usize {
        match *self {
            Task::Follow(slot, _) => slot,
            Task::Pass(ref pass) => pass.slot,
        }
    }
}

/// What is known of the last record.
#[derive(Clone, Copy, Default, Debug)]
struct Last {
    cut: bool,
    doubtful: bool,
}

/// The edges right in front of each slot's last record.
#[derive(Debug, Default)]
pub struct Edges {
    /// The slots that they name.
    after: Vec<Vec<usize>>,
    /// Whether the next edge of the slot is the first one since its last record.
    fresh: Vec<bool>,
}

impl Edges {
    /// There are so many slots.
    pub fn resize(&mut self, slots: usize) {
        self.after.resize(slots, Vec::new());
        self.fresh.resize(slots, true);
    }

    /// A slot has an edge from another one.
    pub fn edge(&mut self, slot: usize, from: usize) {
        if std::mem::replace(&mut self.fresh[slot], false) {
            self.after[slot].clear();
        }
        self.after[slot].push(from);
    }

    /// A slot has a record that is no edge.
    pub fn record(&mut self, slot: usize) {
        if std::mem::replace(&mut self.fresh[slot], true) {
            self.after[slot].clear();
        }
    }

    /// The slots that the last record of this slot comes after.
    pub fn after(&self, slot: usize) -> &[usize] {
        self.after.get(slot).map_or(&[], |after| after)
    }
}

impl<'a> Order<'a> {
    /// The order of a recording.
    pub fn new(recording: &'a Recording) -> Order<'a> {
        Order::with_limit(recording, WORK)
    }

    /// The same if so many gaps times logs are passed one by one.
    fn with_limit(recording: &'a Recording, work: usize) -> Order<'a> {
        let slots = recording.slots();
        let mut edges = Edges::default();
        edges.resize(slots);
        let slot = |slot| Slot {
            log: recording.log(slot),
            followed: 0,
            done: 0,
            gap: Gap::Unknown,
            doubts: Vec::new(),
        };
        let ends = (0..slots).rev().map(|slot| (slot, u64::MAX));
        let mut gaps = recording.gaps();
        let last = gaps.iter().map(|&(_, position)| position).max();
        let since = last.filter(|_| gaps.len() * slots > work);
        if let Some(since) = since {
            gaps = (0..slots).map(|slot| (slot, since)).collect();
        }
        Order {
            slots: (0..slots).map(slot).collect(),
            tasks: Vec::new(),
            plan: ends.chain(gaps.into_iter().rev()).collect(),
            cut: false,
            since,
            last: Last::default(),
            edges,
        }
    }

    /// The slots that the last record of this slot comes after, by edges right in front of it.
    pub fn after(&self, slot: usize) -> &[usize] {
        self.edges.after(slot)
    }

    /// Whether there is a cut between the last record and those before it: all of them are before it.
    pub fn is_cut(&self) -> bool {
        self.last.cut
    }

    /// Whether the place of the last record may not be right, so that it does not count.
    pub fn is_doubtful(&self) -> bool {
        self.last.doubtful
    }

    fn follow(&mut self, slot: usize, until: u64) {
        self.tasks.push(Task::Follow(slot, until));
        self.slots[slot].followed += 1;
    }

    /// Goes on with the task on top, which is to follow a slot; a record, if one is next.
    fn step(&mut self, slot: usize, until: u64) -> Option<Record> {
        let at = &self.slots[slot];
        let next = at.log.peek().filter(|next| next.position < until).copied();
        match next {
            Some(_) if self.since.is_none() && at.log.is_at_gap() && at.gap == Gap::Unknown => {
                self.open(slot);
            }
            Some(record) if at.gap != Gap::Open => {
                if record.kind != Kind::Edge {
                    self.take(slot);
                    self.edges.record(slot);
                    return Some(record);
                }
                let from = record.second as usize;
                if self.is_after(slot, from, record.subject) {
                    self.take(slot);
                    self.edges.edge(slot, from);
                }
            }
            _ => {
                self.tasks.pop();
                self.slots[slot].followed -= 1;
            }
        }
        None
    }

    fn take(&mut self, slot: usize) {
        let at = &mut self.slots[slot];
        if let Some(record) = at.log.next() {
            at.done = record.position + 8 * record.kind.words() as u64;
            at.gap = Gap::Unknown;
        }
    }

    /// Whether everything that has come by so far is all that a slot is after because of a position of another
    /// one; if not, there is another task to do first. In a gap of its own, the slot is after that too.
    fn is_after(&mut self, slot: usize, from: usize, position: u64) -> bool {
        let Some(other) = self.slots.get(from).filter(|_| from != slot) else {
            return true;
        };
        let mut doubts: Vec<usize> = (other.doubts.iter())
            .filter(|&&(_, since)| since < position)
            .map(|&(gap, _)| gap)
            .collect();
        if position <= other.done {
            self.doubt(slot, &doubts);
            return true;
        }
        let is_open = other.gap == Gap::Open;
        if self.since.is_none() && other.log.is_at_gap() && other.gap == Gap::Unknown {
            self.open(from);
            return false;
        }
        let in_gap = is_open && position <= other.log.gap_end();
        if in_gap && !self.is_alone(slot, from) {
            if self.let_others_go_first(slot, from) {
                return false;
            }
            doubts.push(from);
        }
        let other = &self.slots[from];
        let is_done = in_gap || !is_open && other.log.position() >= position;
        let is_busy = is_open || other.followed > 0;
        let is_circle = is_busy && !is_done && !self.pass_later(from, position);
        if is_done || is_circle {
            self.doubt(slot, &doubts);
        } else if !is_busy {
            self.follow(from, position);
        }
        is_done || is_circle
    }

    /// A slot is after a part of a gap that is being passed. If what is before the gap has come from all other slots,
    /// there is a cut between that and what follows, and nothing is doubtful.
    fn is_alone(&mut self, slot: usize, gap: usize) -> bool {
        let opened = |task: &&mut Task| matches!(task, Task::Pass(pass) if pass.slot == gap);
        let Some(Task::Pass(pass)) = self.tasks.iter_mut().rfind(opened) else {
            return false;
        };
        let is_alone = pass.after.iter().all(|&(from, _)| from == slot);
        self.cut |= is_alone && !std::mem::replace(&mut pass.alone, is_alone);
        is_alone
    }

    /// If so, what is before the gap may come from others first. Whether that is worth trying.
    fn let_others_go_first(&mut self, slot: usize, gap: usize) -> bool {
        let passes = |task: &Task| matches!(task, Task::Pass(_));
        let last = self.tasks.iter().rposition(passes);
        let Some(Task::Pass(pass)) = last.map(|last| &mut self.tasks[last]) else {
            return false;
        };
        let is_next = pass.after.last().is_some_and(|&(from, _)| from == slot);
        if pass.slot != gap || !is_next || pass.turns == 0 {
            return false;
        }
        pass.turns -= 1;
        pass.after.rotate_right(1);
        self.drop_from(last.map_or(0, |last| last + 1));
        true
    }

    /// What is to be done from a task on will be found out again.
    fn drop_from(&mut self, task: usize) {
        for task in self.tasks.drain(task..) {
            self.slots[task.slot()].followed -= 1;
        }
    }

    /// What follows in a slot is after a part of these gaps.
    fn doubt(&mut self, slot: usize, gaps: &[usize]) {
        let Slot { doubts, done, .. } = &mut self.slots[slot];
        for &gap in gaps {
            if doubts.iter().all(|&(other, _)| other != gap) {
                doubts.push((gap, *done));
            }
        }
    }

    /// Starts to pass a slot's gap.
    fn open(&mut self, slot: usize) {
        let at = &mut self.slots[slot];
        at.gap = Gap::Open;
        let after = at.log.after_gap();
        self.tasks.push(Task::Pass(Pass {
            slot,
            turns: after.len(),
            after,
            alone: false,
        }));
    }

    /// What is before a gap needs a position of a slot that needs a part of the gap to go on: the slot goes on up to
    /// there, and then the gap is passed. Whether there is such a gap.
    fn pass_later(&mut self, slot: usize, position: u64) -> bool {
        let passes = |task: &Task| matches!(task, Task::Pass(_));
        let is_open = self.slots[slot].gap == Gap::Open;
        let is_own = |task: &Task| task.slot() == slot && passes(task) == is_open;
        let Some(own) = self.tasks.iter().rposition(is_own) else {
            return false;
        };
        let Some(gap) = self.tasks[own + 1..].iter().rposition(passes) else {
            return false;
        };
        self.drop_from(own + gap + 2);
        let gap = self.tasks.pop();
        let at = own + usize::from(!is_open);
        let follow = Task::Follow(slot, position);
        self.tasks.splice(at..at, gap.into_iter().chain([follow]));
        self.slots[slot].followed += 1;
        true
    }

    /// Everything that is before a slot's gap has come by.
    fn pass(&mut self, slot: usize) {
        self.tasks.pop();
        self.cut = true;
        self.slots[slot].gap = Gap::Passed;
        for at in &mut self.slots {
            at.doubts.retain(|&(gap, _)| gap != slot);
        }
    }
}

impl Iterator for Order<'_> {
    type Item = (usize, Record);

    fn next(&mut self) -> Option<(usize, Record)> {
        loop {
            match self.tasks.last() {
                None => {
                    let (slot, until) = self.plan.pop()?;
                    self.follow(slot, until);
                }
                Some(&Task::Follow(slot, until)) => {
                    if let Some(record) = self.step(slot, until) {
                        self.last = Last {
                            cut: std::mem::take(&mut self.cut),
                            doubtful: !self.slots[slot].doubts.is_empty()
                                || self.since.is_some_and(|since| record.position < since),
                        };
                        return Some((slot, record));
                    }
                }
                Some(Task::Pass(pass)) => {
                    let (slot, next) = (pass.slot, pass.after.last().copied());
                    match next {
                        None => self.pass(slot),
                        Some((from, position)) => {
                            if self.is_after(slot, from, position)
                                && let Some(Task::Pass(pass)) = self.tasks.last_mut()
                            {
                                pass.after.pop();
                            }
                        }
                    }
                }
            }
        }
    }
}
