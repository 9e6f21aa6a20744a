//! Random traces: well-formed, seeded, as large as wanted.
//!
//! Threads run transactions one after another. A transaction works on one group of shared
//! variables under that group's lock, or on variables of its own thread; it takes one lock, once,
//! so by two-phase locking every schedule of such transactions is serializable. A *broken*
//! transaction drops its lock in the middle and takes it again, and what it read before may be
//! stale by then: with [`Options::violations`] 0 a trace is serializable by construction, with
//! more it is wrong as often as the schedule allows.

use crate::Batch;
use crate::event::{Event, FunctionId, LockId, Op, SiteId, ThreadId, VarId};
use crate::names::{Definition, Frame, Site, Var};

/// What to generate.
#[derive(Clone, Debug)]
pub struct Options {
    /// About how many events.
    pub events: u64,
    /// How many threads, the main one included.
    pub threads: u32,
    /// How many variables.
    pub vars: u32,
    /// How many locks; each protects its share of the shared variables.
    pub locks: u32,
    /// How many accesses a transaction makes.
    pub accesses: u32,
    /// The share of transactions that work on shared variables.
    pub contention: f64,
    /// The share of accesses that write.
    pub writes: f64,
    /// The share of lock sections outside of transactions.
    pub unary: f64,
    /// The share of transactions that drop their lock in the middle.
    pub violations: f64,
    /// Equal seeds give equal traces.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            events: 100_000,
            threads: 4,
            vars: 1_000,
            locks: 16,
            accesses: 8,
            contention: 0.5,
            writes: 0.3,
            unary: 0.1,
            violations: 0.0,
            seed: 0,
        }
    }
}

/// How many functions the transactions are spread over.
const FUNCTIONS: u32 = 8;
/// Places: each function has this many lines.
const LINES: u32 = 16;

