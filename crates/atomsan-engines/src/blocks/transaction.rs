//! A transaction while it runs: its 1v-blocks (section 6.1), and its skeleton.
//!
//! A block pairs an access `e₂` with an earlier one `e₁` of the same variable: (a) the last write
//! before `e₂` or, where there is none, the last read; (b) if `e₂` is the final write, an initial
//! read. They are made as the accesses come, and each different one is kept once. Whether a write
//! is the final one is known only later, so the blocks of the latest write wait until another
//! write or the end comes.
//!
//! Of the initial reads, rule (b) uses the first. That loses no verdict: whatever can get between
//! a later initial read and the final write can get between the first one and the final write.

use super::moments::Moments;
use super::skeleton::{Piece, Skeleton, Spot, finish, tidy};
use super::table::Entry;
use crate::engine::Occurrence;
use crate::held::HeldLocks;
use crate::locksets::Locksets;
use crate::regions::{OpenFrame, calls_since};
use atomsan_trace::{FunctionId, VarId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// What one half of a block does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// It takes the value.
    Read,
    /// It changes the value.
    Write,
}

/// A 1v-block: two accesses of one transaction to one variable, without their places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block {
    /// The earlier access.
    pub first: Access,
    /// The later access; `None` is the dummy, for a transaction with one access.
    pub second: Option<Access>,
    /// Whether the first, and the second, is the transaction's final write.
    pub final_writes: (bool, bool),
    /// The locks held at the first, and at the second.
    pub held: (HeldLocks, HeldLocks),
    /// The locks held all the way from the first to the second.
    pub across: HeldLocks,
}

/// A block, and an example of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) block: Block,
    pub(super) spots: (Spot, Spot),
}

#[derive(Clone, Copy, Debug)]
struct Point {
    access: Access,
    held: HeldLocks,
    moment: u32,
    spot: Spot,
}

const NEVER: u32 = u32::MAX;
const NOWHERE: usize = usize::MAX;

/// What a transaction did to one variable.
#[derive(Debug)]
struct Slot {
    var: VarId,
    /// `e₁` of the next block.
    last: Point,
    /// Whether there was only one event.
    alone: bool,
    first_read: Option<Point>,
    /// The locks held all the way from the first initial read to the last write.
    across: HeldLocks,
    /// The calls that were open all that way.
    calls: usize,
    /// The moment in which another read makes no new block.
    repeated: u32,
    done: SmallVec<[Found; 2]>,
    /// Blocks of the last write.
    waiting: SmallVec<[Found; 2]>,
    /// The last write in the skeleton.
    written: usize,
}

/// The locks held since when, and the calls that are open.
pub(super) type Now<'a> = (&'a Moments, &'a [OpenFrame]);

/// A running transaction.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) region: FunctionId,
    pub(super) entered: Entry,
    /// The position in the trace of its start.
    pub(super) start: u64,
    slots: Vec<Slot>,
    by_var: HashMap<VarId, u32, FxBuildHasher>,
    skeleton: Skeleton,
    /// How many functions the thread is in, and the least of it since the skeleton's last access.
    calls: usize,
    least_calls: usize,
    /// How long the skeleton may grow before it is tidied.
    room: usize,
    /// Whether the locks before the first access and after the last one count.
    whole: bool,
}

impl Running {
    pub(super) fn new(whole: bool) -> Running {
        Running {
            region: FunctionId(0),
            entered: Entry::default(),
            start: 0,
            slots: Vec::new(),
            by_var: HashMap::default(),
            skeleton: Vec::new(),
            calls: 0,
            least_calls: 0,
            room: ROOM,
            whole,
        }
    }

