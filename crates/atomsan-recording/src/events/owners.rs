//! Words that say who: each thread compares them with its own number.
//!
//! A lock that its owner may take again has a word with the owner's number. "Is it mine?" is asked without the lock; if
//! not, the lock is taken and the thread's own number is stored. The shape is that of a lost update: a load, others that
//! store, a store. But nobody else ever stores this thread's number, so whatever they store in between, the answer is
//! the same.
//!
//! What a value is compared with is not recorded, but the values are. A word is an *owner's* if, in the whole
//! recording,
//!
//! * it is only loaded and stored, and there is a lock under which it is stored always;
//! * each thread stores 0 and one number of its own, which no other thread stores; and
//! * a thread has stored its number after it had seen another one's, once at least. "If nobody leads, I do" stores
//!   only after it has seen 0, and is what may get lost.
//!
//! As after a second look ([`super::sections`]), a store to such a word stays what it is, and only its place says so.

use super::FxMap;
use atomsan_trace::{LockId, Op, ThreadId, VarId};

/// How many threads may have a number in one word.
const THREADS: usize = 64;

/// What is known of the words that are stored under locks.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Nothing for those that are not of the kind.
    words: FxMap<VarId, Option<Box<Word>>>,
}

#[derive(Debug)]
struct Word {
    /// The locks that are held at each store.
    locks: Vec<LockId>,
    /// The number of each thread, if it has stored one, and what it has seen last.
    threads: Vec<(ThreadId, Option<u64>, u64)>,
    /// Whether a number was stored after another one had been seen.
    is_taken_over: bool,
}

impl Owners {
    /// Follows an atomic access in the first pass: its value is what was loaded or stored.
    pub(super) fn step(&mut self, thread: ThreadId, op: Op, value: u64, held: &[LockId]) {
        match op {
            Op::AtomicLoad(var) => {
                if let Some(Some(word)) = self.words.get_mut(&var) {
                    word.see(thread, value);
                }
            }
            Op::AtomicStore(var) => {
                let word = self.words.entry(var).or_insert_with(|| {
                    Some(Box::new(Word {
                        locks: held.to_vec(),
                        threads: Vec::new(),
                        is_taken_over: false,
                    }))
                });
                word.take_if(|word| !word.store(thread, value, held));
            }
            _ => {
                if let Some(var) = op.var().filter(|_| op.is_atomic() && op.writes()) {
                    self.words.insert(var, None);
                }
            }
        }
    }

    /// Whether a thread stores its number in an owner's word.
    pub(super) fn is_own(&self, op: Op, value: u64) -> bool {
        let Op::AtomicStore(var) = op else {
            return false;
        };
        let word = self.words.get(&var).and_then(Option::as_ref);
        value != 0 && word.is_some_and(|word| word.is_taken_over)
    }

    /// Variables are others from now on.
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }
}

impl Word {
    fn see(&mut self, thread: ThreadId, value: u64) {
        match self.threads.iter_mut().find(|known| known.0 == thread) {
            Some((_, _, seen)) => *seen = value,
            None => self.threads.push((thread, None, value)),
        }
    }

    /// Follows a store; whether it may still be an owner's.
    fn store(&mut self, thread: ThreadId, value: u64, held: &[LockId]) -> bool {
        self.locks.retain(|lock| held.contains(lock));
        if value == 0 {
            return !self.locks.is_empty();
        }
        let mut others = self.threads.iter().filter(|known| known.0 != thread);
        let is_anothers = others.any(|known| known.1 == Some(value));
        if !self.threads.iter().any(|known| known.0 == thread) {
            self.see(thread, 0);
        }
        let known = self.threads.iter_mut().find(|known| known.0 == thread);
        let is_own = known.is_some_and(|(_, number, seen)| {
            self.is_taken_over |= *seen != 0 && *seen != value;
            *number.get_or_insert(value) == value
        });
        is_own && !is_anothers && !self.locks.is_empty() && self.threads.len() <= THREADS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: VarId = VarId(1);
    const L: LockId = LockId(1);

    /// Whether thread 2 stores its number in an owner's word after all that.
    fn is_own(steps: &[(u32, Op, u64, &[LockId])]) -> bool {
        let mut owners = Owners::default();
        for &(thread, op, value, held) in steps {
            owners.step(ThreadId(thread), op, value, held);
        }
        owners.is_own(Op::AtomicStore(X), 20)
    }

    #[test]
    fn a_number_is_stored_whatever_was_seen() {
        let look = |thread, value| (thread, Op::AtomicLoad(X), value, &[][..]);
        let store = |thread, value| (thread, Op::AtomicStore(X), value, &[L][..]);
        let turns = [store(1, 10), look(2, 10), store(1, 0), store(2, 20)];
        assert!(is_own(&turns));
        let after = |step| is_own(&[&turns[..], &[step]].concat());
        assert!(after(store(1, 10)));
        assert!(!after(store(1, 11)), "a second number");
        assert!(!after(store(3, 20)), "of two threads");
        assert!(!after((1, Op::AtomicStore(X), 0, &[])), "without the lock");
        assert!(
            !after((1, Op::AtomicStore(X), 10, &[LockId(2)])),
            "another lock"
        );
        assert!(!after((1, Op::AtomicRmw(X), 10, &[L])), "an exchange");
        let leads = [
            look(1, 0),
            store(1, 10),
            store(1, 0),
            look(2, 0),
            store(2, 20),
        ];
        assert!(!is_own(&leads), "only where nobody leads");
    }
}
