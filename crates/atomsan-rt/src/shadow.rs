//! One shadow word for each 8 bytes of the program's memory.
//!
//! A page table of two levels, 16 bits of the address each, whose leaves hold the words of
//! 64 KiB. Nothing is assumed about where the program's memory lies, so there is no fixed layout
//! to collide with address randomisation, a container or a debugger. Tables come into being when
//! an address is first seen and stay; they are the runtime's own anonymous memory.

use crate::platform;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const LEVEL: usize = 1 << 16;
const LEAF_BYTES: usize = 1 << 16;
const LEAF_WORDS: usize = LEAF_BYTES / 8;

type Leaf = [AtomicU64; LEAF_WORDS];
type Middle = [AtomicPtr<Leaf>; LEVEL];

static ROOT: [AtomicPtr<Middle>; LEVEL] = [const { AtomicPtr::new(null_mut()) }; LEVEL];

/// Memory for leaves is taken from the kernel in pieces of this size.
const ARENA: usize = 64 << 20;
static ARENA_NEXT: AtomicUsize = AtomicUsize::new(0);

/// A word for addresses that no program has, and for when memory is out.
static NOWHERE: AtomicU64 = AtomicU64::new(0);

/// The shadow word of the granule that contains `address`.
#[inline(always)]
pub(crate) fn word(address: usize) -> &'static AtomicU64 {
    match leaf(address) {
        Some(leaf) => &leaf[(address % LEAF_BYTES) / 8],
        None => grow(address),
    }
}

#[inline(always)]
fn leaf(address: usize) -> Option<&'static Leaf> {
    let middle = ROOT[address >> 32 & (LEVEL - 1)].load(Ordering::Acquire);
    if middle.is_null() {
        return None;
    }
    // SAFETY: a middle table is zeroed memory of its size that is never given back.
    let leaf = unsafe { &(&(*middle))[address >> 16 & (LEVEL - 1)] }.load(Ordering::Acquire);
    // SAFETY: a leaf is zeroed memory of its size that is never given back.
    unsafe { leaf.as_ref() }
}

#[cold]
fn grow(address: usize) -> &'static AtomicU64 {
    if address >> 48 != 0 {
        return &NOWHERE;
    }
    let slot = &ROOT[address >> 32];
    if slot.load(Ordering::Acquire).is_null() {
        install(slot, platform::map_memory(size_of::<Middle>()).cast());
    }
    // SAFETY: as in `leaf`.
    let Some(middle) = (unsafe { slot.load(Ordering::Acquire).as_ref() }) else {
        return &NOWHERE;
    };
    let slot = &middle[address >> 16 & (LEVEL - 1)];
    if slot.load(Ordering::Acquire).is_null() {
        install(slot, new_leaf());
    }
    match leaf(address) {
        Some(leaf) => &leaf[(address % LEAF_BYTES) / 8],
        None => &NOWHERE,
    }
}

/// Puts a table in its place, unless another thread was faster; that wastes untouched memory.
fn install<T>(slot: &AtomicPtr<T>, table: *mut T) {
    let _ = slot.compare_exchange(null_mut(), table, Ordering::AcqRel, Ordering::Acquire);
}

fn new_leaf() -> *mut Leaf {
    loop {
        let next = ARENA_NEXT.load(Ordering::Acquire);
        if !next.is_multiple_of(ARENA) {
            // Arenas are aligned to their size, so this does not run over the end.
            let after = next + LEAF_BYTES;
            if ARENA_NEXT
                .compare_exchange(next, after, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                return next as *mut Leaf;
            }
            continue;
        }
        let fresh = platform::map_memory(2 * ARENA) as usize;
        if fresh == 0 {
            return null_mut();
        }
        let aligned = fresh.next_multiple_of(ARENA);
        // The first leaf is ours; the rest of the arena is everybody's.
        if ARENA_NEXT
            .compare_exchange(
                next,
                aligned + LEAF_BYTES,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
        {
            return aligned as *mut Leaf;
        }
    }
}

/// Makes `len` bytes at `address` new: nobody owns them and nothing was seen of them.
pub(crate) fn reset(address: usize, len: usize) {
    each_known(address, len, |word| word.store(0, Ordering::Relaxed));
}

/// Visits the words of `len` bytes at `address` of which something is known.
pub(crate) fn each_known(address: usize, len: usize, mut visit: impl FnMut(&AtomicU64)) {
    let (mut at, end) = (address & !7, address.saturating_add(len));
    while at < end {
        let Some(next_leaf) = (at | (LEAF_BYTES - 1)).checked_add(1) else {
            return;
        };
        let stop = end.min(next_leaf);
        if let Some(leaf) = leaf(at) {
            for word in &leaf[(at % LEAF_BYTES) / 8..][..(stop - at).div_ceil(8)] {
                if word.load(Ordering::Relaxed) != 0 {
                    visit(word);
                }
            }
        }
        at = next_leaf;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_granule_has_its_own_word() {
        let block = vec![0u64; 40_000];
        let base = block.as_ptr() as usize;
        for index in 0..block.len() {
            word(base + 8 * index).store(index as u64 + 1, Ordering::Relaxed);
        }
        for index in 0..block.len() {
            let value = word(base + 8 * index + 7).load(Ordering::Relaxed);
            assert_eq!(value, index as u64 + 1);
        }
        reset(base + 8, 8 * 39_998);
        assert_eq!(word(base).load(Ordering::Relaxed), 1);
        assert_eq!(word(base + 8).load(Ordering::Relaxed), 0);
        assert_eq!(word(base + 8 * 39_998).load(Ordering::Relaxed), 0);
        assert_eq!(word(base + 8 * 39_999).load(Ordering::Relaxed), 40_000);
    }

    #[test]
    fn addresses_no_program_has_are_harmless() {
        word(usize::MAX).store(1, Ordering::Relaxed);
        reset(usize::MAX - 100, 1000);
    }
}
