//! A queue for any number of threads, with one at each end: who has moved an end by an exchange has the slot there,
//! though nobody else moves that end in this program.
//! nothing high
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static TAIL: AtomicUsize = AtomicUsize::new(0);
static HEAD: AtomicUsize = AtomicUsize::new(0);
/// Each has the number of the next thing to be done with it: even numbers are pushes.
static STAMPS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

#[inline(never)]
fn pass(end: &AtomicUsize, first: usize) -> bool {
    let at = end.load(Ordering::Acquire);
    let stamp = &STAMPS[at % 4];
    let turn = 2 * (at / 4) + first;
    if stamp.load(Ordering::Acquire) != turn {
        return false;
    }
    let next = end.compare_exchange(at, at + 1, Ordering::AcqRel, Ordering::Relaxed);
    if next.is_ok() {
        stamp.store(turn + 1, Ordering::Release);
    }
    next.is_ok()
}

fn main() {
    let all = |end: &AtomicUsize, first: usize| {
        while end.load(Ordering::Acquire) < 100 {
            if !pass(end, first) {
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(move || all(&TAIL, 0));
        scope.spawn(move || all(&HEAD, 1));
    });
}
