//! Findings: the unserializable pattern, as in Fig. 7 of the paper.

use super::one::Intruder;
use super::skeleton::Spot;
use super::table::{Entry, Owner, Use};
use super::transaction::Access;
use super::two::{Order, Sketch};
use super::{NAME, Search};
use crate::culprit::culprit_in_common;
use crate::engine::Context;
use atomsan_trace::finding::{Anomaly, Criterion, Finding, Participant, Role, Status, Step};
use atomsan_trace::{Event, Op, SiteId, StackId, VarId};

/// A step of a pattern, and which participant makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) participant: usize,
    pub(super) var: VarId,
    pub(super) spot: Spot,
    /// What counts of it, if it is both a read and a write.
    pub(super) access: Option<Access>,
}

/// One participant of a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) owner: Owner,
    pub(super) entered: Entry,
}

impl From<&Sketch> for Part {
    fn from(sketch: &Sketch) -> Part {
        Part {
            owner: sketch.owner,
            entered: sketch.entered,
        }
    }
}

pub(super) fn one_var(
    ours: &Use,
    theirs: &Use,
    intruder: &Intruder,
    search: &Search<'_>,
    cx: &mut Context<'_>,
) {
    let (first, second) = ours.found.spots;
    let between = match intruder.second {
        false => theirs.found.spots.0,
        true => theirs.found.spots.1,
    };
    let block = &ours.found.block;
    // Patterns are made of reads and writes, but to a person an atomic update is both.
    let op = |spot: Spot, access| match (spot.op(ours.var), access) {
        (op @ Op::AtomicRmw(_), _) => op,
        (_, Access::Read) => Op::Read(ours.var),
        (_, Access::Write) => Op::Write(ours.var),
    };
    let other = op(between, intruder.access);
    let anomaly = Anomaly::classify(
        op(first, block.first),
        (other, other),
        op(second, block.second.unwrap_or(block.first)),
        2,
    );
    let parts = [ours, theirs].map(|u| Part {
        owner: u.owner,
        entered: u.entered,
    });
    let moves = [
        (0, first, Some(block.first)),
        (1, between, Some(intruder.access)),
        (0, second, block.second),
    ]
    .map(|(participant, spot, access)| Move {
        participant,
        var: ours.var,
        spot,
        access,
    });
    let calls = || second.calls();
    pattern(
        &parts,
        &moves,
        &[(0, 1), (1, 2)],
        anomaly,
        calls,
        search,
        cx,
    );
}

pub(super) fn two_var(
    ours: &Sketch,
    theirs: &Sketch,
    order: &Order,
    search: &Search<'_>,
    cx: &mut Context<'_>,
) {
    // The one that is split first is the culprit.
    let (parts, swap) = match order[0].0 {
        false => ([ours.into(), theirs.into()], false),
        true => ([theirs.into(), ours.into()], true),
    };
    let moves = order.map(|(other, point)| {
        let sketch = if other { theirs } else { ours };
        Move {
            participant: usize::from(other != swap),
            var: sketch.points[point].var,
            spot: sketch.points[point].spot,
            access: None,
        }
    });
    let mut edges = Vec::new();
    for early in 0..4 {
        for late in early + 1..4 {
            let [a, b] = [early, late].map(|at| {
                let (other, point) = order[at];
                (if other { theirs } else { ours }).points[point]
            });
            if order[early].0 != order[late].0 && a.conflicts(&b) {
                edges.push((early, late));
            }
        }
    }
    // The culprit's two steps, of which the first comes first of all.
    let culprit = if swap { theirs } else { ours };
    let own = |&&(other, _): &&(bool, usize)| other == swap;
    let last = order.iter().rfind(own).map_or(0, |&(_, point)| point);
    let calls = || culprit.calls(order[0].1, last);
    let anomaly = Anomaly::InconsistentPair;
    pattern(&parts, &moves, &edges, anomaly, calls, search, cx);
}

/// Reports a pattern. The first participant is the culprit's; `calls` were open all the way from
/// its first move to its last.
pub(super) fn pattern(
    parts: &[Part],
    moves: &[Move],
    edges: &[(usize, usize)],
    anomaly: Anomaly,
    calls: impl FnOnce() -> usize,
    search: &Search<'_>,
    cx: &mut Context<'_>,
) {
    // Which array element it is makes no other mistake, unless that is all that is known.
    let known = moves.iter().any(|step| step.spot.site != SiteId::UNKNOWN);
    let static_step = |step: &Move| {
        let owner = parts[step.participant].owner;
        let var = (!known).then_some(step.var);
        (
            step.participant,
            owner.region,
            step.spot.site,
            var,
            step.access,
        )
    };
    let key: Vec<_> = moves.iter().map(static_step).collect();
    let mut own = moves.iter().filter(|step| step.participant == 0);
    let spot = |step: &Move| (step.spot.stack, step.spot.site);
    let first = own.next().map_or((StackId::EMPTY, SiteId::UNKNOWN), spot);
    let last = own.next_back().map_or(first, spot);
    let tables = (cx.names, cx.stacks);
    let Part { owner, entered } = parts[0];
    let region = (owner.region, entered.site, entered.calls as usize);
    cx.findings.report((NAME, key), || Finding {
        engine: NAME,
        criterion: Criterion::ViewSerializability,
        status: Status::Predicted,
        anomaly,
        culprit: culprit_in_common(calls(), region, tables, first, last),
        participants: (parts.iter().enumerate())
            .map(|(number, part)| Participant {
                thread: part.owner.thread,
                region: part.owner.region,
                entered: part.entered.site,
                blamed: split(moves, number),
            })
            .collect(),
        witness: (moves.iter())
            .map(|step| Step {
                participant: step.participant,
                index: step.spot.index(),
                event: Event {
                    thread: parts[step.participant].owner.thread,
                    site: step.spot.site,
                    op: step.spot.op(step.var),
                },
                stack: step.spot.stack,
                role: Role::Access,
            })
            .collect(),
        edges: edges.to_vec(),
        index: moves
            .iter()
            .map(|step| step.spot.index())
            .max()
            .unwrap_or(0),
        notes: search.notes.clone(),
        count: 1,
    });
}

/// Whether something of others comes between two steps of the participant.
pub(super) fn split(moves: &[Move], participant: usize) -> bool {
    let own = |step: &Move| step.participant == participant;
    match (moves.iter().position(own), moves.iter().rposition(own)) {
        (Some(first), Some(last)) => moves[first..last].iter().any(|step| !own(step)),
        _ => false,
    }
}
