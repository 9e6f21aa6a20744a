//! Which unit of work does an access belong to?
//!
//! The open functions and blocks of a thread nest. Those that are units of work on a set are found
//! by their [`Rule`], by the objects they were called on, and by what they access themselves. An
//! access belongs to the *top-most* of them: the outermost unit on the set that is open
//! (section 3). A unit nested in another one on the same set is a part of it; one nested in a unit
//! on other sets stands for itself.
//!
//! # What makes it cheap
//!
//! * While no function or block is entered or left, nothing changes (but for references that are
//!   stored and sets that are merged): each change gives the thread a new *epoch*, and an answer
//!   is good for an epoch.
//! * Of the functions that have accessed a set themselves, only the outermost open one matters: the
//!   others are nested in it and end before it. So there is one for each thread and set, kept where
//!   the thread's place in the set's conflict graph is ([`super::projection::Seat`]).
//! * Whether an open function or block is a unit on a set by its rule does not change, unless sets
//!   are merged or the set gets another kind. So each is looked at once for a set, and what is
//!   known is kept in the same place ([`Checked`]): a deep recursion costs no more than a shallow
//!   one.

use super::declaration::Cover;
use super::sets::{Kind, Rule, SetId, Sets};
use crate::engine::Occurrence;
use crate::regions::{OpenFrame, Regions};
use atomsan_trace::{Names, ThreadId};
use smallvec::SmallVec;

/// One execution of a function or block, weakly: it may have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    depth: u32,
    /// The position in the trace where it began, which tells it from others at its depth.
    index: u64,
}

impl Frame {
    /// No frame; never open.
    pub(super) const NONE: Frame = Frame {
        depth: u32::MAX,
        index: u64::MAX,
    };

    /// The outer one of two open frames of a thread.
    pub(super) fn outer(self, other: Frame) -> Frame {
        if self.depth <= other.depth {
            self
        } else {
            other
        }
    }
}

/// Which open functions and blocks of a thread are units on a set by their rule, as far as they
/// have been looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    /// The position in the trace until which those that are open now and began have been.
    until: u64,
    /// How many merges had been made by then.
    merges: u64,
    /// The outermost one that is such a unit; it may have ended, and all inside of it with it.
    first: Frame,
}

impl Checked {
    /// None of them has been looked at.
    pub(super) const NOTHING: Checked = Checked {
        until: 0,
        merges: 0,
        first: Frame::NONE,
    };
}

/// What is known of an open function or block.
#[derive(Debug)]
struct Unit {
    rule: Rule,
    /// The depth of the innermost open function: its own, or that of the one it is a block of.
    function: Option<u32>,
    index: u64,
    /// The objects it was called on, one for each kind.
    receivers: SmallVec<[(Kind, SetId); 1]>,
    /// The sets with accesses that belong to it.
    owns: Vec<SetId>,
}

impl Unit {
    /// Whether it is a unit of work on a set that is accessed now.
    fn is_on(&mut self, set: SetId, sets: &Sets) -> bool {
        match self.rule {
            Rule::Nothing | Rule::Method(None) => return false,
            Rule::Everything => return true,
            Rule::Method(Some(_)) | Rule::Declared(_) => {}
        }
        let mut on = false;
        for (kind, cover) in sets.covers(self.rule, set) {
            on |= cover == Cover::Any || self.receiver(kind, set) == set;
        }
        on
    }

    /// The set of the object it was called on: the first one of that kind.
    fn receiver(&mut self, kind: Kind, first: SetId) -> SetId {
        let known = self.receivers.iter().find(|(of, _)| *of == kind);
        match known {
            Some(&(_, set)) => set,
            None => {
                self.receivers.push((kind, first));
                first
            }
        }
    }
}

#[derive(Debug, Default)]
struct Thread {
    /// The first `depth` ones are open; the others are kept for their memory.
    units: Vec<Unit>,
    depth: usize,
    epoch: u64,
}

/// The open functions and blocks of all threads.
#[derive(Debug, Default)]
pub(super) struct Units {
    regions: Regions,
    threads: Vec<Thread>,
    /// How often the epochs of all threads have changed.
    era: u64,
    merges: u64,
    deepest: usize,
    looked_at: u64,
}

impl Units {
    /// The open frames of a thread, outermost first.
    pub(super) fn frames(&self, thread: ThreadId) -> &[OpenFrame] {
        self.regions.frames(thread)
    }

    /// An open frame of a thread.
    pub(super) fn frame(&self, thread: ThreadId, frame: Frame) -> Option<&OpenFrame> {
        self.regions.frames(thread).get(frame.depth as usize)
    }

    /// How many frames were open at once, at most.
    pub(super) fn deepest(&self) -> usize {
        self.deepest
    }

    /// How often a rule was looked at.
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// As long as this stays the same, so do the units of work.
    #[inline]
    pub(super) fn epoch(&self, thread: ThreadId) -> u64 {
        let thread = self.threads.get(thread.index());
        self.era + thread.map_or(0, |thread| thread.epoch)
    }

    /// Something has happened that may change the units of all threads.
    pub(super) fn new_era(&mut self) {
        self.era += 1;
    }

