//! Velodrome: the transactional happens-before graph (Flanagan, Freund, Yi; PLDI 2008).
//!
//! Transactions are nodes, conflicts between their events are edges; the execution is conflict
//! serializable if and only if the graph stays acyclic. When an event would close a cycle, the
//! cycle is the finding: for each edge the two events that made it.
//!
//! **Blame.** A transaction on the cycle is to blame if its outgoing edge leaves from an earlier
//! event than its incoming edge arrives at: others ran between the two, so it is not atomic
//! itself. The transaction whose event closes the cycle always is; that one is the culprit.
//!
//! [`crate::transactions`] makes the transactions (unary ones are merged), [`crate::graph`] keeps
//! those that can still be part of a cycle.

use crate::clocks::{Edge, TxRef};
use crate::conflicts::Access;
use crate::culprit::culprit;
use crate::engine::{Context, Engine, Occurrence, Stat};
use crate::graph::{Graph, PathEdge};
use crate::transactions::{Order, Transaction, Transactions};
use atomsan_trace::finding::{Anomaly, Criterion, Finding, Participant, Role, Status, Step};

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether synchronisation makes edges, or memory accesses only.
    pub sync_edges: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { sync_edges: true }
    }
}

type Conflict = (Occurrence, Occurrence);

impl Order for Graph<Transaction, Conflict> {
    fn open(&mut self, transaction: Transaction) -> TxRef {
        Graph::open(self, transaction)
    }

    fn close(&mut self, tx: TxRef) {
        Graph::close(self, tx);
    }

    #[inline]
    fn is_alive(&self, tx: TxRef) -> bool {
        Graph::is_alive(self, tx)
    }

    #[inline]
    fn edge(&mut self, from: &Access, to: &Access) -> Edge {
        let edges = self.edges();
        let edge = Graph::edge(self, from.tx, to.tx, || (from.at, to.at));
        // Two transactions that share a lock usually share data, too, and the data says more
        // about what went wrong.
        if edge == Edge::Ordered && self.edges() == edges && to.at.event.op.var().is_some() {
            self.improve(from.tx, to.tx, (from.at, to.at), |(_, old)| {
                old.event.op.var().is_none()
            });
        }
        edge
    }
}

/// The engine.
#[derive(Debug)]
pub struct Velodrome {
    transactions: Transactions<Graph<Transaction, Conflict>>,
    most_alive: usize,
}

impl Velodrome {
    /// Nothing has happened yet.
    pub fn new(options: Options) -> Self {
        Velodrome {
            transactions: Transactions::new(Graph::default(), options.sync_edges),
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
                violation(transactions, from, to, cx);
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

/// `to` would close a cycle.
fn violation(
    transactions: &Transactions<Graph<Transaction, Conflict>>,
    from: &Access,
    to: &Access,
    cx: &mut Context<'_>,
) {
    let graph = &transactions.order;
    let Some(blamed) = graph.get(to.tx) else {
        return;
    };
    let table = (cx.names, cx.stacks);
    let key = (blamed.region, blamed.entered, to.at.event.site);
    cx.findings.report(key, || {
        let mut cycle = graph.path(to.tx, from.tx);
        let first = cycle.first().map_or(to.at, |edge| edge.data.0);
        cycle.push(PathEdge {
            from: from.tx,
            to: to.tx,
            data: (from.at, to.at),
        });
        let frames = transactions.regions().frames(to.at.event.thread);
        let mut finding = describe(graph, &cycle);
        finding.culprit = culprit(frames, table, &first, &to.at);
        finding
    });
}

/// The finding that a cycle is; its edges start and end at the culprit's transaction.
fn describe(graph: &Graph<Transaction, Conflict>, cycle: &[PathEdge<Conflict>]) -> Finding {
    let mut participants = Vec::new();
    let mut witness: Vec<Step> = Vec::new();
    let mut previous = cycle.last();
    for (number, edge) in cycle.iter().enumerate() {
        let transaction = graph.get(edge.from).copied();
        let (out, incoming) = (edge.data.0, previous.map(|edge| edge.data.1));
        participants.push(Participant {
            thread: out.event.thread,
            region: transaction.and_then(|transaction| transaction.region),
            entered: transaction.map_or(out.event.site, |transaction| transaction.entered),
            blamed: transaction.is_some_and(|transaction| transaction.region.is_some())
                && incoming.is_some_and(|incoming| out.index < incoming.index),
        });
        for at in incoming.into_iter().chain([out]) {
            if witness.iter().all(|step| step.index != at.index) {
                witness.push(step(number, &at));
            }
        }
        previous = Some(edge);
    }
    witness.sort_by_key(|step| step.index);
    let place = |at: &Occurrence| witness.iter().position(|step| step.index == at.index);
    let edges = cycle
        .iter()
        .filter_map(|edge| Some((place(&edge.data.0)?, place(&edge.data.1)?)))
        .collect();
    let (first, last) = (cycle[0].data, cycle[cycle.len() - 1].data);
    Finding {
        engine: "velodrome",
        criterion: Criterion::ConflictSerializability,
        status: Status::Observed,
        anomaly: Anomaly::classify(
            first.0.event.op,
            (first.1.event.op, last.0.event.op),
            last.1.event.op,
            cycle.len(),
        ),
        culprit: atomsan_trace::finding::Culprit {
            region: participants[0].region,
            entered: participants[0].entered,
            between: (first.0.event.site, last.1.event.site),
        },
        participants,
        witness,
        edges,
        index: last.1.index,
        notes: Vec::new(),
        count: 1,
    }
}

fn step(participant: usize, at: &Occurrence) -> Step {
    Step {
        participant,
        index: at.index,
        event: at.event,
        stack: at.stack,
        role: Role::Access,
    }
}
