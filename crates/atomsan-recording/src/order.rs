//! One order of all records that respects the logs and the edges between them.
//!
//! A slot is followed until an edge says that another slot must be further along; then that one
//! is followed until it is, and so on. All edges of the runtime point forward in time, so this
//! cannot go round in a circle; in a damaged file it can, and then the edge is ignored. So is an
//! edge to records that were lost. Which of the possible orders comes out does not matter: any
//! of them is a legal event stream.
//!
//! If the beginning of the recording is forgotten, what is before its [cut](crate::file) comes first, in an
//! order that may not be right.

use crate::file::{Log, Record, Recording};
use crate::format::Kind;

/// All records of a recording except the edges, in a legal order, each with its slot.
#[derive(Debug)]
pub struct Order<'a> {
    recording: &'a Recording,
    logs: Vec<Log<'a>>,
    /// Slots being followed, each until a position.
    following: Vec<(usize, u64)>,
    followed: Vec<bool>,
    /// The next slot to follow to its cut, and then to its end.
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
            recording,
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
                let slots = self.logs.len();
                if self.next >= 2 * slots {
                    return None;
                }
                let until = match self.next < slots {
                    true => self.recording.cut_of(self.next),
                    false => u64::MAX,
                };
                self.follow(self.next % slots, until);
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

    /// `1` is before something that is forgotten, and that before `2`.
    #[test]
    fn what_is_before_something_forgotten_comes_first() {
        let mut builder = Builder::default();
        edge(&mut builder, 1, 2, 8);
        write(&mut builder, 1, 2);
        write(&mut builder, 3, 1);
        let first = builder.end(3);
        write(&mut builder, 3, 4);
        builder.push(2, &[first_word(Kind::Continue, 0, 7), 0, 0, 0]);
        edge(&mut builder, 2, 3, first);
        builder.gap(2);
        write(&mut builder, 2, 3);
        let recording = builder.build();
        let order = Order::new(&recording).filter(|(_, record)| record.kind == Kind::Write);
        let order = order.map(|(slot, record)| {
            let counts = !recording.is_before_cut(slot, record.position);
            (record.subject, counts)
        });
        let expected = [(1, false), (2, true), (3, true), (4, true)];
        assert_eq!(order.collect::<Vec<_>>(), expected);
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
