//! A reader that comes too late takes itself back, and a writer takes only itself out of the count.
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const WRITER: usize = 1;
const READER: usize = 2;

static STATE: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn try_read() -> bool {
    let before = STATE.fetch_add(READER, Ordering::Acquire);
    if before & WRITER == 0 {
        return true;
    }
    STATE.fetch_sub(READER, Ordering::Release);
    false
}

fn read_unlock() {
    STATE.fetch_sub(READER, Ordering::Release);
}

fn try_write() -> bool {
    let taken = STATE.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed);
    taken.is_ok()
}

fn write_unlock() {
    STATE.fetch_sub(WRITER, Ordering::Release);
}

fn main() {
    let locked = &Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..100 {
                let written = try_write();
                locked.wait();
                if written {
                    write_unlock();
                }
                locked.wait();
            }
        });
        scope.spawn(move || {
            for _ in 0..100 {
                locked.wait();
                if try_read() {
                    read_unlock();
                }
                locked.wait();
            }
        });
    });
}
