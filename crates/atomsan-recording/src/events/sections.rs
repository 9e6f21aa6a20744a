//! A critical section that looks again before it writes.
//!
//! "Look under the read lock, miss, take the write lock, look again, insert" is right, and has the
//! shape of a lost update: a read, others that write, a write. What tells it from the blind insert
//! is a second look in the section of the write. It counts as one if
//!
//! * it reads what the thread has read in an earlier section of the same lock, since it last wrote in
//!   one: it looks at *that* again. Two variables of it at least, if the first look was at more than
//!   one: the length of a table alone does not say whether a key is in it. Or two variables, read by
//!   one call, right beside it ([`NEAR`]): a look at an empty table ends at its length. Variables that
//!   need no check are not looked at, except beside others: where a table is never changes; and
//! * it is made at another place of the user's code than the write: in between, the program had the
//!   say. An `insert` of a library reads before it writes as well, but it does so in both programs.
//!
//! # Complete updates
//!
//! To take something out of a pool and to give it back are two critical sections, and each of them reads the
//! pool's count and writes it: a complete update, which depends on nothing that was read before. So what a
//! thread does in a section to a variable that it has read and then written in its last section of the same
//! lock that touched it, is marked in the same way, if it is a read, or a write after a read in this section. A section
//! that only looked before is another matter: what is written then may follow from the look.
//!
//! # What is taken
//!
//! `Option::take`, called by the user's code, returns what is there and leaves nothing: what it writes depends on no
//! earlier look, and what it returns is what the program goes on with. So a take is marked as well. A `replace` is
//! not: what it puts there may follow from the look.
//!
//! # What it means
//!
//! That the second look decides, and nothing of the first one is used, is not known. So the write
//! stays what it is and only its place says so, and names that of the look ([`Site::looked_again`]); a finding that ends there
//! deserves less attention.
//!
//! [`Site::looked_again`]: atomsan_trace::names::Site::looked_again

use atomsan_trace::{LockId, Op, SiteId, VarId};

/// How many reads of a section, and of earlier ones of a lock, are remembered.
const READS: usize = 64;
/// How many locks are remembered that are held, and that were held before.
const LOCKS: usize = 16;

/// The critical sections of one thread.
#[derive(Debug, Default)]
pub(super) struct Sections {
    open: Vec<Section>,
    /// What was read under locks that are not held, the latest last.
    earlier: Vec<(LockId, Vec<Spot>)>,
    /// Variables whose last section of a lock was a complete update, by the lock, the latest last.
    updated: Vec<(LockId, Vec<VarId>)>,
}

/// How many bytes lie between two fields of one thing, at most.
const NEAR: u64 = 64;

#[derive(Debug)]
struct Section {
    lock: LockId,
    exclusive: bool,
    reads: Vec<Spot>,
    wrote: bool,
    /// Variables that were read and then written.
    updated: Vec<VarId>,
    /// Where it has read what was read before, or what is beside it.
    again: Vec<(SiteId, Again)>,
    /// How much of what was read before makes a look.
    enough: usize,
}

/// A variable, its address, and whether it needs a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Spot {
    var: VarId,
    address: u64,
    checked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Again {
    Same,
    Near,
}

impl Section {
    /// The place of the second look, if there was one, for a write at a place.
    fn looked_again(&self, write: SiteId) -> Option<SiteId> {
        let looks = || self.again.iter().filter(|(place, _)| *place != write);
        let same = looks().filter(|(_, again)| *again == Again::Same).count();
        let all = self.enough > 0 && same >= self.enough;
        looks().map(|&(place, _)| place).find(|&place| {
            let by_one_call = looks().filter(|(other, _)| *other == place).count();
            all || by_one_call > 1
        })
    }

    /// A read of something new, after these in earlier sections.
    fn look(&mut self, spot: Spot, site: SiteId, before: &[Spot]) {
        let near = |other: &Spot| other.address.abs_diff(spot.address) < NEAR;
        let again = if before.iter().any(|other| other.var == spot.var) {
            Again::Same
        } else if before.iter().any(near) {
            Again::Near
        } else {
            return;
        };
        self.enough = before.len().min(2);
        self.again.push((site, again));
    }
}

