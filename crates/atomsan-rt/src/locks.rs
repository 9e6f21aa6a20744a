//! Synchronisation of libc, interposed: mutexes, spin locks, reader-writer locks, condition
//! variables, barriers, semaphores, once; those of POSIX and those of C11.
//!
//! A lock's order comes from the granule it lies in: who has acquired it owns the granule and is
//! thereby after whoever owned it before ([`crate::ownership`]). So an acquisition is recorded
//! after the real function has returned, and a release before it is called.

use crate::format::{GUARD, Kind, first_word, second_word};
use crate::platform::{exported_before, exported_with_caller};
use crate::thread::Thread;
use crate::{ownership, real, start, thread};
use core::cell::Cell;

const EOWNERDEAD: i32 = 130;

/// Does something for the calling thread, if it is recorded.
pub(crate) fn record(work: impl FnOnce(&Thread)) {
    if let Some(thread) = thread::current() {
        thread.work(|| work(thread));
    }
}

/// The lock is held now: after whoever held it in a way that excludes this.
pub(crate) fn acquired(kind: Kind, lock: usize, pc: u64) {
    let exclusive = !matches!(kind, Kind::AcquireShared);
    record(|thread| {
        ownership::own(thread, lock, 0, exclusive);
        thread.append_step(kind, lock as u64, pc);
    });
}

/// Something is published at `lock`.
pub(crate) fn step(kind: Kind, lock: usize, pc: u64) {
    record(|thread| thread.append_step(kind, lock as u64, pc));
}

/// Everything that this thread has done comes before what threads do that pass here later, and
/// after what threads did that were here before.
pub(crate) fn pass(kind: Kind, lock: usize, pc: u64) {
    record(|thread| {
        ownership::own(thread, lock, 0, true);
        thread.append_step(kind, lock as u64, pc);
    });
}

/// What guards something that is initialised once is held by who initialises it, and shared for a
/// moment by who finds it initialised.
pub(crate) fn guarded(kinds: &[Kind], guard: usize, pc: u64) {
    record(|thread| {
        ownership::own(thread, guard, 0, true);
        for &kind in kinds {
            thread.append([first_word(kind, 0, guard as u64), second_word(GUARD, pc)]);
            if matches!(kind, Kind::Acquire | Kind::AcquireShared) {
                thread.initialises(guard as u64, pc);
            } else {
                thread.has_initialised(guard as u64);
            }
        }
        thread.next_epoch();
    });
}

macro_rules! acquiring {
    ($($handler:ident($($arg:ident: $type:ty),*) = $real:ident, $kind:ident;)*) => {$(
        unsafe extern "C-unwind" fn $handler(lock: usize, $($arg: $type,)* pc: u64) -> i32 {
            // SAFETY: the program's own call.
            let result = unsafe { real::$real(lock, $($arg),*) };
            if result == 0 || result == EOWNERDEAD {
                acquired(Kind::$kind, lock, pc);
            }
            result
        }
    )*};
}

acquiring! {
    mutex_lock() = pthread_mutex_lock, Acquire;
    mutex_trylock() = pthread_mutex_trylock, Acquire;
    mutex_timedlock(time: usize) = pthread_mutex_timedlock, Acquire;
    mutex_clocklock(clock: i32, time: usize) = pthread_mutex_clocklock, Acquire;
    spin_lock() = pthread_spin_lock, Acquire;
    spin_trylock() = pthread_spin_trylock, Acquire;
    rdlock() = pthread_rwlock_rdlock, AcquireShared;
    tryrdlock() = pthread_rwlock_tryrdlock, AcquireShared;
    timedrdlock(time: usize) = pthread_rwlock_timedrdlock, AcquireShared;
    clockrdlock(clock: i32, time: usize) = pthread_rwlock_clockrdlock, AcquireShared;
    wrlock() = pthread_rwlock_wrlock, Acquire;
    trywrlock() = pthread_rwlock_trywrlock, Acquire;
    timedwrlock(time: usize) = pthread_rwlock_timedwrlock, Acquire;
    clockwrlock(clock: i32, time: usize) = pthread_rwlock_clockwrlock, Acquire;
    c11_mtx_lock() = mtx_lock, Acquire;
    c11_mtx_trylock() = mtx_trylock, Acquire;
    c11_mtx_timedlock(time: usize) = mtx_timedlock, Acquire;
}

