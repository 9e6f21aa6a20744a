//! The frame that velodrome and aerodrome share: events become transactions, and conflicts become
//! edges between them.
//!
//! # Unary transactions
//!
//! An event outside of all regions is a transaction of its own. Making a node for each would be
//! exact and slow. Instead, a unary event without a dependence on another thread's living
//! transaction joins the last transaction `l` of its own thread, even if that is a regular one
//! and closed, or none at all. That is exact: the event alone would have one incoming edge only,
//! from `l`, and get no other later, so whatever reaches it reaches `l` first, and whatever it
//! reaches is reached from `l`. A cycle goes through it if and only if one goes through `l`.
//! A unary event with such dependences becomes a new transaction, which is closed at once: only
//! its first event has incoming edges, so a path through it always runs forward in time.
//! To a person, an event behind a region is not part of it: a transaction knows since when events
//! have joined it from outside ([`Transaction::unary_from`]).
//!
//! # Violations
//!
//! An edge that would close a cycle always leads to an open transaction of the event's thread; it
//! is reported and left out, and checking goes on with an acyclic graph.

use crate::clocks::{Edge, TxRef};
use crate::conflicts::{Access, Conflicts};
use crate::engine::{Context, Occurrence};
use crate::forgetting::Forgetting;
use crate::regions::{Boundary, Regions};
use atomsan_trace::{FunctionId, SiteId, ThreadId};

/// What a transaction is to a person.
#[derive(Clone, Copy, Debug)]
pub struct Transaction {
    /// Its thread.
    pub thread: ThreadId,
    /// The region it executes; `None` for a unary transaction.
    pub region: Option<FunctionId>,
    /// Where its region was entered.
    pub entered: SiteId,
    /// Its events from this position on are behind its region, each a unary transaction.
    pub unary_from: u64,
}

impl Transaction {
    /// The region in which its event at a position happened.
    pub fn region_at(&self, index: u64) -> Option<FunctionId> {
        self.region.filter(|_| index < self.unary_from)
    }
}

/// What becomes of transactions and edges.
pub trait Order {
    /// A transaction begins.
    fn open(&mut self, transaction: Transaction) -> TxRef;
    /// It ends.
    fn close(&mut self, tx: TxRef);
    /// The unary event at this position joins the last transaction of its thread.
    fn join(&mut self, tx: TxRef, index: u64);
    /// Whether it can still be part of a cycle.
    fn is_alive(&self, tx: TxRef) -> bool;
    /// How many can.
    fn alive(&self) -> usize;
    /// Forgets closed transactions that will not be asked for again.
    fn retain(&mut self, keep: impl Fn(TxRef) -> bool);
    /// `to` depends on `from`.
    fn edge(&mut self, from: &Access, to: &Access) -> Edge;
}

/// Turns events into transactions and edges.
#[derive(Debug)]
pub struct Transactions<O> {
    /// Where transactions and edges go.
    pub order: O,
    regions: Regions,
    conflicts: Conflicts,
    /// The open transaction of each thread.
    current: Vec<TxRef>,
    begun: u64,
    forgetting: Forgetting,
    /// A spare list, to save allocations.
    sources: Vec<Access>,
}

impl<O: Order> Transactions<O> {
    /// With `sync_edges` false, only memory accesses make edges. As long as no more than `few`
    /// transactions are alive, none is [forgotten](Forgetting).
    pub fn new(order: O, sync_edges: bool, few: usize) -> Self {
        Transactions {
            order,
            regions: Regions::default(),
            conflicts: Conflicts::new(sync_edges),
            current: Vec::new(),
            begun: 0,
            forgetting: Forgetting::new(few),
            sources: Vec::new(),
        }
    }

