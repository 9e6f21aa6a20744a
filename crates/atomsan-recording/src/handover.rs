//! Data that is handed from thread to thread, and so needs no check.
//!
//! A message, a value that is published by a flag, what lies in a slot of a queue, what a lock
//! protects that no model knows: threads access it with plain reads and writes, one after the
//! other, and what puts them in order is synchronisation, not luck. Nobody can get in between two
//! of the accesses: who would has to get past the same hand-over first. An engine that looks at
//! other schedules sees locks, starts and joins, but not what the values of atomics stand for, so
//! it would take every hand-over for a place to get in.
//!
//! So a first pass over the recording asks of every variable that is only accessed plainly whether
//! two threads ever accessed it, one of them writing, in a way that
//!
//! * was *not ordered* by synchronisation (a race: the order may have been different), or
//! * was under *a lock that both held* (the order of critical sections may have been different),
//!
//! unless starts and joins of threads put the two in order in every schedule.
//!
//! If neither, then the order of any two conflicting accesses came from something else than a lock, and
//! the variable's accesses are left out. For what was observed this loses nothing either: the same
//! order is in the atomic operations, which are events, or in the inside of a channel, which is
//! nobody's atomicity.
//!
//! # What a lock protects for some time
//!
//! The results of a pool of threads are under a lock while the threads work; before they start, and when they
//! are done, one thread has them to itself. So the accesses under locks and those under none are two
//! questions: if those under none are in order with all conflicting accesses of other threads, they are
//! handed over, and left out, and those under a lock stay ([`Alone::Unlocked`]).
//!
//! # What is initialised
//!
//! A variable that is accessed atomically may be written plainly at first, by the thread that makes it: nobody
//! else knows it then. If the plain accesses are in order with every atomic one of other threads, nobody can
//! get in between, and they are left out ([`Alone::Plainly`]); the atomic ones stay.
//!
//! With very many threads at the same time the order is not worked out but taken for granted, and only
//! common locks count: nothing is predicted from a race then.
//!
//! # What is freed
//!
//! To free memory is to write all of it, but nobody can be in the middle of using it: whoever frees comes
//! after every use in every schedule, because of a count, a lock or a join. Only a free that is *not
//! ordered* after a use may as well have come before it ([`Survey::free`]); such a one counts as a write.
//!
//! Order is happens-before, by vector clocks as in FastTrack, over *all* atomic operations and
//! synchronisation of the recording, whatever model hides it from the engines. Memory orders are not
//! in the recording, so every atomic operation counts as acquire and release: too much order, at
//! worst, and then a relaxed race is taken for a hand-over.

mod clocks;
mod published;
mod ways;

use crate::file::Record;
use crate::format::{GUARD, Kind};
use atomsan_trace::{LockId, Op, VarId};
use clocks::{Clocks, join, nobody};
use published::Published;
use ways::{ATOMICALLY, INITIALISED, KEPT, LOCKED, NEW, OVER, Sets, UNLOCKED, Way, Ways};

/// With more slots than this the clocks cost too much, and every access is taken to be in order.
const SLOTS: usize = 256;
/// With more numbers than this in the clocks of all addresses, the same.
const CLOCKS: usize = 1 << 26;
/// How many different ways of accessing a variable are remembered.
const WAYS: usize = 64;

/// The first pass.
#[derive(Debug, Default)]
pub struct Survey {
    /// Order by all synchronisation.
    clocks: Clocks,
    /// Order by starts and joins only, which is the same in every schedule.
    periods: Clocks,
    /// What is published at an address.
    published: Published,
    ways: Ways,
    sets: Sets,
    /// Threads of slots: the slot, and the thread's number.
    whos: Vec<(u32, u64)>,
    /// The thread that each slot is the log of.
    who: Vec<u32>,
    /// Whether there are too many slots for clocks.
    many: bool,
}

impl Survey {
    /// A pass over a recording with so many slots.
    pub fn new(slots: usize) -> Survey {
        let mut survey = Survey::default();
        survey.grow(slots);
        survey
    }