    /// Starts a transaction in the memory of another one, under these locks.
    pub(super) fn start(
        &mut self,
        region: FunctionId,
        entered: Entry,
        start: u64,
        held: HeldLocks,
    ) {
        (self.region, self.entered, self.start) = (region, entered, start);
        // Clearing costs what was reserved; one large transaction must not slow all others down.
        if self.by_var.capacity() > 1024 && self.slots.len() < self.by_var.capacity() / 8 {
            self.by_var = HashMap::default();
        } else {
            self.by_var.clear();
        }
        self.slots.clear();
        self.skeleton.clear();
        let calls = entered.calls as usize;
        (self.calls, self.least_calls) = (calls, calls);
        self.room = ROOM;
        self.held(held);
    }

    /// Whether the transaction has accessed the variable.
    #[inline]
    pub(super) fn knows(&self, var: VarId) -> bool {
        self.by_var.contains_key(&var)
    }

    /// The thread is in so many functions from here on.
    pub(super) fn calls(&mut self, calls: usize) {
        self.calls = calls;
        self.least_calls = self.least_calls.min(calls);
    }

    /// The thread holds these locks from here on.
    pub(super) fn held(&mut self, held: HeldLocks) {
        self.push(Piece::Held(held), Spot::NONE);
    }

    fn push_access(&mut self, piece: Piece, spot: Spot) {
        self.push(piece, spot.with_calls(self.least_calls));
        self.least_calls = self.calls;
    }

    /// The thread accesses a variable.
    pub(super) fn access(
        &mut self,
        var: VarId,
        at: &Occurrence,
        now: Now<'_>,
        locksets: &mut Locksets,
    ) {
        let moments = now.0;
        let (reads, writes) = (at.event.op.reads(), at.event.op.writes());
        let point = Point {
            access: if writes { Access::Write } else { Access::Read },
            held: moments.held(),
            moment: moments.now(),
            spot: Spot::of(at),
        };
        let Some(&slot) = self.by_var.get(&var) else {
            self.by_var.insert(var, self.slots.len() as u32);
            let written = if writes { self.skeleton.len() } else { NOWHERE };
            self.slots.push(Slot::new(var, point, reads, written));
            self.push_access(Piece::Access { var, reads, writes }, point.spot);
            return;
        };
        let slot = &mut self.slots[slot as usize];
        slot.alone = false;
        if reads {
            slot.read(point, writes, now, locksets);
        }
        if writes {
            slot.write(point, now, locksets);
            let last = self.skeleton.len() - 1;
            if slot.written != last {
                if slot.written != NOWHERE
                    && let Piece::Access { writes, .. } = &mut self.skeleton[slot.written].0
                {
                    *writes = false;
                }
                slot.written = last + 1;
                let reads = false;
                self.push_access(Piece::Access { var, reads, writes }, point.spot);
            }
        }
    }

    #[inline]
    fn push(&mut self, piece: Piece, spot: Spot) {
        self.skeleton.push((piece, spot));
        if self.skeleton.len() > self.room {
            self.tidy();
            self.room = ROOM.max(2 * self.skeleton.len());
        }
    }

    /// Drops what makes no difference.
    fn tidy(&mut self) {
        tidy(&mut self.skeleton, self.whole);
        for (place, (piece, _)) in self.skeleton.iter().enumerate() {
            if let Piece::Access {
                var, writes: true, ..
            } = piece
                && let Some(&slot) = self.by_var.get(var)
            {
                self.slots[slot as usize].written = place;
            }
        }
    }

    /// The transaction has ended: hands out its blocks.
    pub(super) fn blocks(&self, mut each: impl FnMut(VarId, &Found)) {
        for slot in &self.slots {
            slot.blocks(|found| each(slot.var, found));
        }
    }

    /// How many variables were accessed.
    pub(super) fn vars(&self) -> usize {
        self.slots.len()
    }

    /// The transaction has ended: its skeleton.
    pub(super) fn skeleton(&mut self) -> &[(Piece, Spot)] {
        finish(&mut self.skeleton, self.whole);
        &self.skeleton
    }
}

const ROOM: usize = 64;

