//! A rayon kernel: the Mandelbrot set by rows, then a parallel sort and sum.

use bench_programs::{Random, THREADS, work};
use rayon::prelude::*;

const SIZE: usize = 128;

fn turns(x: f64, y: f64) -> u32 {
    let (mut a, mut b) = (0.0, 0.0);
    for turn in 0..100 {
        if a * a + b * b > 4.0 {
            return turn;
        }
        (a, b) = (a * a - b * b + x, 2.0 * a * b + y);
    }
    100
}

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(THREADS).build_global().unwrap();
    let mut total = 0u64;
    for round in 0..3 * work() {
        let mut picture = vec![0u32; SIZE * SIZE];
        picture.par_chunks_mut(SIZE).enumerate().for_each(|(row, pixels)| {
            for (column, pixel) in pixels.iter_mut().enumerate() {
                *pixel = turns(column as f64 / 40.0 - 2.2, row as f64 / 50.0 - 1.28);
            }
        });
        let mut random = Random::new(round as u64);
        let mut items: Vec<u64> = (0..20_000).map(|_| random.next() >> 40).collect();
        items.par_sort_unstable();
        total += picture.par_iter().map(|pixel| u64::from(*pixel)).sum::<u64>();
        total += items.par_iter().filter(|item| **item % 3 == 0).sum::<u64>();
    }
    println!("{total}");
}
