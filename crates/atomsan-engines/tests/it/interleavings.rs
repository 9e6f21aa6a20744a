//! The definition of atomicity for a set of transactions, as it stands in Wang–Stoller, section 2.
//!
//! The events of a trace are steps of threads. Another trace of the same transactions is any
//! order of the steps that keeps the order of each thread, in which no lock is held by two threads
//! at once and which respects what start, join and barrier order. Two traces are equivalent if
//! each read has the same write-predecessor and each variable the same final write. A trace is
//! serializable if it is equivalent to one in which each transaction is contiguous, and the set is
//! atomic if every trace is.
//!
//! All traces are enumerated; those that agree in how far each thread is, in who wrote each
//! variable last and in what each read has read so far have the same futures, so they are followed
//! once. Everything of that is packed into one integer, which bounds the size of a set; a set that
//! does not fit has no verdict.

use crate::oracle;
use crate::trace::Trace;
use atomsan_trace::{LockId, Op, ThreadId};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

const THREADS: usize = 5;
const VARS: usize = 5;
const READS: usize = 20;
const WRITES: usize = 15;

/// What the definition says about the transactions of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Truth {
    /// Every trace is serializable; traces that end in deadlock do not count here.
    pub atomic: bool,
    /// Some trace ends in deadlock.
    pub deadlock: bool,
}

/// Judges the transactions of a trace; `None` if they are too many to enumerate.
pub fn judge(trace: &Trace) -> Option<Truth> {
    judge_some(trace, |_| true)
}

/// Judges some of the transactions of a trace, by their number in [`oracle::transactions`]. The
/// others do nothing, but still order what they order.
pub fn judge_some(trace: &Trace, keep: impl Fn(usize) -> bool) -> Option<Truth> {
    Set::of(trace, keep)?.judge()
}

/// Whether every selection of the transactions is atomic. A set can be atomic although two of
/// its transactions are not: a third one may always hide what they did.
pub fn judge_all_subsets(trace: &Trace) -> Option<bool> {
    let mut accessing: Vec<usize> = (trace.events.iter())
        .zip(oracle::transactions(trace))
        .filter(|(event, _)| event.op.var().is_some())
        .map(|(_, transaction)| transaction)
        .collect();
    accessing.dedup();
    accessing.sort_unstable();
    accessing.dedup();
    for subset in 0..1_u32 << accessing.len() {
        let keep = |transaction| {
            (accessing.iter().position(|&t| t == transaction))
                .is_some_and(|at| subset & (1 << at) != 0)
        };
        if !judge_some(trace, keep)?.atomic {
            return Some(false);
        }
    }
    Some(true)
}

/// What a step does, with its place among the reads and among the writes.
#[derive(Clone, Copy, Debug)]
enum Action {
    Nothing,
    Read {
        var: usize,
        read: usize,
    },
    Write {
        var: usize,
        write: usize,
    },
    ReadWrite {
        var: usize,
        read: usize,
        write: usize,
    },
    Acquire {
        lock: usize,
        shared: bool,
    },
    Release {
        lock: usize,
    },
    ReleaseAll {
        lock: usize,
    },
}

#[derive(Debug)]
struct Step {
    action: Action,
    transaction: usize,
    /// How many steps of which threads must have been made.
    needs: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Set {
    threads: Vec<Vec<Step>>,
    locks: usize,
}

/// A prefix of a trace. What it did to variables is in `view`: the last write of each variable,
/// then the write-predecessor of each read, four bits each; 0 is the initial write.
#[derive(Clone, Debug)]
struct Prefix {
    at: [u8; THREADS],
    view: u128,
    /// For each lock its holders: thread and whether shared, once per hold.
    holders: Vec<Vec<(usize, bool)>>,
}

impl Prefix {
    fn key(&self) -> u128 {
        (self.at.iter()).fold(self.view, |key, &at| key << 5 | u128::from(at))
    }

    fn writer(&self, var: usize) -> u128 {
        self.view >> (4 * var) & 15
    }

    fn write(&mut self, var: usize, write: usize) {
        self.view &= !(15 << (4 * var));
        self.view |= (write as u128 + 1) << (4 * var);
    }

