//! A transaction while it runs: its 1v-blocks, and its skeleton.
//!
//! # 1v-blocks (section 6.1)
//!
//! A block pairs an access `e₂` with an earlier one `e₁` of the same variable: (a) the last write
//! before `e₂` or, where there is none, the last read; (b) if `e₂` is the final write, an initial
//! read. They are made as the accesses come, and each different one is kept once. Whether a write
//! is the final one is known only later, so the blocks of the latest write wait until another
//! write or the end comes.
//!
//! Of the initial reads, rule (b) uses the first. That loses no verdict: whatever can get between
//! a later initial read and the final write can get between the first one and the final write.
//!
//! # The skeleton
//!
//! All that the theorems about several variables need is the *first* initial read and the final
//! write of each variable, and the sets of locks held at and between them. The paper keeps all
//! initial reads; one is enough, because a final write of another transaction that can get
//! between two of them is a violation on one variable already (R W′ R), and if none can, the
//! reads are on the same side of it in every trace.
//!
//! Between two accesses the skeleton is a run of held sets. A detour that leads back to a set the
//! run was in, through sets the run has been in before, is dropped; so are writes that turned out
//! not to be final. The skeleton is tidied whenever it has doubled: its size follows what is
//! different in the transaction and not how long it ran.

use super::moments::Moments;
use crate::engine::Occurrence;
use crate::held::HeldLocks;
use crate::locksets::Locksets;
use atomsan_trace::{FunctionId, Op, SiteId, StackId, VarId};
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

/// Where and when something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) index: u64,
    pub(super) stack: StackId,
    pub(super) site: SiteId,
    pub(super) op: Op,
}

impl Spot {
    pub(super) fn of(at: &Occurrence) -> Spot {
        Spot {
            index: at.index,
            stack: at.stack,
            site: at.event.site,
            op: at.event.op,
        }
    }
}

/// A block, and an example of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) block: Block,
    pub(super) spots: (Spot, Spot),
}

/// A piece of a skeleton.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Piece {
    /// From here on these locks are held.
    Held(HeldLocks),
    /// The first initial read, the final write, or both at once.
    Access {
        var: VarId,
        reads: bool,
        writes: bool,
    },
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
    /// The moment in which another read makes no new block.
    repeated: u32,
    done: SmallVec<[Found; 2]>,
    /// Blocks of the last write.
    waiting: SmallVec<[Found; 2]>,
    /// The last write in the skeleton.
    written: usize,
}

/// A running transaction.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) region: FunctionId,
    pub(super) entered: SiteId,
    /// The position in the trace of its start.
    pub(super) start: u64,
    slots: Vec<Slot>,
    by_var: HashMap<VarId, u32, FxBuildHasher>,
    skeleton: Vec<(Piece, Option<Spot>)>,
    /// How long the skeleton may grow before it is tidied.
    room: usize,
    /// Whether the locks before the first access and after the last one count.
    whole: bool,
}

impl Running {
    pub(super) fn new(whole: bool) -> Running {
        Running {
            region: FunctionId(0),
            entered: SiteId::UNKNOWN,
            start: 0,
            slots: Vec::new(),
            by_var: HashMap::default(),
            skeleton: Vec::new(),
            room: ROOM,
            whole,
        }
    }

    /// Starts a transaction in the memory of another one, under these locks.
    pub(super) fn start(
        &mut self,
        region: FunctionId,
        entered: SiteId,
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
        self.room = ROOM;
        self.held(held);
    }

    /// Whether the transaction has accessed the variable.
    #[inline]
    pub(super) fn knows(&self, var: VarId) -> bool {
        self.by_var.contains_key(&var)
    }

    /// The thread holds these locks from here on.
    pub(super) fn held(&mut self, held: HeldLocks) {
        self.push(Piece::Held(held), None);
    }

