//! The chunks of the program's logs, of which only those are read that have a transaction in a
//! component.
//!
//! A chunk says which transaction was the last when it was begun, so two neighbours say which
//! transactions are in the first of them. It goes back to the program, unread, as soon as none of
//! these can be in a cycle any more: they are over, or unary, and the graph has none of them and none that
//! is before them in the log. If too many
//! chunks have to stay, the oldest are forgotten.
//!
//! A thread starts its last chunk again where nobody can need what is in it (`atomsan_rt::thread`), so
//! that one is looked at again before it is read.

use crate::links::{Links, Place};
use crate::live::{ChunkAt, Live};
use crate::origins;
use crate::parts::{Found, Part};
use crate::uses::Uses;
use crate::visited::{ROOM, Visited};
use crate::walk::{Stretch, Walk};
use atomsan_recording::Origin;
use atomsan_recording::file::Record;
use std::collections::VecDeque;
use std::io;

/// The chunks of one slot's log that have not been given back.
#[derive(Debug, Default)]
struct Slot {
    chunks: VecDeque<ChunkAt>,
    /// Whether the log's first chunk has been seen.
    begun: bool,
}

/// All chunks that have not been given back.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    slots: Vec<Slot>,
    /// How many there are.
    count: usize,
    /// Who uses what in the components that were read last.
    uses: Uses,
    /// How many were given back although they might have been needed.
    pub(crate) forgotten: u64,
}