    /// Follows the beginning or end of a function or block; `ended` gets the units that end, once
    /// for each set with accesses that belong to it.
    pub(super) fn boundary(
        &mut self,
        at: &Occurrence,
        names: &Names,
        sets: &mut Sets,
        ended: &mut Vec<(Frame, SetId)>,
    ) {
        self.regions.step(at.index, &at.event, names);
        let frames = self.regions.frames(at.event.thread);
        let index = at.event.thread.index();
        if index >= self.threads.len() {
            self.threads.resize_with(index + 1, Thread::default);
        }
        let thread = &mut self.threads[index];
        thread.epoch += 1;
        while thread.depth > frames.len() {
            thread.depth -= 1;
            let unit = &mut thread.units[thread.depth];
            let frame = Frame {
                depth: thread.depth as u32,
                index: unit.index,
            };
            ended.extend(unit.owns.drain(..).map(|set| (frame, set)));
        }
        if let Some(frame) = frames.get(thread.depth) {
            thread.open(frame, sets.rule(frame, names));
            self.deepest = self.deepest.max(thread.depth);
        }
    }

    /// Calls `each` with every open unit of a thread, once for each set with accesses that belong
    /// to it.
    pub(super) fn owned(&self, thread: ThreadId, mut each: impl FnMut(Frame, SetId)) {
        let Some(thread) = self.threads.get(thread.index()) else {
            return;
        };
        for (depth, unit) in thread.open_units().iter().enumerate() {
            let frame = Frame {
                depth: depth as u32,
                index: unit.index,
            };
            unit.owns.iter().for_each(|&set| each(frame, set));
        }
    }

    /// Whether it has not ended.
    pub(super) fn is_open(&self, thread: ThreadId, frame: Frame) -> bool {
        let thread = self.threads.get(thread.index());
        let unit = thread.and_then(|thread| thread.open_units().get(frame.depth as usize));
        unit.is_some_and(|unit| unit.index == frame.index)
    }

    /// The function that makes the accesses of a thread now, if it is a unit on what it accesses.
    pub(super) fn accessor(&self, thread: ThreadId) -> Option<Frame> {
        self.threads.get(thread.index())?.method(usize::MAX)
    }

    /// The function on behalf of which `accessor` accesses the set: itself, or if it is a method of
    /// an inner class, its caller.
    pub(super) fn principal(
        &self,
        thread: ThreadId,
        accessor: Frame,
        set: SetId,
        sets: &Sets,
    ) -> Frame {
        let Some(thread) = self.threads.get(thread.index()) else {
            return accessor;
        };
        let mut principal = accessor;
        while sets.is_inside(thread.units[principal.depth as usize].rule, set) {
            match thread.method(principal.depth as usize) {
                Some(caller) => principal = caller,
                None => break,
            }
        }
        principal
    }

    /// The top-most unit of work on a set that is accessed now. `direct` is the outermost open
    /// function that has accessed the set itself; `checked` is what was found out at the thread's
    /// last access, and is brought up to date.
    pub(super) fn top_most(
        &mut self,
        at: &Occurrence,
        set: SetId,
        direct: Frame,
        checked: &mut Checked,
        sets: &Sets,
    ) -> Option<Frame> {
        if checked.merges != self.merges || !self.is_open(at.event.thread, checked.first) {
            checked.first = Frame::NONE;
        }
        if checked.merges != self.merges {
            checked.until = 0;
            checked.merges = self.merges;
        }
        let thread = self.threads.get_mut(at.event.thread.index())?;
        let units = &mut thread.units[..thread.depth];
        let known = units.partition_point(|unit| unit.index < checked.until);
        // To the end: each of them may learn now which object it was called on.
        for (depth, unit) in units.iter_mut().enumerate().skip(known) {
            self.looked_at += 1;
            if unit.is_on(set, sets) && checked.first == Frame::NONE {
                checked.first = Frame {
                    depth: depth as u32,
                    index: unit.index,
                };
            }
        }
        checked.until = at.index;
        let top_most = checked.first.outer(direct);
        (top_most != Frame::NONE).then_some(top_most)
    }

    /// From now on, the unit has accesses to the set.
    pub(super) fn own(&mut self, thread: ThreadId, frame: Frame, set: SetId) {
        let thread = self.threads.get_mut(thread.index());
        if let Some(unit) = thread.and_then(|thread| thread.units.get_mut(frame.depth as usize)) {
            unit.owns.push(set);
        }
    }

    /// One set is merged into another.
    pub(super) fn merge(&mut self, member: SetId, owner: SetId) {
        self.merges += 1;
        for thread in &mut self.threads {
            for unit in &mut thread.units[..thread.depth] {
                let receivers = unit.receivers.iter_mut().map(|(_, set)| set);
                for set in receivers.chain(&mut unit.owns) {
                    if *set == member {
                        *set = owner;
                    }
                }
            }
        }
    }
}

impl Thread {
    /// The innermost function below a depth, if it is a unit on what it accesses.
    fn method(&self, below: usize) -> Option<Frame> {
        let depth = self.units[..self.depth.min(below)].last()?.function?;
        let unit = &self.units[depth as usize];
        matches!(unit.rule, Rule::Method(_)).then_some(Frame {
            depth,
            index: unit.index,
        })
    }

    fn open_units(&self) -> &[Unit] {
        &self.units[..self.depth]
    }

    fn open(&mut self, frame: &OpenFrame, rule: Rule) {
        let function = if frame.block {
            self.open_units().last().and_then(|unit| unit.function)
        } else {
            Some(self.depth as u32)
        };
        match self.units.get_mut(self.depth) {
            Some(unit) => {
                unit.rule = rule;
                unit.function = function;
                unit.index = frame.index;
                unit.receivers.clear();
            }
            None => self.units.push(Unit {
                rule,
                function,
                index: frame.index,
                receivers: SmallVec::new(),
                owns: Vec::new(),
            }),
        }
        self.depth += 1;
    }
}
