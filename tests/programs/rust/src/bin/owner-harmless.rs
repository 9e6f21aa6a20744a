//! A lock that its owner may take again: "is it mine?" is asked without it, and nobody else can change the answer.
//! nothing high
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;

static LOCK: Mutex<()> = Mutex::new(());
static OWNER: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn enter(me: usize) -> Option<MutexGuard<'static, ()>> {
    if OWNER.load(Ordering::Relaxed) == me {
        return None;
    }
    let guard = LOCK.lock().unwrap();
    OWNER.store(me, Ordering::Relaxed);
    Some(guard)
}

#[inline(never)]
fn leave(guard: Option<MutexGuard<'static, ()>>) {
    if let Some(guard) = guard {
        OWNER.store(0, Ordering::Relaxed);
        drop(guard);
    }
}

fn main() {
    thread::scope(|scope| {
        for me in 1..=2 {
            scope.spawn(move || {
                for _ in 0..100 {
                    let outer = enter(me);
                    let inner = enter(me);
                    assert!(inner.is_none());
                    thread::yield_now();
                    leave(inner);
                    leave(outer);
                }
            });
        }
    });
}