impl Slot {
    fn new(var: VarId, point: Point, reads: bool, written: usize) -> Slot {
        let mut done = SmallVec::new();
        if reads && point.access == Access::Write {
            // Blocks start at the writing half; this one speaks for the reading half.
            done.push(dummy(Access::Read, point.held, point.spot));
        }
        Slot {
            var,
            last: point,
            alone: true,
            first_read: reads.then_some(Point {
                access: Access::Read,
                ..point
            }),
            across: HeldLocks::default(),
            calls: 0,
            repeated: NEVER,
            done,
            waiting: SmallVec::new(),
            written,
        }
    }

    /// The block of rule (a) that ends with this access.
    fn found(
        &self,
        second: Access,
        point: &Point,
        (moments, frames): Now<'_>,
        locksets: &mut Locksets,
    ) -> Found {
        let first = self.last.spot;
        let calls = calls_since(frames, first.index());
        let block = Block {
            first: self.last.access,
            second: Some(second),
            final_writes: (false, false),
            held: (self.last.held, point.held),
            across: moments.since(self.last.moment, locksets),
        };
        Found {
            block,
            spots: (first, point.spot.with_calls(calls)),
        }
    }

    /// A read, or the reading half of a read-modify-write: the other half goes on from the same
    /// `e₁`, because nothing gets between the two.
    fn read(&mut self, point: Point, updates: bool, now: Now<'_>, locksets: &mut Locksets) {
        if self.repeated == point.moment {
            return;
        }
        let found = self.found(Access::Read, &point, now, locksets);
        let same_moment = self.last.moment == point.moment;
        if self.last.access == Access::Write {
            add(&mut self.waiting, found);
            self.repeated = point.moment;
        } else {
            add(&mut self.done, found);
            if !updates {
                self.last = point;
                self.repeated = if same_moment { point.moment } else { NEVER };
            }
        }
    }

    fn write(&mut self, point: Point, now: Now<'_>, locksets: &mut Locksets) {
        let found = self.found(Access::Write, &point, now, locksets);
        for old in self.waiting.drain(..) {
            add(&mut self.done, old);
        }
        self.waiting.push(found);
        if let Some(first) = self.first_read {
            let (moments, frames) = now;
            self.across = moments.since(first.moment, locksets);
            self.calls = calls_since(frames, first.spot.index());
        }
        self.last = point;
        self.repeated = NEVER;
    }

    fn blocks(&self, mut each: impl FnMut(&Found)) {
        let last = &self.last;
        if self.alone {
            self.dummies(each);
            return;
        }
        self.done.iter().for_each(&mut each);
        for found in &self.waiting {
            let mut found = *found;
            found.block.final_writes = match found.block.second {
                Some(Access::Write) => (false, true),
                _ => (true, false),
            };
            each(&found);
        }
        if let (Some(first), Access::Write) = (self.first_read, last.access)
            && first.spot.index() != last.spot.index()
        {
            each(&Found {
                block: Block {
                    first: Access::Read,
                    second: Some(Access::Write),
                    final_writes: (false, true),
                    held: (first.held, last.held),
                    across: self.across,
                },
                spots: (first.spot, last.spot.with_calls(self.calls)),
            });
        }
    }

    fn dummies(&self, mut each: impl FnMut(&Found)) {
        let writes = self.last.access == Access::Write;
        let reads = self.first_read.map(|_| Access::Read);
        for access in reads.into_iter().chain(writes.then_some(Access::Write)) {
            each(&dummy(access, self.last.held, self.last.spot));
        }
    }
}

/// The block of an access that is alone in its transaction.
pub(super) fn dummy(access: Access, held: HeldLocks, spot: Spot) -> Found {
    Found {
        block: Block {
            first: access,
            second: None,
            final_writes: (access == Access::Write, false),
            held: (held, HeldLocks::default()),
            across: HeldLocks::default(),
        },
        spots: (spot, spot),
    }
}

