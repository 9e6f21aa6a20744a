//! Exchanges the state of a task and stores it again when it is done, and what somebody else has stored
//! meanwhile is lost.
//! finding: claimed_wrong::run 17 20 high
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const READY: usize = 1;
const RUNNING: usize = 2;
const DONE: usize = 3;
const CANCELLED: usize = 4;

static TASKS: [AtomicUsize; 100] = [const { AtomicUsize::new(READY) }; 100];

#[inline(never)]
fn run(task: &AtomicUsize) {
    if task
        .compare_exchange(READY, RUNNING, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
    {
        task.store(DONE, Ordering::Release);
    }
}

#[inline(never)]
fn cancel(task: &AtomicUsize) {
    task.store(CANCELLED, Ordering::Release);
}

fn main() {
    thread::scope(|scope| {
        scope.spawn(|| TASKS.iter().for_each(run));
        scope.spawn(|| TASKS.iter().for_each(cancel));
    });
}
