//! Memory that comes and goes, and libc's copies, interposed.
//!
//! Memory that is reused is new: its variables end where it is freed, and who gets it next comes
//! after who freed it.
//! Allocation itself is glibc's, under its other names, which nobody interposes. Calls from
//! inside of the runtime come here too; the thread is busy then, and nothing is recorded.

use crate::format::{Kind, first_word, second_word};
use crate::platform::{self, exported_with_caller};
use crate::thread::Thread;
use crate::{ownership, real, thread};
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

/// Does something for the calling thread, if it is recorded and this is not the runtime's own memory.
fn record(work: impl FnOnce(&Thread)) {
    if let Some(thread) = thread::current().filter(|thread| !thread.is_busy()) {
        thread.work(|| work(thread));
    }
}

fn allocated(memory: *mut c_void, size: usize, pc: u64) -> *mut c_void {
    if !memory.is_null() {
        record(|thread| {
            ownership::renew(thread, memory as usize, size);
            let first = first_word(Kind::Alloc, 0, memory as u64);
            let pc = thread.call_site().unwrap_or(pc);
            thread.append_origin([first, second_word(0, pc), size as u64]);
        });
    }
    memory
}

/// The memory dies; to be called while it is still ours.
fn freeing(memory: *mut c_void, pc: u64) {
    if memory.is_null() {
        return;
    }
    // SAFETY: the program gives back what it got from this allocator.
    dying(memory as usize, unsafe { malloc_usable_size(memory) }, pc);
}

fn dying(memory: usize, size: usize, pc: u64) {
    record(|thread| {
        ownership::give_back(thread, memory, size);
        let first = first_word(Kind::Free, 0, memory as u64);
        thread.append([first, second_word(0, pc), size as u64]);
    });
}

unsafe extern "C-unwind" fn allocate(size: usize, pc: u64) -> *mut c_void {
    // SAFETY: the program's own call.
    allocated(unsafe { __libc_malloc(size) }, size, pc)
}

unsafe extern "C-unwind" fn allocate_zeroed(count: usize, size: usize, pc: u64) -> *mut c_void {
    // SAFETY: the program's own call.
    allocated(
        unsafe { __libc_calloc(count, size) },
        count.wrapping_mul(size),
        pc,
    )
}

unsafe extern "C-unwind" fn reallocate(memory: *mut c_void, size: usize, pc: u64) -> *mut c_void {
    freeing(memory, pc);
    // SAFETY: the program's own call.
    allocated(unsafe { __libc_realloc(memory, size) }, size, pc)
}

