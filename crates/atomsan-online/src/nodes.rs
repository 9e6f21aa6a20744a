//! The imprecise graph of a program's transactions: each is a node that has an edge, and comes after the one before it in its
//! slot.
//!
//! # Many edges at once
//!
//! Edges come log by log, those of one log in the order of the transactions that they lead to. So those that come at once go to the graph
//! at once: the transactions of a slot that are mentioned are put in order and merged with those that are there, and each is a
//! node by then whose edge is made. Two edges of a log that lead out of the same slot lead out of transactions that are near
//! each other, so each is looked for from the last one on.
//!
//! # What is open
//!
//! The transactions of a slot end one after the other. So those that are over are the first ones of its nodes, up to a
//! place that only moves on: nobody has to look at all of them to see which have ended. A node that is made of a transaction
//! between those is over by then, and its edges are made before that is said of it.
//!
//! # What nothing reaches
//!
//! All edges into what is [settled](Nodes::settled) are in the graph. If the graph has neither a transaction that is settled nor one
//! before it in its slot, no edge leads to it, or what leads there is reached by nothing that is open: either way it is
//! in no cycle, and an edge that leads out of it is not wanted.

use crate::orders::Orders;
use atomsan_engines::doublechecker::idg::{Carried, Idg};
use atomsan_engines::doublechecker::log::Tx;

/// How many transactions are added before it is worthwhile to look which can be dropped.
const MESS: u64 = 1 << 11;

/// A transaction: its slot, its number there and its region, plus 1; 0 if it is unary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Place {
    pub(crate) slot: usize,
    /// It has 48 bits, as in the edges.
    pub(crate) clock: u64,
    pub(crate) region: u16,
}

impl Place {
    fn key(&self) -> Key {
        Key(self.clock << 16 | u64::from(self.region))
    }
}

/// A transaction among those of its slot: its number and its region, in the order of numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key(u64);

impl Key {
    fn clock(self) -> u64 {
        self.0 >> 16
    }

    fn region(self) -> u16 {
        self.0 as u16
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug)]
struct Named {
    key: Key,
    slot: u32,
    /// Which one it was to be heard of.
    began: u64,
}

impl Named {
    fn place(&self) -> Place {
        Place {
            slot: self.slot as usize,
            clock: self.key.clock(),
            region: self.key.region(),
        }
    }
}

impl Carried for Named {
    fn began(&self) -> u64 {
        self.began
    }

    fn follow(&mut self, next: Named) {
        *self = next;
    }
}

/// An edge that is not in the graph yet.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    from: Key,
    to: Key,
    slots: [u32; 2],
}

/// The transactions of a slot that are nodes.
#[derive(Debug, Default)]
struct Slot {
    /// In the order of their numbers.
    nodes: Vec<(Key, Tx)>,
    /// How many of these are over.
    over: usize,
    /// Transactions with edges that have been read since, in no order, and some of them often.
    mentioned: Vec<Key>,
    /// Where a node was found last.
    near: usize,
}

impl Slot {
    /// Where the node with a number is, or the one behind it: looked for with longer and longer steps from where the last
    /// one was.
    fn position(&mut self, clock: u64) -> usize {
        let nodes = &self.nodes;
        let near = self.near.min(nodes.len());
        let is_before = |node: &(Key, Tx)| node.0.clock() < clock;
        let mut step = 1;
        let within = if nodes.get(near).is_some_and(is_before) {
            let mut start = near + 1;
            while nodes.get(start + step - 1).is_some_and(is_before) {
                start += step;
                step *= 2;
            }
            start..(start + step).min(nodes.len())
        } else {
            let mut end = near;
            while end >= step && !is_before(&nodes[end - step]) {
                end -= step;
                step *= 2;
            }
            end.saturating_sub(step)..end
        };
        self.near = within.start + nodes[within].partition_point(is_before);
        self.near
    }

