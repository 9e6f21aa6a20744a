//! Looks whether the key is there under one lock, and inserts under another.
//! finding: map_wrong::number 10 12
use std::collections::HashMap;
use std::sync::RwLock;
use std::thread;

fn number(map: &RwLock<HashMap<u32, usize>>, key: u32) -> usize {
    let found = {
        let map = map.read().unwrap();
        map.get(&key).copied()
    };
    found.unwrap_or_else(|| {
        let mut map = map.write().unwrap();
        let next = map.len();
        map.insert(key, next);
        next
    })
}

fn forget(map: &RwLock<HashMap<u32, usize>>) {
    map.write().unwrap().clear();
}

fn main() {
    let map = RwLock::new(HashMap::new());
    let map = &map;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for key in 0..300 {
                    number(map, key % 8);
                    if key % 8 == 7 {
                        forget(map);
                    }
                }
            });
        }
    });
}
