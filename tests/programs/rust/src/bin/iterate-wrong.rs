//! Counts the elements first and visits them one by one, each under the lock: the list may have
//! changed in between.
//! finding: iterate_wrong::sum 8 11
use std::sync::Mutex;
use std::thread;

fn sum(list: &Mutex<Vec<u32>>) -> u32 {
    let count = list.lock().unwrap().len();
    let mut sum = 0;
    for index in 0..count {
        sum += list.lock().unwrap().get(index).copied().unwrap_or(0);
    }
    sum
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
