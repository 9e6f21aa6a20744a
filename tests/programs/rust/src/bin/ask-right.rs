//! Asks another thread by a channel and waits for the answer; the other has changed something
//! meanwhile, as it should.
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

type Question = (u64, Sender<u64>);

fn ask(questions: &Sender<Question>, amount: u64) -> u64 {
    let (sender, answer) = mpsc::channel();
    questions.send((amount, sender)).unwrap();
    answer.recv().unwrap()
}

fn answer(total: &Mutex<u64>, (amount, sender): Question) {
    let mut total = total.lock().unwrap();
    *total += amount;
    sender.send(*total).unwrap();
}

fn serve(total: &Mutex<u64>, questions: Receiver<Question>) {
    for question in questions {
        answer(total, question);
    }
}

fn main() {
    let total = Mutex::new(0);
    let (sender, questions) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| serve(&total, questions));
        for _ in 0..2 {
            let sender = sender.clone();
            let total = &total;
            scope.spawn(move || {
                for amount in 0..50 {
                    assert!(ask(&sender, amount) >= amount);
                    assert!(*total.lock().unwrap() >= amount);
                }
            });
        }
        drop(sender);
    });
    assert_eq!(*total.lock().unwrap(), 2450);
}
