//! Each thread looks and acts at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static LEADER: AtomicUsize = AtomicUsize::new(0);

fn elect(candidate: usize) -> bool {
    LEADER
        .compare_exchange(0, candidate, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok()
}

fn main() {
    let threads: Vec<_> = (1..=3)
        .map(|number| thread::spawn(move || elect(number)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
