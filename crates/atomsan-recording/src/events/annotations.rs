//! What the program has said in its own source: regions, functions that are not atomic, places
//! where others may interfere, atomic sets.
//!
//! A region is a block (`Begin`, `End`) with the name the program gave it. A function that is
//! marked as not atomic is left out like a closure of an entry point, so that what it does belongs
//! to its caller; where it is the entry point itself it stays, because entry points are not
//! expected to be atomic, and the next function would be taken for one. The members of an atomic
//! set are made parts of one object.

use super::{FxMap, Op, Translator};
use crate::file::Record;
use crate::format::FIRST;
use crate::symbols::Symbols;
use atomsan_trace::names::Definition;
use atomsan_trace::{FunctionId, ObjectId, SiteId};
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::ops::Range;

/// The annotations of a program.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    /// Places in functions that are not atomic.
    pub(super) marked: Vec<u64>,
    /// The names of these functions.
    pub(super) not_atomic: HashSet<Box<str>>,
    /// Regions by the address of their name.
    labels: FxMap<u64, FunctionId>,
    /// Members of atomic sets: where each starts and ends, and the set.
    members: BTreeMap<u64, (u64, ObjectId)>,
    /// The last set of a name, by slot and the name's address.
    latest: FxMap<(usize, u64), ObjectId>,
}

impl Annotations {
    pub(super) fn new(symbols: &Symbols) -> Annotations {
        Annotations {
            marked: symbols.not_atomic(),
            ..Annotations::default()
        }
    }

    /// The atomic set that an address is in.
    pub(super) fn set_of(&self, address: u64) -> Option<ObjectId> {
        let (_, &(end, set)) = self.members.range(..=address).next_back()?;
        (address < end).then_some(set)
    }

    /// Forgets which places are in which sets; sets have other ids from now on.
    pub(super) fn forget_sets(&mut self) {
        self.members.clear();
        self.latest.clear();
    }

    /// Memory is new: what was said of it is about something else.
    pub(super) fn renew(&mut self, range: &Range<u64>) {
        while let Some((&start, _)) = self.members.range(range.clone()).next() {
            self.members.remove(&start);
        }
    }
}

impl Translator {
    /// Finds the functions that are marked as not atomic.
    pub(super) fn find_not_atomic(&mut self) {
        for place in std::mem::take(&mut self.annotations.marked) {
            let frames = self.symbols.frames(place);
            let function = frames
                .iter()
                .find(|frame| self.options.is_users(frame))
                .or(frames.last());
            if let Some(frame) = function {
                let name = (&*frame.function).into();
                self.annotations.not_atomic.insert(name);
            }
        }
    }

    pub(super) fn begin(&mut self, slot: usize, site: SiteId, record: &Record) {
        let label = self.label(record.subject, record.detail());
        let thread = &mut self.threads[slot];
        thread.blocks.push(thread.open.len());
        self.emit(slot, site, Op::Begin(label));
    }

    /// An end without a beginning is the end of a region that was left together with its function.
    pub(super) fn end(&mut self, slot: usize, site: SiteId) {
        if self.threads[slot].blocks.pop().is_some() {
            self.emit(slot, site, Op::End);
        }
    }

    fn label(&mut self, address: u64, len: u16) -> FunctionId {
        if let Some(&label) = self.annotations.labels.get(&address) {
            return label;
        }
        let name = self
            .symbols
            .string_at(address, len)
            .unwrap_or_else(|| format!("region {address:#x}"));
        let label = self.function(&name);
        self.annotations.labels.insert(address, label);
        label
    }

    pub(super) fn member(&mut self, slot: usize, record: &Record) {
        let [len, name] = record.extra;
        let address = name & !FIRST;
        let known = self.annotations.latest.get(&(slot, address)).copied();
        let set = match known {
            Some(set) if name & FIRST == 0 => set,
            _ => {
                let set = ObjectId(self.object_count);
                self.object_count += 1;
                let name = self
                    .symbols
                    .string_at(address, record.detail())
                    .unwrap_or_else(|| "atomic set".to_owned());
                let name = format!("{name} {}", set.0);
                self.batch.definitions.push(Definition::Object(name.into()));
                self.annotations.latest.insert((slot, address), set);
                set
            }
        };
        let end = record.subject.saturating_add(len);
        self.annotations.members.insert(record.subject, (end, set));
    }
}
