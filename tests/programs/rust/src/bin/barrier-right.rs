//! A step in two phases: what others have written before the barrier is read after it.
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: usize = 3;

fn step(barrier: &Barrier, cells: &[AtomicU64; THREADS], own: usize) -> u64 {
    cells[own].fetch_add(1, Ordering::Relaxed);
    barrier.wait();
    let sum = cells.iter().map(|cell| cell.load(Ordering::Relaxed)).sum();
    barrier.wait();
    sum
}

fn main() {
    let barrier = Barrier::new(THREADS);
    let cells = [const { AtomicU64::new(0) }; THREADS];
    thread::scope(|scope| {
        for own in 0..THREADS {
            let (barrier, cells) = (&barrier, &cells);
            scope.spawn(move || {
                for round in 1..50 {
                    assert_eq!(step(barrier, cells, own), round * THREADS as u64);
                }
            });
        }
    });
}
