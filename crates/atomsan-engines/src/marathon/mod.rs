//! Marathon: atomic-set serializability (Sumner, Hammer, Dolby; RV 2011).
//!
//! Not all of memory has to change atomically: an *atomic set* is a set of locations with a
//! consistency property between them, and a *unit of work* is a piece of code that preserves it.
//! An execution is atomic-set serializable if its projection on each atomic set is serializable by
//! the units of work on that set (Definition 1). What a function does to other sets meanwhile does
//! not matter, so a counter of operations that is shared by everybody is no violation of
//! everybody's atomicity.
//!
//! * `sets`: which set a variable is in, and which functions are units on it;
//! * [`declaration`]: the file that may say so;
//! * `units`: which unit an access belongs to, the top-most one;
//! * `projection`: the conflict graph of a set, and lending graphs to sets;
//! * `report`: what a cycle is to a person.
//!
//! An access that belongs to no unit of work is a unit of its own. A unit is split in two where its
//! thread waits (for a condition or at a barrier), because that is for others to interfere. The
//! order of a thread's own units is kept, as in conflict serializability; synchronisation makes no
//! edges, because the criterion is about data alone.
//!
//! A unit that is complete and that no open unit comes before is reclaimed ([`crate::clocks`]); a
//! graph without units is taken back. So memory follows the variables and the open units.

pub mod declaration;
mod projection;
mod report;
mod sets;
mod units;

pub use declaration::Declaration;
pub use sets::Choice;

use crate::clocks::{Edge, TxRef};
use crate::conflicts::{Access, Conflicts};
use crate::engine::{Context, Engine, Occurrence, Stat};
use crate::transactions::Transaction;
use atomsan_trace::{Event, ObjectId, Op, ThreadId, VarId};
use projection::Projections;
use report::Reports;
use sets::{SetId, Sets};
use units::{Checked, Frame, Units};

/// What can be chosen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where atomic sets and units of work come from.
    pub sets: Choice,
}

/// The engine.
#[derive(Debug)]
pub struct Marathon {
    sets: Sets,
    units: Units,
    projections: Projections,
    conflicts: Conflicts,
    reports: Reports,
    counts: Counts,
    /// Spare lists, to save allocations.
    ended: Vec<(Frame, SetId)>,
    sources: Vec<Access>,
}

#[derive(Debug, Default)]
struct Counts {
    units: u64,
    inside: u64,
    outside: u64,
    largest: usize,
}

impl Marathon {
    /// Nothing has happened yet.
    pub fn new(options: Options) -> Self {
        Marathon {
            sets: Sets::new(options.sets),
            units: Units::default(),
            projections: Projections::default(),
            conflicts: Conflicts::new(false),
            reports: Reports::default(),
            counts: Counts::default(),
            ended: Vec::new(),
            sources: Vec::new(),
        }
    }

    #[inline]
    fn access(&mut self, at: &Occurrence, x: VarId, cx: &mut Context<'_>) {
        let Some(set) = self.set(&at.event, x, cx) else {
            return;
        };
        let thread = at.event.thread;
        let epoch = self.units.epoch(thread);
        let seat = self.projections.seat(set, thread);
        match seat.filter(|seat| seat.epoch == epoch) {
            Some(seat) if seat.owner == Frame::NONE => self.outside(at, set),
            Some(seat) if seat.tx != TxRef::NONE => {
                let tx = seat.tx;
                self.inside(at, set, tx, cx);
            }
            _ => self.locate(at, set, cx),
        }
    }

    /// The set of an access that is to be looked at.
    #[inline]
    fn set(&mut self, event: &Event, x: VarId, cx: &Context<'_>) -> Option<SetId> {
        if event.op.is_atomic() && self.sets.heuristic() {
            return None;
        }
        match self.sets.known(x) {
            Some(set) => set,
            None => {
                let set = self.sets.find(x, cx.names)?;
                // It may have another kind now, on which other functions are units.
                self.projections.invalidate(set);
                Some(set)
            }
        }
    }

