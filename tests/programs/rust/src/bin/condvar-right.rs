//! Conditions that are waited for in each way, and locks that are only tried.
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, RwLock, TryLockError};
use std::thread;
use std::time::Duration;

#[derive(Default)]
struct Queue {
    items: Mutex<VecDeque<u64>>,
    changed: Condvar,
}

fn put(queue: &Queue, item: u64) {
    let items = queue.items.lock().unwrap();
    let mut items = (queue.changed)
        .wait_while(items, |items| items.len() >= 4)
        .unwrap();
    items.push_back(item);
    queue.changed.notify_all();
}

fn take(queue: &Queue) -> u64 {
    let mut items = queue.items.lock().unwrap();
    loop {
        if let Some(item) = items.pop_front() {
            queue.changed.notify_all();
            return item;
        }
        let patience = Duration::from_millis(5);
        items = queue.changed.wait_timeout(items, patience).unwrap().0;
    }
}

fn add_if_free(count: &Mutex<u64>) -> bool {
    match count.try_lock() {
        Ok(mut count) => {
            *count += 1;
            true
        }
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Poisoned(_)) => unreachable!(),
    }
}

fn raise(highest: &RwLock<u64>, value: u64) {
    let mut highest = match highest.try_write() {
        Ok(highest) => highest,
        Err(_) => highest.write().unwrap(),
    };
    *highest = value.max(*highest);
}

fn look(highest: &RwLock<u64>) -> Option<u64> {
    highest.try_read().ok().map(|highest| *highest)
}

fn main() {
    let queue = Queue::default();
    let (count, highest) = (Mutex::new(0), RwLock::new(0));
    let tried = thread::scope(|scope| {
        let producers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut tried = 0;
                    for item in 0..100 {
                        put(&queue, item);
                        tried += u64::from(add_if_free(&count));
                        raise(&highest, item);
                        look(&highest);
                    }
                    tried
                })
            })
            .collect();
        let sum: u64 = (0..200).map(|_| take(&queue)).sum();
        assert_eq!(sum, 9900);
        producers.into_iter().map(|made| made.join().unwrap()).sum::<u64>()
    });
    assert_eq!((*count.lock().unwrap(), look(&highest)), (tried, Some(99)));
}
