//! Looks first, but the exchange says who was the first one.
//! finding: claim_harmless::claim 10 11 medium
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

static TAKEN: [AtomicBool; 100] = [const { AtomicBool::new(false) }; 100];

#[inline(never)]
fn claim(at: usize) -> bool {
    !TAKEN[at].load(Ordering::Relaxed)
        && !TAKEN[at].swap(true, Ordering::AcqRel)
}

fn main() {
    let claim_all = || (0..100).filter(|&at| claim(at)).count();
    let claimed: usize = thread::scope(|scope| {
        let threads = [scope.spawn(claim_all), scope.spawn(claim_all)];
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert_eq!(claimed, 100);
}
