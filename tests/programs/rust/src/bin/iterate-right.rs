//! Visits the elements under one lock, so that the list stays as it is.
use std::sync::Mutex;
use std::thread;

fn sum(list: &Mutex<Vec<u32>>) -> u32 {
    list.lock().unwrap().iter().sum()
}

fn change(list: &Mutex<Vec<u32>>, item: u32) {
    let mut list = list.lock().unwrap();
    if list.len() == 4 {
        list.clear();
    }
    list.push(item);
}

fn main() {
    let list = Mutex::new(vec![1]);
    thread::scope(|scope| {
        scope.spawn(|| (0..300).for_each(|item| change(&list, item)));
        scope.spawn(|| (0..300).map(|_| sum(&list)).max());
    });
}
