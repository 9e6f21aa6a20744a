//! A compare-exchange loop: the load is part of the exchange.
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

fn count(hits: &AtomicU32) {
    let mut seen = hits.load(Ordering::Relaxed);
    while let Err(now) =
        hits.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed)
    {
        seen = now;
    }
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
