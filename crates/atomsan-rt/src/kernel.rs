//! The concurrent kernel under every kind of schedule: owners of granules, positions and edges,
//! slots that are used again, chunks that are handed over.
//!
//! A schedule decides at each operation on a shared word which thread goes on (`shuttle`, at
//! random and by priorities that change a few times; see [`crate::sync`]). What really happened
//! ([`truth`]) is compared with what the logs say ([`recorded`]):
//!
//! - an access is in the log, or stands there already since nobody else had the bytes (or, outside of regions, because it is in no
//!   cycle: see `thread::outside`);
//! - of two accesses that conflict, and that the program orders by synchronisation, the first one
//!   comes first by positions and edges;
//! - so it is for any two atomic operations on one place of which one writes, and the values fit;
//! - edges make no circle, no thread waits for ever, and no chunk has two owners.
//!
//! Where the program knows its transactions ([`linked`]), whether it logs its accesses or not:
//!
//! - of two accesses that conflict, and that the program orders, the first one's transaction comes
//!   first by edges and by the order of each thread; and so do those that hold a lock. A read outside of regions may count for
//!   the transaction it was logged in, if the two are in no cycle;
//! - transactions that take one lock once, in turns, are in no circle.
//!
//! Synchronisation that the runtime does not see ([`Actor::alone`]) leaves the whole order of the
//! data to the data's own words. There, no two threads use a granule at once, because an owner's
//! plain store may undo a neighbour's or another reader's taking of it (see [`crate::ownership`]);
//! where the runtime sees the synchronisation, they do, and may race.
//!
//! A schedule is sequentially consistent: a missing `Release` or `Acquire` is not found here.

mod calls;
mod linked;
mod newborn;
mod outside;
mod recorded;
mod transactions;
mod truth;

use crate::format::{CHUNK_UNIT, Kind, LOW, MAGIC, header};
use crate::ownership::{self, Outcome, Quick};
use crate::recording::Chunk;
use crate::start::Logs;
use crate::thread::{self, Thread};
use crate::{recording, shadow, start, sync};
use core::sync::atomic::Ordering;
use linked::{Edges, Links};
use recorded::{Logs as Recorded, Place, Unwritten};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::{Mutex, RwLock};
use std::collections::HashMap;
use std::ffi::CString;
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;
use truth::{Access, Truth};

/// Where the program's memory is; nobody looks there but the shadow.
const MEMORY: usize = 0x5000_0000_0000;
const MEMORY_SIZE: usize = 256;
/// Where memory is that is given back and handed on: what one does there is not in conflict with what another one has
/// done.
const HANDED: usize = variable(31);

/// The place of the n-th variable, in a granule of its own.
const fn variable(number: usize) -> usize {
    MEMORY + 8 * number
}

/// The tests share the runtime's statics, and a recording that has few chunks.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
const CHUNKS: usize = 24;

/// What is recorded of the program, and the edges between its transactions.
static LINKS: std::sync::Mutex<Edges> = std::sync::Mutex::new(Edges::none());

/// A record of an edge between transactions: it goes here and not into a log.
pub(crate) fn notes_link(slot: u32, words: &[u64]) -> bool {
    LINKS.lock().unwrap().add(slot, words);
    true
}

fn record(logs: Logs) {
    start::set_logs(logs);
    thread::forget_all();
    match logs {
        Logs::Edges => ownership::log_no_accesses(),
        _ => ownership::log_accesses(),
    }
}

/// Makes sure that there is a recording, which nobody else uses meanwhile.
pub(crate) fn record_alone() -> std::sync::MutexGuard<'static, ()> {
    let alone = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|dead| dead.into_inner());
    start_recording();
    alone
}

fn start_recording() {
    if recording::counter(header::MAGIC).load(Ordering::Relaxed) == MAGIC {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kernel.rec");
    let path = CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
    assert!(shadow::reserve());
    // SAFETY: the path ends with a zero byte, and nobody records yet.
    assert!(unsafe { recording::open(path.as_ptr().cast(), CHUNKS * CHUNK_UNIT, 0) });
    start::is_on();
}

/// Runs `program` under so many schedules, the half of them at random.
fn explore(schedules: usize, program: impl Fn() + Send + Sync + 'static) {
    explore_with(Logs::All, schedules, program);
}

/// The same while the program knows its transactions; a third of the schedules without logs.
fn explore_transactions(schedules: usize, program: impl Fn() + Clone + Send + Sync + 'static) {
    explore_with(Logs::Transactions, schedules * 2 / 3, program.clone());
    explore_with(Logs::Edges, schedules / 3, program);
}

/// How schedules are run.
fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    config.max_time = Some(std::time::Duration::from_secs(60));
    config
}

