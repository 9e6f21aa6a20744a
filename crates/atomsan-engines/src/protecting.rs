//! Access-protecting and write-protecting locks of a variable (Atomizer, 4.4 and Fig. 15).
//!
//! φ(x, A) are the locks held at every access to x, φ(x, W) those held at every write. A thread
//! that holds a write-protecting lock reads a value that nobody can change meanwhile: its read is
//! a both-mover, even if others read without any lock. Its write commutes with everything only if
//! it holds an access-protecting lock.
//!
//! Invariant: φ(x, A) ⊆ φ(x, W), because whatever shrinks W shrinks A as well.
//!
//! A lock that is held together with other readers protects a read, but not a write.

use crate::held::HeldLocks;
use crate::locksets::{LocksetId, Locksets};

/// The two sets of a variable, φ(x, A) and φ(x, W).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Protecting {
    /// Held at every access.
    pub access: LocksetId,
    /// Held at every write.
    pub write: LocksetId,
}

impl Default for Protecting {
    /// Both sets begin with all locks.
    fn default() -> Self {
        Protecting {
            access: LocksetId::ALL,
            write: LocksetId::ALL,
        }
    }
}

impl Protecting {
    /// A read by a thread that holds `held`; returns whether it is a both-mover.
    #[inline]
    pub fn read(&mut self, held: HeldLocks, locksets: &mut Locksets) -> bool {
        self.access = locksets.intersection(self.access, held.any);
        !locksets.disjoint(self.write, held.any)
    }

    /// A write by a thread that holds `held`; returns whether it is a both-mover.
    #[inline]
    pub fn write(&mut self, held: HeldLocks, locksets: &mut Locksets) -> bool {
        self.write = locksets.intersection(self.write, held.exclusive);
        self.access = locksets.intersection(self.access, held.exclusive);
        !self.access.is_empty()
    }
}
