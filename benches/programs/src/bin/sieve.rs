//! Compute-bound, bytes: each thread sieves for primes in an array of its own, over and over.

use bench_programs::{THREADS, work};

fn primes(limit: usize) -> usize {
    let mut composite = vec![false; limit];
    let mut count = 0;
    for number in 2..limit {
        if !composite[number] {
            count += 1;
            let mut multiple = number * number;
            while multiple < limit {
                composite[multiple] = true;
                multiple += number;
            }
        }
    }
    count
}

fn main() {
    let rounds = 12 * work();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            std::thread::spawn(move || {
                (0..rounds).map(|round| primes(100_000 + 100 * thread + round)).sum::<usize>()
            })
        })
        .collect();
    println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>());
}