/// Runs a program of one thread so many times; it makes its choices at random.
fn repeat_with(logs: Logs, times: usize, program: impl Fn() + Send + Sync + 'static) {
    let _alone = record_alone();
    record(logs);
    let random = shuttle::Runner::new(RandomScheduler::new(times), config());
    sync::scheduled(|| {
        random.run(program);
    });
}

fn explore_with(logs: Logs, schedules: usize, program: impl Fn() + Send + Sync + 'static) {
    let _alone = record_alone();
    record(logs);
    let program = Arc::new(program);
    let again = program.clone();
    let (random, few_switches) = (
        shuttle::Runner::new(RandomScheduler::new(schedules / 2), config()),
        shuttle::Runner::new(PctScheduler::new(4, schedules / 2), config()),
    );
    sync::scheduled(|| {
        random.run(move || program());
        few_switches.run(move || again());
    });
}

/// A thread of the program.
#[derive(Clone)]
struct Actor {
    thread: &'static Thread,
    name: usize,
    truth: Arc<std::sync::Mutex<Truth>>,
}

// SAFETY: the record goes with its thread, of which there is one at a time.
unsafe impl Send for Actor {}

/// A thread that was started: its name, and the end of its log.
type Child = shuttle::thread::JoinHandle<(usize, u32, u64)>;

/// Runs a program of `first`, and compares what happened with the logs and the edges; the edges.
fn run(first: impl FnOnce(&Actor)) -> Links {
    let since: HashMap<u32, u64> = (1..64)
        .map(|slot| (slot, thread::position_of(slot)))
        .collect();
    shadow::reset(MEMORY, MEMORY_SIZE);
    *LINKS.lock().unwrap() = Edges::none();
    let truth = Arc::new(std::sync::Mutex::new(Truth::default()));
    let actor = Actor {
        thread: thread::register(start::new_thread_number(), None, no_stack).unwrap(),
        name: truth.lock().unwrap().start(None),
        truth: truth.clone(),
    };
    first(&actor);
    actor.thread.end();
    let truth = truth.lock().unwrap();
    let logs = (!ownership::is_order_only()).then(|| Recorded::read(&since));
    let truly = TrueConflicts::of(&truth);
    if let Some(logs) = &logs {
        compare(&truth.accesses, logs, &truly);
        logs.replay_values(&unwritten(&truth.accesses, logs, &truly));
    }
    let links = std::mem::take(&mut *LINKS.lock().unwrap());
    if start::logs() != Logs::All {
        compare_transactions(&truly, &links, logs.as_ref());
    }
    links.conflicts
}

/// The accesses that conflict, and that the program orders.
struct TrueConflicts {
    pairs: Vec<(Access, Access)>,
    /// Their transactions.
    links: Links,
}

impl TrueConflicts {
    fn of(truth: &Truth) -> TrueConflicts {
        let conflicts = |accesses: &'_ [Access]| -> Vec<(Access, Access)> {
            let pairs = accesses.iter().enumerate().flat_map(|(index, second)| {
                let earlier = accesses[..index].iter();
                earlier.map(move |first| (first, second))
            });
            let pairs = pairs.filter(|(first, second)| {
                let ordered = first.happens_before(second) && first.thread != second.thread;
                ordered && first.conflicts_with(second)
            });
            pairs.map(|(one, two)| (one.clone(), two.clone())).collect()
        };
        let pairs = [conflicts(&truth.accesses), conflicts(&truth.holds)].concat();
        let links = (pairs.iter())
            .map(|(first, second)| (first.transactions[0], second.transactions[1]))
            .collect();
        let links = Links(links);
        TrueConflicts { pairs, links }
    }

    /// Whether a transaction comes before another one.
    fn is_before(&self, one: (u32, u64), two: (u32, u64)) -> bool {
        self.links.is_before(one, two)
    }
}

