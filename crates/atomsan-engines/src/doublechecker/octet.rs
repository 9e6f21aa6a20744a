//! Octet: who owns an object, and which dependences a change of owner may hide.
//!
//! Table 1 of the DoubleChecker paper, all rows, and the rules of its Fig. 4 that turn a change of
//! state into edges of the imprecise dependence graph (IDG). Everything here is a function from
//! values to values: no allocation, no global state, no synchronisation. A runtime keeps the
//! [`State`] in an atomic word beside the object, decides with [`State::read`] or
//! [`State::write`] in its slow path and carries out the [`Transition`] by whatever protocol it
//! has; an engine on a trace does the same with a table.
//!
//! | transition  | old state  | access by T | new state | edges into T's transaction (Fig. 4) |
//! |-------------|------------|-------------|-----------|--------------------------------------|
//! | same        | WrEx T     | R, W        | same      | |
//! |             | RdEx T     | R           | same      | |
//! |             | RdSh c     | R, `T.rdShCnt ≥ c` | same | |
//! | upgrading   | RdEx T     | W           | WrEx T    | |
//! |             | RdEx U     | R           | RdSh `++gRdShCnt` | `U.lastRdEx`, `gLastRdSh` |
//! | fence       | RdSh c     | R, `T.rdShCnt < c` | same | `gLastRdSh` |
//! | conflicting | WrEx U     | W           | WrEx T    | `currTX(U)` |
//! |             | WrEx U     | R           | RdEx T    | `currTX(U)` |
//! |             | RdEx U     | W           | WrEx T    | `currTX(U)` |
//! |             | RdSh c     | W           | WrEx T    | `currTX(U)` of every other thread U |
//!
//! Two things the table leaves open. An object that nobody has accessed yet is [`State::NEW`]; its
//! first access gives it to the accessing thread without an edge, since there is nothing it could
//! depend on. And the thread that makes an object read-shared raises its own `rdShCnt` to the new
//! counter: its edge from `gLastRdSh` orders it after every earlier transition to read-shared, which
//! is all that a fence would do.
//!
//! # Why the edges imply every dependence
//!
//! Let two accesses to one object conflict, the first by U, the second by T. While the object is
//! exclusive, every access by another thread takes ownership away with an edge from the owner's
//! current transaction, so consecutive owners are chained by edges. A read-shared object was
//! exclusive to a reader before: that reader's transition to RdEx is at or before its `lastRdEx`,
//! from which there is an edge to the transaction that made the object read-shared. All those
//! transactions are chained in the order of their counters, the last one is `gLastRdSh`, and a
//! thread whose `rdShCnt` is at least `c` has an edge from a `gLastRdSh` at or after `c` (from its
//! fence or from its own upgrade). A write to a read-shared object takes edges from everybody.
//! RdEx T → WrEx T needs none: nobody else has accessed the object since T's edge. ∎

use atomsan_trace::ThreadId;

/// The locality state of an object, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State(u64);

/// A [`State`], taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ownership {
    /// Not accessed yet.
    New,
    /// Write-exclusive for a thread.
    WrEx(ThreadId),
    /// Read-exclusive for a thread.
    RdEx(ThreadId),
    /// Read-shared, since the counter had this value.
    RdSh(u64),
}

/// Whose current transactions a conflicting transition has to be ordered after.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Responders {
    /// The owner's.
    Owner(ThreadId),
    /// Every other thread's: a read-shared object does not know its readers.
    Everyone,
}

/// A row of Table 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transition {
    /// The state permits the access.
    Same,
    /// The first access of all.
    First,
    /// RdEx T → WrEx T.
    UpgradingToWrEx,
    /// RdEx U → RdSh.
    UpgradingToRdSh {
        /// The thread U that had it.
        owner: ThreadId,
        /// The new value of `gRdShCnt`, which is also the thread's new `rdShCnt`.
        count: u64,
    },
    /// A read of a read-shared object that the thread does not know to be read-shared.
    Fence {
        /// The thread's new `rdShCnt`.
        count: u64,
    },
    /// Ownership changes hands.
    Conflicting {
        /// Who had it.
        responders: Responders,
        /// Whether the new state is RdEx of the requesting thread.
        to_rd_ex: bool,
    },
}

/// What a transition means to the imprecise dependence graph (Fig. 4): where edges into the
/// current transaction come from, and which last-transaction facts the current one becomes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Edges {
    /// An edge from `currTX` of these.
    pub current: Option<Responders>,
    /// An edge from this thread's `lastRdEx`.
    pub last_rd_ex: Option<ThreadId>,
    /// An edge from `gLastRdSh`.
    pub last_rd_sh: bool,
    /// `T.lastRdEx := currTX(T)`, after the edges.
    pub becomes_last_rd_ex: bool,
    /// `gLastRdSh := currTX(T)`, after the edges.
    pub becomes_last_rd_sh: bool,
}