fn add(list: &mut SmallVec<[Found; 2]>, found: Found) {
    if !list.iter().any(|old| old.block == found.block) {
        list.push(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::Held;
    use atomsan_trace::{Event, LockId, Op, StackId, ThreadId};

    /// A transaction, fed with operations of one thread.
    struct Fed {
        running: Running,
        held: Held,
        moments: Moments,
        locksets: Locksets,
        index: u64,
    }

    impl Fed {
        fn new() -> Fed {
            let mut running = Running::new(false);
            running.start(FunctionId(0), Entry::default(), 0, HeldLocks::default());
            Fed {
                running,
                held: Held::default(),
                moments: Moments::default(),
                locksets: Locksets::default(),
                index: 0,
            }
        }

        fn feed(&mut self, ops: &[Op]) {
            for &op in ops {
                let at = Occurrence {
                    index: self.index,
                    stack: StackId::EMPTY,
                    event: Event {
                        thread: ThreadId(0),
                        site: atomsan_trace::SiteId(1),
                        op,
                    },
                };
                self.index += 1;
                if let Some(var) = op.var() {
                    self.running
                        .access(var, &at, (&self.moments, &[]), &mut self.locksets);
                } else {
                    self.held.step(at.index, &at.event, &mut self.locksets);
                    let held = self.held.locks(ThreadId(0));
                    if let Op::Acquire(lock) | Op::Release(lock) = op {
                        self.moments
                            .change(lock, self.held.holds(ThreadId(0)), held);
                    }
                    self.running.held(held);
                }
            }
        }

        fn pieces(&mut self) -> Vec<Piece> {
            let skeleton = self.running.skeleton().iter();
            skeleton.map(|&(piece, _)| piece).collect()
        }

        fn count(&self) -> usize {
            let mut count = 0;
            self.running.blocks(|_, _| count += 1);
            count
        }
    }

    const X: VarId = VarId(0);
    const Y: VarId = VarId(1);
    const L: LockId = LockId(0);
    const M: LockId = LockId(1);

    #[test]
    fn a_long_loop_keeps_what_a_short_one_keeps() {
        let turn = [
            Op::Acquire(L),
            Op::Write(X),
            Op::Release(L),
            Op::Acquire(M),
            Op::Read(Y),
            Op::Release(M),
            Op::Write(Y),
        ];
        let kept = |turns| {
            let mut fed = Fed::new();
            for _ in 0..turns {
                fed.feed(&turn);
            }
            assert!(fed.running.skeleton.capacity() <= 4 * ROOM);
            (fed.count(), fed.pieces())
        };
        assert_eq!(kept(100_000), kept(4));
    }

    #[test]
    fn detours_are_kept_once() {
        let section = |lock| [Op::Acquire(lock), Op::Release(lock)];
        let (l, m) = (section(L), section(M));
        let pieces = |way: &[[Op; 2]]| {
            let mut fed = Fed::new();
            fed.feed(&[Op::Read(X)]);
            fed.feed(&way.concat());
            fed.feed(&[Op::Read(Y)]);
            fed.pieces()
        };
        assert_eq!(pieces(&[l, l, m, l, m, m]), pieces(&[l, m]));
        assert_ne!(pieces(&[l, m]), pieces(&[l]));
        assert_eq!(pieces(&[l]).len(), 1 + 1 + 2 + 1);
    }

    #[test]
    fn the_skeleton_has_first_reads_and_final_writes() {
        let mut fed = Fed::new();
        // (5): IR = {R1(x)}, FW = {W3(x), W4(y)}.
        fed.feed(&[
            Op::Read(X),
            Op::Write(Y),
            Op::Write(X),
            Op::Write(Y),
            Op::Read(X),
        ]);
        let access = |var, reads, writes| Piece::Access { var, reads, writes };
        let expected = [
            Piece::Held(HeldLocks::default()),
            access(X, true, false),
            access(X, false, true),
            access(Y, false, true),
        ];
        assert_eq!(fed.pieces(), expected);
    }
}
