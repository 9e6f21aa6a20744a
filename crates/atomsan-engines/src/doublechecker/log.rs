//! Read/write logs: what a transaction accessed, and what of other transactions came before.
//!
//! A log is a list of items in the order of the thread: accesses, and *marks*. A mark is the sink
//! of an edge of the imprecise dependence graph; it names the [`Point`] in another transaction's
//! log that is the edge's source. Whoever replays logs and honours the marks sees conflicting
//! accesses in the order in which they happened.
//!
//! # Duplicates
//!
//! A thread's *epoch* changes when it gets a new transaction and when it comes to own something
//! that others had, which is when edges enter its transaction. (The paper also lets edges that leave
//! change it. They need not: whoever loses ownership has to get it back before the next access.)
//! Between two accesses to one location in one epoch no other thread can have had a conflicting
//! one, so an access that repeats an earlier one of its epoch has exactly the same dependences:
//!
//! * in a **regular** transaction, which is one node of the precise graph, the repetition adds
//!   nothing and is dropped. A read after a write of the same variable is dropped too: whatever
//!   conflicts with the read conflicts with the write.
//! * in a **unary** transaction, which ICD merges from accesses that are nodes of their own, the
//!   first occurrence and the latest are kept, kind by kind; each in between is overwritten by the
//!   next. That is exact. Let *b* lie between the first occurrence *a* and the latest *c*, and let
//!   a path of the precise graph go through *b*. If it comes from another thread it can go to *a*
//!   instead, if it leaves to another thread it can leave from *c*; otherwise it comes from before
//!   *b* or goes to behind *b* in program order. As *a* comes before *b* and *b* before *c* in
//!   program order, the path can always avoid *b*.
//!
//! So a log is bounded by the distinct accesses between incoming edges (twice that for a unary one),
//! however often they are repeated. To recognise a repetition costs one comparison: each location has a
//! [`Stamp`] with the epoch of its latest logged access and where in the log that is.

use super::frames::Span;
use crate::Occurrence;

/// How an access conflicts with others to the same location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Depends on earlier writes.
    Read,
    /// Depends on earlier reads and writes.
    Write,
    /// Makes what came before visible; depends on nothing (a release).
    Publish,
    /// Depends on earlier publications (an acquire).
    Consume,
}

impl Kind {
    /// Whether Octet treats it as a write: "treating acquire-like operations as reads and
    /// release-like operations as writes" (section 3.2.2).
    #[inline]
    pub const fn writes(self) -> bool {
        matches!(self, Kind::Write | Kind::Publish)
    }
}

/// A transaction of the imprecise dependence graph. When it has been reclaimed, its slot may get
/// another one, of another generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tx {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Tx {
    /// A small number that no other transaction has while this one is alive.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// A position in a transaction's log: everything before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// The transaction.
    pub tx: Tx,
    /// How many items come before.
    pub position: u32,
}

/// One logged event.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The event.
    pub at: Occurrence,
    /// The invocations it happened in.
    pub span: Span,
}

/// One item of a log.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// An access.
    Access(Access),
    /// An edge enters here: what is before the point has happened.
    After(Point),
}

/// When and where in the log a location was accessed last.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    epoch: u64,
    read: Entry,
    write: Entry,
}

/// The position of an access in the log of its epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry(u32);

impl Entry {
    const NONE: Entry = Entry(u32::MAX);
    /// Set if the item is a repetition, which the next repetition overwrites.
    const REPETITION: u32 = 1 << 31;

    fn repetition(self) -> Option<usize> {
        let is = self != Entry::NONE && self.0 & Entry::REPETITION != 0;
        is.then_some((self.0 & !Entry::REPETITION) as usize)
    }
}

impl Default for Stamp {
    fn default() -> Self {
        Stamp {
            epoch: 0,
            read: Entry::NONE,
            write: Entry::NONE,
        }
    }
}

impl Stamp {
    /// Whether such an access of a regular transaction has been logged in this epoch.
    #[inline]
    pub fn covers(&self, epoch: u64, kind: Kind) -> bool {
        self.epoch == epoch
            && match kind {
                Kind::Read => self.read != Entry::NONE || self.write != Entry::NONE,
                Kind::Consume => self.read != Entry::NONE,
                Kind::Write | Kind::Publish => self.write != Entry::NONE,
            }
    }

    /// The entry of this kind of access; the stamp is of this epoch from now on.
    #[inline]
    fn entry(&mut self, epoch: u64, kind: Kind) -> &mut Entry {
        if self.epoch != epoch {
            *self = Stamp {
                epoch,
                ..Stamp::default()
            };
        }
        if kind.writes() {
            &mut self.write
        } else {
            &mut self.read
        }
    }
}

