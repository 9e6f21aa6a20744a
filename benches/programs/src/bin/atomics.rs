//! Atomics-bound: counters of one's own, a shared counter, and a stack of indices without locks.

use bench_programs::{THREADS, work};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const NODES: usize = 64;

#[repr(align(64))]
struct Padded(AtomicU64);

struct Stack {
    /// A tag that changes with each operation, and the index of the first node.
    head: AtomicU64,
    next: Vec<AtomicUsize>,
}

impl Stack {
    fn pop(&self) -> Option<usize> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = (head & 0xffff) as usize;
            let next = self.next.get(first)?.load(Ordering::Relaxed);
            let new = ((head >> 16) + 1) << 16 | next as u64;
            match self.head.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(first),
                Err(now) => head = now,
            }
        }
    }

    fn push(&self, node: usize) {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            self.next[node].store((head & 0xffff) as usize, Ordering::Relaxed);
            let new = ((head >> 16) + 1) << 16 | node as u64;
            match self.head.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

fn main() {
    let rounds = 30_000 * work();
    let own: Vec<Padded> = (0..THREADS).map(|_| Padded(AtomicU64::new(0))).collect();
    let shared = AtomicU64::new(0);
    let stack = Stack {
        head: AtomicU64::new(0),
        next: (1..=NODES).map(AtomicUsize::new).collect(),
    };
    std::thread::scope(|scope| {
        for own in &own {
            let (shared, stack) = (&shared, &stack);
            scope.spawn(move || {
                for round in 0..rounds {
                    for _ in 0..8 {
                        own.0.fetch_add(1, Ordering::Relaxed);
                    }
                    if round % 4 == 0 {
                        shared.fetch_add(1, Ordering::Relaxed);
                        if let Some(node) = stack.pop() {
                            stack.push(node);
                        }
                    }
                }
            });
        }
    });
    let own: u64 = own.iter().map(|own| own.0.load(Ordering::Relaxed)).sum();
    println!("{own} {}", shared.load(Ordering::Relaxed));
}