impl Sections {
    /// Follows an operation that is no access.
    pub(super) fn step(&mut self, op: Op) {
        match op {
            Op::Acquire(lock) | Op::Woken(lock) => self.enter(lock, true),
            Op::AcquireShared(lock) => self.enter(lock, false),
            Op::Release(lock) | Op::ReleaseShared(lock) | Op::Wait(lock) => self.leave(lock),
            _ => {}
        }
    }

    fn enter(&mut self, lock: LockId, exclusive: bool) {
        // What is never let go of must not cost more with every access.
        if self.open.len() == LOCKS {
            self.open.remove(0);
        }
        self.open.push(Section {
            lock,
            exclusive,
            reads: Vec::new(),
            wrote: false,
            updated: Vec::new(),
            again: Vec::new(),
            enough: 0,
        });
    }

    fn leave(&mut self, lock: LockId) {
        let Some(at) = self.open.iter().rposition(|section| section.lock == lock) else {
            return;
        };
        let Section {
            mut reads,
            wrote,
            mut updated,
            ..
        } = self.open.remove(at);
        if let Some(known) = self.updated.iter().position(|(known, _)| *known == lock) {
            let (_, before) = self.updated.remove(known);
            let untouched = |var: &VarId| reads.iter().all(|spot| spot.var != *var);
            let before = before.into_iter().filter(untouched);
            let before: Vec<_> = before.filter(|var| !updated.contains(var)).collect();
            updated.extend(before.into_iter().take(READS));
        }
        if self.updated.len() == LOCKS {
            self.updated.remove(0);
        }
        if !updated.is_empty() {
            self.updated.push((lock, updated));
        }
        reads.retain(|spot| spot.checked);
        if let Some(known) = self.earlier.iter().position(|(known, _)| *known == lock) {
            let (_, before) = self.earlier.remove(known);
            if !wrote {
                let new = |spot: &Spot| !reads.contains(spot);
                let before: Vec<_> = before.into_iter().filter(new).take(READS).collect();
                reads.extend(before);
            }
        }
        if self.earlier.len() == LOCKS {
            self.earlier.remove(0);
        }
        self.earlier.push((lock, reads));
    }

