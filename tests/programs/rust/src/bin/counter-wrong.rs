//! Loads an atomic and stores it back: two atomic steps are not one.
//! finding: counter_wrong::count 7 8
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

fn count(hits: &AtomicU32) {
    let seen = hits.load(Ordering::SeqCst);
    hits.store(seen + 1, Ordering::SeqCst);
}

fn main() {
    let hits = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    count(&hits);
                }
            });
        }
    });
}
