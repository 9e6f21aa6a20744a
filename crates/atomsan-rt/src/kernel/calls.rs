//! Calls: those that have been made before do the same as the first time, in less time; and which of them begin an epoch outside of
//! regions, so that what is in the log is looked at again.

use super::{no_stack, repeat_with, variable};
use crate::format::answer::{
    ALWAYS, ATOMIC, CLOSURE, FAMILY, FOREIGN, INLINED, INLINED_CLOSURE, KNOWN, PLAIN, REGION, USER,
};
use crate::start::{self, Logs};
use crate::thread::{self, Thread};
use crate::{calls, ownership};
use shuttle::rand::{Rng, thread_rng};
use std::vec::Vec;

/// What may be said of a call, and of what is inlined there.
fn any_answer() -> (u64, u64) {
    let mut random = thread_rng();
    let mut any = |of: u64| random.gen_range(0..of);
    let mut said = KNOWN | (any(2) * FOREIGN) | (any(2) * PLAIN);
    if any(2) == 0 {
        said |= USER | (any(2) * CLOSURE) | (1 + any(3)) << FAMILY;
        if any(2) == 0 {
            said |= ATOMIC | (any(2) * ALWAYS) | (1 + any(3)) << REGION;
        }
    }
    if any(3) > 0 {
        return (said, 0);
    }
    let inlined = (0..4).fold(0, |words, _| words << 16 | any(4));
    (said | INLINED | (any(2) * INLINED_CLOSURE), inlined)
}

/// As the hooks do, by whether anything is logged.
pub(super) fn enters_region_again(thread: &Thread, from: u64, function: u64, stack: usize) -> bool {
    fn enters<const SILENT: bool>(thread: &Thread, from: u64, function: u64, stack: usize) -> bool {
        thread.enters_same_region::<SILENT>(from, function, stack)
            || thread.enters_region_again::<SILENT>(from, function, stack)
    }
    match thread.is_silent() {
        true => enters::<true>(thread, from, function, stack),
        false => enters::<false>(thread, from, function, stack),
    }
}

pub(super) fn exits_region_again(thread: &Thread) -> bool {
    match thread.is_silent() {
        true => thread.exits_region_again::<true>(),
        false => thread.exits_region_again::<false>(),
    }
}

/// Inside of a region, they only note the frame.
fn enter_as_hooks_do(thread: &Thread, from: u64, function: u64, stack: usize) {
    let is_done = !thread.is_inside()
        && (enters_region_again(thread, from, function, stack)
            || thread.enters_outside_again(from, function, stack)
            || thread.enters_again(from, function, stack));
    if !is_done {
        thread.enter(from, function, stack);
    }
}

fn exit_as_hooks_do(thread: &Thread) {
    let stays_inside = thread.is_inside() && thread.region_floor() < thread.top.get();
    let is_done = !stays_inside
        && (exits_region_again(thread) || thread.exits_outside_again() || thread.exits_again());
    if !is_done {
        thread.exit();
    }
}

/// Two threads make the same calls at random, each in its own memory: one looks at each of them for the first time, in the way that
/// can do everything, and the other as the hooks do.
fn make_calls_again(logs: Logs) {
    repeat_with(logs, 600, || {
        crate::shadow::reset(super::MEMORY, super::MEMORY_SIZE);
        let register = || thread::register(start::new_thread_number(), None, no_stack).unwrap();
        let threads = [register(), register()];
        calls::start_over();
        for thread in threads {
            thread.forget_calls();
        }
        // Their slots may have had different threads before.
        let began = threads.map(|thread| thread.whereabouts()[0]);
        let functions = thread_rng().gen_range(2..5);
        let mut told = std::collections::HashSet::new();
        let mut stack: Vec<u64> = Vec::new();
        for step in 0..200 {
            let mut random = thread_rng();
            let caller = stack.last().copied().unwrap_or(0x1000);
            if random.gen_range(0..3) == 0 {
                let variable_of = |thread| variable(10 * thread + step % 10);
                for (number, thread) in threads.into_iter().enumerate() {
                    ownership::access(thread, variable_of(number), 8, true, 1);
                }
            } else if stack.len() < 6 && random.gen_range(0..2) == 0 {
                let function = 0x2000 + 0x100 * random.gen_range(0..functions);
                let from = caller + 0x10 * random.gen_range(1..3);
                if told.insert((from, function)) {
                    let (said, inlined) = any_answer();
                    calls::tell(from, function, said, inlined);
                }
                stack.push(function);
                let pointer = 0x9000 - 0x100 * stack.len();
                threads[0].enter(from, function, pointer);
                enter_as_hooks_do(threads[1], from, function, pointer);
            } else if stack.pop().is_some() {
                threads[0].exit();
                exit_as_hooks_do(threads[1]);
            }
            let [first, again] = [0, 1].map(|number| {
                let mut now = threads[number].whereabouts();
                now[0] -= began[number];
                now
            });
            assert_eq!(first, again, "at step {step}");
        }
        for thread in threads {
            thread.end();
        }
    });
}

#[test]
fn calls_that_are_made_again_do_the_same() {
    make_calls_again(Logs::Transactions);
}

#[test]
fn calls_that_are_made_again_do_the_same_in_first_runs() {
    make_calls_again(Logs::Edges);
}

