//! A thread pool: workers take boxed jobs from one channel behind a mutex.
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    jobs: Option<Sender<Job>>,
    workers: Vec<JoinHandle<()>>,
}

fn next(jobs: &Mutex<Receiver<Job>>) -> Option<Job> {
    jobs.lock().unwrap().recv().ok()
}

impl Pool {
    fn new(size: usize) -> Self {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let worker = |_| {
            let jobs = Arc::clone(&receiver);
            thread::spawn(move || {
                while let Some(job) = next(&jobs) {
                    job();
                }
            })
        };
        Self {
            jobs: Some(sender),
            workers: (0..size).map(worker).collect(),
        }
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.jobs.as_ref().unwrap().send(Box::new(job)).unwrap();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for worker in self.workers.drain(..) {
            worker.join().unwrap();
        }
    }
}

fn main() {
    let total = Arc::new(Mutex::new(0));
    let pool = Pool::new(3);
    for number in 0..200 {
        let total = Arc::clone(&total);
        pool.execute(move || *total.lock().unwrap() += number);
    }
    drop(pool);
    assert_eq!(*total.lock().unwrap(), 19900);
}