unsafe extern "C-unwind" fn reallocate_array(
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

unsafe extern "C-unwind" fn allocate_aligned(
    alignment: usize,
    size: usize,
    pc: u64,
) -> *mut c_void {
    // SAFETY: the program's own call.
    allocated(unsafe { __libc_memalign(alignment, size) }, size, pc)
}

unsafe extern "C-unwind" fn posix_allocate_aligned(
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

unsafe extern "C-unwind" fn free_memory(memory: *mut c_void, pc: u64) {
    freeing(memory, pc);
    // SAFETY: the program's own call.
    unsafe { __libc_free(memory) };
}

const PAGE: usize = 4096;

unsafe extern "C-unwind" fn allocate_pages(size: usize, pc: u64) -> *mut c_void {
    // SAFETY: the program's own call.
    unsafe { allocate_aligned(PAGE, size, pc) }
}

/// Whole pages.
unsafe extern "C-unwind" fn allocate_whole_pages(size: usize, pc: u64) -> *mut c_void {
    match size.checked_next_multiple_of(PAGE) {
        // SAFETY: the program's own call.
        Some(size) => unsafe { allocate_pages(size, pc) },
        None => core::ptr::null_mut(),
    }
}

/// What `mmap` and `mremap` return when they fail.
const FAILED: usize = usize::MAX;

/// Memory that comes from the kernel is new, wherever it was before. There is no register left for
/// the caller's address: if the caller is not known otherwise, it is not.
unsafe extern "C-unwind" fn map(
    address: usize,
    len: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: i64,
) -> usize {
    // SAFETY: the program's own call.
    let memory = unsafe { real::mmap(address, len, protection, flags, file, offset) };
    if memory != FAILED {
        allocated(memory as *mut c_void, len, 0);
    }
    memory
}

unsafe extern "C-unwind" fn unmap(address: usize, len: usize, pc: u64) -> i32 {
    dying(address, len, pc);
    // SAFETY: the program's own call.
    unsafe { real::munmap(address, len) }
}

unsafe extern "C-unwind" fn remap(
    address: usize,
    old: usize,
    new: usize,
    flags: i32,
    to: usize,
    pc: u64,
) -> usize {
    dying(address, old, pc);
    // SAFETY: the program's own call; the last argument is only looked at if the flags say so.
    let memory = unsafe { real::mremap(address, old, new, flags, to) };
    let (memory_now, len) = if memory == FAILED {
        (address, old)
    } else {
        (memory, new)
    };
    allocated(memory_now as *mut c_void, len, pc);
    memory
}

/// A copy or fill that the program asks libc for: gcc does not announce these.
fn accessed(address: usize, len: usize, write: bool, pc: u64) {
    if let Some(thread) = thread::current() {
        ownership::access_range(thread, address, len, write, pc);
    }
}

unsafe extern "C-unwind" fn copy(to: *mut u8, from: *const u8, len: usize, pc: u64) -> *mut u8 {
    accessed(from as usize, len, false, pc);
    accessed(to as usize, len, true, pc);
    // SAFETY: the program's own call.
    unsafe { platform::copy(to, from, len) };
    to
}

unsafe extern "C-unwind" fn fill(to: *mut u8, byte: i32, len: usize, pc: u64) -> *mut u8 {
    accessed(to as usize, len, true, pc);
    // SAFETY: the program's own call.
    unsafe { platform::fill(to, byte as u8, len) };
    to
}

/// The copy ends where the next one starts.
unsafe extern "C-unwind" fn copy_on(to: *mut u8, from: *const u8, len: usize, pc: u64) -> *mut u8 {
    // SAFETY: the program's own call.
    unsafe { copy(to, from, len, pc).add(len) }
}

/// With the size of the destination, which the program is ended for if it is too small.
unsafe extern "C-unwind" fn copy_checked(
    to: *mut u8,
    from: *const u8,
    len: usize,
    room: usize,
    pc: u64,
) -> *mut u8 {
    if len > room {
        overflowed();
    }
    // SAFETY: the program's own call.
    unsafe { copy(to, from, len, pc) }
}

unsafe extern "C-unwind" fn fill_checked(
    to: *mut u8,
    byte: i32,
    len: usize,
    room: usize,
    pc: u64,
) -> *mut u8 {
    if len > room {
        overflowed();
    }
    // SAFETY: the program's own call.
    unsafe { fill(to, byte, len, pc) }
}

fn overflowed() -> ! {
    unsafe extern "C" {
        fn __chk_fail() -> !;
    }
    // SAFETY: libc's own way out.
    unsafe { __chk_fail() }
}

unsafe extern "C-unwind" fn compare(left: usize, right: usize, len: usize, pc: u64) -> i32 {
    accessed(left, len, false, pc);
    accessed(right, len, false, pc);
    // SAFETY: the program's own call.
    unsafe { real::memcmp(left, right, len) }
}

// SAFETY: libc's function, interposed.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mmap(
    address: usize,
    len: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: i64,
) -> usize {
    // SAFETY: the program's own call.
    unsafe { map(address, len, protection, flags, file, offset) }
}

// SAFETY: libc's function, interposed.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mmap64(
    address: usize,
    len: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: i64,
) -> usize {
    // SAFETY: the program's own call.
    unsafe { map(address, len, protection, flags, file, offset) }
}

exported_with_caller! {
    "rdx" munmap => unmap;
    "r9" mremap => remap;
    "rsi" valloc => allocate_pages;
    "rsi" pvalloc => allocate_whole_pages;
    "rcx" mempcpy => copy_on;
    "r8" __memcpy_chk => copy_checked;
    "r8" __memmove_chk => copy_checked;
    "r8" __memset_chk => fill_checked;
    "rcx" memcmp => compare;
    "rcx" bcmp => compare;
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