macro_rules! releasing {
    ($($handler:ident = $real:ident;)*) => {$(
        unsafe extern "C-unwind" fn $handler(lock: usize, pc: u64) -> i32 {
            step(Kind::Release, lock, pc);
            // SAFETY: the program's own call.
            let result = unsafe { real::$real(lock) };
            start::noise(pc);
            result
        }
    )*};
}

// A reader-writer lock has one function for both kinds of holders; the reader of the recording
// knows which one it is.
releasing! {
    mutex_unlock = pthread_mutex_unlock;
    spin_unlock = pthread_spin_unlock;
    rwlock_unlock = pthread_rwlock_unlock;
    c11_mtx_unlock = mtx_unlock;
}

macro_rules! waiting {
    ($($handler:ident($($arg:ident: $type:ty),*) = $real:ident;)*) => {$(
        unsafe extern "C-unwind" fn $handler(condition: usize, mutex: usize, $($arg: $type,)* pc: u64) -> i32 {
            step(Kind::Wait, mutex, pc);
            // SAFETY: the program's own call.
            let result = unsafe { real::$real(condition, mutex, $($arg),*) };
            acquired(Kind::Woken, mutex, pc);
            result
        }
    )*};
}

waiting! {
    cond_wait() = pthread_cond_wait;
    cond_timedwait(time: usize) = pthread_cond_timedwait;
    cond_clockwait(clock: i32, time: usize) = pthread_cond_clockwait;
    c11_cnd_wait() = cnd_wait;
    c11_cnd_timedwait(time: usize) = cnd_timedwait;
}

macro_rules! waking {
    ($($handler:ident = $real:ident;)*) => {$(
        unsafe extern "C-unwind" fn $handler(condition: usize, pc: u64) -> i32 {
            step(Kind::Notify, condition, pc);
            // SAFETY: the program's own call.
            unsafe { real::$real(condition) }
        }
    )*};
}

waking! {
    cond_signal = pthread_cond_signal;
    cond_broadcast = pthread_cond_broadcast;
    c11_cnd_signal = cnd_signal;
    c11_cnd_broadcast = cnd_broadcast;
}

/// Each arrival is after the ones before it, so the last is after all, and each departure is
/// after the last arrival.
unsafe extern "C-unwind" fn barrier_wait(barrier: usize, pc: u64) -> i32 {
    pass(Kind::Arrive, barrier, pc);
    // SAFETY: the program's own call.
    let result = unsafe { real::pthread_barrier_wait(barrier) };
    pass(Kind::Leave, barrier, pc);
    result
}

macro_rules! taking {
    ($($handler:ident($($arg:ident: $type:ty),*) = $real:ident;)*) => {$(
        unsafe extern "C-unwind" fn $handler(semaphore: usize, $($arg: $type,)* pc: u64) -> i32 {
            step(Kind::Wait, semaphore, pc);
            // SAFETY: the program's own call.
            let result = unsafe { real::$real(semaphore, $($arg),*) };
            if result == 0 {
                pass(Kind::Woken, semaphore, pc);
            }
            result
        }
    )*};
}

// Taking from a semaphore waits for others to give; giving publishes.
taking! {
    semaphore_wait() = sem_wait;
    semaphore_timedwait(time: usize) = sem_timedwait;
    semaphore_clockwait(clock: i32, time: usize) = sem_clockwait;
}

unsafe extern "C-unwind" fn semaphore_trywait(semaphore: usize, pc: u64) -> i32 {
    // SAFETY: the program's own call.
    let result = unsafe { real::sem_trywait(semaphore) };
    if result == 0 {
        pass(Kind::Woken, semaphore, pc);
    }
    result
}

unsafe extern "C-unwind" fn semaphore_post(semaphore: usize, pc: u64) -> i32 {
    pass(Kind::Release, semaphore, pc);
    // SAFETY: the program's own call.
    unsafe { real::sem_post(semaphore) }
}

std::thread_local! {
    /// What `pthread_once` or `call_once` is running in this thread: the control, the routine, the caller.
    static ONCE: Cell<Option<(usize, unsafe extern "C-unwind" fn(), u64)>> = const { Cell::new(None) };
}

