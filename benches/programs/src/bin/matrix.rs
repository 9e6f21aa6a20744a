//! Compute-bound, read-shared: a product of two matrices, the rows of the result divided among
//! the threads.

use bench_programs::{Random, THREADS, work};

const SIZE: usize = 160;

fn main() {
    let mut random = Random::new(1);
    let mut matrix = || -> Vec<f64> { (0..SIZE * SIZE).map(|_| random.below(100) as f64).collect() };
    let (left, right) = (matrix(), matrix());
    let mut product = vec![0.0; SIZE * SIZE];
    for _ in 0..4 * work() {
        std::thread::scope(|scope| {
            for (part, rows) in product.chunks_mut(SIZE * SIZE.div_ceil(THREADS)).enumerate() {
                let (left, right) = (&left, &right);
                scope.spawn(move || {
                    let first = part * SIZE.div_ceil(THREADS);
                    for (row, out) in rows.chunks_mut(SIZE).enumerate() {
                        for (column, cell) in out.iter_mut().enumerate() {
                            *cell = (0..SIZE)
                                .map(|k| left[(first + row) * SIZE + k] * right[k * SIZE + column])
                                .sum();
                        }
                    }
                });
            }
        });
    }
    println!("{}", product.iter().sum::<f64>());
}
