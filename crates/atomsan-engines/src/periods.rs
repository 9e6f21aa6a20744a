//! Thread periods and which of them are concurrent (Wang–Stoller, section 4).
//!
//! Starting a thread, joining one and passing a barrier cut the execution of a thread into
//! *periods*. A period happens before another one if it must have ended when the other starts,
//! in every schedule: locks do not order periods, because they can be taken the other way round.
//! Two periods that are not ordered are *concurrent*.
//!
//! The paper keeps a graph and searches it. Here each period carries a vector clock: for every
//! thread, how many of its periods have ended before. With the periods of a thread numbered from
//! 0, period `a` happens before `b` of another thread if and only if `b`'s clock counts `a` among
//! the ended ones of its thread, so a query is two loads however many periods there are.
//!
//! # Invariant
//!
//! A thread's own entry in its clock is never read (its periods are ordered by their numbers).
//! Therefore the periods between two clock changes share one clock: starting threads costs the
//! starter nothing, and all threads that leave a round of a barrier share the round's clock. Clocks of
//! different threads share all that they agree about ([`Vector`]): with many short threads, memory follows the number of
//! starts and joins, and not the number of pairs of threads.
//!
//! A period gets its id when it is first asked for. A thread that forks a thousand others without
//! doing anything in between has one period, not a thousand.
//!
//! # Rounds of a barrier
//!
//! Arrivals belong to the open round; the first departure closes it. A quick thread may arrive for
//! the next round while a slow one has yet to leave this one, so each thread remembers the round
//! it arrived in. A departure without arrival belongs to the latest round.

use crate::vector::Vector;
use atomsan_trace::{Event, LockId, Op, ThreadId};
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

/// A period of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeriodId(pub u32);

impl PeriodId {
    /// The id as an index into a table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
struct Period {
    thread: ThreadId,
    /// Which of its thread's periods, from 0.
    number: u32,
    /// For every thread, how many of its periods have ended.
    clock: Vector,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    /// The number of the current period.
    number: u32,
    clock: Vector,
    /// The current period, if anybody asked for it.
    period: Option<PeriodId>,
}

#[derive(Debug, Default)]
struct Barrier {
    /// The clock of the open round, if somebody has arrived: what had ended when its threads arrived.
    open: Option<Vector>,
    /// The clock of the round that was closed last.
    latest: Vector,
    /// Who has arrived and not left, and the clock of their round, if it is closed.
    inside: Vec<(ThreadId, Option<Vector>)>,
}

/// The periods of all threads.
#[derive(Debug, Default)]
pub struct Periods {
    periods: Vec<Period>,
    threads: Vec<Thread>,
    barriers: HashMap<LockId, Barrier, FxBuildHasher>,
}

impl Periods {
    /// Follows one event: `Fork`, `Join`, `Arrive` and `Leave` make periods end; others do nothing.
    #[inline]
    pub fn step(&mut self, event: &Event) {
        match event.op {
            Op::Fork(child) => self.order(event.thread, child),
            Op::Join(child) => self.order(child, event.thread),
            Op::Arrive(barrier) => self.arrive(event.thread, barrier),
            Op::Leave(barrier) => self.leave(event.thread, barrier),
            _ => {}
        }
    }

    /// The period a thread is in.
    #[inline]
    pub fn current(&mut self, thread: ThreadId) -> PeriodId {
        match self.threads.get(thread.index()) {
            Some(&Thread {
                period: Some(period),
                ..
            }) => period,
            _ => self.name(thread),
        }
    }

    /// How many periods have been asked for; their ids are below.
    pub fn len(&self) -> usize {
        self.periods.len()
    }

    /// Whether nobody asked for a period.
    pub fn is_empty(&self) -> bool {
        self.periods.is_empty()
    }

    /// Whose period it is.
    #[inline]
    pub fn thread(&self, period: PeriodId) -> ThreadId {
        self.periods[period.index()].thread
    }

    /// Whether `a` must have ended when `b` starts.
    #[inline]
    pub fn before(&self, a: PeriodId, b: PeriodId) -> bool {
        let (a, b) = (&self.periods[a.index()], &self.periods[b.index()]);
        if a.thread == b.thread {
            return a.number < b.number;
        }
        b.clock.get(a.thread.index()) > a.number
    }

    /// Whether neither must have ended when the other starts. No period is concurrent with
    /// another one of its thread.
    #[inline]
    pub fn concurrent(&self, a: PeriodId, b: PeriodId) -> bool {
        self.thread(a) != self.thread(b) && !self.before(a, b) && !self.before(b, a)
    }

