//! Producers and consumers that share nothing but channels, bounded and unbounded.
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;

fn produce(jobs: &SyncSender<Vec<u64>>, first: u64) {
    for number in first..first + 50 {
        jobs.send(vec![number; 3]).unwrap();
    }
}

fn consume(jobs: Receiver<Vec<u64>>, sums: &Sender<Box<u64>>) {
    for mut job in jobs {
        job.push(1);
        sums.send(Box::new(job.iter().sum())).unwrap();
    }
}

fn main() {
    let (sums, results) = mpsc::channel();
    for size in [0, 4] {
        let (sender, receiver) = mpsc::sync_channel(size);
        for first in [0, 50] {
            let sender = sender.clone();
            thread::spawn(move || produce(&sender, first));
        }
        let sums = sums.clone();
        thread::spawn(move || consume(receiver, &sums));
    }
    drop(sums);
    let total: u64 = results.iter().map(|sum| *sum).sum();
    assert_eq!(total, 2 * (3 * 99 * 50 + 100));
}
