//! The ways in which variables were accessed, as far as they still matter: by whom, when last, under which
//! locks.

use atomsan_trace::{LockId, VarId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use std::rc::Rc;

/// One way in which a variable was accessed: by whom, when last, and under which locks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// A thread of a slot, for slots are used again.
    pub(super) who: u32,
    /// The slot's own time, by all synchronisation.
    pub(super) time: u32,
    /// The slot's own time, by starts and joins.
    pub(super) period: u32,
    /// The set of locks, and whether it writes.
    pub(super) how: u32,
}

/// The ways of all variables that may still be handed over. Those of memory that has died are
/// dropped: what is left is whether they were.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// For each variable the place of its ways, or what is known of it.
    pub(super) places: Vec<u32>,
    pub(super) ways: Vec<SmallVec<[Way; 1]>>,
    pub(super) free: Vec<u32>,
}

/// A variable that has not been accessed.
pub(super) const NEW: u32 = u32::MAX;
/// A variable with a race, a common lock, an atomic operation, or too much to remember.
pub(super) const KEPT: u32 = u32::MAX - 1;
/// A variable that was handed over to the end of its life.
pub(super) const OVER: u32 = u32::MAX - 2;
/// A variable that was atomic from its initialisation to the end of its life.
pub(super) const INITIALISED: u32 = u32::MAX - 3;
/// A variable that was handed over, to the end of its life, wherever no lock was held.
pub(super) const UNLOCKED: u32 = u32::MAX - 4;
/// The way of an atomic access: the plain ones initialise.
pub(super) const ATOMICALLY: u32 = u32::MAX;
/// The way of a variable that a lock protects by now.
pub(super) const LOCKED: u32 = u32::MAX - 1;

impl Ways {
    /// The place of the ways of a variable; `None` if it is known what becomes of it.
    pub(super) fn place(&mut self, var: VarId) -> Option<usize> {
        if self.places.len() <= var.index() {
            self.places.resize(var.index() + 1, NEW);
        }
        let place = &mut self.places[var.index()];
        match *place {
            UNLOCKED..NEW => return None,
            NEW => {
                *place = self.free.pop().unwrap_or(self.ways.len() as u32);
                if *place as usize == self.ways.len() {
                    self.ways.push(SmallVec::new());
                }
            }
            _ => {}
        }
        Some(*place as usize)
    }

    /// The ways of a variable, as far as they are known.
    pub(super) fn of(&self, var: VarId) -> &[Way] {
        let place = self.places.get(var.index());
        let place = place.filter(|&&place| place < UNLOCKED);
        place.map_or(&[], |&place| &self.ways[place as usize])
    }

    /// Forgets the ways of a variable.
    pub(super) fn settle(&mut self, var: VarId, verdict: u32) {
        let Some(place) = self.places.get_mut(var.index()) else {
            return;
        };
        if *place < UNLOCKED {
            self.ways[*place as usize] = SmallVec::new();
            self.free.push(*place);
            *place = verdict;
        }
    }

    /// What becomes of a variable with this place.
    pub(super) fn verdict(&self, place: u32) -> u32 {
        let Some(ways) = self.ways.get(place as usize) else {
            return if place == NEW { OVER } else { place };
        };
        let is_marked = |mark: u32| ways.iter().any(|way| way.how == mark);
        match () {
            () if is_marked(ATOMICALLY) => INITIALISED,
            () if is_marked(LOCKED) => UNLOCKED,
            () => OVER,
        }
    }
}

/// Sequences of locks as small numbers; none is 0.
#[derive(Debug)]
pub(super) struct Sets {
    pub(super) known: HashMap<Rc<[LockId]>, u32, FxBuildHasher>,
    pub(super) list: Vec<Rc<[LockId]>>,
}

impl Default for Sets {
    fn default() -> Sets {
        Sets {
            known: HashMap::default(),
            list: vec![Rc::default()],
        }
    }
}

impl Sets {
    pub(super) fn number(&mut self, locks: &[LockId]) -> u32 {
        if locks.is_empty() {
            return 0;
        }
        if let Some(&known) = self.known.get(locks) {
            return known;
        }
        let number = self.list.len() as u32;
        self.list.push(locks.into());
        self.known.insert(locks.into(), number);
        number
    }
}