    /// How many pieces all clocks consist of; what several of them share counts once.
    pub fn clock_pieces(&self) -> usize {
        let mut pieces = HashSet::default();
        for period in &self.periods {
            period.clock.nodes(&mut pieces);
        }
        pieces.len()
    }

    fn get(&mut self, thread: ThreadId) -> &mut Thread {
        let index = thread.index();
        if self.threads.len() <= index {
            self.threads.resize_with(index + 1, Thread::default);
        }
        &mut self.threads[index]
    }

    fn name(&mut self, thread: ThreadId) -> PeriodId {
        let id = PeriodId(self.periods.len() as u32);
        let at = self.get(thread);
        at.period = Some(id);
        let (number, clock) = (at.number, at.clock.clone());
        self.periods.push(Period {
            thread,
            number,
            clock,
        });
        id
    }

    /// The period of `first` ends; what has ended there has ended before `then` goes on.
    fn order(&mut self, first: ThreadId, then: ThreadId) {
        if first != then {
            let ended = self.end(first);
            self.get(then).learn(&ended);
        }
    }

    /// Ends the period of a thread, and says what has ended by now.
    fn end(&mut self, thread: ThreadId) -> Vector {
        let at = self.get(thread);
        if at.period.take().is_some() {
            at.number += 1;
        }
        let mut ended = at.clock.clone();
        ended.raise(thread.index(), at.number);
        ended
    }

    fn arrive(&mut self, thread: ThreadId, barrier: LockId) {
        let ended = self.end(thread);
        let at = self.barriers.entry(barrier).or_default();
        at.inside.retain(|&(inside, _)| inside != thread);
        at.inside.push((thread, None));
        at.open.get_or_insert_default().join(&ended);
    }

