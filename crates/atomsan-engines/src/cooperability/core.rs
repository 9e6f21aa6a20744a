//! What Copper and Silver share: everything but `addInEdges`.
//!
//! The analysis state is the paper's (section 4). `C_t` is [`Thread::current`]; `U_m`, `R_{x,t}` and
//! `W_x` are in [`Conflicts`], as weak references; `H` is the [`Graph`]. The cases of Fig. 4 come
//! down to one: *whose steps does this one depend on*, which [`Conflicts`] answers for each
//! operation, and then `addInEdges`, whose answer to a cycle is the one thing that differs
//! ([`Rule`], Fig. 5 and 6). Three details are settled here:
//!
//! * A transaction is opened by its first event and not by the yield before it, so there are no
//!   empty transactions, and a thread that is joined or forked between two transactions is not
//!   taken to be in one.
//! * For a write, Fig. 4 calls `addInEdges` twice, for the last write and then for the reads. If
//!   the second call puts a yield, the edges of the first lead to the wrong side of it and may
//!   ask for more yields than are needed. Here an operation makes one call.
//! * Fig. 5 leaves out all edges of an operation if one closes a cycle; here only those that do
//!   are left out, so less is missed afterwards.
//!
//! # Memory
//!
//! Without yields a thread is one transaction. In particular the main thread is one that stays
//! open, and all that its children do comes after it, so none of it can be reclaimed for want of
//! open ancestors. But a finished transaction can be the source of an edge only while a variable,
//! a lock or its thread refers to it. Whenever the transactions have doubled, the others are
//! forgotten ([`Graph::retain`]): memory follows the variables, not the yields.

use super::Options;
use super::yields::Assumed;
use crate::clocks::TxRef;
use crate::conflicts::{Access, Conflicts};
use crate::cycle::{Conflict, Dependence, cycle};
use crate::engine::{Context, Occurrence, Stat};
use crate::forgetting::Forgetting;
use crate::graph::{Graph, PathEdge};
use crate::regions::{Boundary, OpenFrame, Regions};
use crate::transactions::Transaction;
use atomsan_trace::{Event, Op, ThreadId};

/// An operation whose dependence closes a cycle.
pub(super) struct Violation<'a> {
    /// The transactions.
    pub(super) graph: &'a Graph<Transaction, Dependence>,
    /// The open regions.
    pub(super) regions: &'a Regions,
    /// The step depended on.
    pub(super) from: &'a Access,
    /// The operation.
    pub(super) to: &'a Access,
}

impl Violation<'_> {
    /// The innermost atomic region that was open all the way from the transaction's first part in
    /// the cycle to the operation.
    pub(super) fn broken_region(&self) -> Option<&OpenFrame> {
        let first = self.graph.path(self.to.tx, self.from.tx).first()?.data.from;
        let mut frames = self.regions.frames(self.to.at.event.thread).iter().rev();
        frames.find(|frame| frame.atomic && frame.index <= first.index)
    }

    /// The whole cycle, from the operation's transaction to itself.
    pub(super) fn cycle(&self) -> Vec<PathEdge<Conflict>> {
        cycle(self.graph, self.from, self.to)
    }
}

/// What `addInEdges` does about a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The edge is left out (Fig. 5).
    LeaveOut,
    /// A yield is put right before the operation (Fig. 6).
    Yield,
}

/// The part of `addInEdges` that differs.
pub(super) trait Rule {
    /// An edge would close a cycle.
    fn violated(&mut self, violation: &Violation<'_>, cx: &mut Context<'_>) -> Answer;

    /// An event, and whether it is inside of an atomic region.
    #[inline]
    fn observe(&mut self, _event: &Event, _inside: bool) {}

    /// The event enters an outermost atomic region.
    fn entered(&mut self, _event: &Event) {}

    /// The event is a yield: written, assumed, or implied by blocking.
    fn yielded(&mut self, _event: &Event) {}
}

/// Below this many transactions there is nothing worth forgetting.
const FEW: usize = 128;

/// The analysis.
#[derive(Debug)]
pub(super) struct Core<R> {
    pub(super) rule: R,
    regions: Regions,
    conflicts: Conflicts,
    graph: Graph<Transaction, Dependence>,
    threads: Vec<Thread>,
    regions_yield: bool,
    assumed: Assumed,
    transactions: u64,
    most_alive: usize,
    forgetting: Forgetting,
    /// A spare list, to save allocations.
    sources: Vec<Access>,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    /// `C_t`; none between a yield and the next event.
    current: TxRef,
    /// In an atomic region.
    inside: bool,
}

impl<R: Rule> Core<R> {
    pub(super) fn new(rule: R, options: Options) -> Self {
        Core {
            rule,
            regions: Regions::default(),
            conflicts: Conflicts::new(options.sync_edges),
            graph: Graph::default(),
            threads: Vec::new(),
            regions_yield: options.regions_yield,
            assumed: Assumed::new(&options.assumed),
            transactions: 0,
            most_alive: 0,
            forgetting: Forgetting::new(FEW),
            sources: Vec::new(),
        }
    }

