//! Leads if nobody leads, without a second look under the lock: another one may lead by then.
//! finding: owner_wrong::lead 12 16 high
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static LOCK: Mutex<()> = Mutex::new(());
static LEADER: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn lead(me: usize) -> bool {
    if LEADER.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let _guard = LOCK.lock().unwrap();
    LEADER.store(me, Ordering::Relaxed);
    true
}

#[inline(never)]
fn step_down() {
    let _guard = LOCK.lock().unwrap();
    LEADER.store(0, Ordering::Relaxed);
}

fn main() {
    thread::scope(|scope| {
        for me in 1..=2 {
            scope.spawn(move || {
                for _ in 0..100 {
                    if lead(me) {
                        thread::yield_now();
                        step_down();
                    }
                }
            });
        }
    });
}
