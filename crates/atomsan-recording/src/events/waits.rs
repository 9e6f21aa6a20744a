//! Critical sections that only wait.
//!
//! "Wait until all jobs are done" takes a lock, looks, waits under the lock as long as it has to, and lets go. Nobody
//! expects to be alone across that. Where there is something to wait for, an event says so; where there is nothing,
//! the section is the same and means the same. So if a section that was taken at some place has ever waited, and none that was taken there
//! has ever written anything, every such section splits the regions that its thread is in.
//!
//! A section that waits and then writes is another matter: what it writes may follow from what was seen before it.

use super::{ROOT, Translator};
use crate::file::Record;
use atomsan_trace::SiteId;
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// How many locks are remembered that a thread holds.
const LOCKS: usize = 16;

/// A lock that a thread holds.
#[derive(Debug)]
pub(super) struct Taken {
    lock: u64,
    /// Where in the user's code it was taken.
    at: u64,
    /// Whether anything was written under it.
    pub(super) wrote: bool,
}

/// Where locks are taken, as program counters in the user's code: what the first pass has found out.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Somebody has waited under the lock.
    waited: HashSet<u64, FxBuildHasher>,
    /// Somebody has written something under it.
    wrote: HashSet<u64, FxBuildHasher>,
}

impl Translator {
    /// A thread takes a lock: if that is only to wait, nobody expects to be alone across it.
    pub(super) fn take_to_wait(&mut self, slot: usize, site: SiteId, record: &Record) {
        let Some(at) = self.user_counter(self.calls(slot), record.pc()) else {
            return;
        };
        if self.survey.is_none() {
            if self.waits.waited.contains(&at) && !self.waits.wrote.contains(&at) {
                self.split(slot, site);
            }
            return;
        }
        self.let_go(slot, record.subject);
        let taken = &mut self.threads[slot].taken;
        if taken.len() == LOCKS {
            taken.remove(0);
        }
        taken.push(Taken {
            lock: record.subject,
            at,
            wrote: false,
        });
    }

    /// A thread waits under a lock that it has taken.
    pub(super) fn note_wait(&mut self, slot: usize, lock: u64) {
        let mut taken = self.threads[slot].taken.iter();
        if let Some(taken) = taken.find(|taken| taken.lock == lock) {
            self.waits.waited.insert(taken.at);
        }
    }

    /// In the first pass: a thread lets go of a lock.
    pub(super) fn let_go(&mut self, slot: usize, lock: u64) {
        let taken = &mut self.threads[slot].taken;
        if let Some(at) = taken.iter().position(|taken| taken.lock == lock) {
            let taken = taken.remove(at);
            if taken.wrote {
                self.waits.wrote.insert(taken.at);
            }
        }
    }

    /// The program counter in the user's code of something that happens below it.
    fn user_counter(&mut self, mut chain: u32, mut pc: u64) -> Option<u64> {
        while !(self.symbols.frames(pc).iter()).any(|frame| self.options.is_users(frame)) {
            if chain == ROOT {
                return None;
            }
            (chain, pc) = self.nodes[chain as usize].caller;
        }
        Some(pc)
    }
}
