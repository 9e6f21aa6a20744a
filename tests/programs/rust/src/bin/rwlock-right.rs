//! Looks and raises under the write lock; who only looks takes the read lock.
use std::sync::RwLock;
use std::thread;

fn raise(highest: &RwLock<u32>, value: u32) {
    let mut highest = highest.write().unwrap();
    if value > *highest {
        *highest = value;
    }
}

fn is_above(highest: &RwLock<u32>, value: u32) -> bool {
    *highest.read().unwrap() > value
}

fn main() {
    let highest = RwLock::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..500).for_each(|value| raise(&highest, value)));
        }
        scope.spawn(|| (0..500).filter(|&value| is_above(&highest, value)).count());
    });
    assert_eq!(*highest.read().unwrap(), 499);
}
