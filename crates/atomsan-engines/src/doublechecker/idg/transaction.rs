//! What a node carries where events are checked: a transaction with its log.

use super::super::log::{Log, Tx};
use super::{Carried, Idg};
use crate::Occurrence;
use atomsan_trace::{FunctionId, SiteId, ThreadId};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// A transaction.
#[derive(Debug)]
pub struct Transaction {
    /// Its thread.
    pub thread: ThreadId,
    /// The region it executes; `None` for merged unary transactions.
    pub region: Option<FunctionId>,
    /// Where the region was entered.
    pub entered: SiteId,
    /// Its first event.
    pub began: Occurrence,
    /// The position in the trace before which it finished, if it has.
    pub ended: Option<u64>,
    /// What it accessed.
    pub log: Log,
    /// Violations that have been reported: the positions of the two conflicting events.
    pub(in super::super) reported: HashSet<(u64, u64), FxBuildHasher>,
}

impl Transaction {
    /// A transaction that begins.
    pub fn new(region: Option<FunctionId>, entered: SiteId, began: Occurrence) -> Transaction {
        Transaction {
            thread: began.event.thread,
            region,
            entered,
            began,
            ended: None,
            log: Log::default(),
            reported: HashSet::default(),
        }
    }
}

impl Carried for Transaction {
    fn began(&self) -> u64 {
        self.began.index
    }

    fn weight(&self) -> usize {
        self.log.items().len()
    }

    fn forget(&mut self) {
        self.log.clear();
        self.reported = HashSet::default();
    }

    /// The log keeps its memory.
    fn follow(&mut self, next: Transaction) {
        let log = std::mem::take(&mut self.log);
        *self = Transaction { log, ..next };
    }
}

impl Idg {
    /// A transaction finishes before the event at `index`: no edge will lead to it any more.
    pub fn close(&mut self, tx: Tx, index: u64) {
        if let Some(transaction) = self.get_mut(tx) {
            transaction.ended = Some(index);
            transaction.log.settle();
            let log = transaction.weight();
            self.weight += log;
            self.finish(tx);
        }
    }
}
