//! A reference count: the operation that takes one off also says whether it was the last.
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::thread;

struct Inner {
    references: AtomicUsize,
    value: u64,
}

struct Shared(*mut Inner);

// SAFETY: what is shared is only read, and freed by the last one.
unsafe impl Send for Shared {}

impl Shared {
    fn new(value: u64) -> Shared {
        let references = AtomicUsize::new(1);
        Shared(Box::into_raw(Box::new(Inner { references, value })))
    }

    fn inner(&self) -> &Inner {
        // SAFETY: it is not freed before the last one is dropped.
        unsafe { &*self.0 }
    }
}

impl Clone for Shared {
    fn clone(&self) -> Shared {
        self.inner().references.fetch_add(1, Ordering::Relaxed);
        Shared(self.0)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.inner().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: it was the last one.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

fn main() {
    for value in 0..50 {
        let shared = Shared::new(value);
        let threads = [(); 3].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || shared.clone().inner().value)
        });
        drop(shared);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), value);
        }
    }
}