/// Of two accesses in conflict, the first one's transaction comes before the second one's. Only a read outside of regions may
/// count for the transaction in which it was logged, if it is in no cycle (`thread::outside`).
fn compare_transactions(truly: &TrueConflicts, edges: &Edges, logs: Option<&Recorded>) {
    for (first, second) in &truly.pairs {
        let is_handed = second.address == HANDED;
        if is_handed && ownership::is_order_only() {
            continue;
        }
        let links = if is_handed {
            &edges.all
        } else {
            &edges.conflicts
        };
        let (one, two) = (first.transactions[0], second.transactions[1]);
        let counts_earlier = || {
            let is_repeat = first.outside && !first.write && !first.atomic;
            let logged = logs.filter(|_| is_repeat).and_then(|logs| {
                let record = record_of(first, first.address, logs)?;
                let transaction = logs.transaction_of(record);
                transaction.map(|transaction| (one.0, transaction))
            });
            logged.is_some_and(|logged| links.is_before(logged, two)) && !truly.is_before(two, one)
        };
        assert!(
            links.is_before(one, two) || counts_earlier(),
            "transactions are not in order: {} in {:?}, then {} in {:?}; {:?}",
            show(first),
            first.transactions,
            show(second),
            second.transactions,
            links.0,
        );
    }
}

fn no_stack() -> (usize, usize) {
    (0, 0)
}

/// The record that stands for a byte of an access, if there is one.
fn record_of(access: &Access, byte: usize, logs: &Recorded) -> Option<Place> {
    let (slot, from, to) = access.log;
    let log = &logs.logs[&slot];
    let fits = |index: usize| log[index].stands_for(byte, access.write, access.atomic);
    let (from, to) = (
        log.partition_point(|record| record.position < from),
        log.partition_point(|record| record.position < to),
    );
    let own = (from..to).find(|&index| fits(index));
    let earlier = || {
        let same_thread = |&index: &usize| log[index].kind != Kind::ThreadStart;
        (0..from)
            .rev()
            .take_while(same_thread)
            .find(|&index| fits(index))
    };
    own.or_else(earlier).map(|index| (slot, index))
}

fn show(access: &Access) -> String {
    format!(
        "{}{} of {} bytes at {:#x} by thread {}",
        if access.atomic { "atomic " } else { "" },
        if access.write { "write" } else { "read" },
        access.size,
        access.address - MEMORY,
        access.thread
    )
}

/// Each access is in the log, and behind what it is in conflict with. Outside of regions it may be in the log from before, or not at all, if it
/// is in no cycle (`thread::outside`); a neighbour in its granule may have undone then that another thread had taken it.
fn compare(accesses: &[Access], logs: &Recorded, truly: &TrueConflicts) {
    let stands_for_repeat = |first: &Access, second: &Access, (slot, index): Place| {
        let is_repeat = start::logs() != Logs::All && second.outside && !second.atomic;
        is_repeat
            && logs.logs[&slot][index].position < second.log.1
            && !truly.is_before(second.transactions[0], first.transactions[1])
    };
    for (index, second) in accesses.iter().enumerate() {
        // Of atomic operations, see also `unwritten`.
        let needs_no_log = |access: &Access| {
            let is_outside = start::logs() != Logs::All && access.outside;
            is_outside && !truly.links.is_in_cycle(access.transactions[0])
        };
        let is_logged = |byte| record_of(second, byte, logs).is_some();
        assert!(
            second.bytes().all(is_logged) || needs_no_log(second),
            "no record of {}",
            show(second)
        );
        for first in &accesses[..index] {
            let ordered = first.happens_before(second) && first.thread != second.thread;
            if !ordered || !first.conflicts_with(second) {
                continue;
            }
            for byte in first.bytes().filter(|byte| second.bytes().contains(byte)) {
                let records = record_of(first, byte, logs).zip(record_of(second, byte, logs));
                // What has none is in no cycle.
                let Some((one, two)) = records else {
                    continue;
                };
                assert!(
                    logs.is_before(one, two) || stands_for_repeat(first, second, two),
                    "the order is lost: {}, then {}",
                    show(first),
                    show(second)
                );
            }
        }
    }
}

