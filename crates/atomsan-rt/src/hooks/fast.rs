//! Accesses of up to 8 bytes: what the hooks settle by themselves.
//!
//! Most accesses are of memory that the thread owns and whose bytes are logged since the epoch
//! began. The hooks of the usual sizes find that out in a dozen instructions of their own, without
//! a branch that is taken, and fall through to Rust only if it is not so: the shadow word, exclusive
//! or what this thread's words look like, tested with the mask for this kind of access and this
//! place in the granule. A thread that is not recorded has a word that none is like.
//!
//! In a single run the owner's first access in a transaction is written down by the hook as well, if the log is ready for it:
//! the word, the record, the position, while `busy` keeps signal handlers from doing the same. What has come to life with the
//! transaction is only marked in the word (`thread::newborn`). What is not so simple is
//! Rust's, as is each access of more than one granule.
//!
//! Thread-local words say what the hooks have to know of the thread (`platform`): one is the thread in whose log they may
//! write, or something that is always busy.

use crate::format::{Kind, first_word};
use crate::log::Log;
use crate::ownership::Quick;
use crate::regions::offset;
use crate::thread::{Settled, Thread};
use crate::{ownership, shadow, thread};
use core::mem::offset_of;

/// An access that the hook leaves to Rust. One that does not count returns before a register has to be saved.
pub(super) extern "C-unwind" fn plain<const SIZE: usize, const WRITE: bool>(
    address: usize,
    pc: u64,
) {
    match thread::recorded() {
        Some(thread) if thread.skips.get() => {}
        Some(thread) if !ownership::is_order_only() => {
            plain_logged::<SIZE, WRITE>(address, pc, thread);
        }
        _ => plain_slowly::<SIZE, WRITE>(address, pc),
    }
}

/// The same if it is to be logged.
#[inline(never)]
extern "C-unwind" fn plain_logged<const SIZE: usize, const WRITE: bool>(
    address: usize,
    pc: u64,
    thread: &Thread,
) {
    match ownership::logs_quickly(thread, address, SIZE, WRITE, pc) {
        Quick::Done => {}
        Quick::Unready => plain_unready::<SIZE, WRITE>(address, pc),
        Quick::No => plain_slowly::<SIZE, WRITE>(address, pc),
    }
}

/// The same if it is the first access in its function or transaction, which the log has to name first.
#[inline(never)]
extern "C-unwind" fn plain_unready<const SIZE: usize, const WRITE: bool>(address: usize, pc: u64) {
    let is_done = thread::recorded().is_some_and(|thread| {
        if thread.skips.get() {
            return true;
        }
        let done = || ownership::logs_quickly(thread, address, SIZE, WRITE, pc);
        thread.gets_ready() && matches!(done(), Quick::Done)
    });
    if !is_done {
        plain_slowly::<SIZE, WRITE>(address, pc);
    }
}

/// The same if there is more to do than to write it down.
#[inline(never)]
extern "C-unwind" fn plain_slowly<const SIZE: usize, const WRITE: bool>(address: usize, pc: u64) {
    if let Some(thread) = thread::current()
        && !thread.skips.get()
    {
        ownership::access(thread, address, SIZE, WRITE, pc);
    }
}

/// Lets the log say what comes before an access; whether it is ready for it then.
extern "C-unwind" fn gets_ready(thread: &Thread) -> bool {
    thread.gets_ready()
}

