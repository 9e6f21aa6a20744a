//! Reads and writes the balance in one critical section.
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

struct Account {
    balance: Mutex<i64>,
}

fn withdraw(account: &Account, amount: i64) {
    let mut balance = account.balance.lock().unwrap();
    *balance -= amount;
}

fn main() {
    let account = Arc::new(Account {
        balance: Mutex::new(1000),
    });
    let start = Arc::new(Barrier::new(2));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let account = Arc::clone(&account);
            let start = Arc::clone(&start);
            thread::spawn(move || {
                start.wait();
                for _ in 0..500 {
                    withdraw(&account, 1);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
