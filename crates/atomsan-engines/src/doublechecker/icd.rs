//! Imprecise cycle detection (ICD, section 3.2): ownership changes become edges.
//!
//! Each access asks [Octet](super::octet) whether its thread owns the object. If so, nothing
//! happens except that it is logged. If not, the object changes owner, and the change becomes edges
//! into the thread's current transaction, with marks in its log. Forks and joins name their
//! transactions themselves and become edges without Octet.
//!
//! # Unary transactions
//!
//! Events outside of all regions are merged into one transaction until an edge enters or leaves:
//! one that enters begins the next unary transaction, one that leaves finishes it. So in the IDG a
//! merged unary transaction has incoming edges only at its beginning and outgoing edges only at
//! its end, and is in a cycle of the IDG only if its accesses one by one would be.
//!
//! In the *precise* graph a merged transaction must not be one node. An edge of the IDG can imply
//! a dependence that is found only later: a thread that has read one read-shared object may read
//! every older one without a transition, and the owner of an object may touch each of its fields.
//! In
//!
//! ```text
//! D: begin, write x    …                                 read y, end
//! T:                     read p   write y   read x
//! ```
//!
//! (`x` and `p` read-shared, `p` last; `y` is T's own) the three accesses of T are merged, since
//! the only edge enters at `read p`; D → `read x` and `write y` → D are dependences, but there is
//! no cycle, because T wrote *before* it read. So PCD gives every unary access a node of its own
//! again, and the [log](super::log) keeps those that matter for that. Merging unary transactions in
//! the IDG thus cannot create a false cycle: the IDG only selects what PCD looks at. And
//! it cannot hide one: a path through an access is a path through the transaction it is merged into.
//!
//! The component of a unary transaction that finishes need not be looked for: it has no
//! successors but the transactions whose edges, or whose beginning, finished it, and those are open.