/// The capacity that a log keeps in any case.
const USUAL: usize = 16;

/// What one transaction accessed.
#[derive(Clone, Debug, Default)]
pub struct Log {
    items: Vec<Item>,
    /// Whether repetitions were overwritten in place, so that items may be out of order.
    overwritten: bool,
}

impl Log {
    /// The items, in the order of the thread once the log is [settled](Log::settle).
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The position behind the last item.
    #[inline]
    pub fn position(&self) -> u32 {
        self.items.len() as u32
    }

    /// An edge from `source` enters here.
    pub fn mark(&mut self, source: Point) {
        self.items.push(Item::After(source));
    }

    /// An event that is not to be recognised when it is repeated.
    pub fn push(&mut self, access: Access) {
        self.items.push(Item::Access(access));
    }

    /// Logs an access of a regular transaction that no stamp [covers](Stamp::covers).
    pub fn record(&mut self, stamp: &mut Stamp, epoch: u64, kind: Kind, access: Access) {
        *stamp.entry(epoch, kind) = Entry(self.position());
        self.push(access);
    }

    /// Logs an access of a unary transaction: the first and the latest of its epoch are kept.
    #[inline]
    pub fn record_unary(&mut self, stamp: &mut Stamp, epoch: u64, kind: Kind, access: Access) {
        let entry = stamp.entry(epoch, kind);
        if let Some(latest) = entry.repetition() {
            self.items[latest] = Item::Access(access);
            self.overwritten = true;
            return;
        }
        let repeats = *entry != Entry::NONE;
        *entry = Entry(self.position());
        if repeats {
            entry.0 |= Entry::REPETITION;
        }
        self.push(access);
    }

    /// The log is complete. Restores the order of the thread where repetitions were overwritten in
    /// place: overwriting stays within an epoch, and points and marks are at the bounds of epochs,
    /// so both keep their meaning.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.overwritten) {
            let epochs = (self.items).split_mut(|item| matches!(item, Item::After(_)));
            for epoch in epochs {
                epoch.sort_by_key(|item| match item {
                    Item::Access(access) => access.at.index,
                    Item::After(_) => 0,
                });
            }
        }
        self.items.shrink_to(USUAL);
    }

    /// Forgets everything, and gives back the memory of an unusually large log.
    pub fn clear(&mut self) {
        self.items.clear();
        self.items.shrink_to(USUAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atomsan_trace::{Event, Op, SiteId, StackId, ThreadId, VarId};

    fn access(index: u64) -> Access {
        Access {
            at: Occurrence {
                index,
                stack: StackId::EMPTY,
                event: Event {
                    thread: ThreadId(0),
                    site: SiteId::UNKNOWN,
                    op: Op::Read(VarId(0)),
                },
            },
            span: Span::default(),
        }
    }

    fn indices(log: &Log) -> Vec<u64> {
        let items = log.items().iter();
        items
            .filter_map(|item| match item {
                Item::Access(access) => Some(access.at.index),
                Item::After(_) => None,
            })
            .collect()
    }

    #[test]
    fn a_regular_log_keeps_the_first_of_an_epoch() {
        let (mut log, mut stamp) = (Log::default(), Stamp::default());
        let all = [
            (1, Kind::Read, true),
            (1, Kind::Read, false),
            (1, Kind::Write, true),
            (1, Kind::Read, false),
            (1, Kind::Write, false),
            (2, Kind::Write, true),
            (2, Kind::Read, false),
            (2, Kind::Consume, true),
        ];
        for (index, (epoch, kind, new)) in all.into_iter().enumerate() {
            assert_eq!(!stamp.covers(epoch, kind), new, "{index}");
            if new {
                log.record(&mut stamp, epoch, kind, access(index as u64));
            }
        }
        assert_eq!(indices(&log), [0, 2, 5, 7]);
    }

    #[test]
    fn a_unary_log_keeps_the_first_and_the_latest_of_an_epoch() {
        let mut log = Log::default();
        let (mut x, mut y) = (Stamp::default(), Stamp::default());
        for index in 0..1000 {
            let stamp = if index % 2 == 0 { &mut x } else { &mut y };
            log.record_unary(stamp, 1, Kind::Read, access(index));
        }
        log.settle();
        assert_eq!(indices(&log), [0, 1, 998, 999]);
        log.record_unary(&mut x, 2, Kind::Read, access(1000));
        log.record_unary(&mut x, 2, Kind::Write, access(1001));
        assert_eq!(indices(&log), [0, 1, 998, 999, 1000, 1001]);
    }
}
