//! Double-checked locking: looks, takes the lock, and looks again.
use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

struct Lazy {
    ready: AtomicBool,
    lock: Mutex<()>,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is written before `ready` is set, under the lock, and read after it.
unsafe impl Sync for Lazy {}

fn get(lazy: &Lazy) -> u64 {
    if !lazy.ready.load(Ordering::Acquire) {
        let _guard = lazy.lock.lock().unwrap();
        if !lazy.ready.load(Ordering::Relaxed) {
            // SAFETY: under the lock, and nobody reads it yet.
            unsafe { *lazy.value.get() = 42 };
            lazy.ready.store(true, Ordering::Release);
        }
    }
    // SAFETY: it is ready, so nobody writes it.
    unsafe { *lazy.value.get() }
}

fn main() {
    for _ in 0..50 {
        let lazy = Lazy {
            ready: AtomicBool::new(false),
            lock: Mutex::new(()),
            value: UnsafeCell::new(0),
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(get(&lazy), 42));
            }
        });
    }
}
