//! A thread's open atomic blocks, and how far each has come.
//!
//! Blocks nest, and each has its own commit point: its first step that is not a right-mover. After
//! it, nothing but left-movers may follow. What commits a block commits every block around it that
//! has not committed yet, so the committed blocks are always the outermost ones, and so are those
//! that are already known to be violated: two counts hold the state of the whole stack, and a step
//! that changes nothing costs nothing, however deep the nesting.

use crate::engine::Occurrence;
use atomsan_trace::{FunctionId, LockId};

/// One open atomic block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// Its function or label; for a synchronised block, the function it is in.
    pub(super) region: Option<FunctionId>,
    /// The lock, if it is atomic because it is a synchronised block.
    pub(super) synchronised: Option<LockId>,
    /// How many frames were open with it.
    pub(super) depth: usize,
    /// The event that opened it.
    pub(super) entered: Occurrence,
    /// Its commit point.
    committed: Option<Occurrence>,
}

/// The open blocks of one thread, outermost first.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// The first so many are post-commit.
    committed: usize,
    /// The first so many are violated; not more than are committed.
    violated: usize,
    /// Functions that are taken for atomic or for movers hide what they do, from this number of
    /// frames on.
    hidden: Option<usize>,
}

impl Blocks {
    pub(super) fn open(
        &mut self,
        region: Option<FunctionId>,
        synchronised: Option<LockId>,
        depth: usize,
        entered: Occurrence,
    ) {
        if self.hidden.is_none() {
            self.blocks.push(Block {
                region,
                synchronised,
                depth,
                entered,
                committed: None,
            });
        }
    }

    /// What this thread does is not looked at until fewer than `depth` frames are open.
    pub(super) fn hide(&mut self, depth: usize) {
        self.hidden.get_or_insert(depth);
    }

    /// Only `depth` frames are open now. A synchronised block ends with its lock, not with the
    /// function that took it.
    pub(super) fn left(&mut self, depth: usize) {
        if self.hidden.is_some_and(|hidden| hidden > depth) {
            self.hidden = None;
        }
        let mut at = self.blocks.len();
        while at > 0 && self.blocks[at - 1].depth > depth {
            at -= 1;
            match self.blocks[at].synchronised {
                Some(_) => self.blocks[at].depth = depth,
                None => self.close(at),
            }
        }
    }

    /// The lock was released: its synchronised block ends.
    pub(super) fn released(&mut self, lock: LockId) {
        let of_lock = |block: &Block| block.synchronised == Some(lock);
        if let Some(at) = self.blocks.iter().rposition(of_lock) {
            self.close(at);
        }
    }

    /// Whether the lock has a synchronised block.
    pub(super) fn synchronised(&self, lock: LockId) -> bool {
        let of_lock = |block: &Block| block.synchronised == Some(lock);
        self.blocks.iter().any(of_lock)
    }

    /// A wait: what was atomic ends here, and what follows begins anew.
    pub(super) fn split(&mut self) {
        self.committed = 0;
        self.violated = 0;
    }

    /// A step that is no right-mover: blocks that have not committed do.
    #[inline]
    pub(super) fn commit(&mut self, at: &Occurrence) {
        if self.committed < self.blocks.len() && self.hidden.is_none() {
            for block in &mut self.blocks[self.committed..] {
                block.committed = Some(*at);
            }
            self.committed = self.blocks.len();
        }
    }

    /// A step that is no left-mover: gives the blocks that it violates, each with its commit
    /// point. A block is violated once.
    #[inline]
    pub(super) fn violate(&mut self) -> &[Block] {
        if self.violated == self.committed || self.hidden.is_some() {
            return &[];
        }
        let from = self.violated;
        self.violated = self.committed;
        &self.blocks[from..self.committed]
    }

    fn close(&mut self, at: usize) {
        self.blocks.remove(at);
        self.committed -= usize::from(at < self.committed);
        self.violated -= usize::from(at < self.violated);
    }
}

impl Block {
    /// The commit point; the entry while there is none.
    pub(super) fn committed(&self) -> &Occurrence {
        self.committed.as_ref().unwrap_or(&self.entered)
    }
}
