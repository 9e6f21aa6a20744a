//! A thread's closure is an entry point and not expected to be atomic, but a region in it is.
//! finding: deposit 17 18
use atomsan::atomic_block;
use std::sync::{Barrier, Mutex};
use std::thread;

const TURNS: i32 = 2000;

fn main() {
    let (balance, start) = (Mutex::new(0), Barrier::new(2));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..TURNS {
                    atomic_block!("deposit", {
                        let seen = *balance.lock().unwrap();
                        *balance.lock().unwrap() = seen + 1;
                    });
                }
            });
        }
    });
}
