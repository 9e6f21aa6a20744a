//! A bounded buffer: room is asked for and used under one lock, and who finds none waits.
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::thread;

const ROOM: usize = 4;

#[derive(Default)]
struct Buffer {
    items: Mutex<VecDeque<u32>>,
    changed: Condvar,
}

fn put(buffer: &Buffer, item: u32) {
    let mut items = buffer.items.lock().unwrap();
    while items.len() == ROOM {
        items = buffer.changed.wait(items).unwrap();
    }
    items.push_back(item);
    buffer.changed.notify_all();
}

fn take(buffer: &Buffer) -> u32 {
    let mut items = buffer.items.lock().unwrap();
    loop {
        if let Some(item) = items.pop_front() {
            buffer.changed.notify_all();
            return item;
        }
        items = buffer.changed.wait(items).unwrap();
    }
}

fn main() {
    let buffer = Buffer::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..300).for_each(|item| put(&buffer, item)));
            scope.spawn(|| (0..300).map(|_| take(&buffer)).max());
        }
    });
    assert!(buffer.items.lock().unwrap().is_empty());
}
