//! Says that it is gone, and then looks at what the other side may have freed by now.
//! To observe it would be to use what has been freed, so it is only predicted.
//! finding: free_wrong::leave 24 25
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

struct Channel {
    gone: AtomicU32,
    waker: u64,
}

#[derive(Clone, Copy)]
struct Side(*mut Channel);

// SAFETY: both sides are there to share the channel.
unsafe impl Send for Side {}

/// The last one frees.
#[inline(never)]
fn leave(side: Side) -> u64 {
    // SAFETY: this side is still counted.
    let gone = unsafe { &(*side.0).gone };
    let is_last = gone.fetch_add(1, Ordering::AcqRel) == 1;
    if is_last { free(side) } else { look(side) }
}

fn look(side: Side) -> u64 {
    // SAFETY: not at all, if the other side has left since this one has said that it is gone.
    unsafe { (*side.0).waker }
}

fn free(side: Side) -> u64 {
    // SAFETY: the other side has said that it is gone.
    let channel = unsafe { Box::from_raw(side.0) };
    channel.waker
}

fn main() {
    for waker in 0..100 {
        let gone = AtomicU32::new(0);
        let side = Side(Box::into_raw(Box::new(Channel { gone, waker })));
        let both = &Barrier::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    both.wait();
                    std::hint::black_box(leave(side));
                });
            }
        });
    }
}