    /// The thread accesses a variable.
    pub(super) fn access(
        &mut self,
        var: VarId,
        at: &Occurrence,
        moments: &Moments,
        locksets: &mut Locksets,
    ) {
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
            self.push(Piece::Access { var, reads, writes }, Some(point.spot));
            return;
        };
        let slot = &mut self.slots[slot as usize];
        slot.alone = false;
        if reads {
            slot.read(point, writes, moments, locksets);
        }
        if writes {
            slot.write(point, moments, locksets);
            let last = self.skeleton.len() - 1;
            if slot.written != last {
                if slot.written != NOWHERE
                    && let Piece::Access { writes, .. } = &mut self.skeleton[slot.written].0
                {
                    *writes = false;
                }
                slot.written = last + 1;
                let reads = false;
                self.push(Piece::Access { var, reads, writes }, Some(point.spot));
            }
        }
    }

    #[inline]
    fn push(&mut self, piece: Piece, spot: Option<Spot>) {
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
    pub(super) fn skeleton(&mut self) -> &[(Piece, Option<Spot>)] {
        finish(&mut self.skeleton, self.whole);
        &self.skeleton
    }
}

const ROOM: usize = 64;

/// Drops from a skeleton what makes no difference: dead writes and detours and, if it need not be
/// `whole`, what comes before the locks of the first access.
fn tidy(skeleton: &mut Vec<(Piece, Option<Spot>)>, whole: bool) {
    let mut kept = 0;
    let mut accessed = false;
    // The held sets since the last access, starting with the one held there.
    let mut run: SmallVec<[HeldLocks; 8]> = SmallVec::new();
    for at in 0..=skeleton.len() {
        let piece = skeleton.get(at).copied();
        match piece {
            Some((Piece::Held(held), _)) => {
                if run.last() != Some(&held) {
                    run.push(held);
                    cut_detour(&mut run);
                }
                continue;
            }
            Some((Piece::Access { reads, writes, .. }, _)) if !reads && !writes => continue,
            _ => {}
        }
        let skip = match (accessed, whole) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => run.len().max(1) - 1,
        };
        for &held in run.iter().skip(skip) {
            skeleton[kept] = (Piece::Held(held), None);
            kept += 1;
        }
        let held = run.last().copied();
        run.clear();
        run.extend(held);
        if let Some(piece) = piece {
            skeleton[kept] = piece;
            kept += 1;
            accessed = true;
        }
    }
    skeleton.truncate(kept);
}

/// Tidies the skeleton of a transaction that has ended. If it need not be `whole`, it ends with the
/// last access.
pub(super) fn finish(skeleton: &mut Vec<(Piece, Option<Spot>)>, whole: bool) {
    tidy(skeleton, whole);
    while !whole && matches!(skeleton.last(), Some((Piece::Held(_), _))) {
        skeleton.pop();
    }
}

/// If the last set of a run was in the run before, and so was everything since, goes back there.
fn cut_detour(run: &mut SmallVec<[HeldLocks; 8]>) {
    let last = run.len() - 1;
    let Some(before) = run[..last].iter().rposition(|held| *held == run[last]) else {
        return;
    };
    let (old, detour) = run[..last].split_at(before + 1);
    if detour.iter().all(|held| old.contains(held)) {
        run.truncate(before + 1);
    }
}

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
        moments: &Moments,
        locksets: &mut Locksets,
    ) -> Found {
        let block = Block {
            first: self.last.access,
            second: Some(second),
            final_writes: (false, false),
            held: (self.last.held, point.held),
            across: moments.since(self.last.moment, locksets),
        };
        Found {
            block,
            spots: (self.last.spot, point.spot),
        }
    }

    /// A read, or the reading half of a read-modify-write: the other half goes on from the same
    /// `e₁`, because nothing gets between the two.
    fn read(&mut self, point: Point, updates: bool, moments: &Moments, locksets: &mut Locksets) {
        if self.repeated == point.moment {
            return;
        }
        let found = self.found(Access::Read, &point, moments, locksets);
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

    fn write(&mut self, point: Point, moments: &Moments, locksets: &mut Locksets) {
        let found = self.found(Access::Write, &point, moments, locksets);
        for old in self.waiting.drain(..) {
            add(&mut self.done, old);
        }
        self.waiting.push(found);
        if let Some(first) = self.first_read {
            self.across = moments.since(first.moment, locksets);
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
            && first.spot.index != last.spot.index
        {
            each(&Found {
                block: Block {
                    first: Access::Read,
                    second: Some(Access::Write),
                    final_writes: (false, true),
                    held: (first.held, last.held),
                    across: self.across,
                },
                spots: (first.spot, last.spot),
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
