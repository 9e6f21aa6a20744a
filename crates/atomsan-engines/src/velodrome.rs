//! Velodrome: the transactional happens-before graph (Flanagan, Freund, Yi; PLDI 2008).
//!
//! Transactions are nodes, conflicts between their events are edges; the execution is conflict
//! serializable if and only if the graph stays acyclic. When an event would close a cycle, the
//! cycle is the finding: for each edge the two events that made it.
//!
//! [`crate::cycle`] says who is to blame. [`crate::transactions`] makes the transactions (unary ones are merged), [`crate::graph`] keeps
//! those that can still be part of a cycle.

use crate::clocks::{Edge, TxRef};
use crate::conflicts::Access;
use crate::culprit::culprit;
use crate::cycle::{Dependence, cycle, describe};
use crate::engine::{Context, Engine, Occurrence, Stat};
use crate::graph::Graph;
use crate::regions::OpenFrame;
use crate::transactions::{Order, Transaction, Transactions};
use atomsan_trace::Finding;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether synchronisation makes edges, or memory accesses only.
    pub sync_edges: bool,
    /// How many transactions are kept before any that nothing refers to is forgotten; `None` is
    /// what suits the engine.
    pub keep: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sync_edges: true,
            keep: None,
        }
    }
}

impl Order for Graph<Transaction, Dependence> {
    fn open(&mut self, transaction: Transaction) -> TxRef {
        Graph::open(self, transaction)
    }

    fn close(&mut self, tx: TxRef) {
        Graph::close(self, tx);
    }

    fn join(&mut self, tx: TxRef, index: u64) {
        if let Some(transaction) = self.get_mut(tx) {
            transaction.unary_from = transaction.unary_from.min(index);
        }
    }

    #[inline]
    fn is_alive(&self, tx: TxRef) -> bool {
        Graph::is_alive(self, tx)
    }

    fn alive(&self) -> usize {
        Graph::alive(self)
    }

    fn retain(&mut self, keep: impl Fn(TxRef) -> bool) {
        Graph::retain(self, keep);
    }

    #[inline]
    fn edge(&mut self, from: &Access, to: &Access) -> Edge {
        let edges = self.edges();
        let edge = Graph::edge(self, from.tx, to.tx, || Dependence::new(from, to));
        // Two transactions that share a lock usually share data, too, and the data says more
        // about what went wrong.
        if edge == Edge::Ordered && self.edges() == edges && to.at.event.op.var().is_some() {
            self.improve(from.tx, to.tx, Dependence::new(from, to), |old| {
                old.to.event.op.var().is_none() && old.into == to.tx
            });
        }
        edge
    }
}

/// As long as fewer transactions are alive, the whole graph is kept, so that a cycle can be shown
/// in full. Beyond, what nothing refers to is forgotten, and a cycle through it is shown shorter.
const MANY: usize = 1 << 16;

/// The engine.
#[derive(Debug)]
pub struct Velodrome {
    transactions: Transactions<Graph<Transaction, Dependence>>,
    most_alive: usize,
}

impl Velodrome {
    /// Nothing has happened yet.
    pub fn new(options: Options) -> Self {
        Velodrome {
            transactions: Transactions::new(
                Graph::default(),
                options.sync_edges,
                options.keep.unwrap_or(MANY),
            ),
            most_alive: 0,
        }
    }
}

impl Engine for Velodrome {
    fn name(&self) -> &'static str {
        "velodrome"
    }

    #[inline]
    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        self.transactions
            .event(at, cx, |transactions, from, to, cx| {
                let frames = transactions.regions().frames(to.at.event.thread);
                report("velodrome", &transactions.order, from, to, cx, |_| frames);
            });
        self.most_alive = self.most_alive.max(self.transactions.order.alive());
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        vec![
            stat("transactions", self.transactions.begun()),
            stat("edges", self.transactions.order.edges()),
            stat("most transactions kept", self.most_alive as u64),
        ]
    }
}

/// Reports the cycle that `to` would close by depending on `from`. `frames` are the ones open at
/// `to`, so that [`culprit`] can see which of them were open at the transaction's first event on the
/// cycle already.
pub(crate) fn report<F: AsRef<[OpenFrame]>>(
    engine: &'static str,
    graph: &Graph<Transaction, Dependence>,
    from: &Access,
    to: &Access,
    cx: &mut Context<'_>,
    frames: impl FnOnce(&Occurrence) -> F,
) {
    let Some(blamed) = graph.get(to.tx) else {
        return;
    };
    let table = (cx.names, cx.stacks);
    let key = (blamed.region, blamed.entered, to.at.event.site);
    cx.findings.report(key, || {
        let cycle = cycle(graph, from, to);
        let first = cycle[0].data.0;
        Finding {
            culprit: culprit(frames(&first).as_ref(), table, &first, &to.at),
            ..describe(engine, graph, &cycle)
        }
    });
}
