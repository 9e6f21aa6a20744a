//! Two threads take turns, parked until the other has had its turn.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, Thread};

struct Turn {
    mine: AtomicBool,
    thread: OnceLock<Thread>,
}

fn wait(turn: &Turn) {
    while !turn.mine.swap(false, Ordering::AcqRel) {
        thread::park();
    }
}

fn give(turn: &Turn) {
    turn.mine.store(true, Ordering::Release);
    if let Some(thread) = turn.thread.get() {
        thread.unpark();
    }
}

fn main() {
    let turns = [true, false].map(|first| Turn {
        mine: AtomicBool::new(first),
        thread: OnceLock::new(),
    });
    let score = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..2 {
            let (own, other, score) = (&turns[number], &turns[1 - number], &score);
            scope.spawn(move || {
                own.thread.set(thread::current()).unwrap();
                for _ in 0..50 {
                    wait(own);
                    score.lock().unwrap().push(number);
                    give(other);
                }
            });
        }
    });
    assert_eq!(*score.lock().unwrap(), [0, 1].repeat(50));
}
