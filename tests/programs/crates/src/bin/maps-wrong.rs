//! dashmap: looks whether the key is there, and inserts later.
//! finding: maps_wrong::count 7 8
use dashmap::DashMap;
use std::thread;

fn count(map: &DashMap<u64, u64>, key: u64) {
    let count = map.get(&key).map_or(0, |count| *count);
    map.insert(key, count + 1);
}

fn main() {
    let map = DashMap::with_shard_amount(2);
    (0..4).for_each(|key| assert!(map.insert(key, 0).is_none()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..60).for_each(|key| count(&map, key % 4)));
        }
    });
}