    /// The node with a number: usually that of the last edge, or the next one.
    #[inline]
    fn find(&mut self, clock: u64) -> Option<Tx> {
        let is_it = |at: usize| (self.nodes.get(at)).is_some_and(|node| node.0.clock() == clock);
        let at = if is_it(self.near) {
            self.near
        } else if is_it(self.near + 1) {
            self.near += 1;
            self.near
        } else {
            self.position(clock)
        };
        let node = self.nodes.get(at);
        node.filter(|node| node.0.clock() == clock)
            .map(|node| node.1)
    }

    /// The nodes that are not over.
    fn open(&self) -> impl Iterator<Item = Tx> + Clone + use<'_> {
        self.nodes[self.over..].iter().map(|node| node.1)
    }

    /// Ends those that are over when the slot's clock is there.
    fn close(&mut self, idg: &mut Idg<Named>, now: u64) {
        let is_over = |key: Key| key.clock() < now || key.clock() == now && key.region() == 0;
        while let Some(&node) = self.nodes.get(self.over)
            && is_over(node.0)
        {
            end(idg, node);
            self.over += 1;
        }
    }
}

/// A transaction gets no more edges. A component is looked for when one of its regions ends.
fn end(idg: &mut Idg<Named>, (key, tx): (Key, Tx)) {
    idg.finish(tx);
    if key.region() != 0 {
        idg.look_for(tx);
    }
}

/// The graph.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    slots: Vec<Slot>,
    /// All of a slot that is before this number is over, and all edges into that have been read.
    settled: Vec<u64>,
    /// The slots that have transactions which were mentioned.
    touched: Vec<u32>,
    /// The slots that have nodes which are not over.
    busy: Vec<u32>,
    /// Edges that have been read and are not in the graph yet.
    fresh: Vec<Fresh>,
    /// Nodes that were made of transactions before some that are over.
    late: Vec<(Key, Tx)>,
    /// A spare list.
    behind: Vec<(Key, Tx)>,
    idg: Idg<Named>,
    orders: Orders,
    /// How many nodes there are, and how many there ever were; how many there had been when what is in no
    /// cycle was dropped.
    kept: usize,
    count: u64,
    swept: u64,
}

impl Nodes {
    /// There are so many slots, at least.
    pub(crate) fn make_room(&mut self, slots: usize) {
        if self.slots.len() < slots {
            self.slots.resize_with(slots, Slot::default);
            self.settled.resize(slots, 0);
        }
    }

    /// An edge has been read, which stands for a conflict or only for an order.
    pub(crate) fn edge(&mut self, from: Place, to: Place, is_conflict: bool) {
        self.make_room(from.slot.max(to.slot) + 1);
        if !self.is_unreachable(from) {
            self.orders.note(from, to, is_conflict);
            self.mention(from);
            self.mention(to);
            self.fresh.push(Fresh {
                from: from.key(),
                to: to.key(),
                slots: [from.slot, to.slot].map(|slot| slot as u32),
            });
        }
    }

    /// Whether no edge leads to a transaction, nor to one before it in its slot, and none will: it is
    /// in no cycle, whatever it leads to.
    fn is_unreachable(&self, place: Place) -> bool {
        let is_behind = |slot: &Slot| {
            let first = slot.nodes.first();
            first.is_none_or(|node| node.0.clock() > place.clock)
        };
        place.clock < self.settled[place.slot] && is_behind(&self.slots[place.slot])
    }

    /// A transaction has an edge.
    fn mention(&mut self, place: Place) {
        let mentioned = &mut self.slots[place.slot].mentioned;
        let last = mentioned.last().copied();
        if last.is_none() {
            self.touched.push(place.slot as u32);
        }
        if last != Some(place.key()) {
            mentioned.push(place.key());
        }
    }

