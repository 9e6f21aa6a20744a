//! Names of what comes from parts of the program that were not read.
//!
//! Who replays a part of a recording ([`Translator::replay`]) meets memory that was allocated elsewhere, and
//! locals of threads that are not in the part. Such things are noted while they are named
//! ([`Unnamed`]), and named again when somebody has found out where they come from ([`Origin`]): by the
//! same code, as if the part began with that.

use super::Translator;
use crate::file::Record;
use crate::format::Kind;
use atomsan_trace::Batch;
use atomsan_trace::names::Definition;

/// A variable or a lock whose memory is not known.
#[derive(Clone, Copy, Debug)]
pub struct Unnamed {
    /// Its address.
    pub address: u64,
    /// What it is called if it has no name.
    kind: &'static str,
    /// Where its definition is in the batch.
    definition: usize,
}

/// Where something comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The calls that a thread was in, as words of a snapshot.
    pub snapshot: Vec<u64>,
    /// The words of the record that it made of it; none if it is on the thread's stack.
    pub record: Vec<u64>,
}

impl Translator {
    /// What is defined next is in memory that is not known.
    pub(super) fn note_unnamed(&mut self, address: u64, kind: &'static str) {
        let definition = self.batch.definitions.len();
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.push(Unnamed {
                address,
                kind,
                definition,
            });
        }
    }

    /// What the last [replay](Translator::replay) could not name.
    pub fn take_unnamed(&mut self) -> Vec<Unnamed> {
        self.unnamed.take().unwrap_or_default()
    }

    /// Names what a replay could not name, in the batch that it has made.
    pub fn name_again(&mut self, unnamed: &[Unnamed], origins: &[Origin], batch: &mut Batch) {
        let outside = std::mem::take(&mut self.threads);
        let mut known = super::Naming::default();
        self.naming.swap_memory(&mut known);
        for (slot, origin) in origins.iter().enumerate() {
            self.remember(slot, origin);
        }
        for one in unnamed {
            let name = match batch.definitions.get(one.definition) {
                Some(Definition::Var(_)) => self.var_name(one.address),
                Some(Definition::Lock(_)) => self.lock_name(one.address, one.kind),
                _ => continue,
            };
            match &mut batch.definitions[one.definition] {
                Definition::Var(var) => var.name = name.into(),
                Definition::Lock(lock) => *lock = name.into(),
                _ => {}
            }
        }
        self.naming.swap_memory(&mut known);
        self.threads = outside;
        // Functions and places that have come up on the way.
        batch.definitions.append(&mut self.take().definitions);
    }

    /// Goes to where something comes from.
    fn remember(&mut self, slot: usize, origin: &Origin) {
        let mut at = 0;
        while let Some(record) = Record::parse(&origin.snapshot[at..], 0) {
            self.record(slot, &record);
            at += record.kind.words();
        }
        let Some(record) = Record::parse(&origin.record, 0) else {
            return;
        };
        let chain = self.calls(slot);
        let site = self.place(chain, record.pc()).site;
        match (record.kind, record.range()) {
            (Kind::Alloc, Some(range)) => {
                self.note_block(&range, (chain, record.pc()), site, false);
            }
            (Kind::Initialise, _) => self.note_initialised(record.subject, site),
            _ => {}
        }
    }
}
