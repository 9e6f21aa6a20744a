//! Reads the balance in one critical section and writes it in another.
//! finding: withdraw_wrong::withdraw 11 12
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

struct Account {
    balance: Mutex<i64>,
}

fn withdraw(account: &Account, amount: i64) {
    let seen = *account.balance.lock().unwrap();
    *account.balance.lock().unwrap() = seen - amount;
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
