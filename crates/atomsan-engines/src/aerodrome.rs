//! AeroDrome: conflict serializability with vector clocks, in linear time (Mathur, Viswanathan;
//! ASPLOS 2020).
//!
//! Each transaction carries a clock, and an event that depends on an earlier transaction joins
//! that one's clock into its own. A transaction that is about to join a clock which knows its own
//! beginning has a cycle. No graph is kept, so a finding has the two events that close the cycle
//! and not what lies between them.
//!
//! # Where this differs from the paper
//!
//! * The paper compares clocks only with the beginnings of open transactions, so a clock is kept
//!   as the outcome of these comparisons, one bit for each open transaction ([`crate::clocks`]).
//! * The paper passes what an open transaction learns on to its successors when it ends; here they
//!   learn it at once. So the violation is reported at the event that completes the cycle and not
//!   at a later end, the same event that Velodrome reports.
//! * What is outside of transactions keeps its thread's clock: a cycle may close through program
//!   order alone, out of one transaction of a thread and into a later one.

use crate::clocks::{Clocks, Edge, TxRef};
use crate::conflicts::Access;
use crate::engine::{Context, Engine, Occurrence, Stat};
use crate::transactions::{Order, Transaction, Transactions};
pub use crate::velodrome::Options;
use atomsan_trace::finding::{
    Anomaly, Criterion, Culprit, Finding, Participant, Role, Status, Step,
};

/// Clocks, and what a person wants to know about open transactions.
#[derive(Debug, Default)]
struct ClockOrder {
    clocks: Clocks,
    transactions: Vec<Option<Transaction>>,
}

impl Order for ClockOrder {
    fn open(&mut self, transaction: Transaction) -> TxRef {
        let tx = self.clocks.open();
        if self.transactions.len() <= tx.slot() {
            self.transactions.resize(tx.slot() + 1, None);
        }
        self.transactions[tx.slot()] = Some(transaction);
        tx
    }

    fn close(&mut self, tx: TxRef) {
        self.clocks.close(tx);
    }

    /// There is no witness that could say so.
    fn join(&mut self, _: TxRef, _: u64) {}

    #[inline]
    fn is_alive(&self, tx: TxRef) -> bool {
        self.clocks.is_alive(tx)
    }

    fn alive(&self) -> usize {
        self.clocks.alive()
    }

    fn retain(&mut self, keep: impl Fn(TxRef) -> bool) {
        self.clocks.retain(keep);
    }

    #[inline]
    fn edge(&mut self, from: &Access, to: &Access) -> Edge {
        self.clocks.order(from.tx, to.tx)
    }
}

/// Fewer transactions than this are not worth forgetting any.
const FEW: usize = 1 << 10;

/// The engine.
#[derive(Debug)]
pub struct Aerodrome {
    transactions: Transactions<ClockOrder>,
    most_alive: usize,
}

impl Aerodrome {
    /// Nothing has happened yet.
    pub fn new(options: Options) -> Self {
        Aerodrome {
            transactions: Transactions::new(
                ClockOrder::default(),
                options.sync_edges,
                options.keep.unwrap_or(FEW),
            ),
            most_alive: 0,
        }
    }
}

impl Engine for Aerodrome {
    fn name(&self) -> &'static str {
        "aerodrome"
    }

    #[inline]
    fn event(&mut self, at: &Occurrence, cx: &mut Context<'_>) {
        self.transactions
            .event(at, cx, |transactions, from, to, cx| {
                violation(&transactions.order, from, to, cx);
            });
        self.most_alive = self.most_alive.max(self.transactions.order.alive());
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value| Stat { name, value };
        vec![
            stat("transactions", self.transactions.begun()),
            stat("most transactions kept", self.most_alive as u64),
        ]
    }
}

fn violation(order: &ClockOrder, from: &Access, to: &Access, cx: &mut Context<'_>) {
    let known = |tx: TxRef| order.transactions.get(tx.slot()).copied().flatten();
    let Some(blamed) = known(to.tx) else {
        return;
    };
    let key = (blamed.region, blamed.entered, to.at.event.site);
    cx.findings.report(key, || Finding {
        engine: "aerodrome",
        criterion: Criterion::ConflictSerializability,
        status: Status::Observed,
        anomaly: Anomaly::NotSerializable,
        culprit: Culprit {
            region: blamed.region,
            entered: blamed.entered,
            between: (blamed.entered, to.at.event.site),
        },
        participants: [(Some(blamed), to, true), (known(from.tx), from, false)]
            .map(|(transaction, access, blamed)| Participant {
                thread: access.at.event.thread,
                region: transaction.and_then(|transaction| transaction.region),
                entered: transaction.map_or(access.at.event.site, |t| t.entered),
                blamed,
            })
            .into(),
        witness: [(1, from), (0, to)]
            .map(|(participant, access)| Step {
                participant,
                index: access.at.index,
                event: access.at.event,
                stack: access.at.stack,
                role: Role::Access,
            })
            .into(),
        edges: vec![(0, 1)],
        index: to.at.index,
        notes: Vec::new(),
        count: 1,
    });
}
