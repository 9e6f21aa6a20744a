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
    cycle
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
        participants.push(Participant {
            thread: out.event.thread,
            region: transaction.and_then(|transaction| transaction.region),
            entered: transaction.map_or(out.event.site, |transaction| transaction.entered),
            blamed: transaction.is_some_and(|transaction| transaction.region.is_some())
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
    Finding {
        engine,
        criterion: Criterion::ConflictSerializability,
        status: Status::Observed,
        anomaly: Anomaly::classify(
            first.0.event.op,
            (first.1.event.op, last.0.event.op),
            last.1.event.op,
            cycle.len(),
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
