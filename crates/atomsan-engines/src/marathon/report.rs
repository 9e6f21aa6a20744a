//! What a cycle in the conflict graph of a set is to a person.
//!
//! A finding names the atomic set, the units of work, and the fields that order them. *Distinct*
//! cycles are counted by size, as in Table 1: a cycle is known by its atomic set (the class, not
//! the object) and by the functions and blocks that its units execute, in order; which accesses
//! make the edges does not matter.
//!
//! A thread's units are in order, one after the other. Where a cycle follows this order through
//! several units, those in the middle have nothing to do with it and are left out.
//!
//! A program that repeats a mistake closes millions of cycles, and each has to be searched for in
//! order to know its size. After [`ENOUGH`] searches for cycles that are closed between the same
//! two places, the rest is taken to be like the last one.

use super::sets::{Kind, SetId, Sets};
use crate::conflicts::Access;
use crate::culprit::culprit;
use crate::cycle::{Conflict, describe};
use crate::engine::{Context, Stat};
use crate::graph::{Graph, PathEdge};
use crate::regions::OpenFrame;
use crate::transactions::Transaction;
use atomsan_trace::finding::{Criterion, Finding};
use atomsan_trace::{FunctionId, Names, SiteId, VarId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

const ENOUGH: u32 = 100;

/// A set as the program knows it.
type Identity = (Option<Kind>, Option<VarId>);

/// What a unit executes: a function or label, or a block without a label at this place.
type StaticUnit = (Option<FunctionId>, SiteId);

/// Two units, and the places whose conflict closes a cycle.
type Closing = (Identity, [StaticUnit; 2], [SiteId; 2]);

/// The cycles seen.
#[derive(Debug, Default)]
pub(super) struct Reports {
    closings: HashMap<Closing, Searched, FxBuildHasher>,
    /// Distinct cycles, by size from 2 on; the last is 9 and more.
    sizes: [u64; 8],
}

/// How often a cycle was searched for, and the last one found.
#[derive(Debug, Default)]
struct Searched {
    times: u32,
    cycle: Cycle,
}

/// A distinct cycle.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Cycle {
    set: Identity,
    units: Vec<StaticUnit>,
}

impl Reports {
    /// The edge `from` → `to` would close a cycle in the graph of a set; `frames` are the open ones
    /// of the thread of `to`.
    pub(super) fn cycle(
        &mut self,
        graph: &Graph<Transaction, Conflict>,
        (from, to): (&Access, &Access),
        (set, sets): (SetId, &Sets),
        frames: &[OpenFrame],
        cx: &mut Context<'_>,
    ) {
        let names = cx.names;
        let tables = (names, cx.stacks);
        let identity = sets.identity(set);
        let unit = |tx| static_unit(graph.get(tx), names);
        let search = || {
            let mut path = graph.path(to.tx, from.tx);
            path.push(PathEdge {
                from: from.tx,
                to: to.tx,
                data: (from.at, to.at),
            });
            shorten(path)
        };
        let sites = [from.at.event.site, to.at.event.site];
        let closing = (identity, [unit(from.tx), unit(to.tx)], sites);
        let Searched { times, cycle } = self.closings.entry(closing).or_default();
        if *times < ENOUGH {
            *times += 1;
            let units = search().iter().map(|edge| unit(edge.from)).collect();
            *cycle = Cycle {
                set: identity,
                units: least_rotation(units),
            };
        }
        let new = cx.findings.report(&*cycle, || {
            let path = search();
            let mut finding = describe("marathon", graph, &path);
            finding.criterion = Criterion::AtomicSetSerializability;
            finding.culprit = culprit(frames, tables, &path[0].data.0, &to.at);
            finding.notes = notes(&finding, &path, &sets.describe(set, names), names);
            finding
        });
        if new {
            let size = cycle.units.len().clamp(2, self.sizes.len() + 1);
            self.sizes[size - 2] += 1;
        }
    }

    /// The columns of Table 1.
    pub(super) fn stats(&self) -> impl Iterator<Item = Stat> + '_ {
        const NAMES: [&str; 8] = [
            "cycles of 2",
            "cycles of 3",
            "cycles of 4",
            "cycles of 5",
            "cycles of 6",
            "cycles of 7",
            "cycles of 8",
            "cycles of 9 or more",
        ];
        let columns = NAMES.into_iter().zip(self.sizes);
        columns.map(|(name, value)| Stat { name, value })
    }
}

fn static_unit(unit: Option<&Transaction>, names: &Names) -> StaticUnit {
    match unit {
        Some(Transaction {
            region: Some(region),
            entered,
            ..
        }) => {
            let labelled = !names.function_name(*region).is_empty();
            let place = if labelled { SiteId::UNKNOWN } else { *entered };
            (Some(*region), place)
        }
        _ => (None, SiteId::UNKNOWN),
    }
}

/// Leaves out what is between two units of a thread.
fn shorten(path: Vec<PathEdge<Conflict>>) -> Vec<PathEdge<Conflict>> {
    let mut short: Vec<PathEdge<Conflict>> = Vec::with_capacity(path.len());
    let of_one_thread = |edge: &PathEdge<Conflict>| {
        let (before, after) = edge.data;
        before.event.thread == after.event.thread
    };
    for edge in path {
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

/// The same cycle may be closed at any of its units: of all ways to write it down, the least.
fn least_rotation(mut units: Vec<StaticUnit>) -> Vec<StaticUnit> {
    let rotated = |by: usize| units[by..].iter().chain(&units[..by]);
    let least = (0..units.len()).min_by(|&a, &b| rotated(a).cmp(rotated(b)));
    units.rotate_left(least.unwrap_or(0));
    units
}

fn notes(finding: &Finding, path: &[PathEdge<Conflict>], set: &str, names: &Names) -> Vec<String> {
    let unit = |number: usize| {
        let participant = &finding.participants[number % finding.participants.len()];
        let thread = names.thread(participant.thread);
        match participant.region.map(|region| names.function_name(region)) {
            Some(region) if region.is_empty() => format!("a block of {thread}"),
            Some(region) => format!("{region} of {thread}"),
            None => format!("an access of {thread}"),
        }
    };
    let units: Vec<String> = (0..path.len()).map(unit).collect();
    let mut notes = vec![
        format!("atomic set: {set}"),
        format!("units of work: {}", units.join(", ")),
    ];
    notes.extend(path.iter().enumerate().map(|(number, edge)| {
        let (before, after) = edge.data;
        let by = match before.event.op.var() {
            Some(x) if after.event.op.var() == Some(x) => names.var_name(x).into_owned(),
            _ => format!("the order of {}", names.thread(after.event.thread)),
        };
        format!("{} before {} by {by}", unit(number), unit(number + 1))
    }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_the_same_wherever_it_starts() {
        let unit = |n| (Some(FunctionId(n)), SiteId::UNKNOWN);
        let cycle = vec![unit(1), unit(0), unit(2), unit(0), unit(1)];
        for by in 0..cycle.len() {
            let mut rotated = cycle.clone();
            rotated.rotate_left(by);
            assert_eq!(
                least_rotation(rotated),
                [unit(0), unit(1), unit(1), unit(0), unit(2)]
            );
        }
    }
}
