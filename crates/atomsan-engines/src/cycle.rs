//! The finding that a cycle of transactions is.
//!
//! **Blame.** A transaction on the cycle is to blame if its outgoing edge was made before its
//! incoming edge: another thread's event came after one of its events and was in turn followed by
//! another, so it is not atomic itself. (That its outgoing edge leaves from an earlier event than
//! its incoming edge arrives at is not enough: both events may be over before anybody depends on
//! the first.) The transaction whose event closes the cycle always is; that one is the culprit.

use crate::clocks::TxRef;
use crate::conflicts::Access;
use crate::engine::Occurrence;
use crate::graph::{Graph, PathEdge};
use crate::transactions::Transaction;
use atomsan_trace::finding::{
    Anomaly, Criterion, Culprit, Finding, Participant, Role, Status, Step,
};

/// The two events that made an edge.
pub(crate) type Conflict = (Occurrence, Occurrence);

/// An edge of a graph that forgets ([`Graph::retain`]).
#[derive(Clone, Copy, Debug)]
pub struct Dependence {
    /// The event depended on.
    pub from: Occurrence,
    /// The event that depends on it.
    pub to: Occurrence,
    /// The transaction of `to`; not the edge's own target if those between were forgotten.
    pub into: TxRef,
}

impl Dependence {
    /// The edge that two events make.
    #[inline]
    pub fn new(from: &Access, to: &Access) -> Dependence {
        Dependence {
            from: from.at,
            to: to.at,
            into: to.tx,
        }
    }
}

/// The whole cycle that `to` would close by depending on `from`: it starts and ends at `to`'s
/// transaction. Where transactions were forgotten, an edge stands for what led through them.
pub(crate) fn cycle(
    graph: &Graph<Transaction, Dependence>,
    from: &Access,
    to: &Access,
) -> Vec<PathEdge<Conflict>> {
    let path = graph.path(to.tx, from.tx);
    let mut cycle = Vec::with_capacity(path.len() + 1);
    for (number, edge) in path.iter().enumerate() {
        let Dependence {
            from: out,
            to: arrives,
            into,
        } = edge.data;
        cycle.push(PathEdge {
            from: edge.from,
            to: into,
            data: (out, arrives),
        });
        if into != edge.to {
            let next = path.get(number + 1);
            cycle.push(PathEdge {
                from: into,
                to: edge.to,
                data: (arrives, next.map_or(from.at, |next| next.data.from)),
            });
        }
    }
    cycle.push(PathEdge {
        from: from.tx,
        to: to.tx,
        data: (from.at, to.at),
    });
    leave_out_runs(step_out(graph, straighten(cycle)))
}

/// A cycle may enter a transaction inside of its region and leave it by an event that joined it
/// from behind. That event is a unary transaction, so the way leads from one to the other.
fn step_out<E: Copy>(
    graph: &Graph<Transaction, E>,
    cycle: Vec<PathEdge<Conflict>>,
) -> Vec<PathEdge<Conflict>> {
    let mut whole: Vec<PathEdge<Conflict>> = Vec::with_capacity(cycle.len() + 1);
    for edge in cycle {
        let leaves = edge.data.0;
        if let (Some(last), Some(transaction)) = (whole.last(), graph.get(edge.from)) {
            let arrives = last.data.1;
            if transaction.region_at(arrives.index) != transaction.region_at(leaves.index) {
                whole.push(PathEdge {
                    from: edge.from,
                    to: edge.from,
                    data: (arrives, leaves),
                });
            }
        }
        whole.push(edge);
    }
    whole
}

/// The graph has an edge only to the next conflicting access, so while one transaction is
/// interrupted, a cycle may lead through thousands of others that came one after another. The
/// shortest way back is shown: straight to the last transaction that conflicts with the first
/// event of the cycle, and not through all that a thread did in between.
fn straighten(mut cycle: Vec<PathEdge<Conflict>>) -> Vec<PathEdge<Conflict>> {
    let (origin, first) = (cycle[0].from, cycle[0].data.0);
    let conflicts = |other: &Occurrence| {
        let (a, b) = (first.event, other.event);
        first.index < other.index
            && a.thread != b.thread
            && a.op.var().is_some()
            && a.op.var() == b.op.var()
            && (a.op.writes() || b.op.writes())
    };
    let last = cycle.iter().rposition(|edge| conflicts(&edge.data.0));
    if let Some(last) = last.filter(|&last| last > 1) {
        let next = cycle[last];
        let straight = PathEdge {
            from: origin,
            to: next.from,
            data: (first, next.data.0),
        };
        cycle.splice(..last, [straight]);
    }
    cycle
}

/// Leaves out what is between two transactions of one thread.
pub(crate) fn leave_out_runs(cycle: Vec<PathEdge<Conflict>>) -> Vec<PathEdge<Conflict>> {
    let mut short: Vec<PathEdge<Conflict>> = Vec::with_capacity(cycle.len());
    let of_one_thread = |edge: &PathEdge<Conflict>| {
        let (before, after) = edge.data;
        before.event.thread == after.event.thread
    };
    for edge in cycle {
        match short.last_mut() {
            Some(last) if of_one_thread(last) && of_one_thread(&edge) => {
                last.to = edge.to;
                last.data.1 = edge.data.1;
            }
            _ => short.push(edge),
        }
    }
    short
}

/// The finding that a cycle is; its edges start and end at the culprit's transaction.
pub(crate) fn describe<E: Copy>(
    engine: &'static str,
    graph: &Graph<Transaction, E>,
    cycle: &[PathEdge<Conflict>],
) -> Finding {
    let mut participants = Vec::new();
    let mut witness: Vec<Step> = Vec::new();
    let mut previous = cycle.last();
    for (number, edge) in cycle.iter().enumerate() {
        let transaction = graph.get(edge.from).copied();
        let (out, incoming) = (edge.data.0, previous.map(|edge| edge.data.1));
        let regular = transaction.filter(|tx| tx.region_at(out.index).is_some());
        participants.push(Participant {
            thread: out.event.thread,
            region: regular.and_then(|transaction| transaction.region),
            entered: regular.map_or(out.event.site, |transaction| transaction.entered),
            blamed: regular.is_some()
                && incoming.is_some_and(|incoming| edge.data.1.index < incoming.index),
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
    // Several transactions of one other thread are, to a person, that thread.
    let others = &participants[1..];
    let two_threads = others.iter().all(|p| p.thread == others[0].thread);
    let length = if two_threads { 2 } else { cycle.len() };
    Finding {
        engine,
        criterion: Criterion::ConflictSerializability,
        status: Status::Observed,
        anomaly: Anomaly::classify(
            first.0.event.op,
            (first.1.event.op, last.0.event.op),
            last.1.event.op,
            length,
        ),
        culprit: Culprit {
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
