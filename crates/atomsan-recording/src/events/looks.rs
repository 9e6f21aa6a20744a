//! A look that is repeated under a lock.
//!
//! Double-checked locking looks at a flag, takes a lock if it must, and looks again. What the first look
//! saw may be out of date when the second one is made, and it does not matter: had the first look not
//! been made at all, the same would have happened from the lock on. It is *pure* (Flanagan, Freund,
//! Qadeer: *Exploiting purity for atomicity*, 2004): it has no effect but the decision to look again.
//!
//! So an atomic load does not count if the thread reads the same variable again while it holds a lock that
//! it did not hold then, and has not written anything in between that others can see: no atomic, and no
//! plain variable that is checked at all ([`crate::handover`]). That the value of the first look is used
//! for nothing else is assumed, not known: a program that looks twice and then computes from what it
//! saw first is missed.

use crate::handover::HandedOver;
use atomsan_trace::{LockId, Op, VarId};

/// How many looks are remembered, and how many writes after each.
const ROOM: usize = 16;

/// The looks of one thread since it last wrote.
#[derive(Debug, Default)]
pub(super) struct Looks {
    looks: Vec<Look>,
}

#[derive(Debug)]
struct Look {
    var: VarId,
    position: u64,
    held: Vec<LockId>,
    written: Vec<VarId>,
}

/// A look that was repeated under a lock.
#[derive(Debug)]
pub(super) struct Repeated {
    /// Where in the recording it is.
    pub(super) position: u64,
    /// What was written in between.
    written: Vec<VarId>,
}

impl Repeated {
    /// Whether nothing was written in between that others can see.
    pub(super) fn is_pure(&self, handed_over: &HandedOver) -> bool {
        self.written.iter().all(|&var| handed_over.contains(var))
    }
}

impl Looks {
    /// Follows an access; the look that it repeats under a lock.
    pub(super) fn step(&mut self, op: Op, position: u64, held: &[LockId]) -> Option<Repeated> {
        let var = op.var()?;
        if op.is_atomic() && op.writes() || op.writes() && self.is_full() {
            self.looks.clear();
            return None;
        }
        if op.writes() {
            self.looks
                .iter_mut()
                .for_each(|look| look.written.push(var));
            return None;
        }
        if !op.is_atomic() {
            return None;
        }
        let found = self.looks.iter().position(|look| look.var == var);
        let look = found.map(|at| self.looks.swap_remove(at));
        if self.looks.len() < ROOM {
            self.looks.push(Look {
                var,
                position,
                held: held.to_vec(),
                written: Vec::new(),
            });
        }
        let look = look?;
        let newly_held = held.iter().any(|lock| !look.held.contains(lock));
        newly_held.then_some(Repeated {
            position: look.position,
            written: look.written,
        })
    }

    fn is_full(&self) -> bool {
        self.looks.iter().any(|look| look.written.len() >= ROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: VarId = VarId(1);
    const Y: VarId = VarId(2);
    const L: [LockId; 1] = [LockId(1)];

    fn step(looks: &mut Looks, op: Op, position: u64, held: &[LockId]) -> Option<u64> {
        let repeated = looks.step(op, position, held)?;
        let pure = repeated.is_pure(&HandedOver::default());
        pure.then_some(repeated.position)
    }

    #[test]
    fn the_first_of_two_looks() {
        let mut looks = Looks::default();
        assert_eq!(step(&mut looks, Op::AtomicLoad(X), 1, &[]), None);
        assert_eq!(step(&mut looks, Op::AtomicLoad(X), 2, &[]), None, "no lock");
        assert_eq!(step(&mut looks, Op::AtomicLoad(X), 3, &L), Some(2));
        assert_eq!(
            step(&mut looks, Op::AtomicLoad(X), 4, &L),
            None,
            "held before"
        );
    }

    #[test]
    fn not_if_something_was_written_or_it_was_plain() {
        for write in [Op::Write(Y), Op::AtomicStore(Y)] {
            let mut looks = Looks::default();
            step(&mut looks, Op::AtomicLoad(X), 1, &[]);
            step(&mut looks, write, 2, &[]);
            assert_eq!(step(&mut looks, Op::AtomicLoad(X), 3, &L), None);
            step(&mut looks, Op::Read(Y), 4, &[]);
            assert_eq!(step(&mut looks, Op::Read(Y), 5, &L), None);
        }
    }
}