    /// Adds what has been read to the graph.
    pub(crate) fn add_edges(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        for slot in touched.drain(..) {
            self.add_nodes(slot);
        }
        self.touched = touched;
        for Fresh { from, to, slots } in self.fresh.drain(..) {
            let mut node = |slot, key: Key| self.slots[slot as usize].find(key.clock());
            if let (Some(from), Some(to)) = (node(slots[0], from), node(slots[1], to)) {
                self.idg.edge(from, to);
            }
        }
    }

    /// Makes nodes of a slot's transactions that were mentioned, each after the one before it.
    fn add_nodes(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        let was_busy = slot.over < slot.nodes.len();
        let mut mentioned = std::mem::take(&mut slot.mentioned);
        // A stable sort would make use of sequences that are in order, but also of memory, each time.
        mentioned.sort_unstable();
        mentioned.dedup_by_key(|key| key.clock());
        // Some are there already, and what is before the first one that is not stays where it is.
        let first = mentioned.iter().position(|key| {
            let is_behind = slot
                .nodes
                .last()
                .is_none_or(|last| last.0.clock() < key.clock());
            is_behind || slot.find(key.clock()).is_none()
        });
        let new = &mentioned[first.unwrap_or(mentioned.len())..];
        let split = new.first().map(|key| slot.position(key.clock()));
        let split = split.unwrap_or(slot.nodes.len());
        let mut behind = std::mem::take(&mut self.behind);
        behind.extend_from_slice(&slot.nodes[split..]);
        slot.nodes.truncate(split);
        // How many of these are over.
        let over = slot.over.saturating_sub(split);
        let mut is_after_new = false;
        let mut taken = 0;
        for &key in new {
            while let Some(&node) = behind.get(taken)
                && node.0.clock() < key.clock()
            {
                self.add_node(number, node, is_after_new);
                is_after_new = false;
                taken += 1;
            }
            if (behind.get(taken)).is_some_and(|node| node.0.clock() == key.clock()) {
                continue;
            }
            self.count += 1;
            self.kept += 1;
            let tx = self.idg.open(Named {
                key,
                slot: number,
                began: self.count,
            });
            if taken < over {
                self.late.push((key, tx));
                self.slots[number as usize].over += 1;
            }
            self.add_node(number, (key, tx), true);
            is_after_new = true;
        }
        for &node in &behind[taken..] {
            self.add_node(number, node, is_after_new);
            is_after_new = false;
        }
        behind.clear();
        self.behind = behind;
        mentioned.clear();
        let slot = &mut self.slots[number as usize];
        slot.mentioned = mentioned;
        if !was_busy && slot.over < slot.nodes.len() {
            self.busy.push(number);
        }
    }

    /// Puts a node behind others of its slot; one of the last two is new, or their edge is there already.
    #[inline]
    fn add_node(&mut self, slot: u32, node: (Key, Tx), is_new: bool) {
        let nodes = &mut self.slots[slot as usize].nodes;
        if is_new && let Some(&(_, before)) = nodes.last() {
            self.idg.edge(before, node.1);
        }
        nodes.push(node);
    }

    /// Ends the transactions that get no more edges: those that were over when the slots' clocks were looked at. All edges that
    /// were there by then have been added.
    pub(crate) fn close(&mut self, clock: impl Fn(usize) -> u64) {
        for (at, settled) in self.settled.iter_mut().enumerate() {
            *settled = clock(at);
        }
        self.busy.retain(|&number| {
            let slot = &mut self.slots[number as usize];
            slot.close(&mut self.idg, self.settled[number as usize]);
            slot.over < slot.nodes.len()
        });
        for node in self.late.drain(..) {
            end(&mut self.idg, node);
        }
    }

    /// All transactions have ended.
    pub(crate) fn finish(&mut self) {
        self.close(|_| u64::MAX);
    }

    /// Whether no transaction that has ended waits for a search.
    pub(crate) fn is_idle(&self) -> bool {
        self.idg.is_idle()
    }

