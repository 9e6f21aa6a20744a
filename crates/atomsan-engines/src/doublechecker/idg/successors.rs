//! Lists of successors that are short, usually: the next transaction of the thread, and whoever has used what this one had.
//! So a few lie in the node itself, and a longer list goes on elsewhere. Lists of
//! nodes that are gone leave their memory to others, so that there is no allocation for a node.

/// There is no such successor, or list.
const NONE: u32 = u32::MAX;

/// How many successors lie in the node: with three of them it is half a cache line.
const FEW: usize = 3;

/// The capacity that a list keeps when its node is gone.
const USUAL: usize = 16;

/// The successors of a node, as far as they lie there, and where they go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successors {
    few: [u32; FEW],
    more: u32,
}

impl Successors {
    pub(super) const NONE: Successors = Successors {
        few: [NONE; FEW],
        more: NONE,
    };

    pub(super) fn is_empty(&self) -> bool {
        self.few[0] == NONE
    }
}

/// What lies in no node of all lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    lists: Vec<Vec<u32>>,
    /// Lists that nobody has; they are empty.
    free: Vec<u32>,
}

impl Lists {
    /// Adds a successor, unless it was added last; whether it was added.
    #[inline]
    pub(super) fn push(&mut self, of: &mut Successors, successor: u32) -> bool {
        if of.more != NONE {
            let list = &mut self.lists[of.more as usize];
            let is_new = list.last() != Some(&successor);
            if is_new {
                list.push(successor);
            }
            return is_new;
        }
        let len = (of.few.iter()).position(|&one| one == NONE);
        let len = len.unwrap_or(FEW);
        if len > 0 && of.few[len - 1] == successor {
            return false;
        }
        match of.few.get_mut(len) {
            Some(place) => *place = successor,
            None => self.spill(of, successor),
        }
        true
    }

    /// Goes on elsewhere.
    #[cold]
    fn spill(&mut self, of: &mut Successors, successor: u32) {
        of.more = self.free.pop().unwrap_or_else(|| {
            self.lists.push(Vec::new());
            self.lists.len() as u32 - 1
        });
        self.lists[of.more as usize].push(successor);
    }

    /// The successor with a number, counted from 0.
    #[inline]
    pub(super) fn get(&self, of: &Successors, at: usize) -> Option<u32> {
        match of.few.get(at) {
            Some(&one) => (one != NONE).then_some(one),
            None if of.more == NONE => None,
            None => (self.lists[of.more as usize]).get(at - FEW).copied(),
        }
    }

    /// All of them.
    #[inline]
    pub(super) fn iter(&self, of: &Successors) -> impl Iterator<Item = u32> + use<'_> {
        let more: &[u32] = match of.more {
            NONE => &[],
            more => &self.lists[more as usize],
        };
        let few = of.few.into_iter().take_while(|&one| one != NONE);
        few.chain(more.iter().copied())
    }

    /// There are none any more.
    #[inline]
    pub(super) fn clear(&mut self, of: &mut Successors) {
        if of.more != NONE {
            let list = &mut self.lists[of.more as usize];
            list.clear();
            list.shrink_to(USUAL);
            self.free.push(of.more);
        }
        *of = Successors::NONE;
    }
}
