//! Unlocks between a look at the list and the step that relies on it.
//! finding: relock_wrong::add 10 15
use std::sync::Mutex;
use std::thread;

const ROOM: usize = 64;

fn add(list: &Mutex<Vec<u32>>, item: u32) -> bool {
    let guard = list.lock().unwrap();
    if guard.len() >= ROOM {
        return false;
    }
    drop(guard);
    let item = item.wrapping_mul(3);
    list.lock().unwrap().push(item);
    true
}

fn main() {
    let list = Mutex::new(Vec::with_capacity(2 * ROOM));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..50).for_each(|item| assert!(add(&list, item) || item > 0)));
        }
    });
}
