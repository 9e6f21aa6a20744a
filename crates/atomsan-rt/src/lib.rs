//! The runtime of atomsan: a shared library that is loaded into the checked program, takes the
//! place of ThreadSanitizer's, and records what the program's threads do.
//!
//! It records and does nothing else; the recording is made into events and checked by another
//! process. What runs on the program's paths takes no lock that another thread can hold for long,
//! allocates nothing and makes no system call, except when a thread starts or has filled a chunk
//! of its log.
//!
//! | module | what it is |
//! |---|---|
//! | [`format`] | the recording, shared with its reader |
//! | [`recording`] | the file |
//! | [`regions`] | where transactions begin and end, in a first run |
//! | [`calls`] | what the program has asked of its calls, and was told |
//! | [`log`] | records, in chunks
//! | [`thread`] | a thread's log, call stack and epochs |
//! | [`shadow`] | a word for each 8 bytes of memory |
//! | [`ownership`] | the order of accesses |
//! | [`history`] | the transaction of an owner's last access |
//! | [`sync`], `kernel` | the atomic words of all these, and the test under every kind of schedule |
//! | [`hooks`], [`atomics`] | what the compilers call |
//! | [`threads`], [`locks`], [`memory`] | what the program calls: libc's functions, interposed |
//! | [`wraps`] | what Rust's standard library hides |
//! | [`annotations`], [`fibers`] | what a program may tell us |
//! | [`signals`] | jumps out of signal handlers |
//! | [`start`], [`alone`] | start, fork, exit |
//! | [`platform`] | all that depends on x86-64 Linux |
#![no_std]
#![cfg_attr(test, allow(dead_code, unused_imports, unused_macros))]

#[cfg(test)]
#[macro_use]
extern crate std;
#[cfg(not(test))]
extern crate std;

mod alone;
#[cfg(not(test))]
mod annotations;
mod atomics;
mod calls;
#[cfg(not(test))]
mod fibers;
mod format;
mod history;
mod hooks;
#[cfg(test)]
mod kernel;
#[cfg(not(test))]
mod locks;
mod log;
#[cfg(not(test))]
mod memory;
mod ownership;
mod platform;
mod real;
mod recording;
mod regions;
mod shadow;
#[cfg(not(test))]
mod signals;
mod start;
mod sync;
mod thread;
#[cfg(not(test))]
mod threads;
#[cfg(not(test))]
mod wraps;
