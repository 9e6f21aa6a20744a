//! Looks at a slot, and the exchange of the tail says whose it is.
//! finding: ticket_right::push 13 22 medium
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const SLOTS: usize = 4;

static TAIL: AtomicUsize = AtomicUsize::new(0);
static STAMPS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];

#[inline(never)]
fn push(tail: usize) -> bool {
    if STAMPS[tail % SLOTS].load(Ordering::Acquire) > tail {
        return false;
    }
    if TAIL
        .compare_exchange(tail, tail + 1, Ordering::AcqRel, Ordering::Relaxed)
        .is_err()
    {
        return false;
    }
    STAMPS[tail % SLOTS].store(tail + 1, Ordering::Release);
    true
}

fn main() {
    let push_all = || (0..1000).filter(|&tail| push(tail)).count();
    let pushed: usize = thread::scope(|scope| {
        let threads = [scope.spawn(push_all), scope.spawn(push_all)];
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert!(pushed <= 1000);
}
