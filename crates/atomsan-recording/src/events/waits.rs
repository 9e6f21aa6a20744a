//! Critical sections that only wait.
//!
//! "Wait until all jobs are done" takes a lock, looks, waits under the lock as long as it has to, and lets go. Nobody
//! expects to be alone across that. Where there is something to wait for, an event says so; where there is nothing,
//! the section is the same and means the same. So if a section that was taken at some place could wait, and none that was taken there
//! has ever written anything, every such section splits the regions that its thread is in. It could wait if one has ever waited, or if the function has
//! a call that waits with a lock ([`crate::code`]) on a line between the one where the lock was taken and the one where it was let go of.
//!
//! A section that waits and then writes is another matter: what it writes may follow from what was seen before it.
//!
//! # Who waits alone
//!
//! What a thread has waited for may be gone when it acts on it in another section: somebody else has waited for the
//! same, and was faster. That is a mistake, and stays one. But if only one thread ever waits at that place, nobody else waits for the same: "join all jobs,
//! then add one" looks whether the queue is empty, and writes that it is not; those who do the jobs only ever make it emptier. That nobody takes back
//! what was waited for is not known; so what is written to a variable whose last look was in such a section is still an event, and only its
//! place says so, as after a second look ([`super::sections`]).

use super::{FxMap, ROOT, Translator};
use crate::file::Record;
use atomsan_trace::{LockId, Op, SiteId, ThreadId, VarId};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// How many locks are remembered that a thread holds, and how many variables that it has waited for.
const ROOM: usize = 16;

/// A lock that a thread holds.
#[derive(Debug)]
pub(super) struct Taken {
    lock: u64,
    /// Where in the user's code it was taken.
    at: u64,
    /// Whether anything was written under it.
    pub(super) wrote: bool,
    /// Whether it is let go of only to wait.
    lent: bool,
}

/// The sections whose lock is taken at one place.
#[derive(Debug, Default)]
struct Sections {
    /// Somebody has waited in one.
    waited: bool,
    /// Somebody has written something in one.
    wrote: bool,
    /// The only thread so far that has been in one, if there is only one.
    by: Option<ThreadId>,
    by_several: bool,
    /// The last line of the function that took the lock on which it was let go of.
    until: u32,
    /// Whether it could wait, as the code says, up to some line.
    could: Option<(u32, bool)>,
}

/// The critical sections by the program counter in the user's code where the lock is taken: what the first pass has found
/// out.
#[derive(Debug, Default)]
pub(super) struct Waits {
    taken_at: FxMap<u64, Sections>,
    /// Where the lock was let go of that was taken at some place.
    ends: HashSet<(u64, SiteId), FxBuildHasher>,
}

/// In the second pass: a section of a thread's that only waits, and what was seen in such ones.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    lock: Option<LockId>,
    vars: Vec<VarId>,
}

impl Awaited {
    /// Follows an operation that is no access.
    pub(super) fn step(&mut self, op: Op) {
        if let Op::Release(lock) = op
            && self.lock == Some(lock)
        {
            self.lock = None;
        }
    }

    /// Follows an access; whether it is a write to something whose last look was in a section that only waits.
    pub(super) fn access(&mut self, op: Op) -> bool {
        if self.lock.is_none() && self.vars.is_empty() {
            return false;
        }
        let Some(var) = op.var() else {
            return false;
        };
        let known = self.vars.iter().position(|&known| known == var);
        if let Some(known) = known {
            self.vars.remove(known);
        }
        if self.lock.is_some() && !op.writes() {
            if self.vars.len() == ROOM {
                self.vars.remove(0);
            }
            self.vars.push(var);
        }
        known.is_some() && matches!(op, Op::Write(_) | Op::AtomicStore(_))
    }
}

impl Translator {
    /// A thread takes a lock: if that is only to wait, nobody expects to be alone across it.
    pub(super) fn take_to_wait(&mut self, slot: usize, site: SiteId, record: &Record) {
        let Some(at) = self.user_counter(self.calls(slot), record.pc()) else {
            return;
        };
        if self.survey.is_none() {
            if self.only_waits(at) {
                self.split(slot, site);
                let sections = self.waits.taken_at.get(&at);
                if sections.is_some_and(|sections| !sections.by_several) {
                    let lock = self.lock(record.subject);
                    self.threads[slot].awaited.lock = Some(lock);
                }
            }
            return;
        }
        self.let_go(slot, record.subject, None);
        let thread = &mut self.threads[slot];
        let sections = self.waits.taken_at.entry(at).or_default();
        sections.by_several |= sections.by.is_some_and(|other| other != thread.id);
        sections.by = Some(thread.id);
        if thread.taken.len() == ROOM {
            thread.taken.remove(0);
        }
        thread.taken.push(Taken {
            lock: record.subject,
            at,
            wrote: false,
            lent: false,
        });
    }

