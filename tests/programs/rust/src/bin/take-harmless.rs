//! Looks whether something is in a slot, does something else, and takes what is there by then.
//! finding: take_harmless::settle 10 13 medium
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

#[inline(never)]
fn settle(slot: &Mutex<Option<u64>>) -> Option<u64> {
    // What is taken decides, whatever the look has seen; the shape is that of a lost update.
    if slot.lock().unwrap().is_none() {
        return None;
    }
    slot.lock().unwrap().take()
}

fn main() {
    let slot = &Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                let mut sum = 0;
                for _ in 0..200 {
                    sum += settle(slot).unwrap_or(0);
                    thread::sleep(Duration::from_micros(20));
                }
                assert!(sum < 200 * 200);
            });
        }
        for part in 0..200 {
            slot.lock().unwrap().get_or_insert(part);
            thread::sleep(Duration::from_micros(20));
        }
    });
}
