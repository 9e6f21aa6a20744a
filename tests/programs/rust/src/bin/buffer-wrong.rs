//! Asks whether there is room under the lock, and puts the item there under the lock: the room may
//! have been taken since.
//! finding: buffer_wrong::put 11 13
use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

const ROOM: usize = 4;

fn put(items: &Mutex<VecDeque<u32>>, item: u32) -> bool {
    let room = items.lock().unwrap().len() < ROOM;
    if room {
        items.lock().unwrap().push_back(item);
    }
    room
}

fn take(items: &Mutex<VecDeque<u32>>) -> Option<u32> {
    items.lock().unwrap().pop_front()
}

fn main() {
    let items = Mutex::new(VecDeque::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for item in 0..300 {
                    put(&items, item);
                    put(&items, item);
                    take(&items);
                }
            });
        }
    });
}