const TAG: u64 = 0b11;
const WR_EX: u64 = 0b01;
const RD_EX: u64 = 0b10;
const RD_SH: u64 = 0b11;

impl State {
    /// The state of an object that nobody has accessed yet; the zero word.
    pub const NEW: State = State(0);

    /// Write-exclusive for a thread.
    #[inline]
    pub const fn wr_ex(thread: ThreadId) -> State {
        State((thread.0 as u64) << 2 | WR_EX)
    }

    /// Read-exclusive for a thread.
    #[inline]
    pub const fn rd_ex(thread: ThreadId) -> State {
        State((thread.0 as u64) << 2 | RD_EX)
    }

    /// Read-shared since the counter had this value.
    #[inline]
    pub const fn rd_sh(count: u64) -> State {
        State(count << 2 | RD_SH)
    }

    /// The word, to be kept beside the object.
    #[inline]
    pub const fn to_word(self) -> u64 {
        self.0
    }

    /// A word from [`State::to_word`].
    #[inline]
    pub const fn from_word(word: u64) -> State {
        State(word)
    }

    /// Takes the state apart.
    #[inline]
    pub const fn ownership(self) -> Ownership {
        match self.0 & TAG {
            WR_EX => Ownership::WrEx(ThreadId((self.0 >> 2) as u32)),
            RD_EX => Ownership::RdEx(ThreadId((self.0 >> 2) as u32)),
            RD_SH => Ownership::RdSh(self.0 >> 2),
            _ => Ownership::New,
        }
    }

    /// Whether the object is read-shared.
    #[inline]
    pub const fn is_rd_sh(self) -> bool {
        self.0 & TAG == RD_SH
    }

    /// The read barrier's fast path: whether `thread`, whose counter is `rd_sh_cnt`, may read
    /// without a transition.
    #[inline]
    pub const fn permits_read(self, thread: ThreadId, rd_sh_cnt: u64) -> bool {
        self.0 == State::wr_ex(thread).0
            || self.0 == State::rd_ex(thread).0
            || (self.is_rd_sh() && rd_sh_cnt >= self.0 >> 2)
    }

    /// The write barrier's fast path: whether `thread` may write without a transition.
    #[inline]
    pub const fn permits_write(self, thread: ThreadId) -> bool {
        self.0 == State::wr_ex(thread).0
    }

    /// A read by `thread`: the new state and how it is reached. `next_rd_sh` increments
    /// `gRdShCnt` and returns its new value; it is called only if the object becomes read-shared.
    #[inline]
    pub fn read(
        self,
        thread: ThreadId,
        rd_sh_cnt: u64,
        next_rd_sh: impl FnOnce() -> u64,
    ) -> (State, Transition) {
        match self.ownership() {
            Ownership::WrEx(owner) | Ownership::RdEx(owner) if owner == thread => {
                (self, Transition::Same)
            }
            Ownership::RdSh(count) if rd_sh_cnt >= count => (self, Transition::Same),
            Ownership::RdSh(count) => (self, Transition::Fence { count }),
            Ownership::New => (State::rd_ex(thread), Transition::First),
            Ownership::RdEx(owner) => {
                let count = next_rd_sh();
                let upgrade = Transition::UpgradingToRdSh { owner, count };
                (State::rd_sh(count), upgrade)
            }
            Ownership::WrEx(owner) => (
                State::rd_ex(thread),
                Transition::Conflicting {
                    responders: Responders::Owner(owner),
                    to_rd_ex: true,
                },
            ),
        }
    }

    /// A write by `thread`: the new state and how it is reached.
    #[inline]
    pub fn write(self, thread: ThreadId) -> (State, Transition) {
        let conflicting = |responders| Transition::Conflicting {
            responders,
            to_rd_ex: false,
        };
        let transition = match self.ownership() {
            Ownership::WrEx(owner) if owner == thread => Transition::Same,
            Ownership::RdEx(owner) if owner == thread => Transition::UpgradingToWrEx,
            Ownership::New => Transition::First,
            Ownership::WrEx(owner) | Ownership::RdEx(owner) => {
                conflicting(Responders::Owner(owner))
            }
            Ownership::RdSh(_) => conflicting(Responders::Everyone),
        };
        (State::wr_ex(thread), transition)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ownership().fmt(f)
    }
}

impl Default for State {
    fn default() -> Self {
        State::NEW
    }
}

impl Transition {
    /// The procedures of Fig. 4.
    #[inline]
    pub const fn edges(self) -> Edges {
        const NONE: Edges = Edges {
            current: None,
            last_rd_ex: None,
            last_rd_sh: false,
            becomes_last_rd_ex: false,
            becomes_last_rd_sh: false,
        };
        match self {
            Transition::Same | Transition::First | Transition::UpgradingToWrEx => NONE,
            Transition::UpgradingToRdSh { owner, .. } => Edges {
                last_rd_ex: Some(owner),
                last_rd_sh: true,
                becomes_last_rd_sh: true,
                ..NONE
            },
            Transition::Fence { .. } => Edges {
                last_rd_sh: true,
                ..NONE
            },
            Transition::Conflicting {
                responders,
                to_rd_ex,
            } => Edges {
                current: Some(responders),
                becomes_last_rd_ex: to_rd_ex,
                ..NONE
            },
        }
    }

