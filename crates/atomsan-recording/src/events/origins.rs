//! Names that are made when they are wanted.
//!
//! Who replays parts of a recording ([`Translator::replay`]) wants to know what things are called only if something
//! has been found: the names are in the debug information, which takes longer to read than most parts to
//! check. So a variable or a lock that a replay defines has no name yet. Where it was then is noted
//! ([`Spot`]), for as long as it has no name; so it can be named much later, when a part in which it comes up again has something to show.
//!
//! A part also meets memory that was allocated elsewhere, and locals of threads that are not in the part. Such things are named
//! when somebody has found out where they come from ([`Origin`]): by the same code, as if the part began with
//! that.

use super::naming::{Spot, unnamed_lock};
use super::{FxMap, Translator};
use crate::file::Record;
use crate::format::Kind;
use atomsan_trace::names::{Definition, Var};
use atomsan_trace::{LockId, Op, SiteId, VarId};

/// A variable, or a lock and what it is called if it has no name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Var(VarId),
    Lock(LockId, &'static str),
}

/// A variable or a lock without a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unnamed {
    what: What,
    address: u64,
    spot: Spot,
    /// Where it was initialised, if that is a lock.
    initialised: Option<SiteId>,
}

/// All variables and locks that have no name.
#[derive(Debug, Default)]
pub(super) struct Nameless {
    vars: FxMap<VarId, Unnamed>,
    locks: FxMap<LockId, Unnamed>,
}

/// Names of variables and locks.
#[derive(Debug, Default)]
pub struct Named {
    /// What else has come up on the way: places and functions.
    pub definitions: Vec<Definition>,
    /// The variables.
    pub vars: Vec<(VarId, Var)>,
    /// The locks.
    pub locks: Vec<(LockId, String)>,
    unknown: Vec<Unnamed>,
}

impl Named {
    /// The addresses of what nothing is known of, so that it has no name either.
    pub fn unknown(&self) -> Vec<u64> {
        self.unknown.iter().map(|one| one.address).collect()
    }
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
    /// Something is defined that has no name yet.
    pub(super) fn name_later(&mut self, what: What, address: u64) {
        let (spot, initialised) = (self.spot(address), self.initialised(address));
        let unnamed = Unnamed {
            what,
            address,
            spot,
            initialised,
        };
        match what {
            What::Var(var) => drop(self.nameless.vars.insert(var, unnamed)),
            What::Lock(lock, _) => drop(self.nameless.locks.insert(lock, unnamed)),
        }
    }

    /// Names what these operations are about and has no name yet, as far as something is known of it.
    pub fn name(&mut self, ops: impl Iterator<Item = Op>) -> Named {
        let mut named = Named::default();
        for op in ops {
            let Nameless { vars, locks } = &mut self.nameless;
            let unnamed = match (op.var(), op.lock()) {
                (Some(var), _) => vars.remove(&var),
                (_, Some(lock)) => locks.remove(&lock),
                _ => None,
            };
            if let Some(unnamed) = unnamed
                && !self.name_one(&unnamed, &mut named)
            {
                named.unknown.push(unnamed);
            }
        }
        named.definitions = self.take().definitions;
        named
    }

    /// Names the rest, by where it comes from.
    pub fn name_again(&mut self, named: &mut Named, origins: &[Origin]) {
        let outside = std::mem::take(&mut self.threads);
        let mut known = super::Naming::default();
        self.naming.swap_memory(&mut known);
        for (slot, origin) in origins.iter().enumerate() {
            self.remember(slot, origin);
        }
        for one in std::mem::take(&mut named.unknown) {
            let there = Unnamed {
                spot: self.spot(one.address),
                initialised: self.initialised(one.address),
                ..one
            };
            if !self.name_one(&there, named) {
                match one.what {
                    What::Var(var) => named.vars.push((var, self.unnamed_var(one.address))),
                    What::Lock(lock, kind) => named.locks.push((lock, unnamed_lock(kind))),
                }
            }
        }
        self.naming.swap_memory(&mut known);
        self.threads = outside;
        named.definitions.append(&mut self.take().definitions);
    }

    /// Names a variable or a lock if something is known of it, and says whether that is so.
    fn name_one(&mut self, one: &Unnamed, named: &mut Named) -> bool {
        let Unnamed { address, spot, .. } = one;
        match one.what {
            What::Var(var) => {
                let called = self.var_called(*address, spot);
                let is_known = called.is_some();
                named.vars.extend(called.map(|called| (var, called)));
                is_known
            }
            What::Lock(lock, kind) => {
                let name = self.lock_name(*address, spot, one.initialised, kind);
                let is_known = name.is_some();
                named.locks.extend(name.map(|name| (lock, name)));
                is_known
            }
        }
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
