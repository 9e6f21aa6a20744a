//! Decides whether to wait by what it saw before: another may have taken the item since.
//! finding: condvar_wrong::take 31 32
use std::sync::{Condvar, Mutex};
use std::thread;

#[derive(Default)]
struct Queue {
    items: Mutex<i64>,
    changed: Condvar,
}

fn put(queue: &Queue) {
    *queue.items.lock().unwrap() += 1;
    queue.changed.notify_all();
}

fn has_items(queue: &Queue) -> bool {
    *queue.items.lock().unwrap() > 0
}

fn remove(queue: &Queue, ready: bool) {
    let mut items = queue.items.lock().unwrap();
    while !ready && *items == 0 {
        items = queue.changed.wait(items).unwrap();
    }
    *items -= 1;
}

#[inline(never)]
fn take(queue: &Queue) {
    let ready = has_items(queue);
    remove(queue, ready);
}

fn main() {
    let queue = Queue::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..200).for_each(|_| take(&queue)));
        }
        (0..400).for_each(|_| put(&queue));
        // Whoever took what was not there leaves another one behind.
        (0..400).for_each(|_| put(&queue));
    });
}