/// Atomic operations that change something and have no record of their own. They are outside of regions, in the only slot that has
/// accessed the granule so far, and in no cycle (`thread::outside`).
fn unwritten(accesses: &[Access], logs: &Recorded, truly: &TrueConflicts) -> Vec<Unwritten> {
    let has_none = |access: &Access| access.atomic && access.write && !logs.has_own(access);
    let found = accesses.iter().enumerate();
    let found = found.filter(|(_, access)| has_none(access));
    let unwritten = found.map(|(index, access)| {
        let granule = |access: &Access| access.address / 8;
        // Who takes over a slot comes after all that has been done there.
        let is_anothers =
            |other: &Access| other.log.0 != access.log.0 && granule(other) == granule(access);
        let needs_none = start::logs() != Logs::All
            && access.outside
            && !accesses[..index].iter().any(is_anothers)
            && !truly.links.is_in_cycle(access.transactions[0]);
        assert!(needs_none, "no record of {}", show(access));
        let (slot, from, _) = access.log;
        (slot, access.address as u64, from)
    });
    unwritten.collect()
}

impl Actor {
    /// A plain access: announced, and made a little later.
    fn plain(&self, address: usize, size: usize, write: bool) {
        let from = self.thread.position();
        if size > 16 {
            ownership::access_range(self.thread, address, size, write, 1);
        } else {
            let (thread, pc) = (self.thread, 1);
            let quickly = || ownership::logs_quickly(thread, address, size, write, pc);
            let is_done = match quickly() {
                Quick::Done => true,
                Quick::Unready => self.thread.gets_ready() && matches!(quickly(), Quick::Done),
                Quick::No => false,
            };
            if !is_done {
                ownership::access(self.thread, address, size, write, 1);
            }
        }
        let log = (self.thread.slot.get(), from, self.thread.position());
        sync::step();
        let mut truth = self.truth.lock().unwrap();
        let access = truth.access(self.name, address, size, write, false);
        truth.accesses[access].log = log;
        truth.accesses[access].outside = self.thread.is_outside();
        truth.accesses[access].transactions = [self.transaction(); 2];
    }

    fn transaction(&self) -> linked::Transaction {
        (self.thread.slot.get(), self.thread.own_clock() & LOW)
    }

    /// Does something in a region.
    fn region(&self, work: impl FnOnce()) {
        self.thread.set_region(1 + self.name as u64);
        work();
        self.thread.set_region(0);
    }

    fn read(&self, address: usize) {
        self.plain(address, 8, false);
    }

    fn write(&self, address: usize) {
        self.plain(address, 8, true);
    }

    /// An atomic operation of 8 bytes: what was there, and what was made of it, if anything.
    fn atomic(
        &self,
        address: usize,
        may_write: bool,
        perform: impl FnOnce(&mut u64) -> Outcome,
    ) -> Outcome {
        let from = self.thread.position();
        let mut perform = Some(perform);
        let mut operation = || {
            // The operation itself is one instruction.
            sync::step();
            let mut truth = self.truth.lock().unwrap();
            let perform = perform.take().unwrap();
            let outcome = perform(truth.value(address));
            let write = !matches!(outcome, Outcome::Load(_) | Outcome::Failed(_));
            let access = truth.access(self.name, address, 8, write, true);
            truth.accesses[access].transactions[0] = self.transaction();
            truth.accesses[access].outside = self.thread.is_outside();
            ((outcome, access), outcome)
        };
        let thread = self.thread;
        let again = match may_write {
            true => ownership::atomic_again(thread, address, 8, 2, &mut operation),
            false => None,
        };
        let (outcome, access) = again
            .unwrap_or_else(|| ownership::atomic(thread, address, 8, may_write, 2, &mut operation));
        let log = (self.thread.slot.get(), from, self.thread.position());
        let access = &mut self.truth.lock().unwrap().accesses[access];
        access.log = log;
        access.transactions[1] = self.transaction();
        outcome
    }

    fn load(&self, address: usize) -> u64 {
        match self.atomic(address, false, |value| Outcome::Load(*value)) {
            Outcome::Load(value) => value,
            _ => unreachable!(),
        }
    }

    fn store(&self, address: usize, new: u64) {
        self.atomic(address, true, |value| {
            *value = new;
            Outcome::Store(new)
        });
    }

