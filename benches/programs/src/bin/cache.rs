//! A cache behind a reader-writer lock of parking_lot: looked at by all, now and then written.

use bench_programs::{Random, THREADS, work};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;

fn main() {
    let cache: RwLock<BTreeMap<u64, String>> = RwLock::new(BTreeMap::new());
    let misses = Mutex::new(0u64);
    let rounds = 20_000 * work();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, misses) = (&cache, &misses);
            scope.spawn(move || {
                let mut random = Random::new(thread as u64 + 11);
                for _ in 0..rounds {
                    let key = random.below(1000) as u64;
                    let found = cache.read().get(&key).map(String::len);
                    if found.is_none() {
                        *misses.lock() += 1;
                        cache.write().entry(key).or_insert_with(|| key.to_string());
                    } else if random.below(200) == 0 {
                        cache.write().remove(&key);
                    }
                }
            });
        }
    });
    println!("{}", cache.read().len());
}
