//! A look that is repeated under a lock.
//!
//! Double-checked locking looks at a flag, takes a lock if it must, and looks again. What the first look
//! saw may be out of date when the second one is made, and it does not matter: had the first look not
//! been made at all, the same would have happened from the lock on. It is *pure* (Flanagan, Freund,
//! Qadeer: *Exploiting purity for atomicity*, 2004): it has no effect but the decision to look again.
//!
//! So an atomic load does not count if the thread, before it writes anything that is shared, reads the
//! same variable again while it holds a lock that it did not hold then. That the value of the first
//! look is used for nothing else is assumed, not known: a program that looks twice and then
//! computes from what it saw first is missed.

use atomsan_trace::{LockId, Op, VarId};

/// How many looks are remembered.
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
}

impl Looks {
    /// Follows an access; the position of a look that it repeats under a lock.
    pub(super) fn step(&mut self, op: Op, position: u64, held: &[LockId]) -> Option<u64> {
        let again = op.var().filter(|_| op.is_atomic() && op.reads());
        let found = again.and_then(|var| self.looks.iter().position(|look| look.var == var));
        let look = found.map(|at| self.looks.swap_remove(at));
        if op.writes() {
            self.looks.clear();
        } else if let (Op::AtomicLoad(var), true) = (op, self.looks.len() < ROOM) {
            self.looks.push(Look {
                var,
                position,
                held: held.to_vec(),
            });
        }
        let look = look?;
        let newly_held = held.iter().any(|lock| !look.held.contains(lock));
        newly_held.then_some(look.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: VarId = VarId(1);
    const Y: VarId = VarId(2);
    const L: [LockId; 1] = [LockId(1)];

    #[test]
    fn the_first_of_two_looks() {
        let mut looks = Looks::default();
        assert_eq!(looks.step(Op::AtomicLoad(X), 1, &[]), None);
        assert_eq!(looks.step(Op::AtomicLoad(X), 2, &[]), None, "no lock");
        assert_eq!(looks.step(Op::AtomicLoad(X), 3, &L), Some(2));
        assert_eq!(looks.step(Op::AtomicLoad(X), 4, &L), None, "held before");
    }

    #[test]
    fn not_if_something_was_written_or_it_was_plain() {
        let mut looks = Looks::default();
        looks.step(Op::AtomicLoad(X), 1, &[]);
        looks.step(Op::Write(Y), 2, &[]);
        assert_eq!(looks.step(Op::AtomicLoad(X), 3, &L), None);
        looks.step(Op::Read(Y), 4, &[]);
        assert_eq!(looks.step(Op::Read(Y), 5, &L), None);
    }
}