    fn add(&self, address: usize, more: u64) -> u64 {
        match self.atomic(address, true, |value| {
            let before = *value;
            *value = before.wrapping_add(more);
            Outcome::Rmw(before, *value, 0)
        }) {
            Outcome::Rmw(before, ..) => before,
            _ => unreachable!(),
        }
    }

    fn compare_exchange(&self, address: usize, old: u64, new: u64) -> bool {
        let outcome = self.atomic(address, true, |value| {
            if *value == old {
                *value = new;
                Outcome::Swapped(old, new)
            } else {
                Outcome::Failed(*value)
            }
        });
        matches!(outcome, Outcome::Swapped(..))
    }

    /// A spin lock of the program's own.
    fn locked(&self, lock: usize, work: impl FnOnce()) {
        while !self.compare_exchange(lock, 0, 1) {
            while self.load(lock) != 0 {
                shuttle::thread::yield_now();
            }
        }
        work();
        self.store(lock, 0);
    }

    /// Excludes others without the runtime's knowledge.
    fn alone(&self, lock: &Mutex<usize>, work: impl FnOnce()) {
        let guard = lock.lock().unwrap();
        self.synchronise(*guard, true);
        work();
        self.synchronise(*guard, true);
    }

    /// Holds a lock of libc, as its interceptors say it.
    fn holding(&self, lock: &RwLock<usize>, exclusive: bool, work: impl FnOnce()) {
        let (reader, writer);
        let address = if exclusive {
            writer = lock.write().unwrap();
            *writer
        } else {
            reader = lock.read().unwrap();
            *reader
        };
        let (acquire, release) = match exclusive {
            true => (Kind::Acquire, Kind::Release),
            false => (Kind::AcquireShared, Kind::ReleaseShared),
        };
        self.synchronise(address, exclusive);
        ownership::own(self.thread, address, 0, exclusive);
        self.thread.append_step(acquire, address as u64, 3);
        self.hold(address, exclusive);
        work();
        self.thread.append_step(release, address as u64, 3);
        self.hold(address, exclusive);
    }

    fn hold(&self, address: usize, exclusive: bool) {
        let mut truth = self.truth.lock().unwrap();
        truth.hold(self.name, address, exclusive).transactions = [self.transaction(); 2];
    }

    fn synchronise(&self, object: usize, exclusive: bool) {
        let mut truth = self.truth.lock().unwrap();
        truth.synchronise(self.name, object, exclusive);
    }

    /// Starts a thread, which the runtime sees or not.
    fn spawn(&self, seen: bool, body: impl FnOnce(&Actor) + Send + 'static) -> Child {
        let number = start::new_thread_number();
        let parent = seen.then(|| self.thread.gives_birth(number, 0));
        let truth = self.truth.clone();
        let name = truth.lock().unwrap().start(Some(self.name));
        shuttle::thread::spawn(move || {
            let thread = thread::register(number, parent, no_stack).unwrap();
            let actor = Actor {
                thread,
                name,
                truth,
            };
            body(&actor);
            let slot = thread.slot.get();
            (name, slot, thread.end())
        })
    }

    fn join(&self, seen: bool, child: Child) {
        let (name, slot, end) = child.join().unwrap();
        self.truth.lock().unwrap().join(self.name, name);
        if seen {
            self.thread.after_position(slot, end);
        }
    }
}

#[test]
fn atomic_operations_have_the_order_of_their_values() {
    explore(1000, || {
        run(|first| {
            let children: Vec<Child> = (0..3)
                .map(|turn| {
                    first.spawn(true, move |actor| {
                        actor.add(variable(0), 1);
                        actor.compare_exchange(variable(0), turn, 10);
                        actor.load(variable(0));
                        actor.load(variable(0));
                        actor.store(variable(0), 20 + turn);
                    })
                })
                .collect();
            children
                .into_iter()
                .for_each(|child| first.join(true, child));
            first.load(variable(0));
        });
    });
}

