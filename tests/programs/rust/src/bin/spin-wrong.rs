//! Lets go of its own spin lock between reading and writing.
//! finding: spin_wrong::add 36 40
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

struct Counter {
    taken: AtomicBool,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is accessed by who has taken the counter.
unsafe impl Sync for Counter {}

impl Counter {
    fn lock(&self) {
        while self.taken.swap(true, Ordering::Acquire) {
            thread::yield_now();
        }
    }

    fn unlock(&self) {
        self.taken.store(false, Ordering::Release);
    }

    #[allow(clippy::mut_from_ref)]
    fn value(&self) -> &mut u64 {
        // SAFETY: the caller has taken it.
        unsafe { &mut *self.value.get() }
    }
}

fn add(counter: &Counter) {
    counter.lock();
    let cell = counter.value();
    let value = *cell;
    counter.unlock();
    counter.lock();
    let cell = counter.value();
    *cell = value + 1;
    counter.unlock();
}

fn main() {
    let counter = Counter {
        taken: AtomicBool::new(false),
        value: UnsafeCell::new(0),
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..60).for_each(|_| add(&counter)));
        }
    });
}