    /// Finds the unit that the thread's accesses to the set belong to.
    fn locate(&mut self, at: &Occurrence, set: SetId, cx: &mut Context<'_>) {
        let thread = at.event.thread;
        let accessor = if self.sets.heuristic() {
            self.units.accessor(thread)
        } else {
            None
        };
        let set = match accessor {
            Some(accessor) if self.sets.has_members() => self.adopt(thread, set, accessor, cx),
            _ => set,
        };
        let direct = self.direct(thread, set, accessor);
        let seat = self.projections.seat(set, thread);
        let mut checked = seat.map_or(Checked::NOTHING, |seat| seat.checked);
        let owner = (self.units).top_most(at, set, direct, &mut checked, &self.sets);
        let epoch = self.units.epoch(thread);
        let Some(owner) = owner else {
            if let Some(projection) = self.projections.get(set) {
                let seat = projection.seat_or_new(thread);
                seat.epoch = epoch;
                seat.checked = checked;
            }
            return self.outside(at, set);
        };
        let projection = self.projections.get_or_new(set);
        let seat = projection.seat_or_new(thread);
        seat.epoch = epoch;
        seat.checked = checked;
        seat.direct = direct;
        seat.latest = accessor.unwrap_or(Frame::NONE);
        if seat.owner != owner {
            seat.owner = owner;
            projection.close(thread);
            self.units.own(thread, owner, set);
        }
        let tx = self.open(at, set, owner);
        self.inside(at, set, tx, cx);
    }

    /// The outermost open function that has accessed the set itself, as `accessor` does now.
    fn direct(&mut self, thread: ThreadId, set: SetId, accessor: Option<Frame>) -> Frame {
        let seat = self.projections.seat(set, thread);
        let before = seat.map_or(Frame::NONE, |seat| seat.direct);
        let before = Some(before).filter(|&before| self.units.is_open(thread, before));
        let now = accessor.map(|accessor| self.units.principal(thread, accessor, set, &self.sets));
        let functions = before.into_iter().chain(now);
        functions.fold(Frame::NONE, Frame::outer)
    }

    /// The node of the thread's unit on the set.
    fn open(&mut self, at: &Occurrence, set: SetId, owner: Frame) -> TxRef {
        let thread = at.event.thread;
        let projection = self.projections.get_or_new(set);
        let seat = projection.seat_or_new(thread);
        if seat.tx != TxRef::NONE {
            return seat.tx;
        }
        let last = seat.last;
        let frame = self.units.frame(thread, owner);
        let tx = projection.graph.open(Transaction {
            thread,
            region: frame.map(|frame| frame.function),
            entered: frame.map_or(at.event.site, |frame| frame.site),
            unary_from: u64::MAX,
        });
        projection.seat_or_new(thread).tx = tx;
        if let Some(last) = last {
            let edge = projection.graph.edge(last.tx, tx, || (last.at, *at));
            debug_assert_eq!(edge, Edge::Ordered, "nothing depends on it yet");
        }
        self.counts.units += 1;
        self.counts.largest = self.counts.largest.max(projection.graph.alive());
        tx
    }

    /// An access of a unit of work.
    #[inline]
    fn inside(&mut self, at: &Occurrence, set: SetId, tx: TxRef, cx: &mut Context<'_>) {
        self.counts.inside += 1;
        if self.conflicts.repeats(&at.event, tx) {
            return;
        }
        let to = Access { tx, at: *at };
        let sources = self.living_sources(at, set, tx);
        for from in &sources {
            let projection = self.projections.get_or_new(set);
            let edge = projection.graph.edge(from.tx, tx, || (from.at, *at));
            let seat = projection.seat_or_new(at.event.thread);
            if edge == Edge::Cycle && seat.refused.insert(from.tx) {
                let (conflict, set) = ((from, &to), (set, &self.sets));
                let frames = self.units.frames(at.event.thread);
                let graph = &projection.graph;
                self.reports.cycle(graph, conflict, set, frames, cx);
            }
        }
        self.sources = sources;
        self.remember(to, set);
    }

    /// An access that belongs to no unit of work: a unit of its own. See
    /// [`crate::transactions`] for why most of them need no node.
    fn outside(&mut self, at: &Occurrence, set: SetId) {
        self.counts.outside += 1;
        let thread = at.event.thread;
        let Some(projection) = self.projections.get(set) else {
            return;
        };
        let last = projection.seat(thread).and_then(|seat| seat.last);
        let last = last.filter(|last| projection.graph.is_alive(last.tx));
        let mut tx = last.map_or(TxRef::NONE, |last| last.tx);
        if self.conflicts.repeats(&at.event, tx) {
            return;
        }
        let sources = self.living_sources(at, set, tx);
        if !sources.is_empty() {
            let graph = &mut self.projections.get_or_new(set).graph;
            tx = graph.open(Transaction {
                thread,
                region: None,
                entered: at.event.site,
                unary_from: at.index,
            });
            for from in last.iter().chain(&sources) {
                let edge = graph.edge(from.tx, tx, || (from.at, *at));
                debug_assert_eq!(edge, Edge::Ordered, "nothing depends on it yet");
            }
            graph.close(tx);
        }
        self.sources = sources;
        self.remember(Access { tx, at: *at }, set);
    }

