//! Looks first, and then says that it was the first one.
//! finding: claim_wrong::claim 10 14 high
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

static TAKEN: [AtomicBool; 100] = [const { AtomicBool::new(false) }; 100];

#[inline(never)]
fn claim(at: usize) -> bool {
    if TAKEN[at].load(Ordering::Acquire) {
        return false;
    }
    // Somebody else may have come as far as this.
    TAKEN[at].store(true, Ordering::Release);
    true
}

fn main() {
    let claim_all = || (0..100).filter(|&at| claim(at)).count();
    let claimed: usize = thread::scope(|scope| {
        let threads = [scope.spawn(claim_all), scope.spawn(claim_all)];
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert!(claimed >= 100);
}
