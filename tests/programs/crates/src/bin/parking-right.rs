//! parking_lot's locks and conditions, once_cell, and spin's locks.
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::{Condvar, Mutex, Once, ReentrantMutex, RwLock, RwLockUpgradableReadGuard};
use std::cell::Cell;
use std::thread;

static TABLE: Lazy<Vec<u64>> = Lazy::new(|| (0..16).collect());
static FIRST: OnceCell<u64> = OnceCell::new();
static STARTED: Once = Once::new();

#[derive(Default)]
struct Shared {
    queue: Mutex<Vec<u64>>,
    filled: Condvar,
    table: RwLock<Vec<u64>>,
    depth: ReentrantMutex<Cell<u64>>,
    spun: spin::Mutex<(u64, u64)>,
    read: spin::RwLock<Vec<u64>>,
}

fn put(shared: &Shared, value: u64) {
    shared.queue.lock().push(value);
    shared.filled.notify_one();
}

fn take(shared: &Shared) -> u64 {
    let mut queue = shared.queue.lock();
    while queue.is_empty() {
        shared.filled.wait(&mut queue);
    }
    queue.pop().unwrap()
}

fn known(shared: &Shared, value: u64) -> usize {
    let table = shared.table.upgradable_read();
    if let Some(at) = table.iter().position(|&known| known == value) {
        return at;
    }
    let mut table = RwLockUpgradableReadGuard::upgrade(table);
    table.push(value);
    table.len() - 1
}

fn nested(shared: &Shared) {
    let outer = shared.depth.lock();
    outer.set(outer.get() + 1);
    let inner = shared.depth.lock();
    inner.set(inner.get() + 1);
}

fn spun(shared: &Shared, value: u64) -> u64 {
    let mut both = shared.spun.lock();
    both.0 += value;
    both.1 = both.0 * 2;
    drop(both);
    shared.read.write().push(value);
    shared.read.read().iter().sum()
}

fn lazily(value: u64) -> u64 {
    STARTED.call_once(|| FIRST.set(7).unwrap());
    TABLE[value as usize % 16] + FIRST.get_or_init(|| 8)
}

fn main() {
    let shared = Shared::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for value in 0..40 {
                    put(&shared, value);
                    known(&shared, value % 8);
                    nested(&shared);
                    spun(&shared, value);
                    assert_eq!(lazily(value), value % 16 + 7);
                }
            });
        }
        let sum: u64 = (0..80).map(|_| take(&shared)).sum();
        assert_eq!(sum, 1560);
    });
    assert_eq!(shared.depth.lock().get(), 160);
}
