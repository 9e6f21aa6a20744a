//! A critical section that looks again before it writes.
//!
//! "Look under the read lock, miss, take the write lock, look again, insert" is right, and has the
//! shape of a lost update: a read, others that write, a write. What tells it from the blind insert
//! is a second look in the section of the write. It counts as one if
//!
//! * it reads what the thread has read in an earlier section of the same lock, since it last wrote in
//!   one: it looks at *that* again. Two variables of it at least, if the first look was at more than
//!   one: the length of a table alone does not say whether a key is in it; and
//! * it is made at another place of the user's code than the write: in between, the program had the
//!   say. An `insert` of a library reads before it writes as well, but it does so in both programs.
//!
//! That the second look decides, and nothing of the first one is used, is not known. So the write
//! stays what it is and only its place says so, and names that of the look ([`Site::looked_again`]); a finding that ends there
//! deserves less attention.
//!
//! [`Site::looked_again`]: atomsan_trace::names::Site::looked_again

use atomsan_trace::{LockId, Op, SiteId, VarId};

/// How many reads of a section, and of earlier ones of a lock, are remembered.
const READS: usize = 64;
/// How many locks are remembered that were held before.
const LOCKS: usize = 16;

/// The critical sections of one thread.
#[derive(Debug, Default)]
pub(super) struct Sections {
    open: Vec<Section>,
    /// What was read under locks that are not held, the latest last.
    earlier: Vec<(LockId, Vec<VarId>)>,
}

#[derive(Debug)]
struct Section {
    lock: LockId,
    exclusive: bool,
    reads: Vec<VarId>,
    wrote: bool,
    /// What was read before and has been read again, and where.
    again: Vec<(VarId, SiteId)>,
    /// How much of it makes a look.
    enough: usize,
}

impl Section {
    /// The place of the second look, if there was one, for a write at a place.
    fn looked_again(&self, write: SiteId) -> Option<SiteId> {
        let mut looks = self.again.iter().map(|&(_, site)| site);
        let first = looks.find(|&look| look != write)?;
        let more = looks.filter(|&look| look != write).count();
        (more + 1 >= self.enough).then_some(first)
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
        self.open.push(Section {
            lock,
            exclusive,
            reads: Vec::new(),
            wrote: false,
            again: Vec::new(),
            enough: 0,
        });
    }

    fn leave(&mut self, lock: LockId) {
        let Some(at) = self.open.iter().rposition(|section| section.lock == lock) else {
            return;
        };
        let Section {
            mut reads, wrote, ..
        } = self.open.remove(at);
        if let Some(known) = self.earlier.iter().position(|(known, _)| *known == lock) {
            let (_, before) = self.earlier.remove(known);
            if !wrote {
                let new = |var: &VarId| !reads.contains(var);
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
    pub(super) fn access(&mut self, op: Op, site: SiteId) -> Option<SiteId> {
        let var = op.var()?;
        let mut looked_again = None;
        for section in &mut self.open {
            // A read-modify-write has the last say by itself.
            if op.writes() {
                looked_again = looked_again.or_else(|| section.looked_again(site));
                section.wrote = true;
            } else if section.reads.len() < READS && !section.reads.contains(&var) {
                section.reads.push(var);
                if section.exclusive
                    && let Some((_, before)) = (self.earlier.iter())
                        .find(|(lock, before)| *lock == section.lock && before.contains(&var))
                {
                    section.enough = before.len().min(2);
                    section.again.push((var, site));
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

    /// Whether the last of some operations, each at a place, is a write after a second look.
    fn looked_again(steps: &[(Op, u32)]) -> bool {
        let mut sections = Sections::default();
        let mut last = false;
        for &(op, place) in steps {
            sections.step(op);
            last = sections.access(op, SiteId(place)).is_some();
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
}
