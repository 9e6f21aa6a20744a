//! Moves the head by an exchange; who comes to the end of a block stores where the next one starts, and
//! nobody touches the head meanwhile.
//! finding: claimed_harmless::advance 19 22 medium
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const END: usize = 3;

static HEAD: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn advance() {
    loop {
        let head = HEAD.load(Ordering::Acquire);
        if head % 4 == END {
            thread::yield_now();
            continue;
        }
        let moved = HEAD.compare_exchange(head, head + 1, Ordering::AcqRel, Ordering::Relaxed);
        if moved.is_ok() {
            if (head + 1) % 4 == END {
                HEAD.store(head + 2, Ordering::Release);
            }
            return;
        }
    }
}

fn main() {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..150).for_each(|_| advance()));
        }
    });
    assert_eq!(HEAD.load(Ordering::Relaxed), 400);
}
