//! Looks under the read lock and raises under the write lock, without looking again.
//! finding: rwlock_wrong::raise 7 9
use std::sync::RwLock;
use std::thread;

fn raise(highest: &RwLock<u32>, value: u32) {
    let seen = *highest.read().unwrap();
    if value > seen {
        *highest.write().unwrap() = value;
    }
}

fn main() {
    let highest = RwLock::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..500).for_each(|value| raise(&highest, value)));
        }
    });
}
