//! Looks at a slot and takes it, and moves the tail by an exchange when it is too late.
//! finding: decide_wrong::take 12 17 high
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static TAIL: AtomicUsize = AtomicUsize::new(0);
static SLOTS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

#[inline(never)]
fn take(tail: usize) -> bool {
    let slot = &SLOTS[tail % 4];
    let free = slot.load(Ordering::Acquire) <= tail;
    if !free {
        return false;
    }
    // Somebody else may have come as far as this.
    slot.store(tail + 1, Ordering::Release);
    true
}

fn main() {
    let push = || {
        let tail = TAIL.load(Ordering::Acquire);
        if take(tail) {
            let next = tail + 1;
            let _ = TAIL.compare_exchange(tail, next, Ordering::AcqRel, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || (0..100).for_each(|_| push()));
        }
    });
    assert!(TAIL.load(Ordering::Relaxed) <= 200);
}
