//! Looks and stores in a function that parking_lot_core calls back, under the lock of its queue.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static PARKED: AtomicUsize = AtomicUsize::new(0);

fn key() -> usize {
    &raw const PARKED as usize
}

/// Parks never: it counts, and that is all.
#[inline(never)]
fn count() {
    let validate = || {
        let parked = PARKED.load(Ordering::Relaxed);
        PARKED.store(parked + 1, Ordering::Relaxed);
        false
    };
    let token = parking_lot_core::DEFAULT_PARK_TOKEN;
    // SAFETY: the key is an address of ours, and the closures do not panic.
    unsafe { parking_lot_core::park(key(), validate, || {}, |_, _| {}, token, None) };
}

fn main() {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..60).for_each(|_| count()));
        }
    });
    assert_eq!(PARKED.load(Ordering::Relaxed), 120);
}