#[test]
fn any_program_with_visible_synchronisation() {
    explore(2600, || {
        run(|first| {
            let body = |actor: &Actor| {
                for _ in 0..7 {
                    // Two places for atomic operations, one lock, three granules of plain data
                    // that have neighbours in them and accesses across them.
                    let atomic = variable(thread_rng().gen_range(0..2));
                    let plain = variable(4) + thread_rng().gen_range(0..6) * 4;
                    let write = thread_rng().gen_bool(0.5);
                    match thread_rng().gen_range(0..8) {
                        0 => drop(actor.load(atomic)),
                        1 => actor.store(atomic, 1),
                        2 => drop(actor.add(atomic, 1)),
                        3 => drop(actor.compare_exchange(atomic, 1, 0)),
                        4 => actor.locked(variable(2), || {
                            actor.plain(plain, 4, false);
                            actor.plain(plain, 4, true);
                        }),
                        5 => actor.plain(plain & !7, 8, write),
                        6 => actor.plain(variable(4), 24, write),
                        _ => actor.plain(plain, 4, write),
                    }
                }
            };
            let children: Vec<Child> = (0..2).map(|_| first.spawn(true, body)).collect();
            body(first);
            children
                .into_iter()
                .for_each(|child| first.join(true, child));
            first.plain(variable(4), 24, true);
        });
    });
}

#[test]
fn any_program_with_locks_for_readers_and_writers() {
    explore(2000, || {
        run(|first| {
            let locks = Arc::new([0, 1].map(|number| RwLock::new(variable(number))));
            let body = move |actor: &Actor| {
                for _ in 0..6 {
                    let which = thread_rng().gen_range(0..2);
                    let exclusive = thread_rng().gen_bool(0.5);
                    // What the two locks guard lies side by side.
                    let data = variable(4) + 4 * which;
                    actor.holding(&locks[which], exclusive, || {
                        actor.plain(data, 4, false);
                        actor.plain(data + 8, 4, exclusive);
                        actor.plain(data, 4, exclusive);
                    });
                }
            };
            let children: Vec<Child> = (0..2).map(|_| first.spawn(true, body.clone())).collect();
            body(first);
            children
                .into_iter()
                .for_each(|child| first.join(true, child));
            first.plain(variable(4), 16, true);
        });
    });
}

#[test]
fn two_readers_meet_at_a_new_lock() {
    explore(400, || {
        run(|first| {
            let lock = Arc::new(RwLock::new(variable(0)));
            let children: Vec<Child> = (0..2)
                .map(|_| {
                    let lock = lock.clone();
                    first.spawn(false, move |actor| {
                        actor.holding(&lock, false, || actor.read(variable(1)));
                    })
                })
                .collect();
            children
                .into_iter()
                .for_each(|child| first.join(false, child));
            first.holding(&lock, true, || first.write(variable(1)));
        });
    });
}

#[test]
fn any_program_whose_synchronisation_is_not_seen() {
    explore(2000, || {
        run(|first| {
            let locks = Arc::new([Mutex::new(1), Mutex::new(2)]);
            let body = move |actor: &Actor| {
                for _ in 0..6 {
                    let which = thread_rng().gen_range(0..2);
                    let of_lock = |number: usize| variable(2 * which + number);
                    let write = thread_rng().gen_bool(0.5);
                    actor.alone(&locks[which], || {
                        actor.read(of_lock(0));
                        actor.plain(of_lock(1), 8, write);
                        actor.plain(of_lock(0), 8, write);
                    });
                }
            };
            let children: Vec<Child> = (0..2).map(|_| first.spawn(false, body.clone())).collect();
            body(first);
            children
                .into_iter()
                .for_each(|child| first.join(false, child));
            (0..4).for_each(|number| first.write(variable(number)));
        });
    });
}

#[test]
fn slots_are_used_again_by_threads_that_come_after() {
    explore(2000, || {
        run(|first| {
            let lock = Arc::new(Mutex::new(1));
            // Each thread ends while others start, so that slots change hands.
            let body = |actor: &Actor, lock: &Mutex<usize>| {
                actor.alone(lock, || {
                    actor.read(variable(0));
                    actor.write(variable(0));
                });
                actor.write(variable(1 + actor.name));
            };
            let mut running = Vec::<Child>::new();
            for turn in 0..6 {
                if running.len() > 2 {
                    let next = thread_rng().gen_range(0..running.len());
                    first.join(false, running.swap_remove(next));
                }
                let lock = lock.clone();
                running.push(first.spawn(turn % 2 == 0, move |actor| {
                    body(actor, &lock);
                    if turn < 2 {
                        let inner = lock.clone();
                        let child = actor.spawn(false, move |actor| body(actor, &inner));
                        actor.join(false, child);
                    }
                }));
            }
            running
                .into_iter()
                .for_each(|child| first.join(false, child));
            (0..10).for_each(|number| first.read(variable(number)));
        });
    });
}

