//! Lock-bound: accounts with a lock each, transfers that take two of them, and contention.

use bench_programs::{Random, THREADS, work};
use std::sync::Mutex;

const ACCOUNTS: usize = 16;

fn transfer(accounts: &[Mutex<i64>], from: usize, to: usize, amount: i64) {
    let (low, high) = (from.min(to), from.max(to));
    let mut first = accounts[low].lock().unwrap();
    let mut second = accounts[high].lock().unwrap();
    let sign = if from == low { 1 } else { -1 };
    *first -= sign * amount;
    *second += sign * amount;
}

fn main() {
    let accounts: Vec<Mutex<i64>> = (0..ACCOUNTS).map(|_| Mutex::new(1000)).collect();
    let rounds = 50_000 * work();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let accounts = &accounts;
            scope.spawn(move || {
                let mut random = Random::new(thread as u64 + 7);
                for _ in 0..rounds {
                    let from = random.below(ACCOUNTS);
                    let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
                    transfer(accounts, from, to, random.below(10) as i64);
                }
            });
        }
    });
    println!("{}", accounts.iter().map(|account| *account.lock().unwrap()).sum::<i64>());
}
