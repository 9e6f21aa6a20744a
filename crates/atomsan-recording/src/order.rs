//! One order of all records that respects the logs and the edges between them.
//!
//! A slot is followed until an edge says that another slot must be further along; then that one
//! is followed until it is, and so on. All edges of the runtime point forward in time, so this
//! cannot go round in a circle; in a damaged file it can, and then the edge is ignored. So is an
//! edge to records that were lost. Which of the possible orders comes out does not matter: any
//! of them is a legal event stream.

use crate::file::{Log, Record, Recording};
use crate::format::Kind;

/// All records of a recording except the edges, in a legal order, each with its slot.
#[derive(Debug)]
pub struct Order<'a> {
    logs: Vec<Log<'a>>,
    /// Slots being followed, each until a position.
    following: Vec<(usize, u64)>,
    followed: Vec<bool>,
    /// The next slot to follow to its end.
    next: usize,
    edges: Edges,
}

/// The edges right in front of each slot's last record.
#[derive(Debug, Default)]
pub struct Edges {
    /// The slots that they name.
    after: Vec<Vec<usize>>,
    /// Whether the next edge of the slot is the first one since its last record.
    fresh: Vec<bool>,
}

impl Edges {
    /// There are so many slots.
    pub fn resize(&mut self, slots: usize) {
        self.after.resize(slots, Vec::new());
        self.fresh.resize(slots, true);
    }

    /// A slot has an edge from another one.
    pub fn edge(&mut self, slot: usize, from: usize) {
        if std::mem::replace(&mut self.fresh[slot], false) {
            self.after[slot].clear();
        }
        self.after[slot].push(from);
    }

    /// A slot has a record that is no edge.
    pub fn record(&mut self, slot: usize) {
        if std::mem::replace(&mut self.fresh[slot], true) {
            self.after[slot].clear();
        }
    }

    /// The slots that the last record of this slot comes after.
    pub fn after(&self, slot: usize) -> &[usize] {
        self.after.get(slot).map_or(&[], |after| after)
    }
}

impl<'a> Order<'a> {
    /// The order of a recording.
    pub fn new(recording: &'a Recording) -> Order<'a> {
        let slots = recording.slots();
        let mut edges = Edges::default();
        edges.resize(slots);
        Order {
            logs: (0..slots).map(|slot| recording.log(slot)).collect(),
            following: Vec::new(),
            followed: vec![false; slots],
            next: 0,
            edges,
        }
    }

    /// The slots that the last record of this slot comes after, by edges right in front of it.
    pub fn after(&self, slot: usize) -> &[usize] {
        self.edges.after(slot)
    }

    fn follow(&mut self, slot: usize, until: u64) {
        self.following.push((slot, until));
        self.followed[slot] = true;
    }
}

impl Iterator for Order<'_> {
    type Item = (usize, Record);

    fn next(&mut self) -> Option<(usize, Record)> {
        loop {
            let Some(&(slot, until)) = self.following.last() else {
                if self.next >= self.logs.len() {
                    return None;
                }
                self.follow(self.next, u64::MAX);
                self.next += 1;
                continue;
            };
            let next = self.logs[slot].peek();
            let Some(record) = next.filter(|record| record.position < until) else {
                self.following.pop();
                self.followed[slot] = false;
                continue;
            };
            if record.kind != Kind::Edge {
                let record = self.logs[slot].next()?;
                self.edges.record(slot);
                return Some((slot, record));
            }
            let (from, position) = (record.second as usize, record.subject);
            let satisfied = self
                .logs
                .get(from)
                .is_none_or(|log| log.position() >= position || self.followed[from]);
            if satisfied {
                self.logs[slot].next();
                self.edges.edge(slot, from);
            } else {
                self.follow(from, position);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::Builder;
    use crate::format::first_word;

    fn write(builder: &mut Builder, slot: usize, address: u64) {
        builder.push(slot, &[first_word(Kind::Write, 4, address), 0]);
    }

    fn edge(builder: &mut Builder, slot: usize, from: usize, position: u64) {
        builder.push(slot, &[first_word(Kind::Edge, 0, position), from as u64]);
    }

    fn order(recording: &Recording) -> Vec<(usize, u64)> {
        Order::new(recording)
            .map(|(slot, record)| (slot, record.subject))
            .collect()
    }

    #[test]
    fn edges_are_respected() {
        let mut builder = Builder::default();
        write(&mut builder, 1, 1);
        let first = builder.end(1);
        edge(&mut builder, 2, 1, first);
        write(&mut builder, 2, 2);
        let second = builder.end(2);
        edge(&mut builder, 1, 2, second);
        write(&mut builder, 1, 3);
        assert_eq!(order(&builder.build()), [(1, 1), (2, 2), (1, 3)]);
    }

    #[test]
    fn circles_and_lost_records_do_not_stop_it() {
        let mut builder = Builder::default();
        edge(&mut builder, 1, 2, u64::MAX >> 16);
        write(&mut builder, 1, 1);
        edge(&mut builder, 2, 1, u64::MAX >> 16);
        edge(&mut builder, 2, 99, 5);
        write(&mut builder, 2, 2);
        let mut order = order(&builder.build());
        order.sort();
        assert_eq!(order, [(1, 1), (2, 2)]);
    }
}
