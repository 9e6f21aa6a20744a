//! Takes one off and then asks whether none is left: two threads may both see zero.
//! finding: <refcount_wrong::Shared as core::ops::drop::Drop>::drop 37 38
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How often the value was given up; it should be once.
static FREED: AtomicUsize = AtomicUsize::new(0);

struct Inner {
    references: AtomicUsize,
    value: u64,
}

struct Shared(&'static Inner);

impl Shared {
    fn new(value: u64) -> Shared {
        let references = AtomicUsize::new(1);
        // What may be freed twice is never freed here.
        Shared(Box::leak(Box::new(Inner { references, value })))
    }

    fn value(&self) -> u64 {
        self.0.value
    }
}

impl Clone for Shared {
    fn clone(&self) -> Shared {
        self.0.references.fetch_add(1, Ordering::Relaxed);
        Shared(self.0)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.0.references.fetch_sub(1, Ordering::AcqRel);
        if self.0.references.load(Ordering::Acquire) == 0 {
            FREED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn main() {
    for value in 0..50 {
        let shared = Shared::new(value);
        let threads = [(); 3].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || shared.value())
        });
        drop(shared);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), value);
        }
    }
    assert!(FREED.load(Ordering::Relaxed) >= 50);
}
