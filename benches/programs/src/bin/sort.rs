//! Compute-bound, calls: a merge sort, half of it in each thread.

use bench_programs::{Random, THREADS, work};

fn merge_sort(items: &mut [u64], spare: &mut [u64]) {
    if items.len() <= 16 {
        for at in 1..items.len() {
            let mut at = at;
            while at > 0 && items[at - 1] > items[at] {
                items.swap(at - 1, at);
                at -= 1;
            }
        }
        return;
    }
    let middle = items.len() / 2;
    merge_sort(&mut items[..middle], spare);
    merge_sort(&mut items[middle..], spare);
    let (mut left, mut right) = (0, middle);
    for out in &mut spare[..items.len()] {
        let from_left = right == items.len() || left < middle && items[left] <= items[right];
        let from = if from_left { &mut left } else { &mut right };
        *out = items[*from];
        *from += 1;
    }
    items.copy_from_slice(&spare[..items.len()]);
}

fn main() {
    let mut random = Random::new(2);
    let mut items: Vec<u64> = (0..60_000 * work()).map(|_| random.next()).collect();
    let mut spare = items.clone();
    let part = items.len().div_ceil(THREADS);
    std::thread::scope(|scope| {
        for (items, spare) in items.chunks_mut(part).zip(spare.chunks_mut(part)) {
            scope.spawn(move || merge_sort(items, spare));
        }
    });
    items.sort();
    println!("{}", items[items.len() / 3]);
}
