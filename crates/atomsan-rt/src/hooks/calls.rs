//! Function entry and exit: frames that are noted while nothing else is to be done (see `thread::frames`).

use crate::thread::{self, Thread};
use core::mem::offset_of;

/// `SILENT` is whether nothing is logged, here and below.
extern "C-unwind" fn func_exit<const SILENT: bool>(thread: &Thread) {
    if !thread.exits_region_again::<SILENT>() {
        func_exit_outside(thread);
    }
}

/// The same if no region ends with it.
#[inline(never)]
extern "C-unwind" fn func_exit_outside(thread: &Thread) {
    if !thread.exits_outside_again() {
        func_exit_slowly();
    }
}

#[inline(never)]
extern "C-unwind" fn func_exit_slowly() {
    if let Some(thread) = thread::current()
        && !thread.exits_again()
    {
        thread.exit();
    }
}

extern "C-unwind" fn func_entry<const SILENT: bool>(
    call: u64,
    function: u64,
    stack: usize,
    thread: &Thread,
) {
    if !thread.enters_same_region::<SILENT>(call, function, stack) {
        func_entry_again::<SILENT>(call, function, stack, thread);
    }
}

/// The same if it is another call than the last one, or anything else is new. A function of its own, because it needs more registers.
#[inline(never)]
extern "C-unwind" fn func_entry_again<const SILENT: bool>(
    call: u64,
    function: u64,
    stack: usize,
    thread: &Thread,
) {
    if !thread.enters_region_again::<SILENT>(call, function, stack) {
        func_entry_outside(call, function, stack, thread);
    }
}

/// The same if no region begins with it. A function of its own, because it needs more registers.
#[inline(never)]
extern "C-unwind" fn func_entry_outside(call: u64, function: u64, stack: usize, thread: &Thread) {
    if !thread.enters_outside_again(call, function, stack) {
        func_entry_slowly(call, function, stack);
    }
}

#[inline(never)]
extern "C-unwind" fn func_entry_slowly(call: u64, function: u64, stack: usize) {
    if let Some(thread) = thread::current()
        && !thread.enters_again(call, function, stack)
    {
        thread.enter(call, function, stack);
    }
}

/// Notes where the function was called from, where it is, and where its frame is.
#[cfg(not(test))]
// SAFETY: the name belongs to the instrumentation ABI that this library implements.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C-unwind" fn __tsan_func_entry() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov rax, qword ptr [rip + atomsan_thread@GOTTPOFF]",
        "mov rsi, qword ptr [rsp]",
        "mov rax, qword ptr fs:[rax]",
        "cmp rax, 1",
        "jbe 2f",
        "mov rcx, qword ptr [rax + {top}]",
        "cmp rcx, qword ptr [rax + {room}]",
        "jae 3f",
        "cmp qword ptr [rcx - 8], rsp",
        "jb 3f",
        "mov qword ptr [rcx], rdi",
        "mov qword ptr [rcx + 8], rsi",
        "mov qword ptr [rcx + 16], rsp",
        "add rcx, 24",
        "mov qword ptr [rax + {top}], rcx",
        "ret",
        "2:",
        "mov rdx, rsp",
        "jmp {slowly}",
        "3:",
        "mov rdx, rsp",
        "mov rcx, rax",
        "cmp byte ptr [rax + {silent}], 0",
        "jne {silently}",
        "jmp {handler}",
        ".cfi_endproc",
        top = const offset_of!(Thread, top),
        room = const offset_of!(Thread, room),
        silent = const offset_of!(Thread, silent),
        silently = sym func_entry::<true>,
        handler = sym func_entry::<false>,
        slowly = sym func_entry_slowly,
    )
}

/// Forgets the innermost function.
#[cfg(not(test))]
// SAFETY: the name belongs to the instrumentation ABI that this library implements.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C-unwind" fn __tsan_func_exit() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov rax, qword ptr [rip + atomsan_thread@GOTTPOFF]",
        "mov rax, qword ptr fs:[rax]",
        "cmp rax, 1",
        "jbe 2f",
        "mov rcx, qword ptr [rax + {top}]",
        "sub rcx, 24",
        "cmp rcx, qword ptr [rax + {floor}]",
        "jb 4f",
        "mov qword ptr [rax + {top}], rcx",
        "cmp rcx, qword ptr [rax + {kept}]",
        "jb 3f",
        "ret",
        // It was in the log.
        "3:",
        "mov qword ptr [rax + {kept}], rcx",
        "mov qword ptr [rax + {ready}], 0",
        "ret",
        "2:",
        "jmp {slowly}",
        "4:",
        "mov rdi, rax",
        "cmp byte ptr [rax + {silent}], 0",
        "jne {silently}",
        "jmp {handler}",
        ".cfi_endproc",
        top = const offset_of!(Thread, top),
        floor = const offset_of!(Thread, floor),
        kept = const offset_of!(Thread, kept),
        ready = const offset_of!(Thread, ready),
        silent = const offset_of!(Thread, silent),
        silently = sym func_exit::<true>,
        handler = sym func_exit::<false>,
        slowly = sym func_exit_slowly,
    )
}
