//! Asks how long the other string is, and then copies it: it may have become shorter in between.
//! finding: append_wrong::StringBuffer::append 30 31
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

    fn len(&self) -> usize {
        self.text.lock().unwrap().len()
    }

    fn get(&self, length: usize) -> Option<String> {
        Some(self.text.lock().unwrap().get(..length)?.to_owned())
    }

    #[inline(never)]
    fn append(&self, other: &StringBuffer) {
        let length = other.len();
        let copied = other.get(length).unwrap_or_default();
        *self.text.lock().unwrap() = copied;
    }
}

fn main() {
    let (from, to) = (StringBuffer::default(), StringBuffer::default());
    thread::scope(|scope| {
        scope.spawn(|| (0..300).for_each(|turn| from.set_length(turn % 64)));
        scope.spawn(|| (0..300).for_each(|_| to.append(&from)));
    });
}
