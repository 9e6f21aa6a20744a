//! Keeps the lock from the look at the list to the step that relies on it.
use std::sync::Mutex;
use std::thread;

const ROOM: usize = 64;

fn add(list: &Mutex<Vec<u32>>, item: u32) -> bool {
    let item = item.wrapping_mul(3);
    let mut guard = list.lock().unwrap();
    if guard.len() >= ROOM {
        return false;
    }
    guard.push(item);
    true
}

fn main() {
    let list = Mutex::new(Vec::with_capacity(2 * ROOM));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..50).for_each(|item| assert!(add(&list, item) || item > 0)));
        }
    });
    assert_eq!(list.lock().unwrap().len(), ROOM);
}
