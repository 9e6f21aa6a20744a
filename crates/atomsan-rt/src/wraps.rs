//! Functions of Rust's standard library that come precompiled, so that nothing in them is
//! instrumented: the contended half of a lock, waiting, parking, once.
//!
//! The linker sends the program's calls to a stub (`--wrap`), which the command line writes for
//! the toolchain in use, and which calls [`atomsan_wrap_before`], the real function, and
//! [`atomsan_wrap_after`], with a number of [`wrap`] and the first two arguments.

use crate::format::Kind;
use crate::locks::{acquired, guarded, pass, record, step};
use crate::ownership;

/// What a wrapped function does; the numbers are those of the stubs.
mod wrap {
    pub(crate) const LOCK: u32 = 1;
    pub(crate) const READ: u32 = 2;
    pub(crate) const WRITE: u32 = 3;
    pub(crate) const WAIT: u32 = 4;
    pub(crate) const ONCE: u32 = 5;
    pub(crate) const BARRIER: u32 = 6;
    pub(crate) const PARK: u32 = 7;
    pub(crate) const SCOPED_END: u32 = 8;
    pub(crate) const YIELD: u32 = 9;
    /// The same as the other, and the first argument is a reference to the handle of the thread.
    pub(crate) const PARK_THREAD: u32 = 10;
}

/// A scope's counter of running threads is one of the words at its start.
const SCOPE_WORDS: usize = 4;

/// Called in front of the real function.
// SAFETY: the name is ours.
#[unsafe(no_mangle)]
extern "C" fn atomsan_wrap_before(what: u32, first: usize, second: usize, pc: u64) {
    match what {
        wrap::LOCK | wrap::READ | wrap::WRITE => {
            record(|thread| ownership::take_back(thread, first));
        }
        wrap::WAIT => step(Kind::Wait, second, pc),
        wrap::BARRIER => pass(Kind::Arrive, first, pc),
        wrap::PARK | wrap::PARK_THREAD => record(|thread| {
            // Who is woken before that does not wait at all.
            let is_seen = what == wrap::PARK_THREAD && thread.is_tabled();
            thread.woken.set(is_seen && take_parker(thread, first));
            thread.append_step(Kind::Wait, parking_place(thread), pc);
        }),
        wrap::YIELD => step(Kind::Yield, 0, pc),
        wrap::ONCE => guarded(&[Kind::AcquireShared], first, pc),
        // Who waits for the scope reads the counter, and is after this.
        wrap::SCOPED_END => record(|thread| {
            for word in 0..SCOPE_WORDS {
                ownership::own(thread, first + 8 * word, 0, true);
            }
        }),
        _ => {}
    }
}

/// Called when the real function has returned.
// SAFETY: the name is ours.
#[unsafe(no_mangle)]
extern "C" fn atomsan_wrap_after(what: u32, first: usize, second: usize, pc: u64) {
    match what {
        wrap::LOCK | wrap::WRITE => acquired(Kind::Acquire, first, pc),
        wrap::READ => acquired(Kind::AcquireShared, first, pc),
        wrap::WAIT => acquired(Kind::Woken, second, pc),
        wrap::BARRIER => pass(Kind::Leave, first, pc),
        // If it cannot be seen who woke this thread, it is after everybody.
        wrap::PARK | wrap::PARK_THREAD => record(|thread| {
            let is_seen = what == wrap::PARK_THREAD && thread.is_tabled();
            let is_woken = is_seen && take_parker(thread, first);
            if !is_woken && !thread.woken.get() {
                thread.after_everybody();
            }
            thread.append_step(Kind::Woken, parking_place(thread), pc);
        }),
        // Nor can be seen who ran the initialiser.
        wrap::ONCE => {
            record(|thread| thread.after_everybody());
            guarded(&[Kind::ReleaseShared], first, pc);
        }
        _ => {}
    }
}

/// Takes what a thread is woken by, which is one of the words behind the two counters that its handle points to;
/// whether somebody else had changed one of them. Who wakes a thread does so by an atomic operation, in code
/// that is the program's own, unless the standard library does it itself.
fn take_parker(thread: &crate::thread::Thread, handle: usize) -> bool {
    const WORDS: core::ops::Range<usize> = 2..8;
    // SAFETY: the argument is a reference to a handle, which is a pointer.
    let shared = unsafe { (handle as *const usize).read() };
    let words = WORDS.map(|word| shared + 8 * word);
    let was_changed = words
        .clone()
        .any(|word| ownership::is_written_by_another(thread, word));
    for word in words {
        ownership::own(thread, word, 0, true);
    }
    was_changed
}

/// A thread waits for itself to be woken.
fn parking_place(thread: &crate::thread::Thread) -> u64 {
    core::ptr::from_ref(thread) as u64
}