    /// Follows a record, whatever it will become. Its slot comes after the slots in `after`.
    pub fn record(&mut self, slot: usize, record: &Record, after: &[usize]) {
        if slot >= self.who.len() {
            return;
        }
        let subject = record.subject;
        if record.kind == Kind::ThreadStart {
            self.who[slot] = self.whos.len() as u32;
            self.whos.push((slot as u32, subject));
        }
        if self.many {
            return;
        }
        match record.kind {
            Kind::AtomicLoad | Kind::AtomicRmwFailed => self.acquire(slot, subject, after),
            Kind::AtomicStore => self.release(slot, subject),
            Kind::AtomicRmw => {
                self.acquire(slot, subject, after);
                self.release(slot, subject);
            }
            Kind::Acquire | Kind::AcquireShared | Kind::Leave => {
                self.acquire(slot, subject, after);
            }
            // Who woke the thread, or initialised, may not be seen: it is after everybody.
            Kind::Woken => self.after_everybody(slot),
            Kind::ReleaseShared if record.detail() == GUARD => self.after_everybody(slot),
            Kind::Release | Kind::ReleaseShared | Kind::Wait | Kind::Notify => {
                self.release(slot, subject);
            }
            Kind::Arrive => {
                self.acquire(slot, subject, after);
                self.release(slot, subject);
            }
            Kind::Fork => {
                self.clocks.fork(slot, subject);
                self.periods.fork(slot, subject);
            }
            Kind::Join => self.join(slot, subject),
            Kind::ThreadStart => {
                self.clocks.start(slot, subject);
                self.periods.start(slot, subject);
            }
            Kind::ThreadEnd => {
                self.clocks.end(slot);
                self.periods.end(slot);
            }
            // What comes to be there has nothing to do with it.
            Kind::Alloc | Kind::Free => self.published.forget(record.range()),
            _ => {}
        }
    }

    /// Something was forgotten: all that comes now is after all that has come, in every schedule that is of interest.
    pub fn cut(&mut self) {
        if !self.many {
            self.clocks.cut();
            self.periods.cut();
        }
    }

    /// A slot's thread knows that another thread, by number, has ended.
    pub fn join(&mut self, slot: usize, child: u64) {
        if !self.many {
            self.clocks.join(slot, child);
            self.periods.join(slot, child);
        }
    }

    fn acquire(&mut self, slot: usize, address: u64, after: &[usize]) {
        let clocks = &mut self.clocks.clocks;
        if let Some(published) = self.published.get(address) {
            join(&mut clocks[slot], published);
        }
        // The runtime ordered it after these because of the same word. If they have published there,
        // that is why; otherwise by something that is not in the recording.
        let published = self.published.get(address);
        let has_published = |other: usize| {
            published.is_some_and(|clock| clock.get(other).is_some_and(|&time| time > 0))
        };
        for &other in after.iter().filter(|&&other| other != slot) {
            if has_published(other) {
                continue;
            }
            if let Some(other) = clocks.get(other).cloned() {
                join(&mut clocks[slot], &other);
            }
        }
    }

    fn release(&mut self, slot: usize, address: u64) {
        self.published.join(address, &self.clocks.clocks[slot]);
        self.clocks.tick(slot);
        if self.published.weight() > CLOCKS {
            // As with too many slots.
            self.many = true;
            self.published = Published::default();
        }
    }

    fn after_everybody(&mut self, slot: usize) {
        let clocks = &mut self.clocks.clocks;
        let mut clock = std::mem::take(&mut clocks[slot]);
        for (other, ticking) in clocks.iter_mut().enumerate() {
            join(&mut clock, ticking);
            if other != slot {
                ticking[other] += 1;
            }
        }
        clocks[slot] = clock;
    }

