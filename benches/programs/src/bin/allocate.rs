//! Allocation-bound: binary trees that are built, walked and dropped, and strings that another
//! thread drops.

use bench_programs::{THREADS, work};
use std::sync::mpsc;

struct Tree(Option<Box<(Tree, Tree)>>);

fn build(depth: usize) -> Tree {
    Tree((depth > 0).then(|| Box::new((build(depth - 1), build(depth - 1)))))
}

fn count(tree: &Tree) -> usize {
    match &tree.0 {
        Some(pair) => 1 + count(&pair.0) + count(&pair.1),
        None => 1,
    }
}

fn main() {
    let rounds = 20 * work();
    let (send, receive) = mpsc::channel::<Vec<String>>();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let send = send.clone();
            std::thread::spawn(move || {
                let mut nodes = 0;
                for round in 0..rounds {
                    nodes += count(&build(10));
                    send.send((0..50).map(|word| format!("{round}-{word}")).collect()).unwrap();
                }
                nodes
            })
        })
        .collect();
    drop(send);
    let letters: usize = receive.iter().flatten().map(|word| word.len()).sum();
    let nodes: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("{nodes} {letters}");
}
