//! The file that everything goes into, and the chunks that threads take from it.
//!
//! The file has the size of the budget from the start, and no room on the disk; it is mapped as a
//! whole, once, and its descriptor closed. A chunk is given room before anybody writes to it, so a
//! full disk is a message of the kernel and not a fault. What
//! other threads see of a log is its *position*, which is where the file's mapping and the
//! address of the next record say the same.

use crate::format::{self, CHUNK_HEADER_SIZE, CHUNK_UNIT, ChunkHeader, HEADER_SIZE, header};
use crate::platform;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Where the file is mapped; 0 while nothing is recorded.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// How much of it may be used: the memory budget.
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// Starts the recording of this process in a new file, of `size` bytes at most.
///
/// # Safety
/// `path` must end with a zero byte, and no other thread may be recording: this is called once at
/// the start of the process, and in a child of `fork`, which has one thread.
pub(crate) unsafe fn open(path: *const u8, size: usize) -> bool {
    // SAFETY: the caller vouches for the path.
    let fd = unsafe { platform::open(path, true) };
    if fd < 0 {
        return false;
    }
    let size = size.max(HEADER_SIZE + 4 * CHUNK_UNIT);
    let base = platform::map_file(fd, size);
    if base.is_null() || !platform::allocate_file(base as usize, 0, HEADER_SIZE) {
        platform::close(fd);
        return false;
    }
    BASE.store(base as usize, Ordering::Release);
    SIZE.store(size, Ordering::Relaxed);
    // The program's descriptors stay as they were; it may close all of them.
    platform::close(fd);
    counter(header::PID).store(platform::process_id(), Ordering::Relaxed);
    counter(header::TOP).store(HEADER_SIZE as u64, Ordering::Relaxed);
    counter(header::MAGIC).store(format::MAGIC, Ordering::Release);
    true
}

/// Stops recording for good.
pub(crate) fn close() {
    BASE.store(0, Ordering::Release);
}

/// A word of the file's header; a word that nobody reads while nothing is recorded.
pub(crate) fn counter(offset: usize) -> &'static AtomicU64 {
    static NOBODY: AtomicU64 = AtomicU64::new(0);
    let base = BASE.load(Ordering::Acquire);
    if base == 0 {
        return &NOBODY;
    }
    // SAFETY: the header page is mapped, has room in the file and is never unmapped; all of its
    // fields are aligned words that are only used as atomics.
    unsafe { &*((base + offset) as *const AtomicU64) }
}

/// The position that an address in the mapping stands for.
#[inline]
pub(crate) fn position(address: usize) -> u64 {
    address.wrapping_sub(BASE.load(Ordering::Relaxed)) as u64
}

/// A new chunk: where its content starts and ends. `None` when the budget or the disk is used up.
pub(crate) fn new_chunk(kind: u32, slot: u32, size: usize) -> Option<(usize, usize)> {
    let base = BASE.load(Ordering::Acquire);
    if base == 0 {
        return None;
    }
    let size = size.next_multiple_of(CHUNK_UNIT);
    let top = counter(header::TOP);
    let mut at = top.load(Ordering::Relaxed);
    loop {
        if at as usize + size > SIZE.load(Ordering::Relaxed) {
            return None;
        }
        match top.compare_exchange_weak(at, at + size as u64, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => break,
            Err(now) => at = now,
        }
    }
    if !platform::allocate_file(base, at as usize, size) {
        return None;
    }
    let start = base + at as usize;
    let header = ChunkHeader {
        magic: format::CHUNK_MAGIC,
        kind,
        size: size as u64,
        slot,
        reserved: [0; 3],
    };
    // SAFETY: this range of the mapping was handed out to this call alone and has room in the
    // file.
    unsafe { (start as *mut ChunkHeader).write(header) };
    Some((start + CHUNK_HEADER_SIZE, start + size))
}

/// Writes down what is mapped where, so that addresses can be named later.
pub(crate) fn write_maps() {
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { platform::open(c"/proc/self/maps".as_ptr().cast(), false) };
    if fd < 0 {
        return;
    }
    if let Some((start, end)) = new_chunk(format::CHUNK_MAPS, 0, 4 * CHUNK_UNIT) {
        let mut at = start;
        while at < end {
            // SAFETY: the chunk is ours and not yet used.
            let count = unsafe { platform::read(fd, at as *mut u8, end - at) };
            if count <= 0 {
                break;
            }
            at += count as usize;
        }
    }
    platform::close(fd);
}
