//! Once, lazy values, barriers, channels, condition variables, scoped threads, reference counts:
//! each used as it should be.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, OnceLock};
use std::thread;

static TABLE: LazyLock<Vec<u64>> = LazyLock::new(|| (0..16).collect());
static FIRST: OnceLock<u64> = OnceLock::new();

struct Queue {
    items: Mutex<VecDeque<u64>>,
    not_empty: Condvar,
}

fn put(queue: &Queue, item: u64) {
    queue.items.lock().unwrap().push_back(item);
    queue.not_empty.notify_one();
}

fn take(queue: &Queue) -> u64 {
    let mut items = queue.items.lock().unwrap();
    loop {
        match items.pop_front() {
            Some(item) => return item,
            None => items = queue.not_empty.wait(items).unwrap(),
        }
    }
}

fn look_up(index: u64) -> u64 {
    TABLE[index as usize % 16] + FIRST.get_or_init(|| 7)
}

fn largest(seen: &AtomicU64, value: u64) {
    let mut now = seen.load(Ordering::Relaxed);
    while now < value {
        match seen.compare_exchange_weak(now, value, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => now = other,
        }
    }
}

fn main() {
    let queue = Queue {
        items: Mutex::default(),
        not_empty: Condvar::new(),
    };
    let barrier = Barrier::new(3);
    let seen = AtomicU64::new(0);
    let shared = Arc::new(vec![1u64, 2, 3]);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..2 {
            let (queue, barrier, seen) = (&queue, &barrier, &seen);
            let (sender, shared) = (sender.clone(), Arc::clone(&shared));
            scope.spawn(move || {
                barrier.wait();
                for index in 0..100 {
                    put(queue, index);
                    largest(seen, look_up(index + number));
                    sender.send(shared[index as usize % 3]).unwrap();
                }
            });
        }
        barrier.wait();
        let sum: u64 = (0..200).map(|_| take(&queue)).sum();
        assert_eq!(sum, 9900);
        drop(sender);
        assert_eq!(receiver.iter().count(), 200);
    });
}