    fn read(&mut self, var: usize, read: usize) {
        self.view |= self.writer(var) << (4 * (VARS + read));
    }
}

type Seen = HashSet<u128, BuildHasherDefault<Mix>>;

impl Set {
    fn of(trace: &Trace, keep: impl Fn(usize) -> bool) -> Option<Set> {
        let transactions = oracle::transactions(trace);
        let mut threads: Vec<Vec<Step>> = Vec::new();
        let mut ids: [HashMap<u32, usize>; 3] = Default::default();
        let mut id = |kind: usize, name: u32| {
            let next = ids[kind].len();
            *ids[kind].entry(name).or_insert(next)
        };
        let (mut reads, mut writes) = (0, 0);
        let mut needs: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
        let mut rounds: HashMap<LockId, Round> = HashMap::new();
        for (event, &transaction) in trace.events.iter().zip(&transactions) {
            let mut index = |thread: ThreadId, threads: &mut Vec<Vec<Step>>| {
                let index = id(0, thread.0);
                threads.resize_with(threads.len().max(index + 1), Vec::new);
                index
            };
            let thread = index(event.thread, &mut threads);
            let here = threads[thread].len();
            match event.op {
                Op::Fork(child) => {
                    let child = index(child, &mut threads);
                    needs.entry(child).or_default().push((thread, here + 1));
                }
                Op::Join(child) => {
                    let child = index(child, &mut threads);
                    let sofar = threads[child].len();
                    needs.entry(thread).or_default().push((child, sofar));
                }
                Op::Arrive(barrier) => {
                    let round = rounds.entry(barrier).or_default();
                    round.arrive(thread, here + 1);
                }
                Op::Leave(barrier) => {
                    let round = rounds.entry(barrier).or_default();
                    needs.entry(thread).or_default().extend(round.leave(thread));
                }
                _ => {}
            }
            let var = event.op.var().map(|var| id(1, var.0));
            let lock = event.op.lock().map(|lock| id(2, lock.0));
            let action = match (event.op, var, lock) {
                _ if !keep(transaction) => Action::Nothing,
                (op, Some(var), _) => {
                    let (read, write) = (reads, writes);
                    reads += usize::from(op.reads());
                    writes += usize::from(op.writes());
                    match (op.reads(), op.writes()) {
                        (true, true) => Action::ReadWrite { var, read, write },
                        (true, false) => Action::Read { var, read },
                        _ => Action::Write { var, write },
                    }
                }
                (Op::Acquire(_) | Op::Woken(_), _, Some(lock)) => Action::Acquire {
                    lock,
                    shared: false,
                },
                (Op::AcquireShared(_), _, Some(lock)) => Action::Acquire { lock, shared: true },
                (Op::Release(_) | Op::ReleaseShared(_), _, Some(lock)) => Action::Release { lock },
                (Op::Wait(_), _, Some(lock)) => Action::ReleaseAll { lock },
                _ => Action::Nothing,
            };
            threads[thread].push(Step {
                action,
                transaction,
                needs: needs.remove(&thread).unwrap_or_default(),
            });
        }
        let fits = threads.len() <= THREADS
            && threads.iter().all(|steps| steps.len() < 32)
            && ids[1].len() <= VARS
            && reads <= READS
            && writes <= WRITES;
        let locks = ids[2].len();
        fits.then_some(Set { threads, locks })
    }

    fn start(&self) -> Prefix {
        Prefix {
            at: [0; THREADS],
            view: 0,
            holders: vec![Vec::new(); self.locks],
        }
    }

    fn next(&self, prefix: &Prefix, thread: usize) -> Option<&Step> {
        self.threads[thread].get(usize::from(prefix.at[thread]))
    }

    fn enabled(&self, prefix: &Prefix, thread: usize, step: &Step) -> bool {
        let ready = |&(other, count): &(usize, usize)| usize::from(prefix.at[other]) >= count;
        step.needs.iter().all(ready)
            && match step.action {
                Action::Acquire { lock, shared } => prefix.holders[lock]
                    .iter()
                    .all(|&(holder, other)| holder == thread || (shared && other)),
                _ => true,
            }
    }

    /// Makes the next step of a thread, if it can be made.
    fn advance(&self, prefix: &mut Prefix, thread: usize) -> bool {
        let Some(step) = self.next(prefix, thread) else {
            return false;
        };
        if !self.enabled(prefix, thread, step) {
            return false;
        }
        prefix.at[thread] += 1;
        match step.action {
            Action::Nothing => {}
            Action::Read { var, read } => prefix.read(var, read),
            Action::Write { var, write } => prefix.write(var, write),
            Action::ReadWrite { var, read, write } => {
                prefix.read(var, read);
                prefix.write(var, write);
            }
            Action::Acquire { lock, shared } => prefix.holders[lock].push((thread, shared)),
            Action::Release { lock } => {
                let holders = &mut prefix.holders[lock];
                if let Some(at) = holders.iter().rposition(|&(holder, _)| holder == thread) {
                    holders.remove(at);
                }
            }
            Action::ReleaseAll { lock } => {
                prefix.holders[lock].retain(|&(holder, _)| holder != thread);
            }
        }
        true
    }

    /// Makes the steps that commute with everything others can do next: they lose no trace.
    fn settle(&self, prefix: &mut Prefix) {
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for thread in 0..self.threads.len() {
                while self.next(prefix, thread).is_some_and(|step| {
                    matches!(
                        step.action,
                        Action::Nothing | Action::Release { .. } | Action::ReleaseAll { .. }
                    )
                }) && self.advance(prefix, thread)
                {
                    moved = true;
                }
            }
        }
    }

    fn complete(&self, prefix: &Prefix) -> bool {
        (0..self.threads.len()).all(|thread| self.next(prefix, thread).is_none())
    }

