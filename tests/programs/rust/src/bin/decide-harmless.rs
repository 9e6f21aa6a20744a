//! Looks at a slot, and moves the tail by an exchange: who has moved it has the slot.
//! nothing high
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static TAIL: AtomicUsize = AtomicUsize::new(0);
static SLOTS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

#[inline(never)]
fn push() {
    loop {
        let tail = TAIL.load(Ordering::Acquire);
        let slot = &SLOTS[tail % 4];
        if slot.load(Ordering::Acquire) > tail {
            continue;
        }
        let next = TAIL.compare_exchange(tail, tail + 1, Ordering::AcqRel, Ordering::Relaxed);
        if next.is_ok() {
            slot.store(tail + 1, Ordering::Release);
            return;
        }
    }
}

fn main() {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(|_| push()));
        }
    });
    assert_eq!(TAIL.load(Ordering::Relaxed), 200);
}
