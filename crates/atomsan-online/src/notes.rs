//! Transactions that may have no edge, in a first run: if one lies between two of a component, in the same slot, it belongs to
//! the component too. What is wanted of it is its region, and that once. So what is of a region that is known is not noted, and
//! where nothing new is found there is nothing to look through.

use crate::nodes::Place;
use std::collections::VecDeque;

/// How many transactions are remembered for a slot.
const NOTES: usize = 1 << 14;

/// What has been noted.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The numbers and regions of each slot's transactions, in the order of their numbers.
    slots: Vec<VecDeque<(u64, u16)>>,
    /// How many there are.
    count: usize,
    /// Whether a region is known, by its number.
    known: Vec<bool>,
}

impl Notes {
    /// A slot has such a transaction. Numbers of a slot only grow.
    pub(crate) fn note(&mut self, slot: usize, clock: u64, region: u16) {
        if self.is_known(region) {
            return;
        }
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, VecDeque::default);
        }
        let notes = &mut self.slots[slot];
        if notes.len() == NOTES {
            notes.pop_front();
            self.count -= 1;
        }
        notes.push_back((clock, region));
        self.count += 1;
    }

    fn is_known(&self, region: u16) -> bool {
        self.known.get(usize::from(region)) == Some(&true)
    }

    /// The regions of these components that are known from now on and were not before.
    pub(crate) fn learn(&mut self, components: &[Vec<Place>]) -> Vec<u16> {
        let mut regions = Vec::new();
        for component in components {
            let own = component.iter().map(|place| place.region);
            regions.extend(own.filter(|&region| !self.is_known(region)));
            self.between(component, &mut regions);
        }
        regions.sort_unstable();
        regions.dedup();
        for &region in &regions {
            let number = usize::from(region);
            if self.known.len() <= number {
                self.known.resize(number + 1, false);
            }
            self.known[number] = true;
        }
        if !regions.is_empty() {
            self.forget_known();
        }
        regions
    }

    /// The regions of transactions that lie between two of a component, in the same slot, and that were
    /// noted.
    fn between(&self, component: &[Place], regions: &mut Vec<u16>) {
        if self.count == 0 {
            return;
        }
        let mut places = component.to_vec();
        places.sort_unstable();
        for of_slot in places.chunk_by(|one, other| one.slot == other.slot) {
            if let Some(notes) = self.slots.get(of_slot[0].slot) {
                let (first, last) = (of_slot[0].clock, of_slot[of_slot.len() - 1].clock);
                let start = notes.partition_point(|note| note.0 < first);
                let end = notes.partition_point(|note| note.0 <= last);
                regions.extend(notes.range(start..end).map(|note| note.1));
            }
        }
    }

    /// Forgets what was noted of regions that are known by now.
    fn forget_known(&mut self) {
        let mut slots = std::mem::take(&mut self.slots);
        for notes in &mut slots {
            notes.retain(|note| !self.is_known(note.1));
        }
        self.count = slots.iter().map(VecDeque::len).sum();
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(slot: usize, clock: u64, region: u16) -> Place {
        Place {
            slot,
            clock,
            region,
        }
    }

    #[test]
    fn what_lies_between_belongs_to_a_component_and_is_told_once() {
        let mut notes = Notes::default();
        for (clock, region) in [(2, 7), (3, 8), (4, 9), (5, 7), (9, 10)] {
            notes.note(1, clock, region);
        }
        notes.note(2, 4, 11);
        let components = [vec![place(1, 5, 1), place(2, 3, 0), place(1, 3, 2)]];
        assert_eq!(notes.learn(&components), [0, 1, 2, 7, 8, 9]);
        assert_eq!(notes.learn(&components), []);
        // What is known is neither kept nor noted.
        assert_eq!(notes.count, 2);
        notes.note(1, 10, 7);
        notes.note(1, 11, 12);
        assert_eq!(notes.count, 3);
        let component = vec![place(1, 9, 1), place(1, 12, 1)];
        assert_eq!(notes.learn(&[component]), [10, 12]);
    }

    #[test]
    fn the_last_ones_are_remembered() {
        let mut notes = Notes::default();
        for clock in 0..NOTES as u64 + 5 {
            notes.note(1, clock, if clock < 5 { 1 } else { 2 });
        }
        assert_eq!(notes.count, NOTES);
        assert_eq!(notes.learn(&[vec![place(1, 0, 3), place(1, 9, 3)]]), [2, 3]);
    }
}
