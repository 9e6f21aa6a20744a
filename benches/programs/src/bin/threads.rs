//! Many threads: short ones, 32 at a time, that add to one vector under a lock.

use bench_programs::{Random, work};
use std::sync::Mutex;

fn main() {
    let sums = Mutex::new(Vec::new());
    for turn in 0..8 * work() {
        std::thread::scope(|scope| {
            for thread in 0..32 {
                let sums = &sums;
                scope.spawn(move || {
                    let mut random = Random::new((turn * 32 + thread) as u64);
                    let mut items: Vec<u64> = (0..500).map(|_| random.next()).collect();
                    items.sort_unstable();
                    sums.lock().unwrap().push(items[250]);
                });
            }
        });
    }
    let sums = sums.into_inner().unwrap();
    println!("{}", sums.iter().fold(0, |sum: u64, item| sum.wrapping_add(*item)));
}