    fn remember(&mut self, access: Access, set: SetId) {
        self.conflicts.remember(access);
        if let Some(projection) = self.projections.get(set) {
            projection.seat_or_new(access.at.event.thread).last = Some(access);
        }
    }

    /// The accesses that this one depends on, of other units that are alive.
    #[inline]
    fn living_sources(&mut self, at: &Occurrence, set: SetId, tx: TxRef) -> Vec<Access> {
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        if let Some(projection) = self.projections.get(set) {
            self.conflicts.dependences(&at.event, |access| {
                if access.tx != tx && projection.graph.is_alive(access.tx) {
                    sources.push(*access);
                }
            });
        }
        sources
    }

    fn boundary(&mut self, at: &Occurrence, cx: &Context<'_>) {
        let mut ended = std::mem::take(&mut self.ended);
        self.units
            .boundary(at, cx.names, &mut self.sets, &mut ended);
        let thread = at.event.thread;
        for (frame, set) in ended.drain(..) {
            let Some(projection) = self.projections.get(set) else {
                continue;
            };
            // After a merge, an outer unit may have taken its place.
            if let Some(seat) = projection.seat(thread).filter(|seat| seat.owner == frame) {
                seat.owner = Frame::NONE;
                projection.close(thread);
                self.projections.reclaim(set);
            }
        }
        self.ended = ended;
    }

    /// The thread waits: what follows is another unit of work of the same function or block.
    fn split(&mut self, thread: ThreadId) {
        let projections = &mut self.projections;
        self.units.owned(thread, |frame, set| {
            let seat = projections.seat(set, thread);
            if seat.is_some_and(|seat| seat.owner == frame)
                && let Some(projection) = projections.get(set)
            {
                projection.close(thread);
            }
        });
    }

    /// `accessor` accesses `set` itself. If that is the set of a member of a set that no other
    /// function has accessed since, the member is owned. Returns the set that the access is to, in
    /// the end.
    fn adopt(
        &mut self,
        thread: ThreadId,
        mut set: SetId,
        accessor: Frame,
        cx: &Context<'_>,
    ) -> SetId {
        let latest = |projections: &mut Projections, set| {
            let seat = projections.seat(set, thread);
            seat.map(|seat| seat.latest)
        };
        loop {
            let mut holders = self.sets.holders(set, cx.names).into_iter();
            let owner = holders.find(|&set| latest(&mut self.projections, set) == Some(accessor));
            let Some(owner) = owner else {
                break;
            };
            self.merge(set, owner);
            set = owner;
        }
        if latest(&mut self.projections, set) != Some(accessor) {
            // The members of this set may be owned from now on.
            self.units.new_era();
        }
        set
    }

    fn refer(&mut self, into: VarId, object: ObjectId, cx: &Context<'_>) {
        let known = self.sets.known(into).is_some();
        let merges = self.sets.refer(into, object, cx.names);
        if let Some(Some(set)) = self.sets.known(into).filter(|_| !known) {
            // It may have another kind now.
            self.projections.invalidate(set);
        }
        for (member, owner) in merges {
            self.merge(member, owner);
        }
        // An object may have another holder now.
        self.units.new_era();
    }

    fn merge(&mut self, member: SetId, owner: SetId) {
        for &x in self.sets.merge(member, owner) {
            self.conflicts.forget(x);
        }
        self.units.merge(member, owner);
        // The member may hold members of its own, which are the owner's now.
        self.units.new_era();
        let units = &self.units;
        let is_open = |thread, frame| units.is_open(thread, frame);
        self.projections.merge(member, owner, is_open);
    }
}

impl Engine for Marathon {
    fn name(&self) -> &'static str {
        "marathon"
    }

    #[inline]
    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        match at.event.op {
            Op::Begin(_) | Op::End | Op::Enter(_) | Op::Exit(_) => self.boundary(at, cx),
            Op::Wait(_) | Op::Arrive(_) | Op::Yield => self.split(at.event.thread),
            Op::RefStore { into, object } => self.refer(into, object, cx),
            Op::Free(object) => self.sets.free(object),
            op => {
                if let Some(x) = op.var() {
                    self.access(at, x, cx);
                }
            }
        }
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        let mut stats = vec![
            stat("atomic sets", self.sets.len() as u64),
            stat("sets merged", self.sets.merged()),
            stat("units of work", self.counts.units),
            stat("accesses in units", self.counts.inside),
            stat("accesses outside", self.counts.outside),
            stat("conflict edges", self.projections.edges()),
            stat("largest conflict graph", self.counts.largest as u64),
            stat("deepest nesting", self.units.deepest() as u64),
            stat("rules looked at", self.units.looked_at()),
        ];
        stats.extend(self.reports.stats());
        stats
    }
}
