//! A hash map in shards, a lock each: mostly reads, some writes, little contention.

use bench_programs::{Random, THREADS, work};
use std::collections::HashMap;
use std::sync::Mutex;

const SHARDS: usize = 64;

struct Sharded(Vec<Mutex<HashMap<u64, u64>>>);

impl Sharded {
    fn add(&self, key: u64, value: u64) {
        let mut shard = self.0[key as usize % SHARDS].lock().unwrap();
        *shard.entry(key).or_insert(0) += value;
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0[key as usize % SHARDS].lock().unwrap().get(&key).copied()
    }
}

fn main() {
    let map = Sharded((0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect());
    let rounds = 100_000 * work();
    let hits = std::thread::scope(|scope| {
        let map = &map;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = Random::new(thread as u64 + 1);
                    let mut hits = 0;
                    for _ in 0..rounds {
                        let key = random.below(20_000) as u64;
                        if random.below(5) == 0 {
                            map.add(key, 1);
                        } else {
                            hits += usize::from(map.get(key).is_some());
                        }
                    }
                    hits
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    println!("{hits}");
}
