//! Double-checked locking without the second look: two threads make a number, and one is lost.
//! finding: dcl_wrong::get 13 17
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

struct Lazy {
    value: AtomicU64,
    last: Mutex<u64>,
}

fn get(lazy: &Lazy) -> u64 {
    let value = lazy.value.load(Ordering::Acquire);
    if value == 0 {
        let mut last = lazy.last.lock().unwrap();
        *last += 1;
        lazy.value.store(*last, Ordering::Release);
        return *last;
    }
    value
}

fn main() {
    for _ in 0..50 {
        let lazy = Lazy {
            value: AtomicU64::new(0),
            last: Mutex::new(0),
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_ne!(get(&lazy), 0));
            }
        });
    }
}
