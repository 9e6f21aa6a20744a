//! Looks under the read lock, takes the write lock, and looks again before it inserts.
//! finding: again_harmless::intern 9 13 medium
use std::collections::HashMap;
use std::sync::RwLock;
use std::thread;

fn intern(names: &RwLock<HashMap<u32, u32>>, name: u32, number: u32) -> u32 {
    // Only the second look decides; the shape is that of a mistake.
    if let Some(&number) = names.read().unwrap().get(&name) {
        return number;
    }
    let mut names = names.write().unwrap();
    *names.entry(name).or_insert(number)
}

fn main() {
    let names = RwLock::new(HashMap::with_capacity(1000));
    let names = &names;
    thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for name in 0..300 {
                    intern(names, name, 300 * thread + name);
                    intern(names, name + 300 * (thread + 1), name);
                }
            });
        }
    });
}