/// Calls a function that has been called before, or returns from it; whether an epoch begins with that.
fn begins_epoch(thread: &Thread, new: usize, step: impl FnOnce(&Thread) -> bool) -> bool {
    // Something is in the log that belongs to the epoch.
    ownership::access(thread, new, 8, true, 1);
    let before = thread.mine.get();
    assert!(step(thread), "this is a usual call");
    thread.mine.get() != before
}

#[test]
fn functions_in_which_nothing_is_inlined_begin_no_epoch() {
    repeat_with(Logs::Transactions, 1, || {
        crate::shadow::reset(super::MEMORY, super::MEMORY_SIZE);
        let thread = thread::register(start::new_thread_number(), None, no_stack).unwrap();
        let functions = [(0x4000, KNOWN), (0x5000, KNOWN | PLAIN)];
        let call = |(caller, _): (u64, u64), (function, _): (u64, u64)| (caller + 1, function);
        let mut seen = Vec::new();
        for caller in functions {
            let (from, outer) = call((0x3000, 0), caller);
            calls::tell(from, outer, caller.1, 0);
            thread.enter(from, outer, 0x900);
            for callee in functions {
                let (from, function) = call(caller, callee);
                calls::tell(from, function, callee.1, 0);
                // The first time, it is looked up.
                thread.enter(from, function, 0x800);
                thread.exit();
                let new = variable(2 * seen.len());
                let enters = begins_epoch(thread, new, |thread| {
                    thread.enters_again(from, function, 0x800)
                });
                let exits = begins_epoch(thread, new + 8, Thread::exits_again);
                seen.push((caller.1 & PLAIN != 0, callee.1 & PLAIN != 0, enters, exits));
            }
            thread.exit();
        }
        thread.end();
        // It is the function that is entered that counts, or returned to.
        let expected = [
            (false, false, true, true),
            (false, true, false, true),
            (true, false, true, false),
            (true, true, false, false),
        ];
        assert_eq!(seen, expected);
    });
}

/// What the last thread of a slot had for an entry point is no other one's.
#[test]
fn a_thread_that_takes_over_a_slot_has_no_entry_point() {
    repeat_with(Logs::Transactions, 1, || {
        let register = || thread::register(start::new_thread_number(), None, no_stack).unwrap();
        let entry = |thread: &Thread| thread.whereabouts()[8];
        calls::start_over();
        let thread = register();
        thread.forget_calls();
        calls::tell(0x1010, 0x2000, KNOWN | USER | 2 << FAMILY, 0);
        thread.enter(0x1010, 0x2000, 0x9000);
        assert_ne!(entry(thread), 0);
        thread.exit();
        thread.end();
        let next = register();
        assert!(core::ptr::eq(thread, next));
        assert_eq!(entry(next), 0);
        next.end();
    });
}

/// A region that is called again on the same stack is another one if an edge has come in since, or if the follower has said something
/// else: then it is written down again, or it is none.
fn call_on_the_same_stack(logs: Logs) {
    repeat_with(logs, 1, || {
        crate::shadow::reset(super::MEMORY, super::MEMORY_SIZE);
        let register = || thread::register(start::new_thread_number(), None, no_stack).unwrap();
        let (thread, other) = (register(), register());
        calls::start_over();
        thread.forget_calls();
        let (region, atomic) = (3, KNOWN | USER | ATOMIC | 2 << FAMILY);
        calls::tell(0x1010, 0x2000, KNOWN | USER | 1 << FAMILY, 0);
        calls::tell(0x2010, 0x3000, atomic | region << REGION, 0);
        thread.enter(0x1010, 0x2000, 0x9000);
        // The region that the call begins, whether it was the same call, and how often regions have been written down.
        let call = || {
            let is_same = match thread.is_silent() {
                true => thread.enters_same_region::<true>(0x2010, 0x3000, 0x8000),
                false => thread.enters_same_region::<false>(0x2010, 0x3000, 0x8000),
            };
            if !is_same {
                enter_as_hooks_do(thread, 0x2010, 0x3000, 0x8000);
            }
            let begun = thread.region();
            exit_as_hooks_do(thread);
            let links = super::LINKS.lock().unwrap();
            let noted = links
                .noted
                .iter()
                .filter(|noted| noted.0 == thread.slot.get());
            (begun, is_same, noted.count())
        };
        let edge = |number| {
            // From a transaction that the thread is not after yet.
            other.set_region(1);
            ownership::access(other, variable(number), 8, true, 1);
            other.set_region(0);
            ownership::access(thread, variable(number), 8, true, 1);
        };
        edge(0);
        // It is looked up, then known, and then the same.
        let third = || [call(), call(), call()][2];
        let (first, noted) = (third(), call().2);
        assert_eq!(first, (region, true, noted));
        edge(2);
        assert_eq!(call(), (region, false, noted + 1));
        assert_eq!(third(), (region, true, noted + 1));
        thread
            .position
            .made(0x2010, 0x3000)
            .unwrap()
            .answer()
            .store(
                KNOWN | USER | 2 << FAMILY,
                core::sync::atomic::Ordering::Release,
            );
        assert_eq!(call(), (0, false, noted + 1));
        thread.exit();
        thread.end();
        other.end();
    });
}

#[test]
fn a_call_on_the_same_stack_may_be_another_one() {
    call_on_the_same_stack(Logs::Transactions);
    call_on_the_same_stack(Logs::Edges);
}