impl Chunks {
    /// Looks for chunks that are new. A transaction may go on in one of them, so a component is made
    /// of [parts](Chunks::parts) only after that.
    pub(crate) fn look(&mut self, live: &Live) -> io::Result<()> {
        if self.slots.len() < live.slots() {
            self.slots.resize_with(live.slots(), Slot::default);
        }
        (1..self.slots.len()).try_for_each(|at| self.find(live, at))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Gives back the chunks that are not needed; `keep` gets what is given back. Whether some were
    /// forgotten that may have been needed.
    pub(crate) fn advance(
        &mut self,
        live: &mut Live,
        links: &Links,
        most: usize,
        mut keep: impl FnMut(usize, u64, &[u64]),
        keeps: bool,
    ) -> io::Result<bool> {
        for at in 1..self.slots.len() {
            while self.is_done(live, links, at) {
                self.give_back(live, at, &mut keep, keeps)?;
            }
        }
        if self.count <= most {
            return Ok(false);
        }
        while self.count > most / 2 {
            let oldest = (self.slots.iter().enumerate())
                .filter(|(_, slot)| slot.chunks.len() > 1)
                .min_by_key(|(_, slot)| slot.chunks.front().map(|chunk| chunk.position));
            let Some((at, _)) = oldest else {
                break;
            };
            self.give_back(live, at, &mut keep, keeps)?;
            self.forgotten += 1;
        }
        Ok(true)
    }

    /// Finds the chunks that a log has by now. The log was looked at before, so what is read now of a chunk that was left
    /// by then is how it stays, with the next one. Only of the last one that was known before, it is not.
    fn find(&mut self, live: &Live, at: usize) -> io::Result<()> {
        let slot = &mut self.slots[at];
        let mut is_new = !slot.begun;
        if !slot.begun {
            let Some(first) = live.first_chunk(at)? else {
                return Ok(());
            };
            slot.begun = true;
            self.count += 1;
            slot.chunks.push_back(first);
        }
        while let Some(last) = slot.chunks.back_mut()
            && live.has_left(at, last)
        {
            if !std::mem::replace(&mut is_new, true) {
                let Some(now) = live.chunk_now(last)? else {
                    break;
                };
                *last = now;
                continue;
            }
            let Some(next) = live.next_chunk(last)? else {
                break;
            };
            self.count += 1;
            slot.chunks.push_back(next);
        }
        Ok(())
    }

    /// Looks again at the last chunk of a log, which may have started again.
    fn look_again(&mut self, live: &Live, at: usize) -> io::Result<()> {
        if let Some(last) = self
            .slots
            .get_mut(at)
            .and_then(|slot| slot.chunks.back_mut())
            && let Some(now) = live.chunk_now(last)?
        {
            *last = now;
        }
        Ok(())
    }

    /// Whether the oldest chunk of a log is not needed any more.
    fn is_done(&self, live: &Live, links: &Links, at: usize) -> bool {
        let chunks = &self.slots[at].chunks;
        let Some(next) = chunks.get(1) else {
            return false;
        };
        let (now, unary) = (live.clock(at), live.is_unary(at));
        (next.clock < now || next.clock == now && unary) && !links.has_any(at, next.clock)
    }

    fn give_back(
        &mut self,
        live: &mut Live,
        at: usize,
        keep: &mut impl FnMut(usize, u64, &[u64]),
        keeps: bool,
    ) -> io::Result<()> {
        if let Some(chunk) = self.slots[at].chunks.pop_front() {
            self.count -= 1;
            if keeps {
                let (_, words) = live.content(at, &chunk)?;
                keep(at, chunk.position, &words);
            }
            live.give_back(chunk.offset)?;
        }
        Ok(())
    }

    /// The calls that threads are in, if one of the addresses is on their stack.
    pub(crate) fn of_stacks(
        &mut self,
        live: &mut Live,
        addresses: &[u64],
    ) -> io::Result<Vec<Origin>> {
        let mut origins = Vec::new();
        for at in 0..self.slots.len() {
            self.look_again(live, at)?;
            if let Some(last) = self.slots[at].chunks.back() {
                origins.extend(origins::of_stack(live, at, last, addresses)?);
            }
        }
        Ok(origins)
    }

    /// What is left of all logs.
    pub(crate) fn rest(
        &self,
        live: &mut Live,
        mut keep: impl FnMut(usize, u64, &[u64]),
    ) -> io::Result<()> {
        for (at, slot) in self.slots.iter().enumerate() {
            for chunk in &slot.chunks {
                let (_, words) = live.content(at, chunk)?;
                keep(at, chunk.position, &words);
            }
        }
        Ok(())
    }

    /// The parts of the logs that belong to the transactions of each component, without what conflicts with
    /// nothing in it ([`Uses`]); nothing at all if there is no conflict. Transactions between two of
    /// a slot belong to the component as well, even if they have no edge of their own: the later of the two may
    /// stand for what they did. Of what is not settled there is only the order.
    ///
    /// The logs are walked through twice, so that only what is left is ever in memory; those of a component without a
    /// conflict, once. They are read twice only if more belongs to components than is [kept](Visited).
    pub(crate) fn parts(
        &mut self,
        live: &mut Live,
        components: &[Vec<Place>],
    ) -> io::Result<Vec<Vec<Part>>> {
        let mut ranges = Vec::new();
        for (component, places) in components.iter().enumerate() {
            let mut places = places.clone();
            places.sort_unstable();
            for of_slot in places.chunk_by(|one, other| one.slot == other.slot) {
                let clocks = of_slot[0].clock..=of_slot[of_slot.len() - 1].clock;
                ranges.push((of_slot[0].slot, Stretch::new(component, clocks)));
            }
        }
        ranges.sort_by_key(|&(slot, _)| slot);
        for &(slot, _) in &ranges {
            self.look_again(live, slot)?;
        }
        let mut walks = Vec::new();
        for of_slot in ranges.chunk_by(|one, other| one.0 == other.0) {
            let slot = of_slot[0].0;
            let stretches = of_slot.iter().map(|(_, stretch)| stretch.clone());
            let mut stretches: Vec<Stretch> = stretches.collect();
            stretches.sort_by_key(|stretch| *stretch.clocks.start());
            let walk = Walk::new(slot, stretches);
            if let Some(chunks) = self.slots.get(slot).map(|slot| &slot.chunks) {
                walks.push((walk, chunks));
            }
        }
        let wanted = |(walk, chunks): &(Walk, &VecDeque<ChunkAt>)| walk.wanted(chunks).count();
        let uses = &mut self.uses;
        uses.start_over(walks.iter().map(wanted).sum());
        let (mut visited, mut room) = (Vec::new(), ROOM);
        for (walk, chunks) in &walks {
            let mut these = Visited::with_room(room);
            (walk.clone()).through(live, chunks, &mut these, |walk, record, _| {
                for component in walk.components() {
                    uses.note(component, walk.slot, record);
                }
            })?;
            room = these.room();
            visited.push(these);
        }
        let mut found: Vec<Found> = components.iter().map(|_| Found::default()).collect();
        for ((mut walk, chunks), visited) in walks.into_iter().zip(visited) {
            walk.retain(|component| uses.may_conflict(component));
            let mut transaction = 0;
            let visit = |walk: &mut Walk, record: &Record, words: &[u64]| {
                if std::mem::replace(&mut transaction, walk.transaction) != walk.transaction {
                    found.iter_mut().for_each(Found::end_transaction);
                }
                walk.add(record, words, uses, &mut found);
            };
            if visited.is_all() {
                walk.again(&visited, live.settled(walk.slot), visit);
            } else {
                walk.through(live, chunks, &mut Visited::default(), visit)?;
            }
            found.iter_mut().for_each(Found::end_transaction);
        }
        let found = found.into_iter();
        Ok(found.map(Found::into_parts).collect())
    }
}