    fn leave(&mut self, thread: ThreadId, barrier: LockId) {
        let Some(at) = self.barriers.get_mut(&barrier) else {
            return;
        };
        let place = at.inside.iter().position(|&(inside, _)| inside == thread);
        let closed = match place.map(|place| at.inside.swap_remove(place)) {
            Some((_, closed)) => closed,
            None if at.open.is_none() => Some(at.latest.clone()),
            None => None,
        };
        let clock = closed.unwrap_or_else(|| at.close());
        self.get(thread).learn(&clock);
    }
}

impl Thread {
    /// What `ended` counts has ended before the thread goes on.
    fn learn(&mut self, ended: &Vector) {
        if !ended.is_within(&self.clock) {
            self.clock.join(ended);
            if self.period.take().is_some() {
                self.number += 1;
            }
        }
    }
}

impl Barrier {
    /// Closes the open round, and returns its clock.
    fn close(&mut self) -> Vector {
        let clock = self.open.take().unwrap_or_default();
        for (_, round) in &mut self.inside {
            round.get_or_insert_with(|| clock.clone());
        }
        self.latest = clock.clone();
        clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atomsan_trace::SiteId;

    const MAIN: ThreadId = ThreadId(0);
    const A: ThreadId = ThreadId(1);
    const B: ThreadId = ThreadId(2);
    const BARRIER: LockId = LockId(7);

    fn step(periods: &mut Periods, thread: ThreadId, op: Op) {
        periods.step(&Event {
            thread,
            site: SiteId::UNKNOWN,
            op,
        });
    }

    /// Wang–Stoller, Fig. 2: pid1 before pid2, pid1′ concurrent with pid2, all before pid1″.
    #[test]
    fn figure_2_start_and_join() {
        let mut periods = Periods::default();
        let first = periods.current(MAIN);
        step(&mut periods, MAIN, Op::Fork(A));
        let second = periods.current(MAIN);
        let child = periods.current(A);
        step(&mut periods, MAIN, Op::Join(A));
        let third = periods.current(MAIN);
        assert!(periods.before(first, child));
        assert!(periods.concurrent(second, child));
        assert!(periods.concurrent(child, second));
        assert!(periods.before(child, third));
        for (earlier, later) in [(first, second), (second, third), (first, third)] {
            assert!(periods.before(earlier, later));
            assert!(!periods.before(later, earlier));
        }
        assert!(!periods.concurrent(first, first));
        assert_eq!(periods.thread(child), A);
    }

    #[test]
    fn siblings_are_concurrent_until_one_is_joined_before_the_other_starts() {
        let mut periods = Periods::default();
        step(&mut periods, MAIN, Op::Fork(A));
        let a = periods.current(A);
        let before = periods.current(MAIN);
        step(&mut periods, MAIN, Op::Join(A));
        step(&mut periods, MAIN, Op::Fork(B));
        let b = periods.current(B);
        assert!(periods.before(a, b), "through the parent");
        assert!(periods.before(before, b));
        let c = periods.current(ThreadId(9));
        assert!(periods.concurrent(b, c), "nobody started it");
    }

    #[test]
    fn a_barrier_orders_before_and_after() {
        let mut periods = Periods::default();
        let before = [A, B].map(|thread| periods.current(thread));
        for op in [Op::Arrive(BARRIER), Op::Leave(BARRIER)] {
            for thread in [A, B] {
                step(&mut periods, thread, op);
            }
        }
        let after = [A, B].map(|thread| periods.current(thread));
        assert!(periods.concurrent(before[0], before[1]));
        assert!(periods.concurrent(after[0], after[1]));
        assert!(periods.before(before[0], after[1]));
        assert!(periods.before(before[1], after[0]));
    }

    #[test]
    fn a_quick_thread_does_not_drag_the_slow_one_into_the_next_round() {
        let mut periods = Periods::default();
        step(&mut periods, A, Op::Arrive(BARRIER));
        step(&mut periods, B, Op::Arrive(BARRIER));
        step(&mut periods, A, Op::Leave(BARRIER));
        let between = periods.current(A);
        step(&mut periods, A, Op::Arrive(BARRIER));
        step(&mut periods, B, Op::Leave(BARRIER));
        let slow = periods.current(B);
        assert!(periods.concurrent(between, slow));
        step(&mut periods, B, Op::Arrive(BARRIER));
        step(&mut periods, B, Op::Leave(BARRIER));
        let next = periods.current(B);
        assert!(periods.before(between, next));
    }

    #[test]
    fn ten_thousand_rounds_cost_one_clock_each() {
        let mut periods = Periods::default();
        for _ in 0..10_000 {
            for op in [Op::Arrive(BARRIER), Op::Leave(BARRIER)] {
                for thread in [MAIN, A, B] {
                    periods.current(thread);
                    step(&mut periods, thread, op);
                }
            }
        }
        let first = PeriodId(0);
        let last = periods.current(B);
        assert_eq!(periods.clock_pieces(), 10_000, "the first one is empty");
        assert!(periods.before(first, last));
    }

    #[test]
    fn many_short_threads_cost_a_few_pieces_each() {
        let pieces = |count: u32| {
            let mut periods = Periods::default();
            for child in 1..=count {
                for op in [Op::Fork(ThreadId(child)), Op::Join(ThreadId(child))] {
                    step(&mut periods, MAIN, op);
                    periods.current(MAIN);
                    periods.current(ThreadId(child));
                }
            }
            periods.clock_pieces()
        };
        let [few, many] = [1_000, 10_000].map(pieces);
        println!("{few} pieces, {many} with ten times as many threads");
        assert!(many < 20 * few, "{few}, {many}: not linear");
    }

    #[test]
    fn forks_without_work_in_between_share_a_period() {
        let mut periods = Periods::default();
        let first = periods.current(MAIN);
        for child in 1..100 {
            step(&mut periods, MAIN, Op::Fork(ThreadId(child)));
        }
        let second = periods.current(MAIN);
        assert_eq!(periods.len(), 2);
        let child = periods.current(ThreadId(50));
        assert!(periods.before(first, child));
        assert!(periods.concurrent(second, child));
    }

    #[test]
    fn odd_streams_have_their_meaning() {
        let mut periods = Periods::default();
        // Departure without arrival, joining and starting oneself: nothing.
        let alone = periods.current(A);
        step(&mut periods, A, Op::Leave(BARRIER));
        step(&mut periods, A, Op::Fork(A));
        step(&mut periods, A, Op::Join(A));
        assert_eq!(periods.current(A), alone);
        // Joining a thread that still runs: ordered after what it did so far.
        let sofar = periods.current(B);
        step(&mut periods, A, Op::Join(B));
        let (joined, later) = (periods.current(A), periods.current(B));
        assert!(periods.before(sofar, joined));
        assert!(periods.concurrent(later, joined));
        // Starting a thread that already ran: ordered before what it does from now on.
        step(&mut periods, A, Op::Fork(B));
        let again = periods.current(B);
        assert!(periods.before(joined, again));
        assert!(periods.concurrent(later, joined));
    }
}
