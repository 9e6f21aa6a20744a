//! Asks how long the other string is and copies it while nobody can change it.
use std::sync::Mutex;
use std::thread;

#[derive(Default)]
struct StringBuffer {
    text: Mutex<String>,
}

impl StringBuffer {
    fn set_length(&self, length: usize) {
        let mut text = self.text.lock().unwrap();
        text.truncate(length);
        while text.len() < length {
            text.push('x');
        }
    }

    fn append(&self, other: &StringBuffer) {
        let mut text = self.text.lock().unwrap();
        let other = other.text.lock().unwrap();
        let length = other.len();
        text.clear();
        text.push_str(&other[..length]);
    }
}

fn main() {
    let (from, to) = (StringBuffer::default(), StringBuffer::default());
    thread::scope(|scope| {
        scope.spawn(|| (0..300).for_each(|turn| from.set_length(turn % 64)));
        scope.spawn(|| (0..300).for_each(|_| to.append(&from)));
    });
}
