//! Forgetting transactions that nothing refers to.
//!
//! Under a transaction that stays open, nothing that comes after it ever dies for want of open
//! ancestors. But a closed transaction can be the source of an edge only while a variable, a lock
//! or its thread refers to it. So whenever the transactions have doubled, all references are
//! marked and the rest can go: memory follows the variables, not the transactions, and the passes
//! cost a constant for each transaction.

use crate::clocks::TxRef;
use crate::conflicts::Conflicts;

/// A pass looks at all that is remembered; between two passes there are enough new transactions
/// for each to pay for this many.
const PASS: usize = 16;

/// When to forget, and what to keep.
#[derive(Debug)]
pub struct Forgetting {
    few: usize,
    /// How many transactions may be alive before some are forgotten.
    room: usize,
    referred: Vec<bool>,
    remembered: usize,
}

impl Forgetting {
    /// `few` transactions are not worth a pass.
    pub fn new(few: usize) -> Self {
        Forgetting {
            few,
            room: few,
            referred: Vec::new(),
            remembered: 0,
        }
    }

    /// Whether it is time for a pass.
    #[inline]
    pub fn is_due(&self, alive: usize) -> bool {
        alive > self.room
    }

    /// Begins a pass: marks what is referred to.
    pub fn mark(&mut self, conflicts: &Conflicts, is_alive: impl Fn(TxRef) -> bool) {
        self.referred.clear();
        self.remembered = 0;
        conflicts.remembered(|access| {
            self.remembered += 1;
            if is_alive(access.tx) {
                let slot = access.tx.slot();
                if self.referred.len() <= slot {
                    self.referred.resize(slot + 1, false);
                }
                self.referred[slot] = true;
            }
        });
    }

    /// Whether a transaction that is alive was marked.
    pub fn is_referred(&self, tx: TxRef) -> bool {
        self.referred.get(tx.slot()).copied().unwrap_or(false)
    }

    /// Ends a pass that has left so many alive.
    pub fn done(&mut self, alive: usize) {
        let worth_it = alive + self.remembered / PASS;
        self.room = self.few.max(2 * alive).max(worth_it);
    }
}
