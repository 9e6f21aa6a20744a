//! Channels with and without a buffer, and reference counts: what is sent, or freed, belongs to one.
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

struct Job {
    input: Arc<Vec<u64>>,
    answer: SyncSender<u64>,
}

fn work(job: &Job) {
    let _ = job.answer.send(job.input.iter().sum());
}

fn ask(to: &SyncSender<Job>, input: Vec<u64>) -> u64 {
    let (answer, wanted) = mpsc::sync_channel(0);
    let input = Arc::new(input);
    let job = Job {
        input: Arc::clone(&input),
        answer,
    };
    to.send(job).unwrap();
    let sum = wanted.recv().unwrap();
    // The worker may not have dropped its share yet.
    drop(Arc::try_unwrap(input));
    sum
}

fn remember(cache: &Mutex<Weak<Vec<u64>>>, value: u64) -> Arc<Vec<u64>> {
    let mut cache = cache.lock().unwrap();
    cache.upgrade().unwrap_or_else(|| {
        let made = Arc::new(vec![value]);
        *cache = Arc::downgrade(&made);
        made
    })
}

fn main() {
    let (to, jobs) = mpsc::sync_channel::<Job>(2);
    let (done, finished) = mpsc::channel();
    let worker = thread::spawn(move || {
        loop {
            match jobs.recv_timeout(Duration::from_millis(1)) {
                Ok(job) => work(&job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    let cache = Arc::new(Mutex::new(Weak::new()));
    for number in 0..2 {
        let (to, done, cache) = (to.clone(), done.clone(), Arc::clone(&cache));
        thread::spawn(move || {
            for value in 0..100 {
                assert_eq!(ask(&to, vec![value; 3]), 3 * value);
                assert_eq!(remember(&cache, value).len(), 1);
            }
            done.send(number).unwrap();
        });
    }
    drop((to, done));
    let mut ended = 0;
    loop {
        match finished.try_recv() {
            Ok(_) => ended += 1,
            Err(TryRecvError::Empty) => thread::sleep(Duration::from_micros(100)),
            Err(TryRecvError::Disconnected) => break,
        }
    }
    worker.join().unwrap();
    assert_eq!(ended, 2);
}
