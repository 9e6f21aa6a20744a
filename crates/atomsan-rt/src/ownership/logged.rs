//! Which accesses are logged at all, and how the hooks know that one is: by a mask for its kind and
//! its place in the granule ([`MASKS`]). Bits that a mask leaves out may differ.
//!
//! A first run logs none; a recording that has begun to forget logs none of what one thread has to itself.

use super::word::{ATOMIC, EPOCH, EXCLUSIVE, SHARED, SLOT, STATE, bytes};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// In which bits the word of a granule may not differ from the thread's own, for a write and for a read, if
/// nothing is to be done but to renew the epoch. Where accesses are logged, there is always more to do.
pub(crate) fn renewed() -> (u64, u64) {
    if is_order_only() {
        (STATE | SLOT | ATOMIC, EXCLUSIVE | SLOT | ATOMIC)
    } else {
        (!0, !0)
    }
}

/// For the sizes 1, 2, 4 and 8, read and write, and each place in a granule: the bits in which a
/// shadow word must be like the thread's own for the access to be logged already.
pub(crate) static MASKS: [AtomicU64; 64] = {
    let mut masks = [const { AtomicU64::new(0) }; 64];
    let mut index = 0;
    while index < 64 {
        masks[index] = AtomicU64::new(mask(index));
        index += 1;
    }
    masks
};

/// The same where no access counts: no word has to be like any other.
pub(crate) static NO_MASKS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

const fn mask(index: usize) -> u64 {
    let (size, write, from) = (1 << (index / 16), index / 8 % 2 == 1, index % 8);
    let bytes = bytes(from, size);
    if write {
        STATE | SLOT | EPOCH | bytes << 8
    } else {
        EXCLUSIVE | SLOT | EPOCH | bytes
    }
}

/// Whether accesses are left out of the logs, and only make edges: the first of two runs.
static ORDER_ONLY: AtomicBool = AtomicBool::new(false);

/// From now on, no accesses are logged, and it is enough for one that the word says that the thread
/// owns the granule and has accessed it in this epoch.
/// To be called before anything is logged.
pub(crate) fn log_no_accesses() {
    ORDER_ONLY.store(true, Ordering::Relaxed);
    for mask in &MASKS {
        mask.fetch_and(STATE | SLOT | EPOCH, Ordering::Relaxed);
    }
}

/// Whether plain accesses to memory that one thread has to itself are left out of the logs: history is
/// being forgotten anyway, and this part of it says least. Only the first access to what nobody has allocated
/// is logged nevertheless: it may be the look at a variable that somebody else changes next.
static SHARED_ONLY: AtomicBool = AtomicBool::new(false);

/// From now on, plain accesses to granules that only one thread has accessed are not logged, and cost
/// no more than a look at the word, in whatever epoch.
pub(crate) fn log_shared_accesses_only() {
    if SHARED_ONLY.swap(true, Ordering::Relaxed) || is_order_only() {
        return;
    }
    for mask in &MASKS {
        let state = mask.load(Ordering::Relaxed) & (STATE | SLOT);
        mask.store(state | SHARED | ATOMIC, Ordering::Relaxed);
    }
}

/// Whether they are.
pub(super) fn is_shared_only() -> bool {
    SHARED_ONLY.load(Ordering::Relaxed)
}

/// Whether an access to a granule with this word is left out, if the thread owns it.
#[inline(always)]
pub(super) fn is_left_out(word: u64) -> bool {
    word & (SHARED | ATOMIC) == 0 && SHARED_ONLY.load(Ordering::Relaxed)
}

/// Accesses are logged again.
#[cfg(test)]
pub(crate) fn log_accesses() {
    ORDER_ONLY.store(false, Ordering::Relaxed);
    log_private_accesses();
}

/// Accesses to what one thread has to itself are logged again, because it is in another log.
pub(crate) fn log_private_accesses() {
    SHARED_ONLY.store(false, Ordering::Relaxed);
    if !is_order_only() {
        for (index, shared) in MASKS.iter().enumerate() {
            shared.store(mask(index), Ordering::Relaxed);
        }
    }
}

/// Whether no accesses are logged.
#[inline(always)]
pub(crate) fn is_order_only() -> bool {
    ORDER_ONLY.load(Ordering::Relaxed)
}

/// Where the masks for a size and a kind of access start, in bytes.
pub(crate) const fn masks_offset(size: usize, write: bool) -> usize {
    8 * (16 * size.trailing_zeros() as usize + 8 * write as usize)
}
