//! What a program may tell the runtime by hand: the annotations of ThreadSanitizer and the older
//! dynamic annotations, and the rest of the ABI, which must exist.
//!
//! Locks that announce themselves (`__tsan_mutex_*`) are locks here too; what they do between
//! *pre* and *post* is their implementation, and not looked at. Of functions that ask for reports
//! there are none to give.

use crate::format::{FIRST, Kind, first_word, second_word};
use crate::locks::{acquired, guarded, record, step};
use crate::ownership;
use crate::platform::exported_with_caller;

/// Flags of the mutex annotations.
mod flag {
    pub(super) const READ_LOCK: u32 = 1 << 3;
    pub(super) const TRY_LOCK_FAILED: u32 = 1 << 5;
}

fn look_away() {
    record(|thread| {
        thread.ignoring.set(thread.ignoring.get() + 1);
        // The hooks do not look at anything else.
        thread.is_not_ready();
    });
}

fn look_again() {
    record(|thread| thread.ignoring.set(thread.ignoring.get().saturating_sub(1)));
}

/// The thread comes after whoever has published at this address.
extern "C-unwind" fn acquire(address: usize, _pc: u64) {
    record(|thread| {
        ownership::own(thread, address, 0, false);
    });
}

/// The thread publishes at this address.
extern "C-unwind" fn release(address: usize, _pc: u64) {
    record(|thread| {
        ownership::own(thread, address, 0, true);
    });
}

extern "C-unwind" fn post_lock(mutex: usize, flags: u32, _recursion: i32, pc: u64) {
    look_again();
    if flags & flag::TRY_LOCK_FAILED != 0 {
        return;
    }
    let shared = flags & flag::READ_LOCK != 0;
    acquired(
        if shared {
            Kind::AcquireShared
        } else {
            Kind::Acquire
        },
        mutex,
        pc,
    );
}

extern "C-unwind" fn pre_unlock(mutex: usize, _flags: u32, pc: u64) -> i32 {
    step(Kind::Release, mutex, pc);
    look_away();
    0
}

extern "C-unwind" fn pre_signal(condition: usize, _flags: u32, pc: u64) {
    step(Kind::Notify, condition, pc);
    look_away();
}

extern "C-unwind" fn rwlock_acquired(
    _file: usize,
    _line: i32,
    lock: usize,
    exclusive: i64,
    pc: u64,
) {
    acquired(
        if exclusive == 0 {
            Kind::AcquireShared
        } else {
            Kind::Acquire
        },
        lock,
        pc,
    );
}

extern "C-unwind" fn rwlock_released(
    _file: usize,
    _line: i32,
    lock: usize,
    _exclusive: i64,
    pc: u64,
) {
    step(Kind::Release, lock, pc);
}

extern "C-unwind" fn happens_before(_file: usize, _line: i32, address: usize, pc: u64) {
    release(address, pc);
}

extern "C-unwind" fn happens_after(_file: usize, _line: i32, address: usize, pc: u64) {
    acquire(address, pc);
}

extern "C-unwind" fn java_lock(lock: usize, pc: u64) {
    acquired(Kind::Acquire, lock, pc);
}

extern "C-unwind" fn java_read_lock(lock: usize, pc: u64) {
    acquired(Kind::AcquireShared, lock, pc);
}

extern "C-unwind" fn java_unlock(lock: usize, pc: u64) {
    step(Kind::Release, lock, pc);
}

extern "C-unwind" fn begin_region(label: usize, pc: u64) {
    record(|thread| thread.append_step(Kind::Begin, label as u64, pc));
}

/// A label of Rust's, which does not end with a zero byte.
extern "C-unwind" fn begin_region_str(label: usize, len: usize, pc: u64) {
    record(|thread| {
        if crate::start::logs() != crate::start::Logs::All {
            thread.begin_block(label as u64, short(len));
        }
        let first = first_word(Kind::Begin, 0, label as u64);
        thread.append([first, second_word(short(len), pc)]);
        thread.next_epoch();
    });
}

/// The length of a label; what is too long is cut off.
fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

extern "C-unwind" fn member(
    name: usize,
    name_len: usize,
    place: usize,
    len: usize,
    first: u32,
    pc: u64,
) {
    record(|thread| {
        let flag = if first != 0 { FIRST } else { 0 };
        thread.append([
            first_word(Kind::Member, 0, place as u64),
            second_word(short(name_len), pc),
            len as u64,
            name as u64 | flag,
        ]);
    });
}

extern "C-unwind" fn end_region(pc: u64) {
    record(|thread| thread.append_step(Kind::End, 0, pc));
}

extern "C-unwind" fn yield_point(pc: u64) {
    step(Kind::Yield, 0, pc);
}

exported_with_caller! {
    "rsi" __tsan_acquire => acquire;
    "rsi" __tsan_release => release;
    "rcx" __tsan_mutex_post_lock => post_lock;
    "rdx" __tsan_mutex_pre_unlock => pre_unlock;
    "rdx" __tsan_mutex_pre_signal => pre_signal;
    "r8" AnnotateRWLockAcquired => rwlock_acquired;
    "r8" AnnotateRWLockReleased => rwlock_released;
    "rcx" AnnotateHappensBefore => happens_before;
    "rcx" AnnotateHappensAfter => happens_after;
    "rcx" WTFAnnotateHappensBefore => happens_before;
    "rcx" WTFAnnotateHappensAfter => happens_after;
    "rcx" AnnotatePCQPut => happens_before;
    "rcx" AnnotatePCQGet => happens_after;
    "rsi" __tsan_java_acquire => acquire;
    "rsi" __tsan_java_release => release;
    "rsi" __tsan_java_release_store => release;
    "rsi" __tsan_java_mutex_lock => java_lock;
    "rsi" __tsan_java_mutex_unlock => java_unlock;
    "rsi" __tsan_java_mutex_read_lock => java_read_lock;
    "rsi" __tsan_java_mutex_read_unlock => java_unlock;
    "rsi" __atomsan_begin => begin_region;
    "rdx" __atomsan_begin_str => begin_region_str;
    "r9" __atomsan_set => member;
    "rdi" __atomsan_end => end_region;
    "rdi" __atomsan_yield => yield_point;
}

