//! Memory that comes and goes, and libc's copies, interposed.
//!
//! Memory that is reused is new: its variables end where it is freed, and who gets it next comes
//! after who freed it.
//! Allocation itself is glibc's, under its other names, which nobody interposes. Calls from
//! inside of the runtime come here too; the thread is busy then, and nothing is recorded.

use crate::format::{Kind, first_word, second_word};
use crate::locks::record;
use crate::platform::{self, exported_with_caller};
use crate::{ownership, thread};
use core::ffi::c_void;

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
    fn malloc_usable_size(memory: *mut c_void) -> usize;
}

const EINVAL: i32 = 22;
const ENOMEM: i32 = 12;

fn allocated(memory: *mut c_void, size: usize, pc: u64) -> *mut c_void {
    if !memory.is_null() {
        record(|thread| {
            ownership::renew(thread, memory as usize, size);
            let first = first_word(Kind::Alloc, 0, memory as u64);
            thread.append([first, second_word(0, pc), size as u64]);
        });
    }
    memory
}

/// The memory dies; to be called while it is still ours.
fn freeing(memory: *mut c_void, pc: u64) {
    if memory.is_null() {
        return;
    }
    record(|thread| {
        // SAFETY: the program gives back what it got from this allocator.
        let size = unsafe { malloc_usable_size(memory) };
        ownership::give_back(thread, memory as usize, size);
        let first = first_word(Kind::Free, 0, memory as u64);
        thread.append([first, second_word(0, pc), size as u64]);
    });
}

unsafe extern "C" fn allocate(size: usize, pc: u64) -> *mut c_void {
    // SAFETY: the program's own call.
    allocated(unsafe { __libc_malloc(size) }, size, pc)
}

unsafe extern "C" fn allocate_zeroed(count: usize, size: usize, pc: u64) -> *mut c_void {
    // SAFETY: the program's own call.
    allocated(
        unsafe { __libc_calloc(count, size) },
        count.wrapping_mul(size),
        pc,
    )
}

unsafe extern "C" fn reallocate(memory: *mut c_void, size: usize, pc: u64) -> *mut c_void {
    freeing(memory, pc);
    // SAFETY: the program's own call.
    allocated(unsafe { __libc_realloc(memory, size) }, size, pc)
}

unsafe extern "C" fn reallocate_array(
    memory: *mut c_void,
    count: usize,
    size: usize,
    pc: u64,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the program's own call.
        Some(size) => unsafe { reallocate(memory, size, pc) },
        None => core::ptr::null_mut(),
    }
}

unsafe extern "C" fn allocate_aligned(alignment: usize, size: usize, pc: u64) -> *mut c_void {
    // SAFETY: the program's own call.
    allocated(unsafe { __libc_memalign(alignment, size) }, size, pc)
}

unsafe extern "C" fn posix_allocate_aligned(
    memory: *mut *mut c_void,
    alignment: usize,
    size: usize,
    pc: u64,
) -> i32 {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    // SAFETY: the program's own call.
    let new = unsafe { allocate_aligned(alignment, size, pc) };
    if new.is_null() {
        return ENOMEM;
    }
    // SAFETY: the program gave this place for the result.
    unsafe { memory.write(new) };
    0
}

unsafe extern "C" fn free_memory(memory: *mut c_void, pc: u64) {
    freeing(memory, pc);
    // SAFETY: the program's own call.
    unsafe { __libc_free(memory) };
}

/// A copy or fill that the program asks libc for: gcc does not announce these.
fn accessed(address: usize, len: usize, write: bool, pc: u64) {
    if let Some(thread) = thread::current() {
        ownership::access_range(thread, address, len, write, pc);
    }
}

unsafe extern "C" fn copy(to: *mut u8, from: *const u8, len: usize, pc: u64) -> *mut u8 {
    accessed(from as usize, len, false, pc);
    accessed(to as usize, len, true, pc);
    // SAFETY: the program's own call.
    unsafe { platform::copy(to, from, len) };
    to
}

unsafe extern "C" fn fill(to: *mut u8, byte: i32, len: usize, pc: u64) -> *mut u8 {
    accessed(to as usize, len, true, pc);
    // SAFETY: the program's own call.
    unsafe { platform::fill(to, byte as u8, len) };
    to
}

exported_with_caller! {
    "rsi" malloc => allocate;
    "rdx" calloc => allocate_zeroed;
    "rdx" realloc => reallocate;
    "rcx" reallocarray => reallocate_array;
    "rdx" memalign => allocate_aligned;
    "rdx" aligned_alloc => allocate_aligned;
    "rcx" posix_memalign => posix_allocate_aligned;
    "rsi" free => free_memory;
    "rcx" memcpy => copy;
    "rcx" memmove => copy;
    "rcx" memset => fill;
}
