//! Looks under the read lock, and inserts under the write lock without looking again.
//! finding: again_wrong::intern 9 12 high
use std::collections::HashMap;
use std::sync::RwLock;
use std::thread;

fn intern(names: &RwLock<HashMap<u32, u32>>, name: u32, number: u32) -> u32 {
    // What another thread has inserted meanwhile is overwritten.
    if let Some(&number) = names.read().unwrap().get(&name) {
        return number;
    }
    names.write().unwrap().insert(name, number);
    number
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