/// Defines hooks of aligned accesses of up to 8 bytes. Where nothing is logged, two things more are
/// settled here: the owner's first access in an epoch, which renews the word; and a read of what has
/// no owner, if the thread is after the position in the word (see `thread::settled`).
macro_rules! fast {
    ($($name:ident => $size:literal, $write:literal;)*) => {$(
        #[cfg(not(test))]
        // SAFETY: the name belongs to the instrumentation ABI that this library implements, and the
        // section is one of code.
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".text.atomsan_hooks")]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "22:",
                ".if {size} == 8",
                // If it is not aligned, this is of parts of two words, which together are like no thread's own.
                "mov r9, qword ptr [rip + {unaligned_mask}]",
                ".else",
                "mov r9, qword ptr [rip + {mask}]",
                "mov ecx, edi",
                "and ecx, 7",
                ".endif",
                "mov rax, qword ptr [rip + atomsan_thread@GOTTPOFF]",
                "and r9, rdi",
                "add r9, qword ptr [rip + {base}]",
                "mov r8, qword ptr fs:[rax + 56]",
                "mov rdx, qword ptr [r9]",
                "xor rdx, qword ptr fs:[rax + 8]",
                ".if {size} == 8",
                "test rdx, qword ptr [r8 + {offset}]",
                ".else",
                "test rdx, qword ptr [r8 + 8 * rcx + {offset}]",
                ".endif",
                "jne 2f",
                "ret",
                "2:",
                ".if {write}",
                ".else",
                // All masks have the bit that tells words of owners, as this thread's own are, from others.
                "jns 5f",
                "mov r8, qword ptr fs:[rax + 16]",
                // Where accesses are logged, it has to be in the log.
                "cmp dword ptr fs:[rax + {renewed}], -1",
                "je 4f",
                ".if {size} == 8",
                "test dil, 7",
                "jne 3f",
                ".endif",
                "mov rsi, qword ptr fs:[rax + 8]",
                "xor rdx, rsi",
                "mov rcx, rdx",
                "shr rcx, 48",
                "cmp rdx, qword ptr [r8 + 8 * rcx + {below}]",
                "jae 3f",
                "and edi, 8 * {seen_last}",
                "mov qword ptr [r8 + rdi + {seen}], rsi",
                "ret",
                "5:",
                ".endif",
                "mov rsi, qword ptr fs:[rax + 8]",
                "test rdx, qword ptr fs:[rax + {renewed}]",
                "jne 6f",
                ".if {size} == 8",
                "test dil, 7",
                "jne 3f",
                ".endif",
                "movabs rcx, {epoch}",
                "and rcx, rdx",
                "xor rdx, rsi",
                "xor rdx, rcx",
                "mov qword ptr [r9], rdx",
                "ret",
                ".if {write}",
                ".else",
                // A read of what has no owner may be in the log already (see `thread::filter`). What is not aligned is no granule that
                // an entry counts for.
                "4:",
                "mov rdx, qword ptr [r9]",
                "movabs r9, {filter_mixer}",
                ".if {size} == 8",
                "imul r9, rdi",
                ".else",
                "mov rsi, rdi",
                "and rsi, -8",
                "imul r9, rsi",
                ".endif",
                "mov esi, edi",
                "shr esi, {filter_fold}",
                "xor esi, edi",
                "and esi, 8 * {filter_last}",
                "rol rdx, {filter_rotation}",
                "xor rdx, qword ptr fs:[rax + 40]",
                "xor rdx, qword ptr [r8 + rsi + {filter}]",
                "xor rdx, r9",
                // Which bytes were not read: none, if they are all that is read at once.
                ".if {size} == 8",
                "jne 3f",
                ".else",
                "cmp rdx, 255",
                "ja 3f",
                "shr edx, cl",
                "test dl, (1 << {size}) - 1",
                "jne 3f",
                ".endif",
                "ret",
                ".endif",
                // An access of the owner's that the log does not have: it is written down if there is nothing else to do,
                // as in `ownership::logs_quickly`.
                "6:",
                ".if {size} == 8",
                "test dil, 7",
                "jne 3f",
                ".endif",
                "mov r8, qword ptr fs:[rax + 48]",
                "movabs r10, {foreign}",
                "test rdx, r10",
                "jne 3f",
                "cmp byte ptr [r8 + {busy}], 0",
                "jne 3f",
                // What has come to life with the transaction need not be written down.
                "mov r10, qword ptr [r8 + {newborn_end}]",
                "sub r10, rdi",
                "cmp r10, qword ptr [r8 + {newborn_len}]",
                "jb 7f",
                "10:",
                "mov r10, qword ptr [r8 + {top}]",
                "cmp r10, qword ptr [r8 + {ready}]",
                "jne 9f",
                "bt rdx, {shared_bit}",
                "jc 13f",
                "8:",
                // Whether the word is from this stretch: there may be something in the log already.
                "mov r10, rdx",
                "xor r10, rsi",
                "sub r10, qword ptr [r8 + {stretch}]",
                "shl r10, {above_epoch}",
                "cmp r10, qword ptr [r8 + {stretched}]",
                "jbe 12f",
                ".if ({size} > 1) & ({size} < 8)",
                "cmp ecx, 8 - {size}",
                "ja 3f",
                ".endif",
                // All that is logged by the new word is this access; else it is the thread's own, and what stays.
                "movabs r10, {stays}",
                "and rdx, r10",
                "xor rdx, rsi",
                ".if {size} < 8",
                "mov r10d, {logged}",
                "shl r10d, cl",
                "xor r10d, 0xffff",
                "xor rdx, r10",
                ".elseif {write} == 0",
                "xor rdx, 0xffff ^ {logged}",
                ".endif",
                // Where the record goes is looked up when no handler can write one any more.
                "mov byte ptr [r8 + {busy}], 1",
                "mov r10, qword ptr [r8 + {cursor}]",
                "lea r11, [r10 + 16]",
                "cmp r11, qword ptr [r8 + {limit}]",
                "ja 24f",
                "mov rax, qword ptr [r8 + {shift}]",
                "mov qword ptr [r9], rdx",
                "mov byte ptr [r8 + {used}], 1",
                "mov rcx, qword ptr [rsp]",
                "mov qword ptr [r10 + rax + 8], rcx",
                "movabs rcx, {first}",
                "or rcx, rdi",
                "mov qword ptr [r10 + rax], rcx",
                "mov rcx, qword ptr [r8 + {published}]",
                "mov qword ptr [r8 + {cursor}], r11",
                "mov qword ptr [rcx], r11",
                "mov byte ptr [r8 + {busy}], 0",
                "ret",
                // All of it counts as logged, unless others have got at it: see `thread::newborn`.
                "7:",
                ".if ({size} > 1) & ({size} < 8)",
                "cmp ecx, 8 - {size}",
                "ja 3f",
                ".endif",
                "bt rdx, {shared_bit}",
                "jc 10b",
                "movabs r10, {stays}",
                "and rdx, r10",
                "xor rdx, rsi",
                "mov qword ptr [r9], rdx",
                "mov byte ptr [r8 + {used}], 1",
                "ret",
                // It is from this stretch, and only renewed if all of this is in the log.
                "12:",
                ".if ({size} > 1) & ({size} < 8)",
                "cmp ecx, 8 - {size}",
                "ja 3f",
                ".endif",
                ".if {size} == 8",
                "test edx, {logged}",
                ".else",
                "mov r10d, {logged}",
                "shl r10d, cl",
                "test r10d, edx",
                ".endif",
                "jne 3f",
                "movabs r10, {stays} | 0xffff",
                "and rdx, r10",
                "xor rdx, rsi",
                "mov qword ptr [r9], rdx",
                "ret",
                // Outside of regions, it may matter where something is accessed that others access too, unless no region is inlined
                // at one of the last places, as in `Thread::passes_again`.
                "13:",
                "cmp qword ptr [r8 + {floor}], -1",
                "jne 8b",
                "cmp qword ptr [r8 + {region}], 0",
                "jne 3f",
                "xor eax, eax",
                "mov r10d, dword ptr [r8 + {users}]",
                "add r10d, dword ptr [r8 + {others}]",
                "setne al",
                "shl rax, 47",
                "mov r10, qword ptr [r8 + {family}]",
                "shl r10, 48",
                "or r10, rax",
                "mov rax, qword ptr [rsp]",
                "xor r10, rax",
                "mov r11, rax",
                "shr rax, 7",
                "xor eax, r11d",
                "and eax, {places_last}",
                "cmp r10, qword ptr [r8 + 8 * rax + {places}]",
                "je 8b",
                "jmp 3f",
                // The log has to name the function or the transaction first.
                "9:",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "mov rdi, r8",
                "call {gets_ready}",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test al, al",
                "jne 22b",
                "jmp 3f",
                "24:",
                "mov byte ptr [r8 + {busy}], 0",
                "jmp 3f",
                "3:",
                "mov rsi, qword ptr [rsp]",
                "jmp {handler}",
                ".cfi_endproc",
                // The next one starts with a cache line.
                ".p2align 6",
                mask = sym shadow::MASK,
                unaligned_mask = sym shadow::UNALIGNED_MASK,
                base = sym shadow::BASE,
                offset = const ownership::masks_offset($size, $write),
                write = const $write as usize,
                size = const $size,
                filter = const offset_of!(Settled, filter),
                filter_last = const thread::FILTER - 1,
                filter_fold = const thread::FILTER_FOLD,
                filter_mixer = const thread::FILTER_MIXER,
                filter_rotation = const thread::FILTER_ROTATION,
                renewed = const if $write { 24 } else { 32 },
                epoch = const ownership::EPOCH,
                below = const offset_of!(Settled, below),
                seen = const offset_of!(Settled, seen),
                seen_last = const thread::SEEN - 1,
                handler = sym plain::<$size, $write>,
                gets_ready = sym gets_ready,
                foreign = const ownership::foreign($write),
                stays = const ownership::stays($write),
                logged = const ownership::logging((1 << $size) - 1, $write),
                shared_bit = const ownership::SHARED.trailing_zeros(),
                above_epoch = const ownership::EPOCH.leading_zeros(),
                first = const first_word(if $write { Kind::Write } else { Kind::Read }, $size, 0),
                busy = const thread::BUSY,
                used = const offset_of!(Thread, used),
                newborn_end = const offset_of!(Thread, newborn_end),
                newborn_len = const offset_of!(Thread, newborn_len),
                top = const offset_of!(Thread, top),
                ready = const offset_of!(Thread, ready),
                floor = const offset_of!(Thread, floor),
                region = const offset_of!(Thread, position) + offset::REGION,
                users = const offset_of!(Thread, position) + offset::USERS,
                others = const offset_of!(Thread, position) + offset::FOREIGN,
                family = const offset_of!(Thread, position) + offset::FAMILY,
                places = const offset_of!(Thread, position) + offset::PLACES,
                places_last = const offset::LAST,
                stretch = const offset_of!(Thread, stretch),
                stretched = const offset_of!(Thread, stretched),
                cursor = const offset_of!(Thread, log) + offset_of!(Log, cursor),
                limit = const offset_of!(Thread, log) + offset_of!(Log, limit),
                shift = const offset_of!(Thread, log) + offset_of!(Log, shift),
                published = const offset_of!(Thread, log) + offset_of!(Log, published),
            )
        }
    )*};
}

fast! {
    __tsan_read1 => 1, false;
    __tsan_write1 => 1, true;
    __tsan_read2 => 2, false;
    __tsan_write2 => 2, true;
    __tsan_read4 => 4, false;
    __tsan_write4 => 4, true;
    __tsan_read8 => 8, false;
    __tsan_write8 => 8, true;
    __tsan_volatile_read1 => 1, false;
    __tsan_volatile_write1 => 1, true;
    __tsan_volatile_read2 => 2, false;
    __tsan_volatile_write2 => 2, true;
    __tsan_volatile_read4 => 4, false;
    __tsan_volatile_write4 => 4, true;
    __tsan_volatile_read8 => 8, false;
    __tsan_volatile_write8 => 8, true;
    __tsan_unaligned_read1 => 1, false;
    __tsan_unaligned_volatile_read1 => 1, false;
    __tsan_unaligned_write1 => 1, true;
    __tsan_unaligned_volatile_write1 => 1, true;
}
