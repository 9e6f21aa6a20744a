//! Everything that depends on x86-64 Linux: system calls, thread-local [`words`], the caller's
//! address, copying without libc.
//!
//! Nothing here calls a function that could be interposed: a system call is an instruction, not
//! libc's `syscall`.

mod words;

pub(crate) use words::{
    set_epoch_words, set_logger_word, set_masks_word, set_owner_word, set_renewed_words,
    set_stretch_word, set_thread_word, thread_word,
};

use core::arch::asm;
use core::ffi::CStr;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!("the runtime knows x86-64 Linux with glibc only; `atomsan check` works elsewhere");

/// Calls the kernel; negative results are errors.
///
/// # Safety
/// The arguments must be what the system call `number` expects.
#[inline]
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: this is the kernel's calling convention; it clobbers rcx and r11 and no more.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

pub(crate) mod number {
    //! Numbers of the system calls in use.
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const OPEN: usize = 2;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const ACCESS: usize = 21;
    pub(crate) const SCHED_YIELD: usize = 24;
    pub(crate) const MINCORE: usize = 27;
    pub(crate) const MADVISE: usize = 28;
    pub(crate) const DUP2: usize = 33;
    pub(crate) const NANOSLEEP: usize = 35;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const KILL: usize = 62;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const FTRUNCATE: usize = 77;
    pub(crate) const GETRLIMIT: usize = 97;
    pub(crate) const UNLINK: usize = 87;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const EXIT_GROUP: usize = 231;
}

const PROT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;

const MADV_DONTNEED: usize = 4;
const MADV_DONTDUMP: usize = 16;

fn mapping(place: usize, len: usize, flags: usize, fd: isize) -> *mut u8 {
    // SAFETY: a new mapping that replaces none takes nothing from anybody.
    let result = unsafe {
        syscall(
            number::MMAP,
            [
                place,
                len,
                PROT_READ_WRITE,
                flags | MAP_NORESERVE,
                fd as usize,
                0,
            ],
        )
    };
    if (-4095..0).contains(&result) {
        core::ptr::null_mut()
    } else {
        result as *mut u8
    }
}

/// Zeroed memory of our own, which costs nothing until it is touched; null if there is none.
pub(crate) fn map_memory(len: usize) -> *mut u8 {
    mapping(0, len, MAP_PRIVATE | MAP_ANONYMOUS, -1)
}

/// The same, at a place where nothing is; null if there is something. It is in no core file.
pub(crate) fn reserve_memory(place: usize, len: usize) -> *mut u8 {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    let memory = mapping(place, len, flags, -1);
    if !memory.is_null() {
        // SAFETY: this mapping is new and ours.
        unsafe {
            syscall(
                number::MADVISE,
                [memory as usize, len, MADV_DONTDUMP, 0, 0, 0],
            )
        };
    }
    memory
}

/// Makes memory that [`map_memory`] or [`reserve_memory`] returned zero, and gives it back until
/// it is touched again.
///
/// # Safety
/// Whole pages of such memory, which nobody is using.
pub(crate) unsafe fn forget_memory(at: usize, len: usize) {
    // SAFETY: the caller vouches for the memory.
    unsafe { syscall(number::MADVISE, [at, len, MADV_DONTNEED, 0, 0, 0]) };
}

/// Which of as many pages as there is room for have been touched, from a page of ours on; all, if
/// that cannot be told.
pub(crate) fn touched_pages(at: usize, touched: &mut [u8]) {
    let len = 4096 * touched.len();
    let to = touched.as_mut_ptr() as usize;
    // SAFETY: the kernel writes a byte a page.
    if unsafe { syscall(number::MINCORE, [at, len, to, 0, 0, 0]) } != 0 {
        touched.fill(1);
    }
}

/// The file, made this long and writable in place; null if that cannot be. The file has holes, which
/// [`allocate_file`] fills.
pub(crate) fn map_file(fd: i32, len: usize) -> *mut u8 {
    // SAFETY: no memory is involved.
    let result = unsafe { syscall(number::FTRUNCATE, [fd as usize, len, 0, 0, 0, 0]) };
    if result != 0 {
        return core::ptr::null_mut();
    }
    mapping(0, len, MAP_SHARED, fd as isize)
}

