//! Panics, on purpose.
use std::cell::RefCell;
use std::sync::Mutex;
use std::thread;

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Last(&'static str);

impl Drop for Last {
    fn drop(&mut self) {
        LOG.lock().unwrap().push(format!("{} is gone", self.0));
    }
}

thread_local! {
    static LOCAL: RefCell<Option<Last>> = const { RefCell::new(None) };
}

struct Twice;

impl Drop for Twice {
    fn drop(&mut self) {
        panic!("twice, on purpose");
    }
}

fn main() {
    let joined = thread::spawn(|| {
        LOCAL.set(Some(Last("a thread")));
        let _other = Last("a local");
        panic!("in a thread, on purpose");
    })
    .join();
    println!("joined: {}", joined.is_err());
    println!("{:?}", LOG.lock().unwrap());
    match std::env::args().nth(1).as_deref() {
        Some("main") => panic!("in main, on purpose"),
        Some("twice") => {
            let _twice = Twice;
            panic!("once, on purpose");
        }
        Some("exit") => std::process::exit(9),
        _ => {}
    }
}
