//! Accesses to more than one granule.

use super::word::bytes;
use super::{
    Known, MASKS, access, is_order_only, logging, look, look_where, masks_offset, others, own,
    simply,
};
use crate::format::{Kind, TAKEN, first_word, second_word};
use crate::shadow;
use crate::thread::Thread;
use core::sync::atomic::Ordering;

/// Whether nothing is to be done for an access to more than one granule, because the thread owns all
/// of them or may read them, and has logged these bytes if anything is logged.
#[inline(always)]
pub(super) fn is_settled(thread: &Thread, address: usize, size: usize, write: bool) -> bool {
    let end = address.saturating_add(size);
    let mut at = address;
    while at < end {
        let word = shadow::word(at).load(Ordering::Relaxed);
        let known = look(thread, at, word, bytes(at, end - at), write);
        if !matches!(known, Known::Logged) {
            return false;
        }
        at = (at | 7).saturating_add(1);
    }
    true
}

#[inline(never)]
pub(super) fn access_slow(thread: &Thread, address: usize, size: usize, write: bool, pc: u64) {
    if thread.ignoring.get() > 0 {
        return;
    }
    thread.work(|| {
        look_where(thread, address, pc);
        if let Some(detail) = own_range(thread, address, size, write) {
            let kind = if write { Kind::Write } else { Kind::Read };
            let first = first_word(kind, size as u8, address as u64);
            thread.append_access([first, second_word(detail, pc)]);
        }
    });
}

/// A plain access of any size.
pub(crate) fn access_range(thread: &Thread, address: usize, len: usize, write: bool, pc: u64) {
    if len == 0 || thread.ignoring.get() > 0 {
        return;
    }
    if len <= 16 {
        return access(thread, address, len, write, pc);
    }
    thread.work(|| {
        look_where(thread, address, pc);
        if let Some(detail) = own_range(thread, address, len, write) {
            let kind = if write {
                Kind::WriteRange
            } else {
                Kind::ReadRange
            };
            let first = first_word(kind, 0, address as u64);
            thread.append_access([first, second_word(detail, pc), len as u64]);
        }
    });
}

/// Owns all granules of a range; if any of its bytes has to be logged, with which detail.
fn own_range(thread: &Thread, address: usize, len: usize, write: bool) -> Option<u16> {
    let end = address.saturating_add(len);
    let (mut at, mut fresh) = (address, None);
    let all = MASKS[masks_offset(8, write) / 8].load(Ordering::Relaxed);
    while at < end {
        if at & 7 == 0 {
            // Most of a long range is settled like this.
            let mine = thread.mine.get();
            at += 8 * shadow::count(at, (end - at) / 8, |word| (word ^ mine) & all == 0);
            if at >= end {
                break;
            }
        }
        let (shadow, bytes) = (shadow::word(at), bytes(at, end - at));
        let word = shadow.load(Ordering::Relaxed);
        let detail = match look(thread, at, word, bytes, write) {
            Known::Logged => None,
            Known::Owned(next) => {
                shadow.store(next, Ordering::Release);
                Some(0)
            }
            Known::Nothing
                if is_order_only() && simply::takes_word(thread, shadow, word, write, || true) =>
            {
                None
            }
            Known::Nothing => {
                let logged = logging(bytes, write);
                simply::takes_of_range(thread, shadow, word, write, logged)
                    .or_else(|| own(thread, at, bytes, write))
            }
            // Where nothing is logged, such a read is settled.
            Known::After => {
                others::meet(thread, at, word, write);
                thread.see(at);
                thread.note_read(at & !7, word, bytes);
                Some(TAKEN)
            }
        };
        if let Some(detail) = detail {
            fresh = Some(fresh.unwrap_or(0) | detail);
        }
        at = (at | 7).saturating_add(1);
    }
    fresh
}