    /// How many regular transactions have begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The open regions, for finding the culprit.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Takes one event; `violation` is called with each edge that would close a cycle, from the
    /// event depended on to the one that depends.
    #[inline]
    pub fn event(
        &mut self,
        at: &Occurrence,
        cx: &mut Context<'_>,
        mut violation: impl FnMut(&mut Self, &Access, &Access, &mut Context<'_>),
    ) {
        let boundary = self.regions.step(at.index, &at.event, cx.names);
        let thread = at.event.thread.index();
        if thread >= self.current.len() {
            self.current.resize(thread + 1, TxRef::NONE);
        }
        let tx = self.current[thread];
        match boundary {
            Boundary::Inside | Boundary::Split => {
                let tx = if tx == TxRef::NONE {
                    self.resume(at)
                } else {
                    tx
                };
                self.inside(at, tx, cx, &mut violation);
                if boundary == Boundary::Split {
                    self.order.close(tx);
                    self.current[thread] = TxRef::NONE;
                }
            }
            Boundary::Begin(region) => {
                let tx = self.begin(at, region, at.event.site);
                self.current[thread] = tx;
                self.inside(at, tx, cx, &mut violation);
            }
            Boundary::End if tx != TxRef::NONE => {
                self.inside(at, tx, cx, &mut violation);
                self.order.close(tx);
                self.current[thread] = TxRef::NONE;
            }
            // A region that ends right after it was split has nothing in its second part.
            Boundary::Outside | Boundary::End => self.outside(at),
        }
    }

    /// The first event after a split: another transaction of the same region.
    #[cold]
    fn resume(&mut self, at: &Occurrence) -> TxRef {
        let mut frames = self.regions.frames(at.event.thread).iter();
        let Some(frame) = frames.find(|frame| frame.atomic).copied() else {
            return TxRef::NONE;
        };
        let tx = self.begin(at, frame.function, frame.site);
        self.current[at.event.thread.index()] = tx;
        tx
    }

    /// A regular transaction begins, with this event or right before it. It ends when it is
    /// [closed](Order::close). With [`Transactions::inside`] and [`Transactions::outside`] this is
    /// for streams whose transactions are known already; [`Transactions::event`] finds them.
    pub fn begin(&mut self, at: &Occurrence, region: FunctionId, entered: SiteId) -> TxRef {
        self.begun += 1;
        if self.forgetting.is_due(self.order.alive()) {
            self.forget();
        }
        let thread = at.event.thread;
        let tx = self.order.open(Transaction {
            thread,
            region: Some(region),
            entered,
            unary_from: u64::MAX,
        });
        self.program_order(Access { tx, at: *at });
        tx
    }

    /// The transaction has just been opened, so this edge cannot close a cycle.
    fn program_order(&mut self, to: Access) {
        if let Some(last) = self.conflicts.last(to.at.event.thread) {
            let edge = self.order.edge(last, &to);
            debug_assert_eq!(edge, Edge::Ordered);
        }
    }

    /// An event of regular transaction `tx`, which is open.
    #[inline]
    pub fn inside(
        &mut self,
        at: &Occurrence,
        tx: TxRef,
        cx: &mut Context<'_>,
        violation: &mut impl FnMut(&mut Self, &Access, &Access, &mut Context<'_>),
    ) {
        if self.conflicts.repeats(&at.event, tx) {
            return;
        }
        let to = Access { tx, at: *at };
        let sources = self.living_sources(at, tx);
        for from in &sources {
            if self.order.edge(from, &to) == Edge::Cycle {
                violation(self, from, &to, cx);
            }
        }
        self.sources = sources;
        self.conflicts.remember(to);
    }

    /// An event outside of all regular transactions.
    pub fn outside(&mut self, at: &Occurrence) {
        let last = self.conflicts.last(at.event.thread);
        let mut tx = last.map_or(TxRef::NONE, |last| last.tx);
        if !self.order.is_alive(tx) {
            tx = TxRef::NONE;
        }
        if self.conflicts.repeats(&at.event, tx) {
            return;
        }
        let sources = self.living_sources(at, tx);
        if !sources.is_empty() {
            if self.forgetting.is_due(self.order.alive()) {
                self.forget();
            }
            tx = self.order.open(Transaction {
                thread: at.event.thread,
                region: None,
                entered: at.event.site,
                unary_from: at.index,
            });
            let to = Access { tx, at: *at };
            self.program_order(to);
            for from in &sources {
                let edge = self.order.edge(from, &to);
                debug_assert_eq!(edge, Edge::Ordered, "nothing depends on it yet");
            }
            self.order.close(tx);
        } else if tx != TxRef::NONE {
            self.order.join(tx, at.index);
        }
        self.sources = sources;
        self.conflicts.remember(Access { tx, at: *at });
    }

    #[cold]
    fn forget(&mut self) {
        let order = &self.order;
        self.forgetting
            .mark(&self.conflicts, |tx| order.is_alive(tx));
        let forgetting = &self.forgetting;
        self.order.retain(|tx| forgetting.is_referred(tx));
        self.forgetting.done(self.order.alive());
    }

    /// The events that this one depends on, of other transactions that are alive.
    #[inline]
    fn living_sources(&mut self, at: &Occurrence, tx: TxRef) -> Vec<Access> {
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        let order = &self.order;
        self.conflicts.dependences(&at.event, |access| {
            if access.tx != tx && order.is_alive(access.tx) {
                sources.push(*access);
            }
        });
        sources
    }
}