use super::frames::Frames;
use super::idg::{Idg, Transaction};
use super::log::{Access, Kind, Point, Stamp, Tx};
use super::octet::{Edges, Responders, State};
use super::places::Place;
use crate::Occurrence;
use crate::regions::OpenFrame;
use atomsan_trace::{FunctionId, SiteId, ThreadId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// What is known of a location, and of the object with this number.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    state: State,
    /// Of the owner's accesses.
    stamp: Stamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Open {
    #[default]
    Nothing,
    Unary,
    Regular,
}

#[derive(Debug, Default)]
struct Thread {
    /// The open transaction or, if there is none, the last one.
    current: Option<Tx>,
    open: Open,
    epoch: u64,
    rd_sh_cnt: u64,
    last_rd_ex: Option<Point>,
    /// Forks of this thread that it has not been ordered after yet, one a forking thread.
    forks: Vec<Point>,
    /// Stamps of read-shared locations, which have no owner.
    shared: HashMap<u32, Stamp, FxBuildHasher>,
}

/// The imprecise analysis.
#[derive(Debug, Default)]
pub struct Icd {
    idg: Idg,
    frames: Frames,
    cells: Vec<Cell>,
    threads: Vec<Thread>,
    g_rd_sh_cnt: u64,
    g_last_rd_sh: Option<Point>,
    /// Epochs are unique, so that a stamp need not say whose it is.
    epochs: u64,
    logging: bool,
    /// How many edges between threads were made.
    edges: u64,
    /// A spare list, to save allocations.
    sources: Vec<Point>,
}

impl Icd {
    /// Nothing has happened yet; `logging` is off in the first run of two.
    pub fn new(logging: bool) -> Self {
        Icd {
            logging,
            ..Icd::default()
        }
    }

    /// The graph.
    pub fn idg(&self) -> &Idg {
        &self.idg
    }

    /// How many edges between threads were made.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    pub(super) fn idg_mut(&mut self) -> &mut Idg {
        &mut self.idg
    }

    /// The invocations of logged events.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// The open frames of a thread have changed.
    pub fn frames_changed(&mut self, thread: ThreadId, open: &[OpenFrame]) {
        if self.logging {
            self.frames.changed(thread.index(), open);
        }
    }

    /// Whether a thread has a regular transaction open.
    #[inline]
    pub fn is_in_transaction(&self, thread: ThreadId) -> bool {
        let thread = self.threads.get(thread.index());
        thread.is_some_and(|thread| thread.open == Open::Regular)
    }

    fn thread(&mut self, thread: ThreadId) -> &mut Thread {
        if self.threads.len() <= thread.index() {
            self.threads
                .resize_with(thread.index() + 1, Thread::default);
        }
        &mut self.threads[thread.index()]
    }

    /// A regular transaction begins.
    pub fn begin(&mut self, at: &Occurrence, region: FunctionId, entered: SiteId) {
        self.close_unary(at.event.thread, at.index);
        self.open(at, Some(region), entered, Open::Regular);
        // Even the beginning comes before a join.
        self.log_event(at);
    }

    /// The thread's regular transaction has ended before the event at `index`; its component is to
    /// be looked for.
    pub fn end(&mut self, thread: ThreadId, index: u64) {
        let state = self.thread(thread);
        if let (Open::Regular, Some(tx)) = (state.open, state.current) {
            state.open = Open::Nothing;
            self.idg.close(tx, index);
            self.idg.look_for(tx);
        }
    }

    /// The thread's unary transaction, if one is open, ends.
    fn close_unary(&mut self, thread: ThreadId, index: u64) {
        let state = self.thread(thread);
        if let (Open::Unary, Some(tx)) = (state.open, state.current) {
            state.open = Open::Nothing;
            self.idg.close(tx, index);
        }
    }

    /// The trace ends before position `index`: ends all unary transactions, and returns the
    /// threads, some of which may still have regular ones.
    pub fn finish(&mut self, index: u64) -> impl Iterator<Item = ThreadId> + use<> {
        let threads = (0..self.threads.len()).map(|thread| ThreadId(thread as u32));
        for thread in threads.clone() {
            self.close_unary(thread, index);
        }
        threads
    }

    #[cold]
    fn open(&mut self, at: &Occurrence, region: Option<FunctionId>, entered: SiteId, open: Open) {
        if self.idg.is_heavy() {
            let threads = self.threads.iter();
            self.idg.sweep(
                threads
                    .filter(|thread| thread.open != Open::Nothing)
                    .filter_map(|thread| thread.current),
            );
        }
        let thread = at.event.thread;
        let tx = self.idg.open(Transaction::new(region, entered, *at));
        let state = self.thread(thread);
        let before = state.current.replace(tx);
        state.open = open;
        self.new_epoch(thread);
        if let Some(before) = before.filter(|&before| self.idg.get(before).is_some()) {
            self.idg.edge(before, tx);
        }
    }

    fn open_unary(&mut self, at: &Occurrence) {
        self.open(at, None, at.event.site, Open::Unary);
    }

    fn new_epoch(&mut self, thread: ThreadId) {
        self.epochs += 1;
        let epoch = self.epochs;
        let state = self.thread(thread);
        state.epoch = epoch;
        // All that is in the table is out of date; emptying it must not cost more than filling it.
        if state.shared.len() >= 1024 && state.shared.len() * 2 >= state.shared.capacity() {
            state.shared.clear();
        }
    }

    /// Makes the event's thread an owner of `place` (of which there are `places`), as far as the
    /// access needs it. What an event accesses is [logged](Icd::log) when it owns all of it, since
    /// the event may begin another unary transaction until then.
    #[inline]
    pub fn own(&mut self, at: &Occurrence, kind: Kind, place: Place, places: usize) {
        if self.cells.len() < places {
            self.cells.resize(places, Cell::default());
        }
        let thread = at.event.thread;
        let state = self.cells[place.object as usize].state;
        let known = self.threads.get(thread.index());
        let (open, rd_sh_cnt) = known.map_or((Open::Nothing, 0), |t| (t.open, t.rd_sh_cnt));
        let permitted = if kind.writes() {
            state.permits_write(thread)
        } else {
            state.permits_read(thread, rd_sh_cnt)
        };
        if !permitted {
            self.change_owner(at, kind, place, rd_sh_cnt);
        } else if open == Open::Nothing {
            self.open_unary(at);
        }
    }

    /// The slow path: a transition of Table 1, then the procedure of Fig. 4.
    #[cold]
    fn change_owner(&mut self, at: &Occurrence, kind: Kind, place: Place, rd_sh_cnt: u64) {
        let thread = at.event.thread;
        let cell = &mut self.cells[place.object as usize];
        let (state, transition) = if kind.writes() {
            cell.state.write(thread)
        } else {
            cell.state.read(thread, rd_sh_cnt, || {
                self.g_rd_sh_cnt += 1;
                self.g_rd_sh_cnt
            })
        };
        cell.state = state;
        let edges = transition.edges();
        if edges == Edges::default() {
            if self.thread(thread).open == Open::Nothing {
                self.open_unary(at);
            }
            return;
        }
        match edges.current {
            Some(Responders::Owner(owner)) => self.source_current(owner),
            Some(Responders::Everyone) => {
                for other in 0..self.threads.len() {
                    self.source_current(ThreadId(other as u32));
                }
            }
            None => {}
        }
        if let Some(owner) = edges.last_rd_ex {
            let last = self.thread(owner).last_rd_ex;
            self.sources.extend(last);
        }
        if edges.last_rd_sh {
            self.sources.extend(self.g_last_rd_sh);
        }
        let here = self.order_after_sources(at);
        if let Some(count) = transition.rd_sh_cnt() {
            self.thread(thread).rd_sh_cnt = count;
        }
        if edges.becomes_last_rd_ex {
            self.thread(thread).last_rd_ex = here;
        }
        if edges.becomes_last_rd_sh {
            self.g_last_rd_sh = here;
        }
    }

    /// `currTX` of a thread, as far as it has come, is the source of an edge.
    fn source_current(&mut self, thread: ThreadId) {
        let here = self.here(thread);
        self.sources.extend(here);
    }

    /// The end of the log of a thread's current transaction.
    fn here(&self, thread: ThreadId) -> Option<Point> {
        let tx = self.threads.get(thread.index())?.current?;
        let position = self.idg.get(tx)?.log.position();
        Some(Point { tx, position })
    }

    /// Makes edges from all of `sources` to the thread's current transaction, and marks in its
    /// log. Returns the point behind the marks.
    fn order_after_sources(&mut self, at: &Occurrence) -> Option<Point> {
        let thread = at.event.thread;
        let mut sources = std::mem::take(&mut self.sources);
        // The thread's own earlier transactions come before anyway.
        sources.retain(|source| (self.idg.get(source.tx)).is_some_and(|tx| tx.thread != thread));
        // A unary transaction that this event itself began is still at its beginning.
        let current = self.thread(thread).current;
        let current = current.and_then(|tx| self.idg.get(tx));
        if !sources.is_empty() && current.is_some_and(|tx| tx.began.index != at.index) {
            self.close_unary(thread, at.index);
        }
        if self.thread(thread).open == Open::Nothing {
            self.open_unary(at);
        }
        for source in sources.drain(..) {
            self.edge(source, at);
        }
        self.sources = sources;
        self.new_epoch(thread);
        self.here(thread)
    }

    fn edge(&mut self, source: Point, at: &Occurrence) {
        // Opening the sink may have swept the source.
        let Some(owner) = self.idg.get(source.tx).map(|tx| tx.thread) else {
            return;
        };
        let Some(sink) = self.thread(at.event.thread).current else {
            return;
        };
        self.edges += u64::from(self.idg.edge(source.tx, sink));
        if self.logging
            && let Some(sink) = self.idg.get_mut(sink)
        {
            sink.log.mark(source);
        }
        if self.thread(owner).current == Some(source.tx) {
            self.close_unary(owner, at.index);
        }
    }

    /// Logs an access to what the thread owns.
    #[inline]
    pub fn log(&mut self, at: &Occurrence, kind: Kind, place: Place) {
        if !self.logging {
            return;
        }
        let state = &mut self.threads[at.event.thread.index()];
        let stamp = if self.cells[place.object as usize].state.is_rd_sh() {
            state.shared.entry(place.location).or_default()
        } else {
            &mut self.cells[place.location as usize].stamp
        };
        let regular = state.open == Open::Regular;
        if regular && stamp.covers(state.epoch, kind) {
            return;
        }
        let Some(transaction) = state.current.and_then(|tx| self.idg.get_mut(tx)) else {
            return;
        };
        let access = Access {
            at: *at,
            span: self.frames.log(at.event.thread.index()),
        };
        if regular {
            (transaction.log).record(stamp, state.epoch, kind, access);
        } else {
            (transaction.log).record_unary(stamp, state.epoch, kind, access);
        }
    }

    /// A thread forks another one: the child's next event comes after all that is logged so far.
    pub fn fork(&mut self, parent: ThreadId, child: ThreadId) {
        let here = self.here(parent);
        // Nothing before that point may be overwritten.
        self.new_epoch(parent);
        let mut forks = std::mem::take(&mut self.thread(child).forks);
        forks.retain(|fork| (self.idg.get(fork.tx)).is_some_and(|tx| tx.thread != parent));
        forks.extend(here);
        self.thread(child).forks = forks;
    }

    /// An event of a thread comes after the forks of the thread; whether there were any.
    #[inline]
    pub fn forked(&mut self, at: &Occurrence) -> bool {
        let thread = self.threads.get(at.event.thread.index());
        let forked = thread.is_some_and(|thread| !thread.forks.is_empty());
        if forked {
            let mut forks = std::mem::take(&mut self.thread(at.event.thread).forks);
            self.sources.append(&mut forks);
            self.order_after_sources(at);
        }
        forked
    }

    /// A thread joins another one: it comes after all that the child has done.
    pub fn join(&mut self, at: &Occurrence, child: ThreadId) {
        self.source_current(child);
        self.order_after_sources(at);
    }

    /// Logs an event that is rare, each time.
    pub fn log_event(&mut self, at: &Occurrence) {
        let thread = at.event.thread;
        if self.thread(thread).open == Open::Nothing {
            self.open_unary(at);
        }
        let tx = self.thread(thread).current;
        if self.logging
            && let Some(transaction) = tx.and_then(|tx| self.idg.get_mut(tx))
        {
            let span = self.frames.log(thread.index());
            transaction.log.push(Access { at: *at, span });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atomsan_trace::{Event, Op, StackId, VarId};

    /// Accesses to places that are variables and objects at once.
    struct Driver {
        icd: Icd,
        index: u64,
    }

    impl Driver {
        fn new() -> Self {
            Driver {
                icd: Icd::new(true),
                index: 0,
            }
        }

        fn at(&mut self, thread: u32) -> Occurrence {
            self.index += 1;
            Occurrence {
                index: self.index,
                stack: StackId::EMPTY,
                event: Event {
                    thread: ThreadId(thread),
                    site: SiteId::UNKNOWN,
                    op: Op::Read(VarId(0)),
                },
            }
        }

        fn access(&mut self, thread: u32, kind: Kind, place: u32) {
            let at = self.at(thread);
            let place = Place {
                location: place,
                object: place,
            };
            self.icd.own(&at, kind, place, 8);
            self.icd.log(&at, kind, place);
        }

        fn begin(&mut self, thread: u32) {
            let at = self.at(thread);
            self.icd.begin(&at, FunctionId(0), SiteId::UNKNOWN);
        }

        fn end(&mut self, thread: u32) -> bool {
            let index = self.index + 1;
            self.icd.end(ThreadId(thread), index);
            self.icd.idg.is_due(1) && !self.icd.idg.components().is_empty()
        }

        /// The longest log.
        fn longest(&self) -> usize {
            let transactions = self.icd.idg.transactions();
            let lengths = transactions.map(|(_, transaction)| transaction.log.items().len());
            lengths.max().unwrap_or(0)
        }
    }

    #[test]
    fn repetitions_do_not_make_a_log_longer() {
        for regular in [true, false] {
            let mut driver = Driver::new();
            // Thread 1 reads what thread 0 reads, so some of it is read-shared.
            for thread in [0, 1] {
                if regular {
                    driver.begin(thread);
                }
            }
            for _ in 0..10_000 {
                for thread in [0, 1] {
                    for place in [0, 1] {
                        driver.access(thread, Kind::Read, place);
                    }
                    for place in [2, 3] {
                        driver.access(thread, Kind::Read, 2 * thread + place);
                        driver.access(thread, Kind::Write, 2 * thread + place);
                    }
                }
            }
            let longest = driver.longest();
            assert!(longest <= 20, "regular {regular}: {longest}");
        }
    }

    #[test]
    fn transactions_that_cannot_be_in_a_cycle_any_more_are_reclaimed() {
        let mut driver = Driver::new();
        let mut components = 0;
        for round in 0..200_000 {
            // Each is in a component with the one before it, and none is in one with them all.
            let (one, other) = (round % 2, 1 - round % 2);
            driver.begin(one);
            driver.access(one, Kind::Write, 0);
            driver.begin(other);
            driver.access(other, Kind::Write, 0);
            driver.access(one, Kind::Write, 0);
            components += u32::from(driver.end(one));
            components += u32::from(driver.end(other));
        }
        assert_eq!(components, 200_000);
        let kept = driver.icd.idg.transactions().count();
        assert!(kept <= 1 << 14, "{kept}");
    }
}
