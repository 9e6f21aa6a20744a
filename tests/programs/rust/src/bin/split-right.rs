//! Functions that start threads, wait for messages, sleep, and join: none of that is atomic for anybody.
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

static SUM: AtomicU64 = AtomicU64::new(0);

fn in_parts(parts: u64) -> u64 {
    let before = SUM.load(Ordering::Acquire);
    let threads: Vec<_> = (0..parts)
        .map(|part| thread::spawn(move || SUM.fetch_add(part, Ordering::AcqRel)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    SUM.load(Ordering::Acquire) - before
}

fn scoped(total: &Mutex<u64>) -> u64 {
    *total.lock().unwrap() = 0;
    thread::scope(|scope| {
        for part in 0..3 {
            scope.spawn(move || *total.lock().unwrap() += part);
        }
    });
    *total.lock().unwrap()
}

fn ask(questions: &Sender<u64>, answers: &Receiver<u64>) -> u64 {
    SUM.store(7, Ordering::Release);
    questions.send(1).unwrap();
    answers.recv().unwrap() + SUM.load(Ordering::Acquire)
}

fn answer(questions: &Receiver<u64>, answers: &Sender<u64>) {
    while let Ok(question) = questions.recv() {
        SUM.store(question, Ordering::Release);
        answers.send(question).unwrap();
    }
}

fn nap(total: &Mutex<u64>) {
    *total.lock().unwrap() += 1;
    thread::sleep(Duration::from_micros(50));
    *total.lock().unwrap() += 1;
}

fn work(total: &Mutex<u64>) {
    for _ in 0..5 {
        assert_eq!(in_parts(4), 6);
        assert_eq!(scoped(total), 3);
    }
    let (questions, asked) = channel();
    let (given, answers) = channel();
    let other = thread::spawn(move || answer(&asked, &given));
    for _ in 0..50 {
        assert_eq!(ask(&questions, &answers), 2);
    }
    drop(questions);
    other.join().unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..20).for_each(|_| nap(total)));
        }
    });
}

fn main() {
    work(&Mutex::new(0));
}