    /// Follows an access to a variable under locks.
    pub fn access(&mut self, slot: usize, var: VarId, writes: bool, plain: bool, held: &[LockId]) {
        if slot >= self.who.len() {
            return;
        }
        let Some(place) = self.ways.place(var) else {
            return;
        };
        if !plain {
            return self.atomic_access(slot, var, place);
        }
        let ways = &mut self.ways.ways[place];
        let how = self.sets.number(held) << 1 | u32::from(writes);
        let who = self.who[slot];
        let (clocks, periods, many) = (&self.clocks, &self.periods, self.many);
        let (whos, sets) = (&self.whos, &self.sets.list);
        let number = whos[who as usize].1;
        let slot_of = |way: &Way| whos[way.who as usize].0 as usize;
        let is_own = |way: &Way| way.who == who || whos[way.who as usize].1 == number;
        let by_start = |way: &Way| match slot_of(way) {
            _ if many => false,
            other if other == slot => periods.inherited[slot] >= way.period,
            other => periods.after(slot, other, way.period),
        };
        let is_real = |way: &&Way| way.how < LOCKED;
        let is_foe = |way: &&Way| {
            is_real(way) && !is_own(way) && (way.how & 1 != 0 || writes) && !by_start(way)
        };
        let races = |way: &Way| !many && !clocks.after(slot, slot_of(way), way.time);
        let shares = |way: &Way| {
            let locks = &sets[way.how as usize >> 1];
            locks.iter().any(|lock| held.contains(lock))
        };
        let is_locked = |way: &Way| way.how >> 1 != 0;
        let is_marked = |mark: u32| ways.iter().any(|way| way.how == mark);
        let mut protected = is_marked(LOCKED);
        let atomically = |way: &Way| way.how == ATOMICALLY && !is_own(way) && races(way);
        let mut kept = ways.len() > WAYS || ways.iter().any(atomically);
        for way in ways.iter().filter(is_foe) {
            let both = !held.is_empty() && is_locked(way);
            protected |= both && (shares(way) || races(way));
            kept |= !both && races(way);
        }
        if kept {
            self.ways.settle(var, KEPT);
            return;
        }
        if protected && !is_marked(LOCKED) {
            ways.push(Way {
                who,
                time: 0,
                period: 0,
                how: LOCKED,
            });
        }
        // Who comes after the slot's last thread in every schedule speaks for it as well.
        // Without locks there is nothing to compare with if the order is taken for granted.
        let same = |way: &&mut Way| {
            way.how == how
                && (many && held.is_empty()
                    || slot_of(way) == slot && (is_own(way) || by_start(way)))
        };
        let way = Way {
            who,
            time: if many { 0 } else { clocks.now(slot) },
            period: if many { 0 } else { periods.now(slot) },
            how,
        };
        match ways.iter_mut().find(same) {
            Some(old) => *old = way,
            None => ways.push(way),
        }
    }

    /// An atomic access: is it after the plain ones of others?
    fn atomic_access(&mut self, slot: usize, var: VarId, place: usize) {
        let ways = &self.ways.ways[place];
        let unordered = |way: &Way| {
            let (other, _) = self.whos[way.who as usize];
            let own = other as usize == slot || way.how >= LOCKED;
            !self.many && !own && !self.clocks.after(slot, other as usize, way.time)
        };
        if ways.is_empty() || ways.len() > WAYS || ways.iter().any(unordered) {
            return self.ways.settle(var, KEPT);
        }
        let way = Way {
            who: self.who[slot],
            time: if self.many { 0 } else { self.clocks.now(slot) },
            period: 0,
            how: ATOMICALLY,
        };
        let same = |old: &&mut Way| old.how == ATOMICALLY && (self.many || old.who == way.who);
        match self.ways.ways[place].iter_mut().find(same) {
            Some(old) => *old = way,
            None => self.ways.ways[place].push(way),
        }
    }

    /// A variable's memory has died.
    pub fn forget(&mut self, var: VarId) {
        let place = self.ways.places.get(var.index()).copied().unwrap_or(NEW);
        self.ways.settle(var, self.ways.verdict(place));
    }

    /// There are so many slots by now.
    pub fn grow(&mut self, slots: usize) {
        self.many |= slots > SLOTS;
        if !self.many {
            self.clocks.grow(slots);
            self.periods.grow(slots);
        }
        for slot in self.who.len()..slots {
            self.who.push(self.whos.len() as u32);
            self.whos.push((slot as u32, nobody(slot)));
        }
    }

    /// Forgets all accesses, and with them all order that they were in. Variables are others from
    /// now on.
    pub fn start_over(&mut self) {
        let number = |&who: &u32| self.whos[who as usize].1;
        let numbers: Vec<u64> = self.who.iter().map(number).collect();
        *self = Survey::new(numbers.len());
        self.whos = (0..).zip(numbers.iter().copied()).collect();
        if !self.many {
            self.periods.numbers.clone_from(&numbers);
            self.clocks.numbers = numbers;
        }
    }

    /// How much is remembered besides variables.
    pub fn weight(&self) -> usize {
        self.published.len() + self.clocks.threads.len() + self.sets.list.len() + self.whos.len()
    }

    /// Follows the end of memory in which these variables live: whether somebody has used it and is not
    /// ordered before. What was used so is no longer handed over.
    pub fn free(&mut self, slot: usize, vars: &[VarId]) -> bool {
        if self.many {
            return false;
        }
        let (clocks, periods, whos) = (&self.clocks, &self.periods, &self.whos);
        let number = clocks.numbers.get(slot).copied().unwrap_or(u64::MAX);
        let unordered = |way: &Way| {
            let (other, thread) = whos[way.who as usize];
            let other = other as usize;
            thread != number
                && other != slot
                && !periods.after(slot, other, way.period)
                && !clocks.after(slot, other, way.time)
        };
        let mut used = false;
        for &var in vars {
            let uses = self.ways.of(var).iter().filter(|way| way.how < LOCKED);
            if uses.clone().any(unordered) {
                self.ways.settle(var, KEPT);
                used = true;
            }
        }
        used
    }