    fn judge(&self) -> Option<Truth> {
        let mut serial = Seen::default();
        self.serial(self.start(), &mut Seen::default(), &mut serial);
        let mut truth = Truth {
            atomic: true,
            deadlock: false,
        };
        let mut start = self.start();
        self.settle(&mut start);
        let mut seen = Seen::default();
        seen.insert(start.key());
        let mut todo = vec![start];
        while let Some(prefix) = todo.pop() {
            if seen.len() > 200_000 {
                return None;
            }
            let mut stuck = true;
            for thread in 0..self.threads.len() {
                let mut next = prefix.clone();
                if self.advance(&mut next, thread) {
                    stuck = false;
                    self.settle(&mut next);
                    if seen.insert(next.key()) {
                        todo.push(next);
                    }
                }
            }
            if stuck && self.complete(&prefix) {
                truth.atomic &= serial.contains(&prefix.view);
            } else if stuck {
                truth.deadlock = true;
            }
        }
        Some(truth)
    }

    /// Collects the views of all serial traces that start with `prefix`.
    fn serial(&self, prefix: Prefix, seen: &mut Seen, views: &mut Seen) {
        if !seen.insert(prefix.key()) {
            return;
        }
        if self.complete(&prefix) {
            views.insert(prefix.view);
        }
        for thread in 0..self.threads.len() {
            let mut next = prefix.clone();
            let transaction = self.next(&next, thread).map(|step| step.transaction);
            let here = |next: &Prefix| self.next(next, thread).map(|step| step.transaction);
            let mut moved = false;
            while here(&next).is_some() && here(&next) == transaction {
                moved = self.advance(&mut next, thread);
                if !moved {
                    break;
                }
            }
            if moved {
                self.serial(next, seen, views);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Round {
    arrived: Vec<(usize, usize)>,
    /// What those who have not left yet wait for.
    inside: HashMap<usize, Vec<(usize, usize)>>,
}

impl Round {
    fn arrive(&mut self, thread: usize, count: usize) {
        self.arrived.push((thread, count));
    }

    /// The first one to leave closes the round.
    fn leave(&mut self, thread: usize) -> Vec<(usize, usize)> {
        if !self.inside.contains_key(&thread) {
            let arrived = std::mem::take(&mut self.arrived);
            for &(other, _) in &arrived {
                self.inside.insert(other, arrived.clone());
            }
        }
        self.inside.remove(&thread).unwrap_or_default()
    }
}

/// A quick hash for keys that are one integer.
#[derive(Default)]
struct Mix(u64);

impl std::hash::Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut slow = DefaultHasher::default();
        slow.write(bytes);
        self.0 = slow.finish();
    }

    fn write_u128(&mut self, key: u128) {
        let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (((key >> 64) as u64).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 17);
    }
}

fn truth(text: &str) -> (bool, bool) {
    let truth = judge(&Trace::parse(text)).unwrap();
    (truth.atomic, truth.deadlock)
}

#[test]
fn a_read_between_two_writes_is_not_atomic_unless_a_lock_keeps_it_out() {
    let bare = "a begin f\n a w x\n a w x\n a end\n b r x";
    assert_eq!(truth(bare), (false, false));
    let locked = "a begin f\n a acq l\n a w x\n a w x\n a rel l\n a end
        b acq l\n b r x\n b rel l";
    assert_eq!(truth(locked), (true, false));
    let forked = "a begin f\n a w x\n a w x\n a end\n a fork b\n b r x";
    assert_eq!(truth(forked), (true, false));
    let joined = "b r x\n a join b\n a begin f\n a w x\n a w x\n a end";
    assert_eq!(truth(joined), (true, false));
    let round = "b r x\n a arrive z\n b arrive z\n a leave z\n b leave z\n a begin f\n a w x\n a w x\n a end";
    assert_eq!(truth(round), (true, false));
}

#[test]
fn shared_locks_let_readers_in_and_keep_writers_out() {
    let read = "a begin f\n a acqs l\n a r x\n a r x\n a rels l\n a end\n";
    let shared = format!("{read} b acqs l\n b w x\n b rels l");
    assert_eq!(truth(&shared), (false, false));
    let exclusive = format!("{read} b acq l\n b w x\n b rel l");
    assert_eq!(truth(&exclusive), (true, false));
}

#[test]
fn opposite_orders_deadlock() {
    let crossed = "a acq l\n a acq m\n a rel m\n a rel l\n b acq m\n b acq l\n b rel l\n b rel m";
    assert_eq!(truth(crossed), (true, true));
}

#[test]
fn a_third_transaction_can_hide_what_two_of_them_did() {
    // R W′ W is not serializable, but R W′ W W″ is: t t′ t″. The last write of the first thread
    // is always the last one of its thread, so nobody ever sees which of the two was later.
    let hidden = Trace::parse("a begin f\n a r x\n a w x\n a end\n a w x\n b w x");
    assert!(judge(&hidden).unwrap().atomic);
    assert_eq!(judge_all_subsets(&hidden), Some(false));
}