    /// Follows an access; the place of the second look, if it is a write after one.
    /// `checked` says whether the variable needs a check at all, and `takes` whether what is there is taken.
    pub(super) fn access(
        &mut self,
        op: Op,
        address: u64,
        site: SiteId,
        checked: bool,
        takes: bool,
    ) -> Option<SiteId> {
        let spot = Spot {
            var: op.var()?,
            address,
            checked,
        };
        let mut looked_again = None;
        for section in &mut self.open {
            let read = section.reads.iter().any(|other| other.var == spot.var);
            let updated = self.updated.iter().find(|(lock, _)| *lock == section.lock);
            let updated = updated.is_some_and(|(_, vars)| vars.contains(&spot.var));
            let complete = updated && (read || !op.writes()) || takes && read && op.writes();
            if section.exclusive && complete {
                looked_again = Some(SiteId::UNKNOWN);
            }
            if read && op.writes() && !section.updated.contains(&spot.var) {
                section.updated.push(spot.var);
            }
            // A read-modify-write has the last say by itself.
            if op.writes() {
                looked_again = looked_again.or_else(|| section.looked_again(site));
                section.wrote = true;
            } else if section.reads.len() < READS && !section.reads.contains(&spot) {
                section.reads.push(spot);
                let before = self.earlier.iter().find(|(lock, _)| *lock == section.lock);
                if let (true, Some((_, before))) = (section.exclusive, before) {
                    section.look(spot, site, before);
                }
            }
        }
        looked_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const L: LockId = LockId(1);
    const M: LockId = LockId(2);
    const X: VarId = VarId(1);
    const Y: VarId = VarId(2);
    /// The place of a take.
    const TAKE: u32 = 9;
    const Z: [VarId; 2] = [VarId(11), VarId(21)];

    /// Whether the last of some operations, each at a place, is a write after a second look.
    fn looked_again(steps: &[(Op, u32)]) -> bool {
        let mut sections = Sections::default();
        let mut last = false;
        for &(op, place) in steps {
            sections.step(op);
            // Variables are far from each other, but for Z and X.
            let address = op.var().map_or(0, |VarId(var)| 1000 * u64::from(var % 10));
            let looked_again = sections.access(op, address, SiteId(place), true, place == TAKE);
            last = looked_again.is_some();
        }
        last
    }

    fn look(lock: LockId, var: VarId) -> [(Op, u32); 3] {
        [
            (Op::AcquireShared(lock), 0),
            (Op::Read(var), 1),
            (Op::ReleaseShared(lock), 0),
        ]
    }

    #[test]
    fn the_second_look_is_at_the_same_under_the_lock_and_somewhere_else() {
        let insert = |lock, var, place| {
            [
                (Op::Acquire(lock), 0),
                (Op::Read(var), place),
                (Op::Write(Y), 3),
            ]
        };
        let after = |first: &[(Op, u32)], rest: &[(Op, u32)]| looked_again(&[first, rest].concat());
        assert!(after(&look(L, X), &insert(L, X, 2)));
        assert!(!after(&look(L, X), &insert(L, X, 3)), "by the same call");
        assert!(!after(&look(L, X), &insert(L, Y, 2)), "at something else");
        assert!(!after(&look(M, X), &insert(L, X, 2)), "under another lock");
        assert!(!after(&[], &insert(L, X, 2)), "for the first time");
        assert!(
            !after(&look(L, X), &[(Op::Acquire(L), 0), (Op::Write(X), 3)]),
            "not at all"
        );
    }

    #[test]
    fn a_look_before_the_last_write_is_over() {
        let mut steps = look(L, X).to_vec();
        let written = [(Op::Acquire(L), 0), (Op::Write(Y), 1), (Op::Release(L), 0)];
        steps.extend(written);
        steps.extend([(Op::Acquire(L), 0), (Op::Read(X), 2), (Op::Write(X), 3)]);
        assert!(!looked_again(&steps));
        let mut steps = look(L, X).to_vec();
        steps.extend(look(L, Y));
        steps.extend([(Op::Acquire(L), 0), (Op::Read(X), 2), (Op::Write(X), 3)]);
        assert!(!looked_again(&steps), "only half of it");
        steps.insert(7, (Op::Read(Y), 2));
        assert!(looked_again(&steps), "nothing was written in between");
    }

    #[test]
    fn complete_updates() {
        let update = [
            (Op::Acquire(L), 0),
            (Op::Read(X), 1),
            (Op::Write(X), 1),
            (Op::Release(L), 0),
        ];
        let after =
            |before: &[(Op, u32)], upto: usize| looked_again(&[before, &update[..upto]].concat());
        assert!(after(&update, 2) && after(&update, 3), "two of them");
        assert!(!after(&[], 3), "the first one");
        assert!(!after(&look(L, X), 3), "after a look");
        let then_look = [&update[..], &look(L, X)].concat();
        assert!(!after(&then_look, 3), "after a look that came later");
        let then_other = [&update[..], &look(L, Y)].concat();
        assert!(after(&then_other, 3), "that has nothing to do with it");
        let blind = [&update[..], &[(Op::Acquire(L), 0), (Op::Write(X), 2)]].concat();
        assert!(!looked_again(&blind), "a blind write");
    }

    #[test]
    fn what_is_taken_depends_on_no_look() {
        let taken = |place: u32, shared: bool| {
            let lock = if shared {
                Op::AcquireShared(L)
            } else {
                Op::Acquire(L)
            };
            let taken = [(lock, 0), (Op::Read(X), place), (Op::Write(X), place)];
            looked_again(&[&look(L, X)[..], &taken].concat())
        };
        assert!(taken(TAKE, false));
        assert!(!taken(2, false), "a replace");
        assert!(!taken(TAKE, true), "nobody else may be in the section");
    }

    #[test]
    fn a_look_beside_it_by_one_call() {
        let mut steps = look(L, X).to_vec();
        let [first, second] = Z.map(Op::Read);
        steps.extend([(Op::Acquire(L), 0), (first, 2), (Op::Write(X), 3)]);
        assert!(!looked_again(&steps), "one field");
        steps.insert(5, (second, 4));
        assert!(!looked_again(&steps), "at two places");
        steps.insert(5, (second, 2));
        steps.remove(6);
        assert!(looked_again(&steps));
    }
}