    /// What the pass has found out so far.
    pub fn finish(&self) -> HandedOver {
        let [vars, initialised, unlocked] = [OVER, INITIALISED, UNLOCKED].map(|verdict| {
            let places = self.ways.places.chunks(64).map(|some| {
                let these = some.iter().enumerate();
                let these = these.filter(|(_, place)| self.ways.verdict(**place) == verdict);
                these.fold(0, |bits, (at, _)| bits | 1 << at)
            });
            places.collect()
        });
        HandedOver {
            vars,
            initialised,
            unlocked,
        }
    }
}

/// Which variables need no check, or no check of some accesses.
#[derive(Debug, Default)]
pub struct HandedOver {
    /// A bit for each.
    vars: Vec<u64>,
    /// A bit for each of which only atomic accesses count: the plain ones are before them.
    initialised: Vec<u64>,
    /// A bit for each of which only accesses under a lock count.
    unlocked: Vec<u64>,
}

/// Which accesses to a variable need no check, if some do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alone {
    /// None of them.
    Never,
    /// Plain ones: they initialise what is atomic from then on.
    Plainly,
    /// Those under no lock.
    Unlocked,
}

impl HandedOver {
    /// Whether a variable needs no check.
    #[inline]
    pub fn contains(&self, var: VarId) -> bool {
        has(&self.vars, var)
    }

    /// Which accesses to a variable that needs a check need none.
    pub fn alone(&self, var: VarId) -> Alone {
        match () {
            () if has(&self.initialised, var) => Alone::Plainly,
            () if has(&self.unlocked, var) => Alone::Unlocked,
            () => Alone::Never,
        }
    }
}

#[inline]
fn has(bits: &[u64], var: VarId) -> bool {
    let word = bits.get(var.index() / 64);
    word.is_some_and(|word| word >> (var.index() % 64) & 1 != 0)
}

