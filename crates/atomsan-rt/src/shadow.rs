//! One shadow word for each 8 bytes of the program's memory.
//!
//! One reservation, found by the low bits of an address: a mask and an addition. It is as large as
//! needed for no two addresses of the usual layout to meet in it (the program and its heap, the
//! libraries and stacks lie in regions that differ in these bits), it lies where the kernel has
//! room, and a page of it costs nothing until it is touched. A page table costs two loads more on
//! every access (`docs/PERFORMANCE.md`).
//!
//! A process that may not have so many addresses (`ulimit -v`, no overcommitment) gets a small
//! reservation, in which addresses meet that are a multiple of its size apart. An owner that is not
//! one makes an edge too many, which is still true; an access that is taken for another's is missing.
//! So the recording says that it is so ([`window`]).
//!
//! Until [`reserve`] was called, all addresses have the same word, of which nobody learns anything.

use crate::platform;
use crate::sync::AtomicU64;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How many bits of an address tell where its shadow is: fewer if there is no room.
const BITS: core::ops::RangeInclusive<u32> = 42..=44;

/// The same in a process with few addresses. Its own share is an eighth of them.
const FEW_BITS: core::ops::RangeInclusive<u32> = 24..=36;

/// The shadow's place is asked for at multiples of this, so that the program's own memory does not
/// move out of the way into addresses that differ only in their upper bits.
const PLACES: usize = 1 << 44;

/// A shadow word and its granule differ in the lower 12 bits of their addresses by so much. If they were the
/// same there, a processor that has just stored the word would hold the program's access to the granule
/// back, because it compares no more than these bits at first. Whole cache lines, and an odd number of them,
/// because programs go through their memory in even steps.
const ASIDE: usize = 21 * 64;

static NOWHERE: AtomicU64 = AtomicU64::new(0);
/// Where the shadow is. Set before [`MASK`] is, and loaded after it.
pub(crate) static BASE: core::sync::atomic::AtomicPtr<AtomicU64> =
    core::sync::atomic::AtomicPtr::new((&raw const NOWHERE).cast_mut());
/// The bits of an address that count.
pub(crate) static MASK: AtomicUsize = AtomicUsize::new(0);
/// The same with the place in the granule.
pub(crate) static UNALIGNED_MASK: AtomicUsize = AtomicUsize::new(0);

/// Makes room for the shadow, once; whether there is any.
pub(crate) fn reserve() -> bool {
    if MASK.load(Ordering::Acquire) != 0 {
        return true;
    }
    for bits in BITS.rev() {
        for place in 1..7 {
            let base = platform::reserve_memory(place * PLACES, (1 << bits) + PAGE);
            if !base.is_null() {
                use_memory(base, bits);
                return true;
            }
        }
    }
    for bits in FEW_BITS.rev() {
        if 1 << bits <= platform::address_limit() / 8 {
            let base = platform::map_memory((1 << bits) + PAGE);
            if !base.is_null() {
                use_memory(base, bits);
                return true;
            }
        }
    }
    false
}

fn use_memory(base: *mut u8, bits: u32) {
    BASE.store(base.wrapping_add(ASIDE).cast(), Ordering::Release);
    MASK.store((1 << bits) - 8, Ordering::Release);
    UNALIGNED_MASK.store((1 << bits) - 1, Ordering::Release);
}

/// How far apart addresses are that have the same word, if that is less than programs use.
pub(crate) fn window() -> Option<u64> {
    let size = MASK.load(Ordering::Relaxed) as u64 + 8;
    (size < 1 << BITS.start()).then_some(size)
}

/// The shadow word of the granule that contains `address`.
#[inline(always)]
pub(crate) fn word(address: usize) -> &'static AtomicU64 {
    let offset = address & MASK.load(Ordering::Acquire);
    // SAFETY: the reservation is as large as the mask, is never given back, and holds nothing but
    // zeros and atomic words; the mask is 0 as long as there is only one word.
    unsafe { &*BASE.load(Ordering::Relaxed).byte_add(offset) }
}

/// The words of `len` granules from an address on, if they lie beside each other.
#[inline(always)]
fn words(address: usize, len: usize) -> Option<&'static [AtomicU64]> {
    let mask = MASK.load(Ordering::Acquire);
    let offset = address & mask;
    if offset + 8 * len > mask {
        return None;
    }
    // SAFETY: as in `word`; all of them are inside of the reservation.
    Some(unsafe {
        let first = BASE.load(Ordering::Relaxed).byte_add(offset);
        core::slice::from_raw_parts(first, len)
    })
}

/// How many of `len` granules, from an aligned address on, have words like that.
#[inline(always)]
pub(crate) fn count(address: usize, len: usize, like: impl Fn(u64) -> bool) -> usize {
    let words = words(address, len).unwrap_or_default();
    let unlike = |word: &AtomicU64| !like(word.load(Ordering::Relaxed));
    words.iter().position(unlike).unwrap_or(words.len())
}

/// Visits the words of a few bytes at `address`.
#[inline(always)]
pub(crate) fn each(address: usize, len: usize, visit: impl FnMut(&AtomicU64)) {
    let first = address & !7;
    let granules = (address + len - first).div_ceil(8);
    words(first, granules)
        .unwrap_or_default()
        .iter()
        .for_each(visit);
}

const PAGE: usize = 4096;

/// Where the memory starts whose shadow is in the same page.
fn page_of(address: usize) -> usize {
    (address.wrapping_add(ASIDE) & !(PAGE - 1)).wrapping_sub(ASIDE)
}