    /// The thread's new `rdShCnt`, if the transition changes it.
    #[inline]
    pub const fn rd_sh_cnt(self) -> Option<u64> {
        match self {
            Transition::UpgradingToRdSh { count, .. } | Transition::Fence { count } => Some(count),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: ThreadId = ThreadId(1);
    const U: ThreadId = ThreadId(2);

    fn read(state: State, rd_sh_cnt: u64) -> (State, Transition) {
        let result = state.read(T, rd_sh_cnt, || 8);
        assert_eq!(
            result.1 == Transition::Same,
            state.permits_read(T, rd_sh_cnt),
            "the fast path is the rows `same state`"
        );
        result
    }

    fn write(state: State) -> (State, Transition) {
        let result = state.write(T);
        assert_eq!(result.1 == Transition::Same, state.permits_write(T));
        result
    }

    fn conflicting(responders: Responders, to_rd_ex: bool) -> Transition {
        Transition::Conflicting {
            responders,
            to_rd_ex,
        }
    }

    #[test]
    fn table_1_same_state() {
        for state in [State::wr_ex(T), State::rd_ex(T)] {
            assert_eq!(read(state, 0), (state, Transition::Same));
        }
        assert_eq!(write(State::wr_ex(T)), (State::wr_ex(T), Transition::Same));
        for known in [7, 9] {
            assert_eq!(
                read(State::rd_sh(7), known),
                (State::rd_sh(7), Transition::Same)
            );
        }
    }

    #[test]
    fn table_1_upgrading() {
        let (state, transition) = write(State::rd_ex(T));
        assert_eq!(state, State::wr_ex(T));
        assert_eq!(transition, Transition::UpgradingToWrEx);
        assert_eq!(transition.edges(), Edges::default());

        let (state, transition) = read(State::rd_ex(U), 3);
        assert_eq!(state, State::rd_sh(8), "RdSh with the new gRdShCnt");
        assert_eq!(transition.rd_sh_cnt(), Some(8));
        assert_eq!(
            transition.edges(),
            Edges {
                last_rd_ex: Some(U),
                last_rd_sh: true,
                becomes_last_rd_sh: true,
                ..Edges::default()
            }
        );
    }

    #[test]
    fn table_1_fence() {
        let (state, transition) = read(State::rd_sh(7), 6);
        assert_eq!(state, State::rd_sh(7));
        assert_eq!(transition, Transition::Fence { count: 7 });
        assert_eq!(transition.rd_sh_cnt(), Some(7));
        assert_eq!(
            transition.edges(),
            Edges {
                last_rd_sh: true,
                ..Edges::default()
            }
        );
    }

    #[test]
    fn table_1_conflicting() {
        let owner = Responders::Owner(U);
        for (old, new) in [
            (
                write(State::wr_ex(U)),
                (State::wr_ex(T), conflicting(owner, false)),
            ),
            (
                read(State::wr_ex(U), 0),
                (State::rd_ex(T), conflicting(owner, true)),
            ),
            (
                write(State::rd_ex(U)),
                (State::wr_ex(T), conflicting(owner, false)),
            ),
            (
                write(State::rd_sh(7)),
                (State::wr_ex(T), conflicting(Responders::Everyone, false)),
            ),
        ] {
            assert_eq!(old, new);
            let edges = old.1.edges();
            assert_eq!(edges.becomes_last_rd_ex, old.0 == State::rd_ex(T));
            assert!(edges.current.is_some() && edges.last_rd_ex.is_none() && !edges.last_rd_sh);
        }
    }

    #[test]
    fn the_first_access_takes_the_object() {
        assert_eq!(read(State::NEW, 0), (State::rd_ex(T), Transition::First));
        assert_eq!(write(State::NEW), (State::wr_ex(T), Transition::First));
        assert_eq!(Transition::First.edges(), Edges::default());
    }

    #[test]
    fn a_state_is_a_word() {
        let big = ThreadId(u32::MAX);
        for state in [
            State::NEW,
            State::wr_ex(big),
            State::rd_ex(T),
            State::rd_sh(1 << 40),
        ] {
            assert_eq!(State::from_word(state.to_word()), state);
        }
        assert_eq!(State::wr_ex(big).ownership(), Ownership::WrEx(big));
        assert_eq!(State::rd_sh(1 << 40).ownership(), Ownership::RdSh(1 << 40));
        assert_eq!(State::from_word(0).ownership(), Ownership::New);
    }
}
