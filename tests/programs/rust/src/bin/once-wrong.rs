//! Each thread looks once and acts once: there is one moment at which it can go wrong.
//! finding: once_wrong::elect 10 13
use std::sync::Barrier;
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

/// They start together, however long it takes to start a thread.
static START: Barrier = Barrier::new(3);

fn main() {
    let candidate = |number| {
        move || {
            START.wait();
            elect(number)
        }
    };
    let threads: Vec<_> = (1..=3)
        .map(|number| thread::spawn(candidate(number)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
