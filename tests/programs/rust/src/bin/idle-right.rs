//! Waits for all jobs of a round before it looks at their sum, but they are done long before: nobody has to wait.
use std::hint::black_box;
use std::sync::{Condvar, Mutex};
use std::thread;

#[derive(Default)]
struct State {
    jobs: u64,
    busy: u64,
    sum: u64,
    over: bool,
}

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    changed: Condvar,
}

impl Pool {
    fn work(&self) {
        let mut state = self.state.lock().unwrap();
        loop {
            while state.jobs == 0 && !state.over {
                state = self.changed.wait(state).unwrap();
            }
            if state.jobs == 0 {
                return;
            }
            state.jobs -= 1;
            state.sum += 1;
            state.busy -= 1;
            self.changed.notify_all();
        }
    }

    fn start(&self, count: u64) {
        let mut state = self.state.lock().unwrap();
        (state.sum, state.jobs, state.busy) = (0, count, count);
        self.changed.notify_all();
    }

    fn join(&self) -> u64 {
        let mut state = self.state.lock().unwrap();
        while state.busy > 0 {
            state = self.changed.wait(state).unwrap();
        }
        state.sum
    }

    fn join_at_once(&self) -> u64 {
        let state = self.state.lock().unwrap();
        let is_busy = |state: &mut State| state.busy > 0;
        self.changed.wait_while(state, is_busy).unwrap().sum
    }

    #[inline(never)]
    fn add_up(&self) -> u64 {
        self.start(3);
        take_long();
        self.join()
    }

    #[inline(never)]
    fn add_up_at_once(&self) -> u64 {
        self.start(3);
        take_long();
        self.join_at_once()
    }
}

/// Long enough for the others.
fn take_long() {
    let (mut turns, mut random) = (0, 1u64);
    while turns < 10_000_000 {
        random ^= random << 13;
        random ^= random >> 7;
        turns += 1;
    }
    black_box(random);
}

fn main() {
    let pool = Pool::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| pool.work());
        }
        for _ in 0..3 {
            assert_eq!(pool.add_up(), 3);
            assert_eq!(pool.add_up_at_once(), 3);
        }
        pool.state.lock().unwrap().over = true;
        pool.changed.notify_all();
    });
}