#[test]
fn memory_that_was_given_back_is_new_and_comes_after() {
    explore_with(Logs::All, 2000, || hand_on(false));
    explore_with(Logs::Transactions, 2000, || hand_on(true));
}

/// Objects with a count of references; who drops the last one gives the memory back, and the allocator hands it to the
/// next without the runtime's knowledge, and with another word, of which the runtime knows nothing either, so that its
/// own word has to tell.
fn hand_on(in_regions: bool) {
    run(|first| {
        let (object, count, message) = (HANDED, variable(4), variable(8));
        let free = Arc::new(Mutex::new(Vec::<usize>::new()));
        first.write(object);
        first.store(count, 3);
        let body = {
            let free = free.clone();
            move |actor: &Actor| {
                let steps = || {
                    actor.read(object);
                    if actor.add(count, u64::MAX) == 1 {
                        actor.write(object);
                        ownership::give_back(actor.thread, object, 8);
                        actor.write(message);
                        actor.synchronise(99, true);
                        free.lock().unwrap().push(object);
                    }
                };
                let found = core::cell::Cell::new(None);
                let more = || {
                    found.set(free.lock().unwrap().pop());
                    if let Some(memory) = found.get() {
                        actor.synchronise(99, true);
                        ownership::renew(actor.thread, memory, 8);
                        actor.read(message);
                    }
                };
                // What is done at once with memory that is new has no record.
                let much_more = || {
                    if let Some(memory) = found.get() {
                        actor.write(memory);
                    }
                };
                if in_regions {
                    actor.region(steps);
                    actor.region(more);
                    actor.region(much_more);
                } else {
                    steps();
                    more();
                    much_more();
                }
            }
        };
        let children: Vec<Child> = (0..2).map(|_| first.spawn(true, body.clone())).collect();
        body(first);
        children
            .into_iter()
            .for_each(|child| first.join(true, child));
    });
}

#[test]
fn a_chunk_has_one_owner() {
    // A log keeps its last chunk, from schedule to schedule.
    let last = Arc::new(std::sync::Mutex::new(HashMap::<u32, Chunk>::new()));
    explore(600, move || {
        let owners = Arc::new(std::sync::Mutex::new(HashMap::<usize, u32>::new()));
        let positions = Arc::new(std::sync::Mutex::new(Vec::<u64>::new()));
        for (slot, chunk) in &*last.lock().unwrap() {
            owners.lock().unwrap().insert(chunk.address, *slot);
        }
        let threads: Vec<_> = (1001..=1003)
            .map(|slot| {
                let (last, owners, positions) = (last.clone(), owners.clone(), positions.clone());
                shuttle::thread::spawn(move || {
                    for turn in 0..8 {
                        let before = last.lock().unwrap().remove(&slot);
                        // It is another's as soon as it is given back.
                        if let Some(before) = &before {
                            owners.lock().unwrap().remove(&before.address);
                        }
                        let before = before.as_ref().map(|before| (before, turn % 3 == 0));
                        let chunk = recording::new_chunk(slot, before, 0)
                            .expect("there are more chunks than threads");
                        let owner = owners.lock().unwrap().insert(chunk.address, slot);
                        assert_eq!(owner, None, "a chunk was handed out twice");
                        positions.lock().unwrap().push(chunk.position);
                        // SAFETY: the first word behind the header of a chunk that is ours.
                        let content = unsafe { &*(chunk.content(0).0 as *const sync::AtomicU64) };
                        assert_eq!(content.load(Ordering::Relaxed), 0, "a chunk is not empty");
                        content.store(u64::from(slot), Ordering::Relaxed);
                        assert_eq!(content.load(Ordering::Relaxed), u64::from(slot));
                        last.lock().unwrap().insert(slot, chunk);
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let mut positions = std::mem::take(&mut *positions.lock().unwrap());
        positions.sort_unstable();
        positions.dedup();
        assert_eq!(positions.len(), 24, "a position was handed out twice");
    });
}