impl Alone {
    /// Whether this is one of them.
    #[inline]
    pub fn covers(self, op: Op, held: &[LockId]) -> bool {
        match self {
            Alone::Never => false,
            Alone::Plainly => !op.is_atomic(),
            Alone::Unlocked => !op.is_atomic() && held.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: VarId = VarId(0);
    const L: [LockId; 1] = [LockId(1)];

    fn record(kind: Kind, subject: u64) -> Record {
        Record {
            position: 0,
            kind,
            size: 8,
            subject,
            second: 0,
            extra: [0; 2],
        }
    }

    fn survey(steps: impl FnOnce(&mut Survey)) -> bool {
        let mut survey = Survey::new(4);
        steps(&mut survey);
        survey.finish().contains(X)
    }

    #[test]
    fn published_by_a_flag() {
        let handed_over = survey(|survey| {
            survey.access(1, X, true, true, &[]);
            survey.record(1, &record(Kind::AtomicStore, 8), &[]);
            survey.record(2, &record(Kind::AtomicLoad, 8), &[]);
            survey.access(2, X, false, true, &[]);
        });
        assert!(handed_over);
    }

    #[test]
    fn a_race_is_none() {
        let handed_over = survey(|survey| {
            survey.record(1, &record(Kind::AtomicStore, 8), &[]);
            survey.access(1, X, true, true, &[]);
            survey.record(2, &record(Kind::AtomicLoad, 8), &[]);
            survey.access(2, X, false, true, &[]);
        });
        assert!(!handed_over, "written after it was published");
        let handed_over = survey(|survey| {
            survey.access(1, X, false, true, &[]);
            survey.access(2, X, false, true, &[]);
        });
        assert!(handed_over, "nobody writes");
    }

    #[test]
    fn neither_is_what_a_lock_protects_nor_an_atomic() {
        let locked = |first: &'static [LockId]| {
            move |survey: &mut Survey| {
                survey.access(1, X, true, true, first);
                survey.record(1, &record(Kind::Release, 8), &[]);
                survey.record(2, &record(Kind::Acquire, 8), &[]);
                survey.access(2, X, true, true, &L);
            }
        };
        assert!(!survey(locked(&L)));
        assert!(survey(locked(&[])), "the lock has nothing to do with it");
        assert!(!survey(|survey| survey.access(1, X, true, false, &[])));
    }

    #[test]
    fn what_a_lock_protects_for_some_time() {
        let unlocked = |ordered: bool| {
            let mut survey = Survey::new(4);
            survey.access(1, X, true, true, &[]);
            survey.record(1, &record(Kind::AtomicStore, 8), &[]);
            for slot in [2, 3] {
                survey.record(slot, &record(Kind::AtomicLoad, 8), &[]);
                survey.record(slot, &record(Kind::Acquire, 16), &[]);
                survey.access(slot, X, true, true, &L);
                survey.record(slot, &record(Kind::Release, 16), &[]);
            }
            if ordered {
                survey.record(1, &record(Kind::Acquire, 16), &[]);
            }
            survey.access(1, X, false, true, &[]);
            assert!(!survey.finish().contains(X));
            let before = survey.finish().alone(X) == Alone::Unlocked;
            survey.forget(X);
            assert_eq!(
                survey.finish().alone(X) == Alone::Unlocked,
                before,
                "after its end"
            );
            before
        };
        assert!(unlocked(true));
        assert!(!unlocked(false), "a race");
    }

    #[test]
    fn what_is_plain_before_it_is_atomic() {
        let initialised = |published: bool, again: bool| {
            let mut survey = Survey::new(4);
            survey.access(1, X, true, true, &[]);
            survey.access(1, X, true, false, &[]);
            if published {
                survey.record(1, &record(Kind::AtomicStore, 8), &[]);
                survey.record(2, &record(Kind::AtomicLoad, 8), &[]);
            }
            survey.access(2, X, true, false, &[]);
            survey.record(2, &record(Kind::AtomicStore, 16), &[]);
            if again {
                if published {
                    survey.record(1, &record(Kind::AtomicLoad, 16), &[]);
                }
                survey.access(1, X, true, true, &[]);
            }
            assert!(!survey.finish().contains(X), "its atomic accesses count");
            let before = survey.finish().alone(X) == Alone::Plainly;
            survey.forget(X);
            assert_eq!(
                survey.finish().alone(X) == Alone::Plainly,
                before,
                "after its end"
            );
            before
        };
        assert!(initialised(true, false));
        assert!(!initialised(false, false), "not published");
        assert!(initialised(true, true), "again, when nobody else uses it");
        let mut survey = Survey::new(4);
        survey.access(1, X, true, true, &[]);
        survey.record(1, &record(Kind::AtomicStore, 8), &[]);
        survey.record(2, &record(Kind::AtomicLoad, 8), &[]);
        survey.access(2, X, true, false, &[]);
        survey.access(1, X, true, true, &[]);
        assert_eq!(survey.finish().alone(X), Alone::Never, "a race");
    }

    #[test]
    fn with_very_many_threads_only_locks_count() {
        let crowd = |held: &[LockId]| {
            let mut survey = Survey::new(SLOTS + 1);
            for slot in 0..100 {
                survey.access(slot, X, true, true, held);
            }
            survey.finish().contains(X)
        };
        assert!(crowd(&[]));
        assert!(!crowd(&L));
    }

    /// The first of two workers may be over before the second one starts, in its slot.
    #[test]
    fn a_slot_that_is_used_again_is_another_thread() {
        let workers = |joined: bool| {
            move |survey: &mut Survey| {
                survey.record(0, &record(Kind::ThreadStart, 0), &[]);
                survey.record(0, &record(Kind::Fork, 7), &[]);
                survey.record(1, &record(Kind::ThreadStart, 7), &[]);
                survey.access(1, X, true, true, &L);
                survey.record(1, &record(Kind::ThreadEnd, 0), &[]);
                if joined {
                    survey.record(0, &record(Kind::Join, 7), &[]);
                }
                survey.record(0, &record(Kind::Fork, 8), &[]);
                survey.record(1, &record(Kind::ThreadStart, 8), &[]);
                survey.access(1, X, true, true, &L);
            }
        };
        assert!(!survey(workers(false)));
        assert!(survey(workers(true)));
    }

    #[test]
    fn starts_joins_and_edges_of_the_runtime_are_order() {
        let handed_over = survey(|survey| {
            survey.record(0, &record(Kind::ThreadStart, 0), &[]);
            survey.access(0, X, true, true, &[]);
            survey.record(0, &record(Kind::Fork, 7), &[]);
            survey.record(1, &record(Kind::ThreadStart, 7), &[]);
            survey.access(1, X, true, true, &[]);
            survey.record(1, &record(Kind::ThreadEnd, 0), &[]);
            survey.record(0, &record(Kind::Join, 7), &[]);
            survey.access(0, X, true, true, &[]);
            survey.record(2, &record(Kind::AtomicLoad, 64), &[0]);
            survey.access(2, X, true, true, &[]);
        });
        assert!(handed_over);
    }
}
