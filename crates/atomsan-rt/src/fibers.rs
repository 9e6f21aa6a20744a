//! Fibers that announce themselves: stacks that take turns on a thread.
//!
//! To the recording a fiber is a thread: it has a log and a call stack of its own, starts after who
//! made it, and is what the thread-local word points to while it runs. A switch puts the fiber that
//! goes on after the one that pauses, unless the program says that this is not to be relied on; it
//! is a place where others run, so it is a yield.

use crate::format::Kind;
use crate::locks::record;
use crate::platform::exported_with_caller;
use crate::start;
use crate::thread::{self, Thread};
use core::ptr::null;

/// Flag of a switch that orders nothing.
const NO_SYNC: u32 = 1;

extern "C-unwind" fn create(_flags: u32, pc: u64) -> *const Thread {
    let Some(thread) = thread::current() else {
        return null();
    };
    let number = start::new_thread_number();
    let parent = thread.work(|| thread.gives_birth(number, pc));
    // Where its stack is going to be is not known.
    let fiber = thread::register(number, parent, || (0, 0));
    thread.resume();
    fiber.map_or(null(), core::ptr::from_ref)
}

/// # Safety
/// `fiber` must be what [`create`] or [`current`] returned, and not be running anywhere else.
unsafe extern "C-unwind" fn switch_to(fiber: *const Thread, flags: u32, pc: u64) {
    // SAFETY: the caller vouches for it; records are never given back.
    let Some(next) = (unsafe { fiber.as_ref() }) else {
        return;
    };
    record(|thread| thread.append_step(Kind::Yield, 0, pc));
    if let Some(thread) = thread::current()
        && flags & NO_SYNC == 0
    {
        let position = thread.position_of_step();
        next.work(|| next.after_position(thread.slot.get(), position));
    }
    next.resume();
}

/// # Safety
/// As [`switch_to`].
unsafe extern "C-unwind" fn destroy(fiber: *const Thread, _pc: u64) {
    // SAFETY: the caller vouches for it.
    if let Some(fiber) = unsafe { fiber.as_ref() } {
        let thread = thread::current();
        fiber.end();
        if let Some(thread) = thread {
            thread.resume();
        }
    }
}

extern "C-unwind" fn current(_pc: u64) -> *const Thread {
    thread::current().map_or(null(), core::ptr::from_ref)
}

exported_with_caller! {
    "rdi" __tsan_get_current_fiber => current;
    "rsi" __tsan_create_fiber => create;
    "rsi" __tsan_destroy_fiber => destroy;
    "rdx" __tsan_switch_to_fiber => switch_to;
}
