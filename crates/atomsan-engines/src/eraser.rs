//! Who uses a variable, or a lock: the states of Eraser with ownership transfer (Atomizer, Fig. 13).
//!
//! Nobody protects data that only one thread uses, and nobody should have to. So a lockset begins
//! to matter when data is really shared:
//!
//! * *Thread-Local*: only used by the thread that made it.
//! * *Thread-Local (2)*: handed over to a second thread, and not used by the first one any more.
//! * *Read-Shared*: read, but not written, by several threads.
//! * *Shared-Modified*: used by several threads and written since; from here on a candidate set of
//!   locks is refined, beginning with those held by the thread that came last.
//!
//! States only move forward, so each variable takes at most four steps in its life, and the
//! common access, one more by the same owner, is one comparison.
//!
//! The transfer can be switched off. That gives the original Eraser, and also what remains of the
//! states once an escape analysis has said when the initialisation ended (Wang–Stoller, 8.3).

/// The state of a variable or a lock. `O` is what owns it (a thread, or a period of one), `S`
/// what is kept about it once it is shared and modified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Eraser<O, S> {
    /// Not used yet.
    #[default]
    Virgin,
    /// Only used by its first owner.
    ThreadLocal(O),
    /// Used by its second owner only, after the first one.
    ThreadLocal2(O),
    /// Read by several.
    ReadShared,
    /// Used by several and written.
    SharedModified(S),
}

impl<O: Copy + PartialEq, S: Default> Eraser<O, S> {
    /// Follows one use. `transfer` allows the step to Thread-Local (2); `handed` says that the
    /// owner before cannot interfere with the one that comes now, so that nothing is shared.
    ///
    /// Returns what is kept if the state is now Shared-Modified, fresh if it has just become so.
    #[inline]
    pub fn access(
        &mut self,
        by: O,
        write: bool,
        transfer: bool,
        handed: impl Fn(O, O) -> bool,
    ) -> Option<&mut S> {
        match *self {
            Eraser::ThreadLocal(owner) | Eraser::ThreadLocal2(owner) if owner == by => return None,
            Eraser::SharedModified(_) => {}
            Eraser::ReadShared if !write => return None,
            _ => self.advance(by, write, transfer, handed),
        }
        match self {
            Eraser::SharedModified(kept) => Some(kept),
            _ => None,
        }
    }

    /// Whether it was never used.
    #[inline]
    pub fn is_virgin(&self) -> bool {
        matches!(self, Eraser::Virgin)
    }

    /// What is kept, if it is shared and modified.
    pub fn shared(&self) -> Option<&S> {
        match self {
            Eraser::SharedModified(kept) => Some(kept),
            _ => None,
        }
    }

    #[cold]
    fn advance(&mut self, by: O, write: bool, transfer: bool, handed: impl Fn(O, O) -> bool) {
        let shared = if write {
            Eraser::SharedModified(S::default())
        } else {
            Eraser::ReadShared
        };
        *self = match *self {
            Eraser::Virgin => Eraser::ThreadLocal(by),
            Eraser::ThreadLocal(owner) if handed(owner, by) => Eraser::ThreadLocal(by),
            Eraser::ThreadLocal(_) if transfer => Eraser::ThreadLocal2(by),
            Eraser::ThreadLocal2(owner) if handed(owner, by) => Eraser::ThreadLocal2(by),
            _ => shared,
        };
    }
}
