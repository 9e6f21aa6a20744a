//! Each thread moves an end of its own by an exchange, and then adds to a sum: the exchange has decided nothing about it.
//! finding: ends_wrong::pass 13 15 high
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static ENDS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static SUM: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn pass(end: &AtomicUsize) {
    let at = end.load(Ordering::Acquire);
    let next = end.compare_exchange(at, at + 1, Ordering::AcqRel, Ordering::Relaxed);
    let sum = SUM.load(Ordering::Acquire);
    if next.is_ok() {
        SUM.store(sum + 1, Ordering::Release);
    }
}

fn main() {
    thread::scope(|scope| {
        for end in &ENDS {
            scope.spawn(move || (0..100).for_each(|_| pass(end)));
        }
    });
    assert!(SUM.load(Ordering::Relaxed) <= 200);
}
