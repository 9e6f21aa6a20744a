//! Words that are claimed: who has exchanged the value may overwrite it.
//!
//! The state of a task is exchanged from idle to running, and stored as idle again when it is done; the head of a
//! queue is moved to the end of a block by an exchange, and stored as the start of the next one. The
//! store does not look, and has the shape of a lost or an overwritten update. But the value that it replaces was put there by
//! this very thread's compare-exchange, and tells all others to keep off.
//!
//! That they do is seen in the whole recording: a variable is *claimed* if whatever overwrites it without
//! comparing, be it a store or a sum, replaces a value of its own thread's. One store by somebody
//! else into a claimed word, to cancel a task say, and there is no such rule: that store is what may get lost.
//!
//! As after a second look ([`super::sections`]), a store to a claimed variable stays what it is, and only its place
//! says so: the exchange is named as that look.

use super::FxMap;
use atomsan_trace::{Op, SiteId, VarId};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// Whose the values of atomic variables are.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The thread that has written a variable last, and where it exchanged it before that, if it did.
    last: FxMap<VarId, (usize, Option<SiteId>)>,
}

/// Variables that somebody has overwritten who had not claimed them.
pub(super) type Blind = HashSet<VarId, FxBuildHasher>;

impl Claims {
    /// Follows an access of a thread's; `compares` says whether it is a compare-exchange. If it overwrites
    /// what the thread has claimed by one, the place of that.
    pub(super) fn step(
        &mut self,
        thread: usize,
        op: Op,
        site: SiteId,
        compares: bool,
        blind: &mut Blind,
    ) -> Option<SiteId> {
        let var = op.var().filter(|_| op.is_atomic() && op.writes())?;
        if compares {
            self.last.insert(var, (thread, Some(site)));
            return None;
        }
        match self.last.get(&var) {
            Some(&(owner, claim)) if owner == thread => claim,
            Some(_) => {
                blind.insert(var);
                self.last.insert(var, (thread, None));
                None
            }
            // The first one initialises it.
            None => {
                self.last.insert(var, (thread, None));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: VarId = VarId(1);
    const EXCHANGE: (Op, bool) = (Op::AtomicRmw(X), true);
    const STORE: (Op, bool) = (Op::AtomicStore(X), false);
    const SUM: (Op, bool) = (Op::AtomicRmw(X), false);

    /// Whether the last of some accesses, by threads, is a store to a claimed variable.
    fn claimed(steps: &[(usize, (Op, bool))]) -> bool {
        let mut blind = Blind::default();
        let mut pass = || {
            let mut claims = Claims::default();
            let mut last = None;
            for &(thread, (op, compares)) in steps {
                last = claims.step(thread, op, SiteId(7), compares, &mut blind);
            }
            last
        };
        pass();
        let last = pass();
        last == Some(SiteId(7)) && !blind.contains(&X)
    }

    #[test]
    fn a_store_after_an_exchange_where_all_do_so() {
        assert!(claimed(&[(1, EXCHANGE), (1, STORE)]));
        let both = [
            (0, STORE),
            (1, EXCHANGE),
            (1, STORE),
            (2, EXCHANGE),
            (2, STORE),
        ];
        assert!(claimed(&both));
        assert!(!claimed(&[(1, STORE)]), "not claimed");
        let cancelled = [
            (1, EXCHANGE),
            (1, STORE),
            (2, STORE),
            (1, EXCHANGE),
            (1, STORE),
        ];
        assert!(!claimed(&cancelled), "somebody else does not look");
        let counted = [(1, EXCHANGE), (2, SUM), (2, EXCHANGE), (2, STORE)];
        assert!(!claimed(&counted), "a sum would be lost");
        let later = [(1, EXCHANGE), (1, STORE), (2, STORE)];
        assert!(!claimed(&later));
    }
}
