//! Looks under parking_lot's read lock and writes under its write lock.
//! finding: parking_wrong::next 7 8
use parking_lot::RwLock;
use std::thread;

fn next(last: &RwLock<u64>) -> u64 {
    let next = *last.read() + 1;
    *last.write() = next;
    next
}

fn main() {
    let last = RwLock::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..60).for_each(|_| assert_ne!(next(&last), 0)));
        }
    });
}
