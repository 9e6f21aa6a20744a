//! Looks in a function that parking_lot_core calls back, and stores when that is over.
//! finding: callback_wrong::count 23 24 high
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static PARKED: AtomicUsize = AtomicUsize::new(0);

fn key() -> usize {
    &raw const PARKED as usize
}

#[inline(never)]
fn count() {
    let parked = Cell::new(0);
    let validate = || {
        parked.set(PARKED.load(Ordering::Relaxed));
        false
    };
    let token = parking_lot_core::DEFAULT_PARK_TOKEN;
    let before_sleep = || {};
    // SAFETY: the key is an address of ours, and the closures do not panic.
    unsafe { parking_lot_core::park(key(), validate, before_sleep, |_, _| {}, token, None) };
    PARKED.store(parked.get() + 1, Ordering::Relaxed);
}

fn main() {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..60).for_each(|_| count()));
        }
    });
    assert!(PARKED.load(Ordering::Relaxed) <= 120);
}
