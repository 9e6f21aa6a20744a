//! Read-shared: a graph that one thread builds and all others walk.

use bench_programs::{Random, THREADS, work};
use std::sync::Arc;

const NODES: usize = 20_000;

struct Graph {
    weight: Vec<u32>,
    neighbours: Vec<Vec<u32>>,
}

fn reached(graph: &Graph, from: usize) -> u64 {
    let mut seen = vec![false; NODES];
    let mut waiting = vec![from as u32];
    let mut sum = 0;
    while let Some(node) = waiting.pop() {
        if std::mem::replace(&mut seen[node as usize], true) {
            continue;
        }
        sum += u64::from(graph.weight[node as usize]);
        waiting.extend_from_slice(&graph.neighbours[node as usize]);
    }
    sum
}

fn main() {
    let mut random = Random::new(3);
    let graph = Arc::new(Graph {
        weight: (0..NODES).map(|_| random.below(100) as u32).collect(),
        neighbours: (0..NODES)
            .map(|_| (0..4).map(|_| random.below(NODES) as u32).collect())
            .collect(),
    });
    let rounds = 6 * work();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let graph = Arc::clone(&graph);
            std::thread::spawn(move || {
                (0..rounds).map(|round| reached(&graph, round * 37 + thread)).sum::<u64>()
            })
        })
        .collect();
    println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>());
}
