//! The same steps with other expectations: not atomic by its mark, in two pieces because of a yield,
//! and regions that are.
use atomsan::{atomic, not_atomic, yield_point};
use std::sync::{Barrier, Mutex};
use std::thread;

const TURNS: i32 = 500;

#[not_atomic]
fn approximately(balance: &Mutex<i32>) {
    let seen = *balance.lock().unwrap();
    *balance.lock().unwrap() = seen + 1;
}

fn in_two_pieces(balance: &Mutex<i32>) {
    let seen = *balance.lock().unwrap();
    yield_point!();
    *balance.lock().unwrap() = seen + 1;
}

#[atomic]
fn once(balance: &Mutex<i32>) -> bool {
    let mut balance = balance.lock().unwrap();
    if *balance < 0 {
        return false;
    }
    *balance += 1;
    true
}

fn main() {
    let (balance, start) = (Mutex::new(0), Barrier::new(2));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..TURNS {
                    approximately(&balance);
                    in_two_pieces(&balance);
                    once(&balance);
                    atomic("add", || *balance.lock().unwrap() += 1);
                }
            });
        }
    });
}
