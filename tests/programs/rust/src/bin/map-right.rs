//! Looks and inserts under one lock; readers share it.
use std::collections::HashMap;
use std::sync::RwLock;
use std::thread;

fn number(map: &RwLock<HashMap<u32, usize>>, key: u32) -> usize {
    let mut map = map.write().unwrap();
    let next = map.len();
    *map.entry(key).or_insert(next)
}

fn look(map: &RwLock<HashMap<u32, usize>>, key: u32) -> Option<usize> {
    map.read().unwrap().get(&key).copied()
}

fn main() {
    let map = RwLock::new(HashMap::new());
    let map = &map;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for key in 0..300 {
                    number(map, key % 32);
                    look(map, key % 17);
                }
            });
        }
    });
    assert_eq!(map.read().unwrap().len(), 32);
}
