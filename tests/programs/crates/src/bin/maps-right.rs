//! dashmap: entries that are looked up and changed in one step.
use dashmap::DashMap;
use std::thread;

fn count(map: &DashMap<u64, u64>, key: u64) {
    *map.entry(key).or_insert(0) += 1;
}

fn first(map: &DashMap<u64, u64>, key: u64) -> u64 {
    *map.entry(key + 100).or_insert_with(|| key)
}

fn main() {
    let map = DashMap::with_shard_amount(4);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for key in 0..80 {
                    count(&map, key % 8);
                    assert_eq!(first(&map, key % 8), key % 8);
                    map.remove(&(key + 50));
                }
            });
        }
    });
    assert_eq!(
        map.iter()
            .filter(|entry| *entry.key() < 8)
            .map(|entry| *entry)
            .sum::<u64>(),
        240
    );
}
