//! Copies what is there, changes the copy and publishes it, without the lock in between: what
//! another has published meanwhile is lost.
//! finding: rcu_wrong::add 8 11
use std::sync::{Arc, Mutex};
use std::thread;

fn add(published: &Mutex<Arc<Vec<u32>>>, item: u32) {
    let old = Arc::clone(&published.lock().unwrap());
    let mut new = old.to_vec();
    new[item as usize % 8] += item;
    *published.lock().unwrap() = Arc::new(new);
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
}
