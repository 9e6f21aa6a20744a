//! Each thread looks once and acts once: there is one moment at which it can go wrong.
//! finding: once_wrong::elect 10 13

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static LEADER: AtomicUsize = AtomicUsize::new(0);

fn elect(candidate: usize) -> bool {
    if LEADER.load(Ordering::SeqCst) != 0 {
        return false;
    }
    LEADER.store(candidate, Ordering::SeqCst);
    true
}

fn main() {
    let threads: Vec<_> = (1..=3)
        .map(|number| thread::spawn(move || elect(number)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
