//! rayon: parallel iterators, join, scopes.
use rayon::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn sum(values: &[u64]) -> u64 {
    if values.len() < 50 {
        return values.iter().sum();
    }
    let (left, right) = values.split_at(values.len() / 2);
    let (left, right) = rayon::join(|| sum(left), || sum(right));
    left + right
}

fn squares(values: &mut [u64]) -> u64 {
    values.par_iter_mut().for_each(|value| *value *= *value);
    values.par_iter().sum()
}

fn collected(total: &Mutex<Vec<u64>>, count: &AtomicU64) -> usize {
    rayon::scope(|scope| {
        for part in 0..8 {
            scope.spawn(move |_| {
                let mut total = total.lock().unwrap();
                total.push(part);
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    total.lock().unwrap().len()
}

fn main() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    pool.install(|| {
        let mut values: Vec<u64> = (0..500).collect();
        assert_eq!(sum(&values), 124_750);
        assert_eq!(squares(&mut values), 41_541_750);
        values.par_sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(values[0], 499 * 499);
        assert_eq!(collected(&Mutex::default(), &AtomicU64::new(0)), 8);
    });
}
