//! What threads do: the event and its operations.
//!
//! An [`Event`] is one step of one thread at one place of the program. Everything in it is a small
//! id; the names behind the ids travel beside the events (see [`crate::names`]), so an event is
//! `Copy`, 20 bytes, and never owns anything.
//!
//! # Order
//!
//! A stream of events is a total order that is consistent with what the threads did: the order of
//! conflicting operations in the stream is the order in which they took effect. That is the only
//! thing every engine relies on.
//!
//! # Operations that take time
//!
//! Two operations block, so other threads act between their start and their end, and each is two
//! events. `Wait(l)` is the moment a waiting thread lets go of `l`, `Woken(l)` the moment it has
//! it back. `Arrive(b)` is a thread's arrival at a barrier, `Leave(b)` its departure: everything
//! before any arrival of the round is before everything after any departure.
//!
//! # Streams that are not well-formed
//!
//! No sequence of events is illegal. Traces start late, stop early and lose events, so each
//! oddity has a defined meaning, the same in every engine:
//!
//! * `End` without `Begin`, `Exit` without its `Enter`: ignored. `Exit(f)` with frames of other
//!   functions above `f` leaves those too (an exception unwound them).
//! * `Begin` without `End`, `Enter` without `Exit`: still open at the end of the trace.
//! * `Release` of a lock the thread does not hold: it still publishes (a later acquire is ordered
//!   after it), and nothing is taken away from whoever holds the lock.
//! * `Acquire` of a lock another thread holds: both hold it.
//! * `Join` of a thread that never ran or still runs: ordered after what that thread did so far.
//! * `Fork` of a thread that already ran: ordered before what that thread does from now on.

use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    )*};
}

ids! {
    /// A thread.
    ThreadId
    /// A memory location that is accessed as a whole: a field, an array element, a word.
    VarId
    /// A synchronisation object: a lock, a condition, a barrier.
    LockId
    /// A function, or the label of a region that is not a function.
    FunctionId
    /// An object: the allocation that variables live in.
    ObjectId
    /// A place in the program. [`SiteId::UNKNOWN`] stands for no place.
    SiteId
}

impl SiteId {
    /// The site of an event that does not say where it happened; every [`crate::Names`] has it.
    pub const UNKNOWN: SiteId = SiteId(0);
}

/// What a thread does in one event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A region that is meant to be atomic starts.
    Begin(FunctionId),
    /// The innermost open region ends.
    End,
    /// A plain read.
    Read(VarId),
    /// A plain write.
    Write(VarId),
    /// An atomic (or volatile) read.
    AtomicLoad(VarId),
    /// An atomic (or volatile) write.
    AtomicStore(VarId),
    /// An atomic read-modify-write that took effect.
    AtomicRmw(VarId),
    /// A compare-and-exchange that failed: it only read.
    AtomicRmwFailed(VarId),
    /// A lock is held exclusively from here on. Locks are re-entrant.
    Acquire(LockId),
    /// One exclusive hold of a lock ends.
    Release(LockId),
    /// A lock is held together with other readers from here on.
    AcquireShared(LockId),
    /// One shared hold of a lock ends.
    ReleaseShared(LockId),
    /// The thread lets go of the lock, entirely, and blocks.
    Wait(LockId),
    /// The waiting thread has the lock again, as often as it held it before.
    Woken(LockId),
    /// Threads that wait on this lock or condition are woken.
    Notify(LockId),
    /// A thread is started.
    Fork(ThreadId),
    /// A thread has ended and the joining thread knows.
    Join(ThreadId),
    /// The thread arrives at a barrier.
    Arrive(LockId),
    /// The thread leaves a barrier.
    Leave(LockId),
    /// The thread expects others to interfere here.
    Yield,
    /// A function is entered; the event's site is the call.
    Enter(FunctionId),
    /// A function is left.
    Exit(FunctionId),
    /// An object comes to life.
    Alloc(ObjectId),
    /// An object dies; what reuses its memory is new.
    Free(ObjectId),
    /// A reference to `object` is stored into `into`.
    RefStore {
        /// Where the reference is stored.
        into: VarId,
        /// What it refers to.
        object: ObjectId,
    },
}

impl Op {
    /// The variable that is accessed, if this is a memory access.
    #[inline]
    pub fn var(self) -> Option<VarId> {
        match self {
            Op::Read(x)
            | Op::Write(x)
            | Op::AtomicLoad(x)
            | Op::AtomicStore(x)
            | Op::AtomicRmw(x)
            | Op::AtomicRmwFailed(x) => Some(x),
            _ => None,
        }
    }

    /// The synchronisation object that is operated on, if there is one.
    #[inline]
    pub fn lock(self) -> Option<LockId> {
        match self {
            Op::Acquire(l)
            | Op::Release(l)
            | Op::AcquireShared(l)
            | Op::ReleaseShared(l)
            | Op::Wait(l)
            | Op::Woken(l)
            | Op::Notify(l)
            | Op::Arrive(l)
            | Op::Leave(l) => Some(l),
            _ => None,
        }
    }

    /// Whether this is a memory access that takes the variable's value.
    #[inline]
    pub fn reads(self) -> bool {
        matches!(
            self,
            Op::Read(_) | Op::AtomicLoad(_) | Op::AtomicRmw(_) | Op::AtomicRmwFailed(_)
        )
    }

    /// Whether this is a memory access that changes the variable.
    #[inline]
    pub fn writes(self) -> bool {
        matches!(self, Op::Write(_) | Op::AtomicStore(_) | Op::AtomicRmw(_))
    }

    /// Whether this is an atomic access, which synchronises and never races.
    #[inline]
    pub fn is_atomic(self) -> bool {
        matches!(
            self,
            Op::AtomicLoad(_) | Op::AtomicStore(_) | Op::AtomicRmw(_) | Op::AtomicRmwFailed(_)
        )
    }
}

/// One step of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Event {
    /// Who.
    pub thread: ThreadId,
    /// Where.
    pub site: SiteId,
    /// What.
    pub op: Op,
}

const _: () = assert!(size_of::<Event>() == 20);
