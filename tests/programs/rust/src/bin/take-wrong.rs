//! Looks whether something is in a slot, does something else, and empties it without a look at what is there by then.
//! finding: take_wrong::settle 10 13 high
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

#[inline(never)]
fn settle(slot: &Mutex<Option<u64>>) -> Option<u64> {
    // What is put into the slot after this is lost.
    let part = *slot.lock().unwrap();
    part?;
    // And that another thread has settled it already is not noticed.
    *slot.lock().unwrap() = None;
    part
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