    /// A thread waits under a lock that it has taken; `lends` says whether it is seen to let go of it.
    pub(super) fn note_wait(&mut self, slot: usize, lock: u64, lends: bool) {
        let mut taken = self.threads[slot].taken.iter_mut();
        if let Some(taken) = taken.find(|taken| taken.lock == lock) {
            taken.lent = lends;
            self.waits.taken_at.entry(taken.at).or_default().waited = true;
        }
    }

    /// In the first pass: a thread lets go of a lock, at a site.
    pub(super) fn let_go(&mut self, slot: usize, lock: u64, site: Option<SiteId>) {
        let taken = &mut self.threads[slot].taken;
        let Some(known) = taken.iter().position(|taken| taken.lock == lock) else {
            return;
        };
        if std::mem::take(&mut taken[known].lent) {
            return;
        }
        let Taken { at, wrote, .. } = taken.remove(known);
        let sections = self.waits.taken_at.entry(at).or_default();
        sections.wrote |= wrote;
        if let Some(site) = site
            && !sections.wrote
            && self.waits.ends.insert((at, site))
        {
            let line = self.line_of(site, at);
            let sections = self.waits.taken_at.entry(at).or_default();
            sections.until = sections.until.max(line.unwrap_or(0));
        }
    }

    /// The line of a site, if it is in the same function of the user's as a place.
    fn line_of(&mut self, site: SiteId, at: u64) -> Option<u32> {
        let frames = self.symbols.frames(at);
        let own = frames.iter().find(|frame| self.options.is_users(frame))?;
        let mut sites = self.sites.iter();
        let (frames, _) = sites.find(|(_, id)| **id == site)?;
        let function = self.functions.get(&*own.function);
        let mut frames = frames.iter();
        let frame = frames.find(|frame| frame.function.as_ref() == function)?;
        (*frame.file == *own.file).then_some(frame.line)
    }

    /// Whether all sections whose lock is taken at a place could wait, and none of them has written anything.
    fn only_waits(&mut self, at: u64) -> bool {
        let Some(sections) = self.waits.taken_at.get(&at) else {
            return false;
        };
        if sections.wrote || sections.waited {
            return !sections.wrote;
        }
        let until = sections.until;
        match sections.could {
            Some((known, could)) if known == until => return could,
            _ if until == 0 => return false,
            _ => {}
        }
        let could = self.has_wait(at, until);
        if let Some(sections) = self.waits.taken_at.get_mut(&at) {
            sections.could = Some((until, could));
        }
        could
    }

    /// Whether the user's function that is at some place has a call between there and a line that waits with a lock.
    fn has_wait(&mut self, at: u64, until: u32) -> bool {
        let frames = self.symbols.frames(at);
        let mut own = frames.iter();
        let Some(own) = own.find(|frame| self.options.is_users(frame)) else {
            return false;
        };
        self.symbols.waits(at).into_iter().any(|after| {
            let frames = self.symbols.frames(after);
            let mut frames = frames.iter();
            let same = frames.find(|frame| frame.function == own.function);
            same.is_some_and(|wait| {
                wait.file == own.file && (own.line..=until).contains(&wait.line)
            })
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    const L: LockId = LockId(1);
    const X: VarId = VarId(1);

    /// Whether the last of some operations is a write to what was waited for.
    fn awaited(steps: &[Op]) -> bool {
        let mut awaited = Awaited {
            lock: Some(L),
            vars: Vec::new(),
        };
        let steps = steps.iter().map(|&op| {
            awaited.step(op);
            awaited.access(op)
        });
        steps.last() == Some(true)
    }

    #[test]
    fn what_was_waited_for_is_written_once() {
        let (look, write, release) = (Op::Read(X), Op::Write(X), Op::Release(L));
        assert!(awaited(&[look, release, write]));
        assert!(!awaited(&[look, release, look, write]), "a later look");
        assert!(!awaited(&[look, release, write, write]), "a second time");
        assert!(!awaited(&[release, look, write]), "after the section");
        assert!(!awaited(&[look, release, Op::Write(VarId(2))]), "another");
    }
}
