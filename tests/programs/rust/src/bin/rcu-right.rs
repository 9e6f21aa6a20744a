//! Readers keep the copy they have; who changes copies, changes and publishes under one lock.
use std::sync::{Arc, Mutex};
use std::thread;

fn add(published: &Mutex<Arc<Vec<u32>>>, item: u32) {
    let mut published = published.lock().unwrap();
    let mut new = published.to_vec();
    new[item as usize % 8] += item;
    *published = Arc::new(new);
}

fn sum(published: &Mutex<Arc<Vec<u32>>>) -> u32 {
    let now = Arc::clone(&published.lock().unwrap());
    now.iter().sum()
}

fn main() {
    let published = Mutex::new(Arc::new(vec![0; 8]));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..300).for_each(|item| add(&published, item)));
        }
        scope.spawn(|| (0..300).map(|_| sum(&published)).max());
    });
    assert_eq!(sum(&published), 2 * 299 * 150);
}
