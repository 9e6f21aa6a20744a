//! Two accounts, each with its lock, and a sum that never changes: whoever needs both takes both.
use std::sync::Mutex;
use std::thread;

struct Bank {
    savings: Mutex<i64>,
    current: Mutex<i64>,
}

fn transfer(bank: &Bank, amount: i64) {
    let (mut savings, mut current) = (bank.savings.lock().unwrap(), bank.current.lock().unwrap());
    *savings -= amount;
    *current += amount;
}

fn total(bank: &Bank) -> i64 {
    let (savings, current) = (bank.savings.lock().unwrap(), bank.current.lock().unwrap());
    *savings + *current
}

fn main() {
    let bank = Bank {
        savings: Mutex::new(1000),
        current: Mutex::new(1000),
    };
    thread::scope(|scope| {
        scope.spawn(|| (0..500).for_each(|amount| transfer(&bank, amount % 7)));
        scope.spawn(|| (0..500).for_each(|_| assert_eq!(total(&bank), 2000)));
    });
}