/// Runs the routine as an exclusive holder of the control.
unsafe extern "C-unwind" fn once_routine() {
    let Some((once, routine, pc)) = ONCE.take() else {
        return;
    };
    guarded(&[Kind::Acquire], once, pc);
    // SAFETY: the program's own routine.
    unsafe { routine() };
    guarded(&[Kind::Release], once, pc);
}

/// Who comes later shares the control for a moment, and is after the routine by that.
unsafe extern "C-unwind" fn once(
    once: usize,
    routine: unsafe extern "C-unwind" fn(),
    pc: u64,
) -> i32 {
    let outer = ONCE.replace(Some((once, routine, pc)));
    // SAFETY: the program's own call, with its routine inside of ours.
    let result = unsafe { real::pthread_once(once, once_routine) };
    ONCE.set(outer);
    guarded(&[Kind::AcquireShared, Kind::ReleaseShared], once, pc);
    result
}

/// The same for C11.
unsafe extern "C-unwind" fn c11_once(
    control: usize,
    routine: unsafe extern "C-unwind" fn(),
    pc: u64,
) {
    let outer = ONCE.replace(Some((control, routine, pc)));
    // SAFETY: the program's own call, with its routine inside of ours.
    unsafe { real::call_once(control, once_routine) };
    ONCE.set(outer);
    guarded(&[Kind::AcquireShared, Kind::ReleaseShared], control, pc);
}

exported_with_caller! {
    "rsi" mtx_lock => c11_mtx_lock;
    "rsi" mtx_trylock => c11_mtx_trylock;
    "rdx" mtx_timedlock => c11_mtx_timedlock;
    "rsi" mtx_unlock => c11_mtx_unlock;
    "rdx" cnd_wait => c11_cnd_wait;
    "rcx" cnd_timedwait => c11_cnd_timedwait;
    "rsi" cnd_signal => c11_cnd_signal;
    "rsi" cnd_broadcast => c11_cnd_broadcast;
    "rdx" call_once => c11_once;
    "rsi" pthread_mutex_lock => mutex_lock;
    "rsi" pthread_mutex_trylock => mutex_trylock;
    "rdx" pthread_mutex_timedlock => mutex_timedlock;
    "rcx" pthread_mutex_clocklock => mutex_clocklock;
    "rsi" pthread_mutex_unlock => mutex_unlock;
    "rsi" pthread_spin_lock => spin_lock;
    "rsi" pthread_spin_trylock => spin_trylock;
    "rsi" pthread_spin_unlock => spin_unlock;
    "rsi" pthread_rwlock_rdlock => rdlock;
    "rsi" pthread_rwlock_tryrdlock => tryrdlock;
    "rdx" pthread_rwlock_timedrdlock => timedrdlock;
    "rcx" pthread_rwlock_clockrdlock => clockrdlock;
    "rsi" pthread_rwlock_wrlock => wrlock;
    "rsi" pthread_rwlock_trywrlock => trywrlock;
    "rdx" pthread_rwlock_timedwrlock => timedwrlock;
    "rcx" pthread_rwlock_clockwrlock => clockwrlock;
    "rsi" pthread_rwlock_unlock => rwlock_unlock;
    "rdx" pthread_cond_wait => cond_wait;
    "rcx" pthread_cond_timedwait => cond_timedwait;
    "r8" pthread_cond_clockwait => cond_clockwait;
    "rsi" pthread_cond_signal => cond_signal;
    "rsi" pthread_cond_broadcast => cond_broadcast;
    "rsi" pthread_barrier_wait => barrier_wait;
    "rsi" sem_wait => semaphore_wait;
    "rsi" sem_trywait => semaphore_trywait;
    "rdx" sem_timedwait => semaphore_timedwait;
    "rcx" sem_clockwait => semaphore_clockwait;
    "rsi" sem_post => semaphore_post;
    "rdx" pthread_once => once;
}

/// Something is made a lock, a condition, a barrier, a semaphore.
fn initialising(pc: u64, lock: usize) {
    record(|thread| {
        thread.append_origin([
            first_word(Kind::Initialise, 0, lock as u64),
            second_word(0, pc),
        ])
    });
}

exported_before! {
    initialising:
        pthread_mutex_init pthread_rwlock_init pthread_spin_init pthread_cond_init
        pthread_barrier_init sem_init mtx_init cnd_init;
}
