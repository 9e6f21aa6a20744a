//! What really happened: the accesses in the order in which they took effect, each with a vector
//! clock that says what the program's synchronisation orders it after, by definition.

use std::collections::HashMap;
use std::vec::Vec;

/// For each thread, how many of its steps come before.
#[derive(Clone, Default)]
pub(super) struct Clock(Vec<usize>);

impl Clock {
    fn of(&self, thread: usize) -> usize {
        self.0.get(thread).copied().unwrap_or(0)
    }

    pub(super) fn join(&mut self, other: &Clock) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    fn tick(&mut self, thread: usize) {
        self.0.resize(self.0.len().max(thread + 1), 0);
        self.0[thread] += 1;
    }
}

/// An access that was made.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) thread: usize,
    pub(super) address: usize,
    pub(super) size: usize,
    pub(super) write: bool,
    pub(super) atomic: bool,
    /// The thread's log, and the positions at which the call of the runtime started and ended.
    pub(super) log: (u32, u64, u64),
    /// The slot and the number of its transaction, when it took effect and when the runtime was done
    /// with it: it is before what comes after the first, and after what comes before the second.
    pub(super) transactions: [(u32, u64); 2],
    /// Whether it was made outside of regions.
    pub(super) outside: bool,
    clock: Clock,
}

impl Access {
    /// Whether the program orders this access before a later one.
    pub(super) fn happens_before(&self, later: &Access) -> bool {
        later.clock.of(self.thread) >= self.clock.of(self.thread)
    }

    pub(super) fn conflicts_with(&self, other: &Access) -> bool {
        (self.write || other.write) && self.bytes().any(|byte| other.bytes().any(|b| b == byte))
    }

    pub(super) fn bytes(&self) -> std::ops::Range<usize> {
        self.address..self.address + self.size
    }
}

/// Something that threads synchronise by: what comes before the next exclusive use of it, and
/// what before the next shared one.
#[derive(Default)]
struct Object {
    exclusive: Clock,
    shared: Clock,
}

/// One execution.
#[derive(Default)]
pub(super) struct Truth {
    clocks: Vec<Clock>,
    objects: HashMap<usize, Object>,
    memory: HashMap<usize, u64>,
    pub(super) accesses: Vec<Access>,
    /// Locks that were taken and given back: accesses of which there is no record like that.
    pub(super) holds: Vec<Access>,
}

impl Truth {
    /// A thread that starts after what `parent` has done; its name.
    pub(super) fn start(&mut self, parent: Option<usize>) -> usize {
        let clock = parent.map(|parent| self.clocks[parent].clone());
        self.clocks.push(clock.unwrap_or_default());
        self.clocks.len() - 1
    }

    /// What a thread does from here on is after all that another has done.
    pub(super) fn join(&mut self, thread: usize, other: usize) {
        let clock = self.clocks[other].clone();
        self.clocks[thread].join(&clock);
    }

    /// A thread synchronises by an object: exclusively, or as others may at the same time.
    pub(super) fn synchronise(&mut self, thread: usize, object: usize, exclusive: bool) {
        let object = self.objects.entry(object).or_default();
        let clock = &mut self.clocks[thread];
        clock.join(&object.exclusive);
        if exclusive {
            clock.join(&object.shared);
            object.exclusive = clock.clone();
        }
        object.shared.join(clock);
    }

    /// An access takes effect now; its number.
    pub(super) fn access(
        &mut self,
        thread: usize,
        address: usize,
        size: usize,
        write: bool,
        atomic: bool,
    ) -> usize {
        self.clocks[thread].tick(thread);
        if atomic {
            self.synchronise(thread, address, write);
        }
        let access = self.now(thread, address, size, write, atomic);
        self.accesses.push(access);
        self.accesses.len() - 1
    }

    /// A lock is taken or given back.
    pub(super) fn hold(&mut self, thread: usize, address: usize, exclusive: bool) -> &mut Access {
        self.clocks[thread].tick(thread);
        self.synchronise(thread, address, exclusive);
        let access = self.now(thread, address, 1, exclusive, false);
        self.holds.push(access);
        self.holds.last_mut().unwrap()
    }

    fn now(&self, thread: usize, address: usize, size: usize, write: bool, atomic: bool) -> Access {
        Access {
            thread,
            address,
            size,
            write,
            atomic,
            log: (0, 0, 0),
            transactions: [(0, 0); 2],
            outside: false,
            clock: self.clocks[thread].clone(),
        }
    }

    pub(super) fn value(&mut self, address: usize) -> &mut u64 {
        self.memory.entry(address).or_default()
    }
}