macro_rules! exported {
    ($($body:block $($name:ident)*;)*) => {$($(
        // SAFETY: the name belongs to the instrumentation ABI that this library implements.
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name() $body
    )*)*};
}

exported! {
    { look_away(); }
        __tsan_ignore_thread_begin __tsan_mutex_pre_lock __tsan_mutex_pre_divert
        AnnotateIgnoreReadsBegin AnnotateIgnoreWritesBegin AnnotateIgnoreSyncBegin;
    { look_again(); }
        __tsan_ignore_thread_end __tsan_mutex_post_unlock __tsan_mutex_post_signal
        __tsan_mutex_post_divert AnnotateIgnoreReadsEnd AnnotateIgnoreWritesEnd
        AnnotateIgnoreSyncEnd;
    {}
        __tsan_mutex_create __tsan_mutex_destroy __tsan_check_no_mutexes_held
        __tsan_flush_memory __tsan_on_thread_idle __tsan_setjmp __tsan_resume __tsan_resumed
        __tsan_set_fiber_name
        __tsan_external_register_header __tsan_external_assign_tag __tsan_external_read
        __tsan_external_write __tsan_testonly_barrier_init __tsan_testonly_barrier_wait
        __tsan_java_init __tsan_java_alloc __tsan_java_free __tsan_java_move
        __tsan_java_finalize __tsan_java_mutex_lock_rec
        AnnotateRWLockCreate AnnotateRWLockCreateStatic AnnotateRWLockDestroy
        AnnotateBenignRace AnnotateBenignRaceSized AnnotateCondVarSignal
        AnnotateCondVarSignalAll AnnotateCondVarWait AnnotateEnableRaceDetection
        AnnotateExpectRace AnnotateFlushExpectedRaces AnnotateFlushState
        AnnotateMemoryIsInitialized AnnotateMemoryIsUninitialized AnnotateMutexIsNotPHB
        AnnotateMutexIsUsedAsCondVar AnnotateNewMemory AnnotateNoOp AnnotatePCQCreate
        AnnotatePCQDestroy AnnotatePublishMemoryRange
        AnnotateThreadName AnnotateTraceMemory AnnotateUnpublishMemoryRange
        WTFAnnotateBenignRaceSized
        __sanitizer_print_stack_trace __sanitizer_set_death_callback __sanitizer_set_report_path
        __sanitizer_set_report_fd __sanitizer_on_print __sanitizer_report_error_summary
        __sanitizer_sandbox_on_notify;
}

macro_rules! answers_zero {
    ($($name:ident)*) => {$(
        // SAFETY: the name belongs to the instrumentation ABI that this library implements.
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name() -> usize {
            0
        }
    )*};
}

answers_zero! {
    __tsan_external_register_tag
    __tsan_get_current_report __tsan_get_report_data __tsan_get_report_tag
    __tsan_get_report_stack __tsan_get_report_mop __tsan_get_report_loc
    __tsan_get_report_loc_object_type __tsan_get_report_mutex __tsan_get_report_thread
    __tsan_get_report_unique_tid __tsan_testonly_shadow_stack_current_size __tsan_locate_address __tsan_get_alloc_stack
    __tsan_java_fini __tsan_java_find __tsan_java_mutex_unlock_rec RunningOnValgrind
    ValgrindSlowdown
}

/// One unaligned value for each size, from and to memory that need not be aligned.
macro_rules! unaligned {
    ($($load:ident $store:ident $value:ty;)*) => {$(
        // SAFETY: the name belongs to the instrumentation ABI that this library implements.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $load(at: *const $value) -> $value {
            // SAFETY: the program asks for this very access.
            unsafe { at.read_unaligned() }
        }
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $store(at: *mut $value, value: $value) {
            // SAFETY: the program asks for this very access.
            unsafe { at.write_unaligned(value) };
        }
    )*};
}

unaligned! {
    __sanitizer_unaligned_load16 __sanitizer_unaligned_store16 u16;
    __sanitizer_unaligned_load32 __sanitizer_unaligned_store32 u32;
    __sanitizer_unaligned_load64 __sanitizer_unaligned_store64 u64;
}

unsafe extern "C-unwind" fn guard_acquire(guard: usize, pc: u64) -> i32 {
    // SAFETY: the program's own call.
    let first = unsafe { crate::real::__cxa_guard_acquire(guard) };
    if first != 0 {
        guarded(&[Kind::Acquire], guard, pc);
    } else {
        guarded(&[Kind::AcquireShared, Kind::ReleaseShared], guard, pc);
    }
    first
}

unsafe extern "C-unwind" fn guard_release(guard: usize, pc: u64) {
    guarded(&[Kind::Release], guard, pc);
    // SAFETY: the program's own call.
    unsafe { crate::real::__cxa_guard_release(guard) };
}

unsafe extern "C-unwind" fn guard_abort(guard: usize, pc: u64) {
    guarded(&[Kind::Release], guard, pc);
    // SAFETY: the program's own call.
    unsafe { crate::real::__cxa_guard_abort(guard) };
}

exported_with_caller! {
    "rsi" __cxa_guard_acquire => guard_acquire;
    "rsi" __cxa_guard_release => guard_release;
    "rsi" __cxa_guard_abort => guard_abort;
}