/// Makes `len` bytes at `address` new: nobody owns them and nothing was seen of them.
pub(crate) fn reset(address: usize, len: usize) {
    let mask = MASK.load(Ordering::Acquire);
    let end = address.saturating_add(len);
    let (first, last) = (page_of(address.saturating_add(PAGE - 1)), page_of(end));
    if mask == 0 || first >= last || last - first > mask || first & mask > last & mask {
        return each_known(address, len, |word| word.store(0, Ordering::Relaxed));
    }
    each_known(address, first - address, |word| {
        word.store(0, Ordering::Relaxed);
    });
    forget_pages(core::ptr::from_ref(word(first)) as usize, last - first);
    each_known(last, end - last, |word| word.store(0, Ordering::Relaxed));
}

/// Makes whole pages of the shadow zero. If few of them have ever been touched, as of a stack, these are
/// filled: to give them back would make all processors forget where they were, and they are touched again
/// soon.
fn forget_pages(start: usize, len: usize) {
    const FEW: usize = 16;
    let mut room = MaybeUninit::uninit();
    let pages = (len <= AT_ONCE * PAGE).then(|| touched(&mut room, start, len / PAGE));
    let is_touched = |touched: &&u8| **touched & 1 != 0;
    let Some(pages) = pages.filter(|pages| pages.iter().filter(is_touched).count() <= FEW) else {
        // SAFETY: whole pages of the shadow, which are zero when they are touched again.
        unsafe { platform::forget_memory(start, len) };
        return;
    };
    for (page, _) in (pages.iter().enumerate()).filter(|(_, touched)| is_touched(touched)) {
        // SAFETY: a page of the shadow, in which zero is a valid word.
        unsafe { platform::fill((start + page * PAGE) as *mut u8, 0, PAGE) };
    }
}

/// Of how many pages it is asked at once whether they have ever been touched.
const AT_ONCE: usize = 4096;

/// Whether pages of the shadow have ever been touched.
fn touched(room: &mut MaybeUninit<[u8; AT_ONCE]>, start: usize, pages: usize) -> &[u8] {
    // Not by libc's `memset`, which is the program's and would seem to interrupt us.
    // SAFETY: the room is there, and all of it is filled.
    let touched = unsafe {
        platform::fill(room.as_mut_ptr().cast(), 0, AT_ONCE);
        room.assume_init_mut()
    };
    let pages = pages.min(AT_ONCE);
    platform::touched_pages(start, &mut touched[..pages]);
    &touched[..pages]
}

/// Visits the words of `len` bytes at `address` of which something is known.
#[inline]
pub(crate) fn each_known(address: usize, len: usize, mut visit: impl FnMut(&AtomicU64)) {
    if len > 16 * PAGE {
        each_known_of_many(address, len, &mut visit);
    } else {
        each_known_of_few(address, len, &mut visit);
    }
}

#[inline(always)]
fn each_known_of_few(address: usize, len: usize, visit: &mut impl FnMut(&AtomicU64)) {
    let (mut at, end) = (address & !7, address.saturating_add(len));
    if let Some(words) = words(at, (end - at).div_ceil(8)) {
        for word in words {
            if word.load(Ordering::Relaxed) != 0 {
                visit(word);
            }
        }
        return;
    }
    while at < end {
        let word = word(at);
        if word.load(Ordering::Relaxed) != 0 {
            visit(word);
        }
        let Some(next) = at.checked_add(8) else {
            return;
        };
        at = next;
    }
}

/// The same for so many that it pays to ask which pages of the shadow have ever been touched.
#[inline(never)]
fn each_known_of_many(address: usize, len: usize, visit: &mut impl FnMut(&AtomicU64)) {
    let end = address.saturating_add(len);
    let mut at = address;
    while at < end {
        let base = page_of(at);
        let stop = end.min(base.saturating_add(AT_ONCE * PAGE));
        let mut room = MaybeUninit::uninit();
        let shadow = core::ptr::from_ref(word(base)) as usize;
        for &touched in touched(&mut room, shadow, (stop - base).div_ceil(PAGE)) {
            let next = stop.min(page_of(at).saturating_add(PAGE));
            if touched != 0 && at < next {
                each_known_of_few(at, next - at, visit);
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_granule_has_its_own_word() {
        assert!(reserve());
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
        for index in 1..39_999 {
            assert_eq!(word(base + 8 * index).load(Ordering::Relaxed), 0);
        }
        assert_eq!(word(base + 8 * 39_999).load(Ordering::Relaxed), 40_000);
    }

    #[test]
    fn what_is_known_is_found_in_a_large_range() {
        assert!(reserve());
        let block = vec![0u8; 64 << 20];
        let base = block.as_ptr() as usize;
        // Another test may have had the memory before.
        reset(base, block.len());
        let known = [base + 9, base + (20 << 20), base + (64 << 20) - 8];
        for address in known {
            word(address).store(1, Ordering::Relaxed);
        }
        let mut found = 0;
        each_known(base + 3, block.len() - 3, |_| found += 1);
        assert_eq!(found, known.len());
        reset(base, block.len());
        each_known(base, block.len(), |_| found += 1);
        assert_eq!(found, known.len());
    }

    #[test]
    fn addresses_no_program_has_are_harmless() {
        assert!(reserve());
        word(usize::MAX).store(1, Ordering::Relaxed);
        reset(usize::MAX - 100, 1000);
    }
}