    /// What was counted.
    pub(super) fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        vec![
            stat("transactions", self.transactions),
            stat("edges", self.graph.edges()),
            stat("most transactions kept", self.most_alive as u64),
        ]
    }

    /// `analyze`.
    #[inline]
    pub(super) fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let event = &at.event;
        let thread = event.thread.index();
        if thread >= self.threads.len() {
            self.threads.resize(
                thread + 1,
                Thread {
                    current: TxRef::NONE,
                    inside: false,
                },
            );
        }
        self.rule.observe(event, self.threads[thread].inside);
        if self.assumed.any() && self.assumed.at(event.site, cx.names) {
            self.rule.yielded(event);
            self.end(event.thread);
        }
        if event.op.var().is_some() {
            return self.operation(at, cx);
        }
        match event.op {
            Op::Yield => {
                self.rule.yielded(event);
                self.end(event.thread);
            }
            Op::Wait(_) | Op::Arrive(_) => {
                self.rule.yielded(event);
                self.operation(at, cx);
                self.end(event.thread);
            }
            Op::Join(child) => {
                self.rule.yielded(event);
                self.end(event.thread);
                self.operation(at, cx);
                if child != event.thread {
                    self.end(child);
                }
            }
            Op::Begin(_) | Op::End | Op::Enter(_) | Op::Exit(_) => self.border(at, cx),
            _ => self.operation(at, cx),
        }
    }

    /// An event that may be the border of an atomic region.
    fn border(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let boundary = self.regions.step(at.index, &at.event, cx.names);
        let begins = matches!(boundary, Boundary::Begin(_));
        self.threads[at.event.thread.index()].inside = begins || boundary == Boundary::Inside;
        if begins {
            self.rule.entered(&at.event);
            if self.regions_yield {
                self.end(at.event.thread);
            }
        }
        self.operation(at, cx);
        if boundary == Boundary::End && self.regions_yield {
            self.end(at.event.thread);
        }
    }

    /// The thread's transaction is finished, if there is one.
    fn end(&mut self, thread: ThreadId) {
        let Some(thread) = self.threads.get_mut(thread.index()) else {
            return;
        };
        if thread.current != TxRef::NONE {
            self.graph.close(thread.current);
            thread.current = TxRef::NONE;
            if self.forgetting.is_due(self.graph.alive()) {
                self.forget();
            }
        }
    }

    /// The event starts a transaction, which comes after the last of its thread.
    fn begin(&mut self, at: &Occurrence) -> TxRef {
        let thread = at.event.thread;
        let frame = self.regions.frames(thread).last();
        let tx = self.graph.open(Transaction {
            thread,
            region: frame.map(|frame| frame.function),
            entered: at.event.site,
            unary_from: u64::MAX,
        });
        self.threads[thread.index()].current = tx;
        self.transactions += 1;
        self.most_alive = self.most_alive.max(self.graph.alive());
        if let Some(&last) = self.conflicts.last(thread) {
            self.add_edge(&last, &Access { tx, at: *at });
        }
        tx
    }

    /// Adds an edge unless it closes a cycle.
    fn add_edge(&mut self, from: &Access, to: &Access) {
        let dependence = || Dependence {
            from: from.at,
            to: to.at,
            into: to.tx,
        };
        let _ = self.graph.edge(from.tx, to.tx, dependence);
    }

    #[inline]
    fn operation(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        let current = self.threads[at.event.thread.index()].current;
        if current != TxRef::NONE && self.conflicts.repeats(&at.event, current) {
            return;
        }
        self.add_in_edges(at, current, cx);
    }

    fn add_in_edges(&mut self, at: &Occurrence, current: TxRef, cx: &mut Context<'_>) {
        let mut tx = match current {
            TxRef::NONE => self.begin(at),
            open => open,
        };
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        let graph = &self.graph;
        self.conflicts.dependences(&at.event, |access| {
            if access.at.event.thread != at.event.thread && graph.is_alive(access.tx) {
                sources.push(*access);
            }
        });
        let closes_cycle = |from: &&Access| graph.closes_cycle(from.tx, tx);
        if let Some(from) = sources.iter().find(closes_cycle) {
            let violation = Violation {
                graph: &self.graph,
                regions: &self.regions,
                from,
                to: &Access { tx, at: *at },
            };
            if self.rule.violated(&violation, cx) == Answer::Yield {
                self.end(at.event.thread);
                tx = self.begin(at);
            }
        }
        let to = Access { tx, at: *at };
        for from in &sources {
            self.add_edge(from, &to);
        }
        self.sources = sources;
        self.conflicts.remember(to);
    }

    /// Forgets the transactions that nothing refers to.
    #[cold]
    fn forget(&mut self) {
        let graph = &self.graph;
        self.forgetting
            .mark(&self.conflicts, |tx| graph.is_alive(tx));
        let forgetting = &self.forgetting;
        self.graph.retain(|tx| forgetting.is_referred(tx));
        self.forgetting.done(self.graph.alive());
    }
}