/// Opens a file by its zero-terminated path; negative if that fails.
///
/// # Safety
/// `path` must end with a zero byte.
pub(crate) unsafe fn open(path: *const u8, create: bool) -> i32 {
    const O_RDWR_CREAT_TRUNC_CLOEXEC: usize = 0o2 | 0o100 | 0o1000 | 0o2000000;
    const O_RDONLY_CLOEXEC: usize = 0o2000000;
    let flags = if create {
        O_RDWR_CREAT_TRUNC_CLOEXEC
    } else {
        O_RDONLY_CLOEXEC
    };
    // SAFETY: the caller vouches for the path.
    unsafe { syscall(number::OPEN, [path as usize, flags, 0o600, 0, 0, 0]) as i32 }
}

/// Whether there is a file.
pub(crate) fn exists(path: &CStr) -> bool {
    // SAFETY: a string that ends with a zero byte.
    unsafe { syscall(number::ACCESS, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) == 0 }
}

/// Removes a file.
pub(crate) fn remove(path: &CStr) {
    // SAFETY: a string that ends with a zero byte.
    unsafe { syscall(number::UNLINK, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Closes a descriptor that [`open`] returned.
pub(crate) fn close(fd: i32) {
    // SAFETY: no memory is involved.
    unsafe { syscall(number::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Reads into memory of our own; how many bytes, negative for an error.
///
/// # Safety
/// `len` bytes at `to` must be writable.
pub(crate) unsafe fn read(fd: i32, to: *mut u8, len: usize) -> isize {
    // SAFETY: the caller vouches for the buffer.
    unsafe { syscall(number::READ, [fd as usize, to as usize, len, 0, 0, 0]) }
}

/// Makes sure that a part of a file that is mapped at `base` has room, so that writing there cannot
/// fault. A kernel that is too old for that (before 5.14) is trusted to have room.
pub(crate) fn allocate_file(base: usize, offset: usize, len: usize) -> bool {
    const POPULATE_WRITE: usize = 23;
    const EINVAL: isize = -22;
    // SAFETY: the pages are part of our own mapping of the file.
    let result = unsafe {
        syscall(
            number::MADVISE,
            [base + offset, len, POPULATE_WRITE, 0, 0, 0],
        )
    };
    result == 0 || result == EINVAL
}

/// Lets another thread run.
pub(crate) fn yield_now() {
    #[cfg(test)]
    if crate::sync::yield_now() {
        return;
    }
    // SAFETY: no memory is involved.
    unsafe { syscall(number::SCHED_YIELD, [0; 6]) };
}

/// Sleeps for less than a second.
pub(crate) fn sleep_microseconds(time: u64) {
    let request = [0u64, time * 1000];
    // SAFETY: the request is a pair of seconds and nanoseconds.
    unsafe {
        syscall(
            number::NANOSLEEP,
            [request.as_ptr() as usize, 0, 0, 0, 0, 0],
        )
    };
}

/// Does some work in which the calling thread's sleeps end when they should: the kernel lets each last some 50 microseconds longer
/// otherwise.
pub(crate) fn with_exact_sleeps<R>(work: impl FnOnce() -> R) -> R {
    const SET_TIMERSLACK: usize = 29;
    const GET_TIMERSLACK: usize = 30;
    // SAFETY: no memory is involved.
    let prctl =
        |what, nanoseconds| unsafe { syscall(number::PRCTL, [what, nanoseconds, 0, 0, 0, 0]) };
    let Ok(before) = usize::try_from(prctl(GET_TIMERSLACK, 0)) else {
        return work();
    };
    prctl(SET_TIMERSLACK, 1);
    let result = work();
    prctl(SET_TIMERSLACK, before);
    result
}

/// Says something to the user.
pub(crate) fn say(text: &str) {
    const STANDARD_ERROR: usize = 2;
    let (at, len) = (text.as_ptr() as usize, text.len());
    // SAFETY: the kernel reads the text.
    unsafe { syscall(number::WRITE, [STANDARD_ERROR, at, len, 0, 0, 0]) };
}

/// Another descriptor of standard error, which no other program gets.
#[cfg(not(test))]
pub(crate) fn keep_standard_error() -> i32 {
    const F_DUPFD_CLOEXEC: usize = 1030;
    const AT_LEAST: usize = 512;
    // SAFETY: no memory is involved.
    unsafe { syscall(number::FCNTL, [2, F_DUPFD_CLOEXEC, AT_LEAST, 0, 0, 0]) as i32 }
}

/// Makes a descriptor standard error again, if nothing else is.
pub(crate) fn restore_standard_error(kept: i32) {
    const F_GETFD: usize = 1;
    // SAFETY: no memory is involved.
    unsafe {
        if kept >= 0 && syscall(number::FCNTL, [2, F_GETFD, 0, 0, 0, 0]) < 0 {
            syscall(number::DUP2, [kept as usize, 2, 0, 0, 0, 0]);
        }
    }
}

/// How many bytes of addresses the process may have.
pub(crate) fn address_limit() -> usize {
    const RLIMIT_AS: usize = 9;
    let mut limit = [usize::MAX; 2];
    // SAFETY: the limit is a pair of words.
    unsafe {
        syscall(
            number::GETRLIMIT,
            [RLIMIT_AS, limit.as_mut_ptr() as usize, 0, 0, 0, 0],
        )
    };
    limit[0]
}

/// The process.
pub(crate) fn process_id() -> u64 {
    // SAFETY: no memory is involved.
    unsafe { syscall(number::GETPID, [0; 6]) as u64 }
}

/// Sends SIGURG to a process, which ignores it unless it expects it; whether there is one with this number. It may have
/// ended without anybody having noticed, and may be one that we may send nothing to.
pub(crate) fn ring(process: usize) -> bool {
    const SIGURG: usize = 23;
    const NO_SUCH_PROCESS: isize = -3;
    // 0 and negative numbers are groups of processes.
    if !(1..=i32::MAX as usize).contains(&process) {
        return false;
    }
    // SAFETY: no memory is involved.
    let result = unsafe { syscall(number::KILL, [process, SIGURG, 0, 0, 0, 0]) };
    result != NO_SUCH_PROCESS
}

/// Ends the process at once.
pub(crate) fn exit_process(status: i32) -> ! {
    loop {
        // SAFETY: no memory is involved, and there is no way back.
        unsafe { syscall(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Which signals a thread does not get, a bit each.
#[derive(Clone, Copy)]
pub(crate) struct Signals(u64);

impl Signals {
    /// All that can be kept away: SIGKILL and SIGSTOP cannot, and the kernel leaves them out.
    pub(crate) const ALL: Signals = Signals(!(1 << (9 - 1) | 1 << (19 - 1)));

    /// Whether these are all but perhaps the two that libc has for itself.
    pub(crate) fn are_all(self) -> bool {
        const OF_LIBC: u64 = 1 << (32 - 1) | 1 << (33 - 1);
        self.0 | OF_LIBC == Signals::ALL.0
    }

    /// Those of a set of libc's, which has more room than there are signals.
    pub(crate) fn of_set(set: [u64; 16]) -> Signals {
        Signals(set[0])
    }

    /// Keeps these away from the calling thread, and no others; which there were.
    pub(crate) fn keep_away(self) -> Signals {
        const SET: usize = 2;
        let mut before = 0u64;
        let (new, old) = (&raw const self.0, &raw mut before);
        // SAFETY: the kernel reads one word of 8 bytes and writes another.
        unsafe {
            syscall(
                number::RT_SIGPROCMASK,
                [SET, new as usize, old as usize, size_of::<u64>(), 0, 0],
            );
        }
        Signals(before)
    }
}

/// Exchanges 16 bytes if they are `old`; what was there.
///
/// # Safety
/// `at` must be valid for atomic access and writable. A program that has 16-byte atomics runs on
/// a processor that has the instruction.
pub(crate) unsafe fn compare_exchange_16(at: *mut u128, old: u128, new: u128) -> u128 {
    let (low, high): (u64, u64);
    // SAFETY: the caller vouches for the address; rbx, which cannot be named as an operand, is
    // restored.
    unsafe {
        asm!(
            "xchg rbx, rsi",
            "lock cmpxchg16b xmmword ptr [rdi]",
            "mov rbx, rsi",
            in("rdi") at,
            inout("rsi") new as u64 => _,
            in("rcx") (new >> 64) as u64,
            inout("rax") old as u64 => low,
            inout("rdx") (old >> 64) as u64 => high,
            options(nostack),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

/// # Safety
/// As `read_unaligned`.
#[inline(always)]
unsafe fn load<T: Copy>(from: *const u8) -> T {
    // SAFETY: the caller vouches for it.
    unsafe { from.cast::<T>().read_unaligned() }
}

/// # Safety
/// As `write_unaligned`.
#[inline(always)]
unsafe fn store<T: Copy>(to: *mut u8, value: T) {
    // SAFETY: the caller vouches for it.
    unsafe { to.cast::<T>().write_unaligned(value) };
}

/// Copies bytes without libc, whose `memcpy` is ours too; the ranges may overlap.
///
/// # Safety
/// As `core::ptr::copy`.
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller vouches for both ranges. The direction flag is clear on entry to every
    // function and is cleared again after a copy downwards.
    unsafe {
        if len <= 32 {
            // Everything is read before anything is written.
            if len >= 16 {
                let (first, last) = (load::<u128>(from), load::<u128>(from.add(len - 16)));
                store(to, first);
                store(to.add(len - 16), last);
            } else if len >= 8 {
                let (first, last) = (load::<u64>(from), load::<u64>(from.add(len - 8)));
                store(to, first);
                store(to.add(len - 8), last);
            } else {
                let mut bytes = [0u8; 8];
                for (at, byte) in bytes.iter_mut().enumerate().take(len) {
                    *byte = from.add(at).read_volatile();
                }
                for (at, byte) in bytes.iter().enumerate().take(len) {
                    to.add(at).write_volatile(*byte);
                }
            }
        } else if (to as usize).wrapping_sub(from as usize) >= len {
            asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
                options(nostack, preserves_flags),
            );
        } else {
            asm!(
                "std",
                "rep movsb",
                "cld",
                inout("rcx") len => _,
                inout("rdi") to.add(len).sub(1) => _,
                inout("rsi") from.add(len).sub(1) => _,
                options(nostack),
            );
        }
    }
}

/// Asks for the cache line of an address, to write to it: who only reads it first would have to ask other processors twice.
#[inline(always)]
pub(crate) fn expect_write(at: *const u8) {
    // SAFETY: a hint, whatever the address is.
    unsafe { asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
}

/// Sets bytes without libc.
///
/// # Safety
/// `len` bytes at `to` must be writable.
#[inline]
pub(crate) unsafe fn fill(to: *mut u8, byte: u8, len: usize) {
    // SAFETY: the caller vouches for the range.
    unsafe {
        asm!(
            "rep stosb",
            inout("rcx") len => _,
            inout("rdi") to => _,
            in("al") byte,
            options(nostack, preserves_flags),
        );
    }
}

/// Defines exported functions that hand the caller's address on: each is a jump to a Rust
/// function with one more argument, in the register named.
macro_rules! exported_with_caller {
    ($($(#[$doc:meta])* $register:literal $name:ident => $handler:expr;)*) => {$(
        $(#[$doc])*
        #[cfg(not(test))]
        // SAFETY: the name belongs to the instrumentation ABI that this library implements.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            // A thread can be cancelled, and so unwound, at any instruction.
            core::arch::naked_asm!(
                ".cfi_startproc",
                concat!("mov ", $register, ", qword ptr [rsp]"),
                "jmp {handler}",
                ".cfi_endproc",
                handler = sym $handler,
            )
        }
    )*};
}
pub(crate) use exported_with_caller;

/// Defines exported functions that run something of ours and then become libc's function of the
/// same name, with all arguments as they were: whatever it takes, and whether it returns or not.
/// `before` gets the caller's address and the first argument.
#[cfg(not(test))]
macro_rules! exported_before {
    ($($before:path: $($name:ident)*;)*) => {$($(
        #[cfg(not(test))]
        // SAFETY: libc's function, interposed. What may hold an argument is saved around our call,
        // `al` included, which says how many vectors a variadic function gets; none of these
        // functions takes vectors.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            extern "C-unwind" fn handler(pc: u64, first: usize) -> usize {
                static REAL: $crate::real::Real = $crate::real::Real::named(concat!(stringify!($name), "\0"));
                $before(pc, first);
                REAL.address()
            }
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                "push r8",
                ".cfi_adjust_cfa_offset 8",
                "push r9",
                ".cfi_adjust_cfa_offset 8",
                "push rax",
                ".cfi_adjust_cfa_offset 8",
                "mov rsi, rdi",
                "mov rdi, qword ptr [rsp + 56]",
                "call {handler}",
                "mov r11, rax",
                "pop rax",
                ".cfi_adjust_cfa_offset -8",
                "pop r9",
                ".cfi_adjust_cfa_offset -8",
                "pop r8",
                ".cfi_adjust_cfa_offset -8",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp r11",
                ".cfi_endproc",
                handler = sym handler,
            )
        }
    )*)*};
}
#[cfg(not(test))]
pub(crate) use exported_before;
