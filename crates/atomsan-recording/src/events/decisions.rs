//! An exchange that decides between a look and a store.
//!
//! A queue without locks looks at a slot, moves the tail on by a compare-exchange, and stores into the slot.
//! The look may be out of date, but who has moved the tail is the only one to use the slot, and had anybody
//! else moved it since, the exchange would have failed. The shape is that of a lost update: a load, others
//! that store, a store. What tells it from "look, then store" is the compare-exchange of *another* word in between
//! that succeeded.
//!
//! If only one thread takes from the queue, then the head is private to it, and not a variable at all. It decides all the
//! same ([`Decisions::decide`]): the program would be as right with more threads.
//!
//! That the exchange has to do with the slot is not known. So the store stays what it is, and only its place
//! says so, as after a second look ([`super::sections`]): the exchange is named as that look.

use atomsan_trace::{Op, SiteId, VarId};

/// How many variables are remembered.
const ROOM: usize = 16;

/// The looks and decisions of one thread.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// Variables that were loaded since the last exchange.
    looked: Vec<VarId>,
    /// Variables that were loaded before an exchange, and the place of that.
    decided: Vec<(VarId, SiteId)>,
}

impl Decisions {
    /// Follows an atomic access; `compares` says whether it is a compare-exchange. The place of the exchange
    /// that decided, if it is a store after one.
    pub(super) fn step(&mut self, op: Op, site: SiteId, compares: bool) -> Option<SiteId> {
        match op {
            Op::AtomicLoad(var) => {
                self.decided.retain(|(decided, _)| *decided != var);
                if !self.looked.contains(&var) {
                    push(&mut self.looked, var);
                }
                None
            }
            Op::AtomicRmw(var) if compares => {
                self.looked.retain(|looked| *looked != var);
                self.decide(site);
                None
            }
            Op::AtomicStore(var) => {
                self.looked.retain(|looked| *looked != var);
                let mut decided = self.decided.iter();
                let (_, place) = decided.find(|(decided, _)| *decided == var)?;
                Some(*place)
            }
            _ => None,
        }
    }

    /// Whether there is something to decide.
    pub(super) fn has_looked(&self) -> bool {
        !self.looked.is_empty()
    }

    /// A compare-exchange of another word than those that were looked at has succeeded.
    pub(super) fn decide(&mut self, site: SiteId) {
        for looked in std::mem::take(&mut self.looked) {
            push(&mut self.decided, (looked, site));
        }
    }
}

/// Adds to a list that does not grow for ever: the oldest is forgotten.
fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() == ROOM {
        list.remove(0);
    }
    list.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: VarId = VarId(1);
    const TAIL: VarId = VarId(2);

    /// Whether the last of some accesses is a store after a decision.
    fn decided(steps: &[(Op, bool)]) -> bool {
        let mut decisions = Decisions::default();
        let steps = steps.iter();
        let steps = steps.map(|&(op, compares)| decisions.step(op, SiteId(7), compares));
        steps.last().is_some_and(|last| last == Some(SiteId(7)))
    }

    #[test]
    fn an_exchange_of_another_word_between_look_and_store() {
        let look = (Op::AtomicLoad(SLOT), false);
        let exchange = |var| (Op::AtomicRmw(var), true);
        let store = (Op::AtomicStore(SLOT), false);
        assert!(decided(&[look, exchange(TAIL), store]));
        assert!(!decided(&[look, store]), "nothing in between");
        assert!(
            !decided(&[look, exchange(SLOT), store]),
            "of the word itself"
        );
        assert!(
            !decided(&[look, (Op::AtomicRmw(TAIL), false), store]),
            "a sum"
        );
        assert!(!decided(&[exchange(TAIL), look, store]), "before the look");
        let again = [look, exchange(TAIL), look, store];
        assert!(!decided(&again), "another look after it");
        let failed = (Op::AtomicRmwFailed(TAIL), true);
        assert!(!decided(&[look, failed, store]), "it failed");
    }
}