/// SplitMix64: small, fast, good enough to choose with.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(limit.max(1))) >> 64) as u32
    }

    fn chance(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

#[derive(Debug, Default)]
struct Thread {
    /// What it will do next, last first.
    plan: Vec<(Op, SiteId)>,
}

/// Makes a trace, batch by batch.
#[derive(Debug)]
pub struct Generator {
    options: Options,
    random: Random,
    threads: Vec<Thread>,
    holders: Vec<Option<u32>>,
    /// Variables below this belong to a lock, those above to a thread.
    shared_vars: u32,
    planned: u64,
    started: bool,
    joined: bool,
}

impl Generator {
    /// Nothing is generated yet. Counts of 0 are taken as 1.
    pub fn new(mut options: Options) -> Self {
        options.threads = options.threads.max(1);
        options.locks = options.locks.max(1);
        options.vars = options.vars.max(options.locks + options.threads);
        Generator {
            random: Random(options.seed),
            threads: (0..options.threads).map(|_| Thread::default()).collect(),
            holders: vec![None; options.locks as usize],
            shared_vars: (options.vars - options.threads) / 2 + 1,
            planned: 0,
            started: false,
            joined: false,
            options,
        }
    }

    /// Appends the next piece of the trace; `false` when there is nothing more.
    pub fn next(&mut self, batch: &mut Batch) -> bool {
        if !self.started {
            self.started = true;
            self.define(batch);
            for child in 1..self.options.threads {
                self.main(batch, Op::Fork(ThreadId(child)));
            }
        }
        for _ in 0..4096 {
            if !self.step(batch) {
                if !std::mem::replace(&mut self.joined, true) {
                    for child in 1..self.options.threads {
                        self.main(batch, Op::Join(ThreadId(child)));
                    }
                }
                break;
            }
        }
        !batch.events.is_empty()
    }

    fn define(&self, batch: &mut Batch) {
        let out = &mut batch.definitions;
        out.extend((0..self.options.threads).map(|t| Definition::Thread(format!("T{t}").into())));
        out.extend((0..self.options.locks).map(|l| Definition::Lock(format!("L{l}").into())));
        out.extend((0..self.options.vars).map(|x| {
            Definition::Var(Var {
                name: format!("x{x}").into(),
                ..Var::default()
            })
        }));
        out.extend((0..FUNCTIONS).map(|f| Definition::Function(format!("work{f}").into())));
        for function in 0..FUNCTIONS {
            for line in 1..=LINES {
                let frame = Frame {
                    function: Some(FunctionId(function)),
                    file: "generated".into(),
                    line: function * LINES + line,
                    column: 0,
                };
                out.push(Definition::Site(Site {
                    frames: vec![frame],
                    ..Site::default()
                }));
            }
        }
    }

    fn main(&self, batch: &mut Batch, op: Op) {
        batch.events.push(Event {
            thread: ThreadId(0),
            site: SiteId::UNKNOWN,
            op,
        });
    }

    /// One event of some thread that can go on; `false` if there is none.
    fn step(&mut self, batch: &mut Batch) -> bool {
        let first = self.random.below(self.options.threads);
        for turn in 0..self.options.threads {
            let thread = (first + turn) % self.options.threads;
            if self.threads[thread as usize].plan.is_empty() {
                if self.planned >= self.options.events {
                    continue;
                }
                self.plan(thread);
            }
            let Some(&(op, site)) = self.threads[thread as usize].plan.last() else {
                continue;
            };
            match op {
                Op::Acquire(lock) => {
                    let holder = &mut self.holders[lock.index()];
                    if holder.is_some() {
                        continue;
                    }
                    *holder = Some(thread);
                }
                Op::Release(lock) => self.holders[lock.index()] = None,
                _ => {}
            }
            self.threads[thread as usize].plan.pop();
            batch.events.push(Event {
                thread: ThreadId(thread),
                site,
                op,
            });
            return true;
        }
        false
    }

    /// What a thread does next: one section of accesses, usually as a transaction.
    fn plan(&mut self, thread: u32) {
        let options = &self.options;
        let random = &mut self.random;
        let function = random.below(FUNCTIONS);
        let site = |line: u32| SiteId(1 + function * LINES + line.min(LINES - 1));
        let unary = random.chance(options.unary);
        let lock = random
            .chance(options.contention)
            .then(|| random.below(options.locks));
        let broken = lock.is_some() && !unary && random.chance(options.violations);
        let middle = options.accesses / 2;
        let plan = &mut self.threads[thread as usize].plan;
        if !unary {
            plan.push((Op::Begin(FunctionId(function)), site(0)));
        }
        if let Some(lock) = lock {
            plan.push((Op::Acquire(LockId(lock)), site(1)));
        }
        for access in 0..options.accesses.max(1) {
            let x = match lock {
                // Every variable with the lock's number modulo the number of locks is the lock's.
                Some(lock) => {
                    let group =
                        (self.shared_vars - 1 - lock.min(self.shared_vars - 1)) / options.locks + 1;
                    lock.min(self.shared_vars - 1) + options.locks * random.below(group)
                }
                None => {
                    let own = (options.vars - self.shared_vars) / options.threads;
                    self.shared_vars + thread * own + random.below(own)
                }
            };
            if let (Some(lock), true) = (lock, broken && access == middle) {
                plan.push((Op::Release(LockId(lock)), site(2)));
                plan.push((Op::Acquire(LockId(lock)), site(3)));
            }
            let op = if random.chance(options.writes) {
                Op::Write(VarId(x))
            } else {
                Op::Read(VarId(x))
            };
            plan.push((op, site(4 + access)));
        }
        if let Some(lock) = lock {
            plan.push((Op::Release(LockId(lock)), site(LINES - 2)));
        }
        if !unary {
            plan.push((Op::End, site(LINES - 1)));
        }
        plan.reverse();
        self.planned += plan.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn generate(options: Options) -> Vec<Event> {
        let mut generator = Generator::new(options);
        let mut batch = Batch::default();
        let mut events = Vec::new();
        while generator.next(&mut batch) {
            events.append(&mut batch.events);
        }
        events
    }

    #[test]
    fn equal_seeds_give_equal_traces() {
        let options = |seed| Options {
            events: 1_000,
            seed,
            ..Options::default()
        };
        assert_eq!(generate(options(7)), generate(options(7)));
        assert_ne!(generate(options(7)), generate(options(8)));
    }

    #[test]
    fn locks_exclude_each_other_and_every_region_ends() {
        for violations in [0.0, 0.5] {
            let events = generate(Options {
                events: 20_000,
                locks: 2,
                violations,
                ..Options::default()
            });
            assert!(events.len() >= 20_000);
            let mut holders = HashMap::new();
            let mut depth: HashMap<ThreadId, i32> = HashMap::new();
            for event in &events {
                match event.op {
                    Op::Acquire(l) => assert_eq!(holders.insert(l, event.thread), None),
                    Op::Release(l) => assert_eq!(holders.remove(&l), Some(event.thread)),
                    Op::Begin(_) => *depth.entry(event.thread).or_default() += 1,
                    Op::End => *depth.entry(event.thread).or_default() -= 1,
                    _ => {}
                }
            }
            assert!(holders.is_empty() && depth.values().all(|depth| *depth == 0));
        }
    }

    #[test]
    fn extreme_options_are_taken_as_the_nearest_possible() {
        let events = generate(Options {
            events: 100,
            threads: 0,
            vars: 0,
            locks: 0,
            accesses: 0,
            contention: 2.0,
            ..Options::default()
        });
        assert!(events.len() >= 100);
    }

    #[test]
    fn a_variable_is_only_ever_accessed_under_its_lock_or_by_its_thread() {
        let events = generate(Options {
            events: 20_000,
            violations: 0.5,
            ..Options::default()
        });
        let mut held: HashMap<ThreadId, LockId> = HashMap::new();
        let mut guard: HashMap<VarId, Result<LockId, ThreadId>> = HashMap::new();
        for event in &events {
            match event.op {
                Op::Acquire(l) => drop(held.insert(event.thread, l)),
                Op::Release(_) => drop(held.remove(&event.thread)),
                Op::Read(x) | Op::Write(x) => {
                    let by = held.get(&event.thread).copied().ok_or(event.thread);
                    assert_eq!(*guard.entry(x).or_insert(by), by);
                }
                _ => {}
            }
        }
    }
}
