//! Scoped threads, each with a part of its own; what they return is put together after the join.
use std::thread;

fn double(part: &mut [u64]) -> u64 {
    for item in part.iter_mut() {
        *item *= 2;
    }
    part.iter().sum()
}

fn main() {
    let mut items: Vec<u64> = (0..32).collect();
    let before: u64 = items.iter().sum();
    for round in 1..6 {
        let after: u64 = thread::scope(|scope| {
            let threads: Vec<_> = items
                .chunks_mut(8)
                .map(|part| scope.spawn(|| double(part)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(after, before << round);
        assert_eq!(items.iter().sum::<u64>(), after);
    }
}
