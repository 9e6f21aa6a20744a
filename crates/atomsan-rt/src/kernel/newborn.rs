//! What a transaction does in the frames of its own functions is not logged, as long as nobody else can know of it.

use super::calls::{enters_region_again, exits_region_again};
use super::{repeat_with, variable};
use crate::format::answer::{ATOMIC, FAMILY, KNOWN, REGION, USER};
use crate::start::{self, Logs};
use crate::thread::{self, Thread};
use crate::{calls, ownership};
use core::sync::atomic::{AtomicU64, Ordering};

/// The stack of a thread of the program.
static STACK: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

fn word(at: usize) -> usize {
    STACK[at].as_ptr() as usize
}

fn stack() -> (usize, usize) {
    (word(0), word(255))
}

const FUNCTION: u64 = 0x4000;
const CALL: u64 = 0x3010;
/// Where the function returns to, how large its frame is, and one of its variables.
const RETURNS: usize = 200;
const FRAME: usize = 20;
const LOCAL: usize = 190;
/// A variable of what it calls, and one of the caller's.
const BELOW: usize = 140;
const CALLERS: usize = 203;

/// Calls the function, whose frame has so many words.
fn call(thread: &Thread, words: usize) {
    STACK[RETURNS].store(CALL, Ordering::Relaxed);
    let pointer = word(RETURNS - words);
    if !enters_region_again(thread, CALL, FUNCTION, pointer)
        && !thread.enters_again(CALL, FUNCTION, pointer)
    {
        thread.enter(CALL, FUNCTION, pointer);
    }
    assert!(thread.is_inside());
}

fn returns(thread: &Thread) {
    if !exits_region_again(thread) && !thread.exits_again() {
        thread.exit();
    }
}

/// Whether an access is written down.
fn is_logged(thread: &Thread, address: usize) -> bool {
    let before = thread.position();
    if thread.gets_ready() {
        return is_logged(thread, address);
    }
    if !matches!(
        ownership::logs_quickly(thread, address, 8, true, 1),
        ownership::Quick::Done
    ) {
        ownership::access(thread, address, 8, true, 1);
    }
    thread.position() != before
}

/// Runs a program of a thread in whose entry point the function has been called so often that its frame is known.
fn repeat(program: fn(&Thread)) {
    repeat_with(Logs::Transactions, 1, move || {
        crate::shadow::reset(super::MEMORY, super::MEMORY_SIZE);
        let thread = thread::register(start::new_thread_number(), None, stack).unwrap();
        calls::start_over();
        thread.forget_calls();
        let region = KNOWN | USER | ATOMIC | 2 << FAMILY | 1 << REGION;
        calls::tell(0x1000, 0x2000, KNOWN | USER | 1 << FAMILY, 0);
        calls::tell(CALL, FUNCTION, region, 0);
        thread.enter(0x1000, 0x2000, word(240));
        for _ in 0..3 {
            call(thread, FRAME);
            // What nobody has accessed yet is logged once.
            for variable in [LOCAL, BELOW, CALLERS] {
                is_logged(thread, word(variable));
            }
            returns(thread);
        }
        program(thread);
        thread.end();
    });
}

#[test]
fn what_a_transaction_does_in_its_own_frames_is_not_logged() {
    repeat(|thread| {
        for _ in 0..2 {
            call(thread, FRAME);
            assert!(!is_logged(thread, word(LOCAL)));
            assert!(is_logged(thread, word(CALLERS)));
            assert!(!is_logged(thread, word(LOCAL)));
            assert!(!is_logged(thread, word(BELOW)), "of what it calls");
            returns(thread);
        }
        // Outside of regions it is, unless nothing is.
        assert_eq!(is_logged(thread, word(LOCAL)), !thread.is_calm());
    });
}

#[test]
fn what_is_not_where_its_caller_returns_to_is_logged() {
    repeat(|thread| {
        call(thread, FRAME + 2);
        assert!(is_logged(thread, word(LOCAL)));
        returns(thread);
    });
}

#[test]
fn behind_the_middle_of_a_region_nothing_is_newborn() {
    repeat(|thread| {
        call(thread, FRAME);
        assert!(!is_logged(thread, word(LOCAL)));
        thread.split();
        assert!(is_logged(thread, word(LOCAL)));
        returns(thread);
    });
}

#[test]
fn what_others_have_got_at_is_logged() {
    repeat(|thread| {
        let other = thread::register(start::new_thread_number(), None, super::no_stack).unwrap();
        call(thread, FRAME);
        assert!(!is_logged(thread, word(LOCAL)));
        ownership::access(other, word(LOCAL), 8, false, 1);
        assert!(is_logged(thread, word(LOCAL)), "it is taken back");
        returns(thread);
        call(thread, FRAME);
        assert!(
            is_logged(thread, word(LOCAL)),
            "it may be the same variable"
        );
        returns(thread);
        other.end();
    });
}

#[test]
fn behind_an_edge_all_is_logged() {
    repeat(|thread| {
        let other = thread::register(start::new_thread_number(), None, super::no_stack).unwrap();
        ownership::access(other, variable(1), 8, true, 1);
        call(thread, FRAME);
        assert!(!is_logged(thread, word(LOCAL)));
        ownership::access(thread, variable(1), 8, true, 1);
        assert!(is_logged(thread, word(LOCAL)));
        returns(thread);
        other.end();
    });
}
