//! Thread-local words, in the initial-exec model: their distance from the thread pointer is a constant of the process, found in
//! the GOT. `thread_local!` in a shared library would call `__tls_get_addr` on every hook, which doubles what a hook
//! costs.
//!
//! | offset | what it is | in a thread that is not recorded |
//! |---|---|---|
//! | 0 | the thread | 0, or 1 once it has ended |
//! | 8 | what shadow words of the thread look like | like none |
//! | 16 | what the thread is after ([`Settled`]) | nothing |
//! | 24, 32 | in which bits a shadow word may not differ from that if nothing is to be done for a write, or a read, but to renew it | any |
//! | 40 | what the states of the filter are mixed with (`thread::stretch`) | |
//! | 48 | the thread in whose log the hooks write by themselves | one that is always busy |
//! | 56 | the masks by which a shadow word is compared ([`MASKS`]); if no access counts, all are 0 ([`NO_MASKS`]) | the former |

use crate::ownership::{MASKS, NO_MASKS};
use crate::thread::{BUSY, Settled, Thread};
use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tdata.atomsan_thread, \"awT\", @progbits",
    ".balign 16",
    ".globl atomsan_thread",
    ".hidden atomsan_thread",
    ".type atomsan_thread, @object",
    ".size atomsan_thread, 64",
    "atomsan_thread:",
    ".quad 0",
    ".quad {unowned}",
    ".quad {nobody}",
    ".quad -1",
    ".quad -1",
    ".quad -1",
    ".quad {unready}",
    ".quad {masks}",
    ".popsection",
    unowned = const UNOWNED,
    nobody = sym NOBODY,
    unready = sym UNREADY,
    masks = sym MASKS,
);

/// What a thread that is not recorded is after: nothing.
static NOBODY: Settled = Settled::nothing();

/// What the hooks find in place of a thread for which they log nothing: it is always busy.
static UNREADY: [u8; BUSY + 1] = [1; BUSY + 1];

/// The second thread-local word of a thread that owns nothing: no shadow word is like it.
const UNOWNED: u64 = 1 << 63;

/// The thread-local word; 0 in a thread that has not set it.
#[inline(always)]
pub(crate) fn thread_word() -> usize {
    let word: usize;
    // SAFETY: reads the word that the assembly above reserves in every thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + atomsan_thread@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) word,
            options(nostack, readonly, preserves_flags),
        );
    }
    word
}

/// Sets the thread-local word, and the third one: what the thread is after, nothing if there is no
/// such thread. The hooks log nothing from here on, until they are told [for whom](set_logger_word), and all accesses count.
#[inline]
pub(crate) fn set_thread_word(word: usize, settled: Option<&Settled>) {
    let settled = core::ptr::from_ref(settled.unwrap_or(&NOBODY));
    // SAFETY: writes the words that the assembly above reserves in every thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + atomsan_thread@GOTTPOFF]",
            "mov qword ptr fs:[{0} + 48], {3}",
            "mov qword ptr fs:[{0}], {1}",
            "mov qword ptr fs:[{0} + 16], {2}",
            "mov qword ptr fs:[{0} + 56], {4}",
            out(reg) _,
            in(reg) word,
            in(reg) settled,
            in(reg) UNREADY.as_ptr(),
            in(reg) MASKS.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
}

/// Sets the second thread-local word: what shadow words of this thread look like, for
/// [`crate::hooks`].
#[inline(always)]
pub(crate) fn set_owner_word(word: u64) {
    // SAFETY: writes the word that the assembly above reserves in every thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + atomsan_thread@GOTTPOFF]",
            "mov qword ptr fs:[{0} + 8], {1}",
            out(reg) _,
            in(reg) word,
            options(nostack, preserves_flags),
        );
    }
}

/// Sets the fourth and fifth thread-local words: in which bits a shadow word may not differ from the
/// second one if nothing is to be done for a write, or a read, but to renew it.
pub(crate) fn set_renewed_words(writes: u64, reads: u64) {
    // SAFETY: writes the words that the assembly above reserves in every thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + atomsan_thread@GOTTPOFF]",
            "mov qword ptr fs:[{0} + 24], {1}",
            "mov qword ptr fs:[{0} + 32], {2}",
            out(reg) _,
            in(reg) writes,
            in(reg) reads,
            options(nostack, preserves_flags),
        );
    }
}

/// Sets the sixth thread-local word: what the states of the filter are mixed with (see
/// `thread::stretch`).
#[inline(always)]
pub(crate) fn set_stretch_word(key: u64) {
    // SAFETY: writes the word that the assembly above reserves in every thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + atomsan_thread@GOTTPOFF]",
            "mov qword ptr fs:[{0} + 40], {1}",
            out(reg) _,
            in(reg) key,
            options(nostack, preserves_flags),
        );
    }
}

/// Sets the second thread-local word and the sixth one.
#[inline(always)]
pub(crate) fn set_epoch_words(word: u64, key: u64) {
    // SAFETY: writes the words that the assembly above reserves in every thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + atomsan_thread@GOTTPOFF]",
            "mov qword ptr fs:[{0} + 8], {1}",
            "mov qword ptr fs:[{0} + 40], {2}",
            out(reg) _,
            in(reg) word,
            in(reg) key,
            options(nostack, preserves_flags),
        );
    }
}

/// Sets the seventh thread-local word: the thread in whose log the hooks write by themselves.
pub(crate) fn set_logger_word(thread: &Thread) {
    // SAFETY: writes the word that the assembly above reserves in every thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + atomsan_thread@GOTTPOFF]",
            "mov qword ptr fs:[{0} + 48], {1}",
            out(reg) _,
            in(reg) core::ptr::from_ref(thread),
            options(nostack, preserves_flags),
        );
    }
}

/// Sets the eighth thread-local word: whether accesses count.
pub(crate) fn set_masks_word(counts: bool) {
    let masks = if counts { &MASKS } else { &NO_MASKS };
    // SAFETY: writes the word that the assembly above reserves in every thread.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + atomsan_thread@GOTTPOFF]",
            "mov qword ptr fs:[{0} + 56], {1}",
            out(reg) _,
            in(reg) masks.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
}