    /// Whether so many have ended that the last search was worth it.
    pub(crate) fn is_due(&self, patience: usize) -> bool {
        self.idg.is_due(patience)
    }

    /// The components that have a transaction which has ended since the last time, with those of
    /// their transactions that have not: the order of two others may go through them.
    pub(crate) fn components(&mut self) -> Vec<Vec<Place>> {
        let mut components = Vec::new();
        for component in self.idg.components_with_open() {
            self.idg.select(component);
            let members = self.idg.component().filter_map(|tx| self.idg.get(tx));
            let mut last = 0;
            let places = members.map(|member| {
                last = member.began;
                member.place()
            });
            let places: Vec<Place> = places.collect();
            if self.has_cycle(&places) {
                components.push((last, places));
            }
        }
        // What happened first is told first.
        components.sort_by_key(|(last, _)| *last);
        components.into_iter().map(|(_, places)| places).collect()
    }

    /// Whether a component has a cycle of conflicts.
    fn has_cycle(&self, places: &[Place]) -> bool {
        let members = self.idg.component();
        let members: Vec<Tx> = members.filter(|&tx| self.idg.is_alive(tx)).collect();
        self.orders.has_cycle(places, |number| {
            let successors = self.idg.successors(members[number]);
            successors.filter_map(|tx| self.idg.get(tx).map(Named::place))
        })
    }

    /// The nodes that are not over.
    fn open(&self) -> impl Iterator<Item = Tx> + Clone + use<'_> {
        let busy = self.busy.iter().map(|&slot| &self.slots[slot as usize]);
        busy.flat_map(Slot::open)
    }

    /// Whether all transactions that an edge leads out of are over, and the components of all that are
    /// over have been looked for.
    pub(crate) fn is_settled(&self) -> bool {
        let is_last = |tx| self.idg.successors(tx).next().is_none();
        self.idg.is_idle() && self.open().all(is_last)
    }

    /// Forgets all transactions. To forget some and keep others would not do: if `A` is before `X` and
    /// `X` before `B`, and `X` is forgotten, nothing says any more that `A` is before `B`, and
    /// their logs could be put in an order that never was. What comes from now on cannot be before
    /// anything that is forgotten.
    pub(crate) fn cut(&mut self) {
        for slot in &mut self.slots {
            self.idg.retire_all(slot.nodes.drain(..).map(|node| node.1));
            slot.over = 0;
        }
        self.busy.clear();
        self.kept = 0;
        self.orders.retain(|_, _| false);
        self.idg.sweep(std::iter::empty());
    }

    /// Drops what can be in no cycle any more, if enough has been added.
    pub(crate) fn tidy(&mut self) {
        if self.count - self.swept > MESS.max(self.kept as u64 / 2) {
            self.sweep();
        }
    }

    /// Drops what can be in no cycle any more.
    pub(crate) fn sweep(&mut self) {
        self.swept = self.count;
        let Nodes {
            idg, slots, busy, ..
        } = self;
        let busy = busy.iter().map(|&slot| &slots[slot as usize]);
        idg.sweep(busy.flat_map(Slot::open));
        self.kept = 0;
        for slot in &mut self.slots {
            let open = slot.nodes.len() - slot.over;
            slot.nodes.retain(|&(_, tx)| self.idg.is_alive(tx));
            // All that are open are kept.
            slot.over = slot.nodes.len() - open;
            self.kept += slot.nodes.len();
        }
        let slots = &mut self.slots;
        self.orders
            .retain(|slot, clock| slots[slot].find(clock).is_some());
    }

    /// Whether a slot has a transaction that may be in a cycle, up to this number. Later ones may get
    /// an edge that leads out of them at any time, and there is a way to them from that one.
    pub(crate) fn has_any(&self, slot: usize, until: u64) -> bool {
        let first = self.slots.get(slot).and_then(|slot| slot.nodes.first());
        first.is_some_and(|node| node.0.clock() <= until)
    }
}

#[cfg(test)]
mod tests;
