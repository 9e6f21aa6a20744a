//! A barrier and a lock of the program's own, both of which spin.
use std::cell::UnsafeCell;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

struct Gate(AtomicUsize);

impl Gate {
    fn wait(&self, target: usize) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < target {
            hint::spin_loop();
            thread::yield_now();
        }
    }
}

struct Counter {
    taken: AtomicBool,
    value: UnsafeCell<(u64, u64)>,
}

// SAFETY: the value is accessed by who has taken the counter.
unsafe impl Sync for Counter {}

impl Counter {
    fn lock(&self) {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        while (self
            .taken
            .compare_exchange_weak(false, true, acquire, relaxed))
        .is_err()
        {
            while self.taken.load(relaxed) {
                thread::yield_now();
            }
        }
    }

    fn add(&self) {
        self.lock();
        // SAFETY: it is taken.
        let value = unsafe { &mut *self.value.get() };
        value.0 += 1;
        value.1 = value.0 * 2;
        self.taken.store(false, Ordering::Release);
    }
}

// Two turns of a loop that inline it would be taken for one.
#[inline(never)]
fn round(gate: &Gate, counter: &Counter, turn: usize) {
    gate.wait(2 * (turn + 1));
    counter.add();
}

fn main() {
    let gate = Gate(AtomicUsize::new(0));
    let counter = Counter {
        taken: AtomicBool::new(false),
        value: UnsafeCell::new((0, 0)),
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..60).for_each(|turn| round(&gate, &counter, turn)));
        }
    });
    assert_eq!(counter.value.into_inner(), (120, 240));
}
